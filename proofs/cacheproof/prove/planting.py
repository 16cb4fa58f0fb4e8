"""A function of the implementation that does nothing: every claim about it has to fail then."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any

from cacheproof.model.rewriting import rewritten


def plain(function: Callable[..., Any]) -> FunctionType:
    """The function itself, without its wrappers. Raises `TypeError` for a function without Python code."""
    inner = inspect.unwrap(getattr(function, "__func__", function))
    if not isinstance(inner, FunctionType):
        raise TypeError(f"{function!r} is no function that is written in Python")
    return inner


def runs(call: Callable[[], object], function: Callable[..., Any]) -> bool:
    """Whether the call reaches the function."""
    wanted, seen = plain(function).__code__, set[CodeType]()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            seen.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return wanted in seen


@contextmanager
def doing_nothing(function: Callable[..., Any]) -> Iterator[None]:
    """For the length of a block the function returns None, wherever it is called from."""
    inner = plain(function)
    tree = ast.parse(f"def {inner.__name__}(*arguments, **named):\n    return None").body[0]
    assert isinstance(tree, ast.FunctionDef)
    with rewritten(inner, tree):
        yield
