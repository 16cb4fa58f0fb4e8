"""Planting a bug in the tensor code: one piece of one function's source is replaced, wherever the function is used."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers of pytest-xdist are given a width of 80 columns; what is written into a pipe has none.
    os.environ.pop("COLUMNS", None)

Plant = Callable[[str, str, str], None]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """`plant("cacheimpl.recency.length", "dtype=ranks.dtype", "dtype=torch.int8")`: until the test ends."""

    def replace(function: str, right: str, wrong: str) -> None:
        module_name, _, name = function.rpartition(".")
        module = importlib.import_module(module_name)
        original = getattr(module, name)
        source = inspect.getsource(original)
        assert source.count(right) == 1, f"{function} has {source.count(right)} times: {right}"
        scope: dict[str, object] = dict(vars(module))
        exec(compile(source.replace(right, wrong), inspect.getsourcefile(original) or function, "exec"), scope)
        users = [user for user_name, user in sys.modules.items() if user_name.partition(".")[0] == "cacheimpl"]
        for user in users:
            if getattr(user, name, None) is original:
                monkeypatch.setattr(user, name, scope[name])

    return replace
