"""Loops over containers of unknown length: cut at the test, with an invariant and a measure that shrinks.

The function's own code is run, with `while TEST: BODY` turned into: demand the invariant; forget what the body
assigns and assume only the invariant; then either TEST holds, the body runs once, the invariant and a smaller measure
are demanded and the path ends; or TEST fails and the function goes on. That covers any number of turns.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from cacheproof.prove.executor import DeadEndError, NotFollowedError, assume, demand, path
from cacheproof.prove.states import fresh_like

Locals = Mapping[str, Any]
CUT = "_loop_cut"


@dataclass(frozen=True, slots=True)
class Loop:
    """The one `while` of a function: what holds at every test, and what shrinks at every turn and stays >= 0."""

    function: Callable[..., Any]
    property: str
    """The property under which the loop's demands are listed."""
    invariant: Callable[[Locals, Locals], Iterable[Any]]
    """`(where the loop was entered, now) -> conditions`."""
    measure: Callable[[Locals], Any]


class _Cut:
    """What the rewritten function calls."""

    def __init__(self, loop: Loop, assigned: tuple[str, ...]) -> None:
        self.loop = loop
        self.assigned = assigned

    def enter(self, entry: dict[str, Any]) -> tuple[Any, ...]:
        self._demand_invariant(entry, entry)
        now = {**entry, **{name: fresh_like(entry[name], name) for name in self.assigned}}
        for condition in self.loop.invariant(entry, now):
            assume(condition)
        self.entry, self.before = entry, now
        path().shown.update({f"{name} at a turn": now[name] for name in self.assigned})
        return tuple(now[name] for name in self.assigned)

    def again(self, now: dict[str, Any]) -> None:
        self._demand_invariant(self.entry, now)
        before, after = self.loop.measure(self.before), self.loop.measure(now)
        demand(self.loop.property, (after < before) & (after >= 0))
        raise DeadEndError

    def _demand_invariant(self, entry: Locals, now: Locals) -> None:
        for condition in self.loop.invariant(entry, now):
            demand(self.loop.property, condition)


@contextmanager
def cut(loops: Iterable[Loop]) -> Iterator[None]:
    """Run these functions with their loops cut, wherever they are called from."""
    with ExitStack() as stack:
        for loop in loops:
            stack.enter_context(_cut_one(loop))
        yield


@contextmanager
def _cut_one(loop: Loop) -> Iterator[None]:
    function = loop.function
    if not isinstance(function, FunctionType) or function.__closure__:
        raise NotFollowedError(f"only the loop of a plain function can be cut, not of {function}")
    name = f"{CUT}_{function.__name__}"
    code, assigned = _rewritten(function, name)
    original: CodeType = function.__code__
    function.__globals__[name] = _Cut(loop, assigned)
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = original
        del function.__globals__[name]


def _rewritten(function: FunctionType, name: str) -> tuple[CodeType, tuple[str, ...]]:
    tree = ast.parse("from __future__ import annotations\n" + textwrap.dedent(inspect.getsource(function)))
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.While)]
    if len(loops) != 1:
        raise NotFollowedError(f"{function.__name__} has {len(loops)} while loops: a loop to be cut stands alone")
    rewriter = _Rewriter(name)
    rewriter.visit(tree)
    namespace: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(tree), inspect.getfile(function), "exec"), namespace)  # noqa: S102  # own source, rewritten
    rewritten = namespace[function.__name__]
    return rewritten.__code__, rewriter.assigned


class _Rewriter(ast.NodeTransformer):
    """Turns the `while` into a cut."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.assigned: tuple[str, ...] = ()

    def visit_While(self, node: ast.While) -> list[ast.stmt]:  # the name that ast looks for
        inside = [part for statement in node.body for part in ast.walk(statement)]
        if node.orelse or any(isinstance(part, ast.Break | ast.Continue) for part in inside):
            raise NotFollowedError("a loop with break, continue or else cannot be cut")
        stores = (part.id for part in inside if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
        self.assigned = tuple(sorted(set(stores)))
        enter = ast.parse(f"{', '.join(self.assigned)}, = {self.name}.enter(dict(locals()))").body
        again = ast.parse(f"{self.name}.again(dict(locals()))").body
        return [*enter, ast.If(test=node.test, body=[*node.body, *again], orelse=[])]
