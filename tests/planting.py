"""Bugs as pieces of text: in one function, one piece is replaced for the length of a block."""

from __future__ import annotations

import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from types import FunctionType
from typing import Any, NamedTuple

_NUMBERS = count()


class Change(NamedTuple):
    """One piece of a function's text, and what stands there instead."""

    function: Callable[..., Any]
    right: str
    wrong: str


@contextmanager
def planted(*changes: Change) -> Iterator[None]:
    """Every function is changed, wherever it is called from; afterwards each is what it was."""
    texts: dict[Callable[..., Any], str] = {}
    for function, right, wrong in changes:
        text = texts.get(function) or textwrap.dedent(inspect.getsource(function))
        assert text.count(right) == 1, f"{function.__name__} has {text.count(right)} times: {right}"
        texts[function] = text.replace(right, wrong)
    with ExitStack() as swaps:
        for function, text in texts.items():
            swaps.enter_context(swapped(function, text))
        yield


@contextmanager
def swapped(function: Callable[..., Any], text: str) -> Iterator[None]:
    """The function does what the text says, wherever it is called from; its source is that text, to be rewritten."""
    assert isinstance(function, FunctionType)
    name, future = f"<planted {next(_NUMBERS)}>", "from __future__ import annotations\n"
    linecache.cache[name] = (len(text), None, (future + text).splitlines(keepends=True), name)
    namespace: dict[str, Any] = dict(function.__globals__)  # defaults of parameters may be names
    exec(compile(future + text, name, "exec"), namespace)
    original, function.__code__ = function.__code__, namespace[function.__name__].__code__
    try:
        yield
    finally:
        function.__code__ = original
        del linecache.cache[name]
