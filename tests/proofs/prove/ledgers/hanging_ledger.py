"""A concrete loop without an end, which CrossHair's own limits do not stop."""

from __future__ import annotations

from icontract import ensure


@ensure(lambda number, result: result > number)
def one_more(number: int) -> int:
    """Never returns."""
    turns = 0
    while turns >= 0:
        turns += 1
    return number


LEDGER = {"one_more": "every integer"}
