"""A function that ends its process."""

from __future__ import annotations

import os

from icontract import ensure


@ensure(lambda number, result: result > number)
def one_more(number: int) -> int:
    """Ends the process."""
    os._exit(7)


LEDGER = {"one_more": "every integer"}
