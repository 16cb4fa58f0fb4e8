"""The ledger names a function without a contract."""

from __future__ import annotations

from icontract import ensure, require


@ensure(lambda number, result: result > number)
def one_more(number: int) -> int:
    """The next number."""
    return number + 1


def two_more(number: int) -> int:
    """Lost its contract."""
    return number + 2


def three_more(number: int) -> int:
    """Has a precondition for good measure."""
    return require(lambda number: number >= 0)(two_more)(number) + 1


LEDGER = {"one_more": "every integer", "two_more": "every integer"}
