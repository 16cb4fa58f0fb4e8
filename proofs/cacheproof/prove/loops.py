"""Loops over containers of unknown length: cut at the test, with an invariant and a measure that shrinks.

The function's own code is run, with `while TEST: BODY` turned into: demand the invariant; forget what the body
assigns and assume only the invariant; then either TEST holds, the body runs once, the invariant and a smaller measure
are demanded and the path ends; or TEST fails and the function goes on. That covers any number of turns. A `for` over a
range of unknown length is treated alike, with any of its numbers in the place of the next.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import DeadEndError, NotFollowedError, SymbolicBoolean, assume, both, demand, path
from cacheproof.prove.sequences import SymbolicRange, counted, length
from cacheproof.prove.states import fresh_like

Locals = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Loop:
    """The loops of one function: what holds at every test of each, and what shrinks at every turn and stays >= 0.

    The measures are those of the `while` loops, in the order of the text; a `for` over what is there already ends.
    """

    function: Callable[..., Any]
    property: str
    """The property under which the demands are listed."""
    invariant: Callable[[Locals, Locals], Iterable[Any]]
    """`(where the loop was entered, now) -> conditions`."""
    measures: tuple[Callable[[Locals], Any], ...] = ()


class _Cut:
    """What the rewritten function calls, for one of its loops."""

    def __init__(self, loop: Loop, assigned: tuple[str, ...], measure: Callable[[Locals], Any] | None) -> None:
        self.loop = loop
        self.assigned = assigned
        self.measure = measure

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
        if self.measure is not None:
            before, after = self.measure(self.before), self.measure(now)
            demand(self.loop.property, (after < before) & (after >= 0))
        raise DeadEndError

    @staticmethod
    def another() -> SymbolicBoolean:
        """Whether a `for` takes another turn: it may, and it may not."""
        return SymbolicBoolean(path().fresh("another", z3.BoolSort()))

    @staticmethod
    def element(iterable: Any) -> Any:
        """Whatever a `for` may come to."""
        if type(iterable) is not SymbolicRange:
            raise NotFollowedError("only a loop over a range is cut")
        return iterable.element()

    def _demand_invariant(self, entry: Locals, now: Locals) -> None:
        demand(self.loop.property, both(True, *self.loop.invariant(entry, now)))


@contextmanager
def cut(loops: Iterable[Loop]) -> Iterator[None]:
    """Run these functions with their loops cut, wherever they are called from."""
    with ExitStack() as stack:
        for loop in loops:
            stack.enter_context(_cut_one(loop))
        yield


@contextmanager
def symbolic_lengths(modules: Iterable[ModuleType]) -> Iterator[None]:
    """In these modules `len` and `range` follow tuples of unknown length."""
    everywhere = tuple(modules)
    for module in everywhere:
        vars(module).update(len=length, range=counted)
    try:
        yield
    finally:
        for module in everywhere:
            del vars(module)["len"], vars(module)["range"]


@contextmanager
def _cut_one(loop: Loop) -> Iterator[None]:
    function = loop.function
    if not isinstance(function, FunctionType) or function.__closure__:
        raise NotFollowedError(f"only the loops of a plain function can be cut, not of {function}")
    code, cuts = _rewritten(function, loop)
    original: CodeType = function.__code__
    function.__globals__.update(cuts)
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = original
        for name in cuts:
            del function.__globals__[name]


def _rewritten(function: FunctionType, loop: Loop) -> tuple[CodeType, dict[str, _Cut]]:
    tree = ast.parse("from __future__ import annotations\n" + textwrap.dedent(inspect.getsource(function)))
    rewriter = _Rewriter(loop, tree)
    rewriter.visit(tree)
    if not rewriter.cuts or rewriter.measures:
        raise NotFollowedError(f"{function.__name__} has other loops than its proof names")
    namespace: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(tree), inspect.getfile(function), "exec"), namespace)  # noqa: S102  # own source, rewritten
    return namespace[function.__name__].__code__, rewriter.cuts


class _Rewriter(ast.NodeTransformer):
    """Turns every loop of a function into a cut."""

    def __init__(self, loop: Loop, tree: ast.Module) -> None:
        self.loop = loop
        self.tree = tree
        self.measures = list(loop.measures)
        self.cuts: dict[str, _Cut] = {}

    def visit_While(self, node: ast.While) -> list[ast.stmt]:  # the name that ast looks for
        if not self.measures:
            raise NotFollowedError(f"a while loop of {self.loop.function.__name__} has no measure")
        name = self._new_cut(node, self.measures.pop(0))
        return self._cut(node, name, node.test, ())

    def visit_For(self, node: ast.For) -> list[ast.stmt]:  # the name that ast looks for
        name = self._new_cut(node, None)
        chosen = ast.Assign(targets=[node.target], value=_called(f"{name}.element", node.iter))
        return self._cut(node, name, _called(f"{name}.another"), (chosen,))

    def _new_cut(self, node: ast.While | ast.For, measure: Callable[[Locals], Any] | None) -> str:
        inside = [part for statement in node.body for part in ast.walk(statement)]
        if node.orelse or any(isinstance(part, ast.Break | ast.Continue) for part in inside):
            raise NotFollowedError("a loop with break, continue or else cannot be cut")
        assigned = tuple(sorted(_stored(inside) & self._known_before(node)))
        name = f"_cut_{self.loop.function.__name__}_{len(self.cuts)}"
        self.cuts[name] = _Cut(self.loop, assigned, measure)
        return name

    def _known_before(self, node: ast.stmt) -> set[str]:
        """Parameters, and what is assigned earlier in the text."""
        everything = list(ast.walk(self.tree))
        parameters = {part.arg for part in everything if isinstance(part, ast.arg)}
        earlier = (part for part in everything if getattr(part, "lineno", node.lineno) < node.lineno)
        return parameters | _stored(earlier)

    def _cut(self, node: ast.While | ast.For, name: str, test: ast.expr, first: tuple[ast.stmt, ...]) -> list[ast.stmt]:
        targets = "".join(f"{variable}, " for variable in self.cuts[name].assigned)
        enter = ast.parse(f"({targets}) = {name}.enter(dict(locals()))").body
        self.generic_visit(node)
        again = ast.parse(f"{name}.again(dict(locals()))").body
        return [*enter, ast.If(test=test, body=[*first, *node.body, *again], orelse=[])]


def _stored(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _called(function: str, *arguments: ast.expr) -> ast.expr:
    call = ast.parse(f"{function}()", mode="eval").body
    assert isinstance(call, ast.Call)
    call.args.extend(arguments)
    return call
