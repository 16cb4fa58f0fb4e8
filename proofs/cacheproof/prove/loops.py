"""Loops over containers of unknown length: cut at the test, with an invariant and a measure that shrinks.

The function's own code runs, with each `while TEST: BODY` cut: demand the invariant; forget all variables that the body
assigns, and assume only the invariant. Then there are two cases. Either TEST holds, the body runs once, the invariant
and a smaller measure are demanded, and the path ends. Or TEST fails and the function continues. That covers any number
of turns. A `for` over a range of unknown length is cut in the same way, with any number of the range as the next.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeGuard

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.foundation.discover import modules_in
from cacheproof.prove.executor import DeadEndError, NotFollowedError, SymbolicBoolean, assume, both, demand, path
from cacheproof.prove.histories import spliced
from cacheproof.prove.sequences import Unknown, all_of, counted, filtered, length, numbered
from cacheproof.prove.states import fresh_like
from cacheproof.prove.two_of_many import mapped

Locals = Mapping[str, Any]
SPLICED, MAPPED, FILTERED, ALL = "_spliced", "_mapped", "_filtered", "_all"

HELPERS = {SPLICED: spliced, MAPPED: mapped, FILTERED: filtered, ALL: all_of, "_length": length}
"""What the rewritten code calls."""

UNBOUND = Unknown()
"""The value, before a loop, of a variable that only an earlier loop assigns: nothing may read it."""


@dataclass(frozen=True, slots=True)
class Loop:
    """The loops of one function: conditions at every test of each, and measures that shrink at every turn, down to 0.

    The measures belong to the `while` loops, in the order of the text; a `for` over a container ends without a measure.
    """

    function: Callable[..., Any]
    property: str
    """The property under which the demands are listed."""
    invariant: Callable[[Locals, Locals], Iterable[Any]]
    """`(values at the entry, values now) -> conditions`."""
    measures: tuple[Callable[[Locals], Any], ...] = ()
    renewed: Callable[[str, Any], Any] | None = None
    """`(name, value at the entry) -> any value of its kind`, if the value does not show its kind; or None."""
    in_order: bool = False
    """Each `for NAME in range(LAST)` becomes a `while` that counts, so that its invariant can mention the visited
    numbers: `NAME` is the next number, `NAME_end` the number after the last. `for NAME in VALUES` counts places:
    `NAME_at` is the next one, `NAME_all` are the values. Such a loop needs no measure."""
    each: tuple[Loop, ...] = ()
    """If the loops of the function differ: what is said of each, in the order of the text, an outer one first."""


class _Cut:
    """The functions that the rewritten function calls, for one of its loops."""

    def __init__(self, loop: Loop, assigned: tuple[str, ...], measure: Callable[[Locals], Any] | None) -> None:
        self.loop = loop
        self.assigned = assigned
        self.measure = measure

    def enter(self, entry: dict[str, Any]) -> tuple[Any, ...]:
        self._demand_invariant(entry, entry)
        now = {**entry, **{name: self._renewed(name, entry.get(name, UNBOUND)) for name in self.assigned}}
        for condition in self.loop.invariant(entry, now):
            assume(condition)
        self.entry, self.before = entry, now
        path().shown.update({f"{name} at a turn": now[name] for name in self.assigned})
        return tuple(now[name] for name in self.assigned)

    def _renewed(self, name: str, value: Any) -> Any:
        special = self.loop.renewed(name, value) if self.loop.renewed else None
        return fresh_like(value, name) if special is None else special

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
        """Any value that a `for` may reach; of a tuple of which nothing is known, one of which nothing is known."""
        if type(iterable) is Unknown:
            return Unknown()
        element = getattr(iterable, "element", None)
        if not callable(element):
            raise NotFollowedError("only a loop over a range, a log or members is cut; one over a tuple, in order")
        return element()

    def _demand_invariant(self, entry: Locals, now: Locals) -> None:
        for condition in (True, *self.loop.invariant(entry, now)):
            demand(self.loop.property, both(condition))


BUILTINS = {"len": length, "range": counted, "enumerate": numbered}


@contextmanager
def followed(
    modules: Iterable[ModuleType], loops: Iterable[Loop], replaced: Iterable[tuple[ModuleType, str, Any]] = ()
) -> Iterator[None]:
    """Run these modules so that the executor can follow them.

    Loops are cut; `len`, `range`, `enumerate`, `(*several, one)` and `tuple(... for ... in ... if ...)` take tuples of
    unknown length; the names in `replaced` have other values. The end of the block restores everything.
    """
    everywhere = tuple(modules)
    by_function = {loop.function: loop for loop in loops}
    with ExitStack() as stack:
        for module in everywhere:
            for name, value in BUILTINS.items():
                stack.enter_context(_bound(vars(module), name, value))
        for function in _functions(everywhere, by_function):
            stack.enter_context(_rewritten(function, by_function.get(function)))
        for module, name, value in replaced:
            stack.enter_context(_bound(vars(module), name, value))
        yield


def modules_of(package: ModuleType) -> tuple[ModuleType, ...]:
    """A package with all its modules: a function can move from one module to another without a change of its proof."""
    return (package, *modules_in(package.__name__).values())


def _functions(modules: Iterable[ModuleType], loops: Iterable[Callable[..., Any]]) -> list[FunctionType]:
    """The functions of the modules that splice or map tuples, and those whose loops are cut."""
    cut = list(loops)
    if any(not isinstance(function, FunctionType) or function.__closure__ for function in cut):
        raise NotFollowedError("only the loops of plain functions can be cut")
    own = [value for module in modules for value in vars(module).values() if _is_of(value, module)]
    making = [value for value in own if not value.__closure__ and _makes_tuples(value.__code__)]
    return list(dict.fromkeys([*making, *(one for one in cut if isinstance(one, FunctionType))]))


@cache
def _makes_tuples(code: CodeType) -> bool:
    """Whether the text of this code has `(*several, one)`, or `tuple(... for ... in ... if ...)`."""
    text = textwrap.dedent(inspect.getsource(code))
    if not text.startswith(("def ", "@")):
        return False
    kinds = (_is_spliced, _mapping, _filter, _universal)
    return any(kind(node) for node in ast.walk(ast.parse(text)) for kind in kinds)


def _is_spliced(node: ast.AST) -> bool:
    """`(*several, one)`."""
    return isinstance(node, ast.Tuple) and any(isinstance(part, ast.Starred) for part in node.elts)


def _mapping(node: ast.AST) -> tuple[ast.Name, ast.expr, ast.expr] | None:
    """Of `tuple(VALUE for NAME in VALUES)`: NAME, VALUE and VALUES."""
    match node:
        case ast.Call(
            func=ast.Name("tuple"),
            args=[ast.GeneratorExp(value, [ast.comprehension(ast.Name() as name, values, [], 0)])],
            keywords=[],
        ):
            return name, value, values
    return None


def _universal(node: ast.AST) -> tuple[ast.expr, ast.expr, ast.expr] | None:
    """Of `all(CONDITION for NAME in VALUES)`: NAME, CONDITION and VALUES. There may be several names."""
    match node:
        case ast.Call(
            func=ast.Name("all"),
            args=[ast.GeneratorExp(condition, [ast.comprehension(ast.Name() | ast.Tuple() as names, values, [], 0)])],
            keywords=[],
        ):
            return names, condition, values
    return None


def _filter(node: ast.AST) -> tuple[ast.Name, ast.expr, ast.expr] | None:
    """Of `tuple(NAME for NAME in VALUES if CONDITION)`: NAME, CONDITION and VALUES."""
    match node:
        case ast.Call(
            func=ast.Name("tuple"),
            args=[ast.GeneratorExp(ast.Name(same), [ast.comprehension(ast.Name() as name, values, [condition], 0)])],
            keywords=[],
        ) if same == name.id:
            return name, condition, values
    return None


def _is_of(value: object, module: ModuleType) -> TypeGuard[FunctionType]:
    return isinstance(value, FunctionType) and value.__module__ == module.__name__


@contextmanager
def _bound(namespace: dict[str, Any], name: str, value: Any) -> Iterator[None]:
    """A global of a module, for a while."""
    before = namespace.get(name, _bound)
    namespace[name] = value
    try:
        yield
    finally:
        if before is _bound:
            del namespace[name]
        else:
            namespace[name] = before


@contextmanager
def _rewritten(function: FunctionType, loop: Loop | None) -> Iterator[None]:
    """The function with its code rewritten, for a while; wherever it is called from."""
    tree = ast.parse("from __future__ import annotations\n" + textwrap.dedent(inspect.getsource(function)))
    rewriter = _Rewriter(loop, tree)
    rewriter.visit(tree)
    if loop is not None and (not rewriter.cuts or rewriter.measures or len(loop.each) not in (0, len(rewriter.cuts))):
        raise NotFollowedError(f"{function.__name__} has other loops than its proof names")
    if not rewriter.changed:
        yield
        return
    _leave_out_defaults(tree)
    namespace: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(tree), inspect.getfile(function), "exec"), namespace)  # noqa: S102  # own source, rewritten
    original: CodeType = function.__code__
    function.__code__ = namespace[function.__name__].__code__
    with ExitStack() as stack:
        for name, one in {**rewriter.cuts, **HELPERS}.items():
            stack.enter_context(_bound(function.__globals__, name, one))
        try:
            yield
        finally:
            function.__code__ = original


def _leave_out_defaults(tree: ast.Module) -> None:
    """The function keeps its own defaults; their names need not be known where the text is compiled."""
    (definition,) = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    definition.args.defaults = [ast.Constant(value=None) for _ in definition.args.defaults]
    definition.args.kw_defaults = [each and ast.Constant(value=None) for each in definition.args.kw_defaults]


class _Rewriter(ast.NodeTransformer):
    """Turns every loop of a function into a cut, if there is one for it, and what makes tuples into a call."""

    def __init__(self, loop: Loop | None, tree: ast.Module) -> None:
        self.loop = loop
        self.tree = tree
        self.measures = list(loop.measures) if loop else []
        self.cuts: dict[str, _Cut] = {}
        self.changed = False

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:  # the name that ast looks for
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or not _is_spliced(node):
            return node
        self.changed = True
        return _called(SPLICED, *(_marked(part) for part in node.elts))

    def visit_Call(self, node: ast.Call) -> ast.AST:  # the name that ast looks for
        self.generic_visit(node)
        kinds = ((MAPPED, _mapping(node)), (FILTERED, _filter(node)), (ALL, _universal(node)))
        for helper, found in kinds:
            if found is not None:
                self.changed = True
                names, value, values = found
                return _called(helper, _function_of(names, value), values)
        return node

    def visit_While(self, node: ast.While) -> Any:  # the name that ast looks for
        if self.loop is None:
            return self.generic_visit(node)
        if not self.measures:
            raise NotFollowedError(f"a while loop of {self.loop.function.__name__} has no measure")
        name = self._new_cut(node, self.measures.pop(0))
        return self._cut(node, name, node.test, ())

    def visit_For(self, node: ast.For) -> Any:  # the name that ast looks for
        if self.loop is None:
            return self.generic_visit(node)
        if self.loop.in_order:
            return self._counted(node)
        name = self._new_cut(node, None)
        chosen = ast.Assign(targets=[node.target], value=_called(f"{name}.element", node.iter))
        return self._cut(node, name, _called(f"{name}.another"), (chosen,))

    def _counted(self, node: ast.For) -> list[ast.stmt]:
        """`for NAME in range(LAST)`, and `for NAME in VALUES`, written out."""
        names = [part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)]
        node.iter = self.visit(node.iter)
        if isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) == "range":
            if len(node.iter.args) != 1 or not isinstance(node.target, ast.Name):
                raise NotFollowedError("of the loops over a range, only `for NAME in range(LAST)` is cut in order")
            counter, last = names[0], f"{names[0]}_end"
            begun = f"{last} = {ast.unparse(node.iter.args[0])}"
            end, chosen = last, []
        else:
            counter, values = f"{names[0]}_at", f"{names[0]}_all"
            begun = f"{values} = {ast.unparse(node.iter)}"
            end = f"_length({values})"
            item = ast.parse(f"{values}[{counter}]", mode="eval").body
            chosen = [ast.Assign(targets=[node.target], value=item)]
        first = ast.parse(f"{begun}\n{counter} = 0").body
        following = ast.parse(f"{counter} = {counter} + 1").body
        test = ast.parse(f"{counter} < {end}", mode="eval").body
        loop = ast.copy_location(ast.While(test=test, body=[*chosen, *node.body, *following], orelse=node.orelse), node)
        measure = partial(_left, counter, end.removeprefix("_length(").removesuffix(")"))
        cut = self._new_cut(loop, measure, frozenset({counter}))
        return [*first, *self._cut(loop, cut, test, ())]

    def _new_cut(
        self,
        node: ast.While | ast.For,
        measure: Callable[[Locals], Any] | None,
        counters: frozenset[str] = frozenset(),
    ) -> str:
        inside = [part for statement in node.body for part in ast.walk(statement)]
        if node.orelse or any(isinstance(part, ast.Break | ast.Continue) for part in inside):
            raise NotFollowedError("a loop with break, continue or else cannot be cut")
        assigned = tuple(sorted(_stored(inside) & (self._known_before(node) | counters)))
        assert self.loop is not None
        name = f"_cut_{self.loop.function.__name__}_{len(self.cuts)}"
        self.changed = True
        own = self.loop.each[len(self.cuts)] if self.loop.each else self.loop
        self.cuts[name] = _Cut(own, assigned, measure)
        return name

    def _known_before(self, node: ast.stmt) -> set[str]:
        """Parameters, and variables that are assigned earlier in the text."""
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


def _left(counter: str, end: str, local: Locals) -> Any:
    """The measure of a loop in order: what it has still to visit."""
    last = local[end]
    return (length(last) if hasattr(last, "symbolic_length") else last) - local[counter]


def _stored(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _function_of(names: ast.expr, value: ast.expr) -> ast.Lambda:
    """A function of one value, which is unpacked if there are several names."""
    if isinstance(names, ast.Name):
        return ast.Lambda(ast.arguments([], [ast.arg(names.id)], None, [], [], None, []), value)
    parts = [ast.arg(part.id) for part in ast.walk(names) if isinstance(part, ast.Name)]
    unpacked = ast.Lambda(ast.arguments([], parts, None, [], [], None, []), value)
    call = ast.Call(unpacked, [ast.Starred(ast.Name("_entry", ast.Load()), ast.Load())], [])
    return ast.Lambda(ast.arguments([], [ast.arg("_entry")], None, [], [], None, []), call)


def _marked(part: ast.expr) -> ast.expr:
    """`(True, several)` for `*several`, `(False, one)` for `one`."""
    starred = isinstance(part, ast.Starred)
    value = part.value if isinstance(part, ast.Starred) else part
    if isinstance(value, ast.GeneratorExp) and (mapping := _mapping(ast.Call(ast.Name("tuple"), [value], []))):
        name, made, values = mapping
        value = _called(MAPPED, _function_of(name, made), values)
    return ast.Tuple(elts=[ast.Constant(value=starred), value], ctx=ast.Load())


def _called(function: str, *arguments: ast.expr) -> ast.expr:
    call = ast.parse(f"{function}()", mode="eval").body
    assert isinstance(call, ast.Call)
    call.args.extend(arguments)
    return call
