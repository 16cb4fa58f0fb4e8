"""What every test has: a plain width, `plant` for bugs in the tensor code; and what is left to the night."""

from __future__ import annotations

import os
import pkgutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.planting import Change, planted
from tests.resuming import add_option, resume
from tests.sampling import left_to_the_night

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers of pytest-xdist are given a width of 80 columns; what is written into a pipe has none.
    os.environ.pop("COLUMNS", None)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So a shell starts what it runs in the background; tests interrupt themselves and their children all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)

Plant = Callable[[str, str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    resume(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before `-m "not nightly"` is looked at. A test that is asked for by its whole name is marked all the same."""
    night = left_to_the_night(item.nodeid for item in items)
    for item in items:
        if item.nodeid in night:
            item.add_marker(pytest.mark.nightly)


@pytest.fixture
def plant() -> Iterator[Plant]:
    """`plant("cacheimpl.recency.length", "dtype=$any", "dtype=torch.int8")`, until the test ends."""
    with ExitStack() as bugs:

        def replace(function: str, right: str, wrong: str) -> None:
            bugs.enter_context(planted(Change(pkgutil.resolve_name(function), right, wrong)))

        yield replace
