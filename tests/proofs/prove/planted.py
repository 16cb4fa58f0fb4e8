"""Bugs planted in the specification for the length of a block, and what the prover then says."""

from __future__ import annotations

import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from types import FunctionType
from typing import Any, NamedTuple

from cacheproof.prove import obligations
from cacheproof.prove.finding import Finding
from cacheproof.prove.proof import Proof
from cacheproof.prove.prover import prove
from cacheproof.prove.session import scanned
from cacheproof.prove.witness import Examples, examples

_NUMBERS = count()


class Bug(NamedTuple):
    """One piece of one function's text, replaced; and the obligation that must be refuted for it."""

    function: Callable[..., Any]
    right: str
    wrong: str
    refuted: str


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """The function has the bug."""
    source = textwrap.dedent(inspect.getsource(bug.function))
    assert source.count(bug.right) == 1, f"{bug.function.__name__} has {source.count(bug.right)} times: {bug.right}"
    with swapped(bug.function, source.replace(bug.right, bug.wrong)):
        yield


@contextmanager
def swapped(function: Callable[..., Any], text: str) -> Iterator[None]:
    """The function does what the text says, wherever it is called from; its source is that text, to be rewritten."""
    assert isinstance(function, FunctionType)
    name, future = f"<planted {next(_NUMBERS)}>", "from __future__ import annotations\n"
    linecache.cache[name] = (len(text), None, (future + text).splitlines(keepends=True), name)
    namespace: dict[str, Any] = {}
    exec(compile(future + text, name, "exec"), namespace)
    original, function.__code__ = function.__code__, namespace[function.__name__].__code__
    try:
        yield
    finally:
        function.__code__ = original
        del linecache.cache[name]


@cache
def reachable(component: str) -> Examples:
    """Steps of the specification as it is: a planted bug may never come to an end."""
    return examples(scanned(obligations)[component].PROOFS[0])


def found(proof: Proof, name: str) -> Finding:
    """The finding of this name; no second opinion is asked."""
    (finding,) = prove(proof, ask_second=False, only=name, reachable=reachable(proof.component))
    return finding


def identified(bug: Bug) -> str:
    """A short name for a test."""
    return f"{bug.function.__name__}: {bug.wrong.strip() or 'nothing'} -> {bug.refuted}"
