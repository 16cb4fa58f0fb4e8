"""Bugs as pieces of text: in one function of the specification, one piece is replaced for the length of a block."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any, NamedTuple


class Change(NamedTuple):
    """One piece of a function's text, and what stands there instead."""

    function: Callable[..., Any]
    right: str
    wrong: str


@contextmanager
def planted(*changes: Change) -> Iterator[None]:
    """Every function is changed, wherever it is called from; afterwards each is what it was."""
    originals = {function: function.__code__ for function in map(_plain, changes)}
    try:
        for function in originals:
            function.__code__ = _changed(function, [change for change in changes if change.function is function])
        yield
    finally:
        for function, code in originals.items():
            function.__code__ = code


def _plain(change: Change) -> FunctionType:
    assert isinstance(change.function, FunctionType)
    return change.function


def _changed(function: FunctionType, changes: list[Change]) -> CodeType:
    text = textwrap.dedent(inspect.getsource(function))
    for change in changes:
        found = text.count(change.right)
        assert found == 1, f"{function.__name__} has {found} times: {change.right}"
        text = text.replace(change.right, change.wrong)
    namespace: dict[str, Any] = {}
    exec(compile("from __future__ import annotations\n" + text, f"<{function.__name__}>", "exec"), namespace)
    code = namespace[function.__name__].__code__
    assert isinstance(code, CodeType)
    return code
