"""Two contracts, of which the ledger names one."""

from __future__ import annotations

from icontract import ensure


@ensure(lambda number, result: result > number)
def one_more(number: int) -> int:
    """The next number."""
    return number + 1


@ensure(lambda number, result: result > number)
def two_more(number: int) -> int:
    """Not in the ledger."""
    return number + 2


LEDGER = {"one_more": "every integer"}
