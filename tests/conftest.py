"""What every test has: a plain width of the terminal, and `plant` for bugs in the tensor code."""

from __future__ import annotations

import os
import pkgutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.planting import Change, planted

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers of pytest-xdist are given a width of 80 columns; what is written into a pipe has none.
    os.environ.pop("COLUMNS", None)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So a shell starts what it runs in the background; tests interrupt themselves and their children all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)

Plant = Callable[[str, str, str], None]


@pytest.fixture
def plant() -> Iterator[Plant]:
    """`plant("cacheimpl.recency.length", "dtype=$any", "dtype=torch.int8")`, until the test ends."""
    with ExitStack() as bugs:

        def replace(function: str, right: str, wrong: str) -> None:
            bugs.enter_context(planted(Change(pkgutil.resolve_name(function), right, wrong)))

        yield replace
