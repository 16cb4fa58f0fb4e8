"""A ledger that is as it should be."""

from __future__ import annotations

from icontract import ensure, require


@require(lambda number: number >= 0)
@ensure(lambda number, result: result > number)
def one_more(number: int) -> int:
    """The next number."""
    return number + 1


LEDGER = {"one_more": "every integer"}
