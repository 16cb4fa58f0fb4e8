"""The normative transitions keep to what a prover can run on terms instead of values.

They use integers, comparisons, `min`, `max`, `_replace`, and the containers' interface; this test reads their source,
and that of every function of the specification that they call. The length of a map or a queue is not known in a proof,
so nothing counts, sorts, searches or walks one directly.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import FunctionType, ModuleType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import pytest

from cacheproof.model.registry import components
from cachespec import lru
from cachespec.kernel import DONE, REFUSED, Code, Map, Operation, Outcome, Queue, Variant
from cachespec.lru import Cache, Config, Put, Result, recent

FORBIDDEN_NODES: dict[type[ast.AST], str] = {
    ast.JoinedStr: "an f-string",
    ast.Raise: "an exception",
    ast.Try: "an exception",
    ast.Assert: "an assertion",
    ast.Global: "a global",
    ast.Nonlocal: "a nonlocal",
}
FORBIDDEN_CALLS = ("isinstance", "str", "repr", "format", "float", "print", "hash", "id", "getattr", "hasattr")
NOT_OVER_CONTAINERS = (
    "len",
    "range",
    "sorted",
    "set",
    "frozenset",
    "dict",
    "list",
    "tuple",
    "sum",
    "any",
    "all",
    "enumerate",
)
KERNEL = "cachespec.kernel"


@dataclass(frozen=True)
class Source:
    """A function of the specification, its syntax, and what its names mean there."""

    function: FunctionType
    tree: ast.FunctionDef

    @property
    def name(self) -> str:
        return f"{self.function.__module__}.{self.function.__qualname__}"

    @property
    def meaning(self) -> dict[str, Any]:
        return {**self.function.__globals__, **inspect.getclosurevars(self.function).nonlocals}


def source(function: Callable[..., Any]) -> Source:
    """The syntax of one function."""
    plain = inspect.unwrap(function)
    assert isinstance(plain, FunctionType), f"{function} has no source to read"
    tree = ast.parse(textwrap.dedent(inspect.getsource(plain))).body[0]
    assert isinstance(tree, ast.FunctionDef), f"{plain.__qualname__} is not written as a function"
    return Source(plain, tree)


def reachable(variant: Variant[Any, Any, Any]) -> list[Source]:
    """The transitions, the continuation, and every function of the specification that they call."""
    states = state_classes(variant)
    pending: list[Callable[..., Any]] = [*variant.transitions.values(), variant.continuation]
    found: dict[str, Source] = {}
    while pending:
        current = source(pending.pop())
        if current.name not in found and not current.function.__module__.startswith(KERNEL):
            found[current.name] = current
            pending.extend(called(current, states))
    return list(found.values())


def called(current: Source, states: set[type]) -> Iterator[Callable[..., Any]]:
    """The functions of the specification that a function names, methods and properties of the state included."""
    for node in ast.walk(current.tree):
        if isinstance(node, ast.Name):
            yield from of_the_specification(current.meaning.get(node.id))
        elif isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and isinstance(owner := current.meaning.get(node.value.id), ModuleType):
                yield from of_the_specification(getattr(owner, node.attr, None))
            for state in states:
                member = vars(state).get(node.attr)
                yield from of_the_specification(member.fget if isinstance(member, property) else member)


def of_the_specification(value: Any) -> Iterator[Callable[..., Any]]:
    """The value, if it is a function of the specification; those in it, if it is a table of rules."""
    if isinstance(value, FunctionType) and value.__module__.startswith("cachespec."):
        yield value
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from (function for entry in value for function in of_the_specification(entry))


def state_classes(variant: Variant[Any, Any, Any]) -> set[type]:
    """The class of the state, and the classes of the specification that its fields hold."""
    pending: set[type] = {variant.state}
    found: set[type] = set()
    while pending:
        hint = pending.pop()
        if hint.__module__.startswith("cachespec.") and hint not in found:
            found.add(hint)
            fields = {} if hint.__module__.startswith(KERNEL) else get_type_hints(hint)
            pending = pending.union(*(classes_in(field) for field in fields.values()))
    return found


def classes_in(hint: Any) -> set[type]:
    """The classes that an annotation names, at whatever depth."""
    here = {named for named in (hint, get_origin(hint)) if isinstance(named, type)}
    parts = hint if isinstance(hint, list) else get_args(hint)
    return here.union(*(classes_in(part) for part in parts))


def container_fields(states: set[type]) -> set[str]:
    """The names of the fields of the state that are maps or queues; tuples have a length that is known in a proof."""
    hints = [get_type_hints(state) for state in states if not state.__module__.startswith(KERNEL)]
    return {name for fields in hints for name, hint in fields.items() if classes_in(hint) & {Map, Queue}}


def breaches(current: Source, states: set[type]) -> list[str]:
    """Where a function does what a prover cannot follow."""
    over = Containers(current, container_fields(states))
    body = [part for statement in current.tree.body for part in ast.walk(statement)]
    return [f"{current.name}: {said}" for node in body for said in breach(node, over)]


class Containers:
    """Which expressions of one function are a container of the state, or come straight from one."""

    def __init__(self, current: Source, fields: set[str]) -> None:
        hints = get_type_hints(current.function)
        self.fields = fields
        self.names = {name for name, hint in hints.items() if name != "return" and classes_in(hint) & {Map, Queue}}
        assignments = [node for node in ast.walk(current.tree) if isinstance(node, ast.Assign | ast.NamedExpr)]
        for _ in assignments:
            self.names |= {name for node in assignments if node.value in self for name in assigned(node)}

    def __contains__(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.names
        if isinstance(node, ast.Attribute):
            return node.attr in self.fields or node.value in self
        if isinstance(node, ast.Call) and is_helper(node.func):
            return False
        return any(child in self for child in ast.iter_child_nodes(node))


def assigned(node: ast.Assign | ast.NamedExpr) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    yield from (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))


def is_helper(function: ast.expr) -> bool:
    """A function of the specification is read by itself; what it is given there is a parameter."""
    return isinstance(function, ast.Name) and function.id not in NOT_OVER_CONTAINERS


def breach(node: ast.AST, containers: Containers) -> Iterator[str]:
    if type(node) in FORBIDDEN_NODES:
        yield FORBIDDEN_NODES[type(node)]
    if isinstance(node, ast.Constant) and isinstance(node.value, float):
        yield "a float"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        yield "a division that gives a float"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in FORBIDDEN_CALLS:
            yield f"{node.func.id}()"
        if node.func.id in NOT_OVER_CONTAINERS and any(argument in containers for argument in node.args):
            yield f"{node.func.id}() over a container"
    if isinstance(node, ast.Compare):
        yield from breach_of_comparison(node, containers)
    if isinstance(node, ast.For | ast.comprehension) and node.iter in containers:
        yield "a loop over a container"
    if isinstance(node, ast.While) and node.test in containers:
        yield "a while over a container whose test has no name"


def breach_of_comparison(node: ast.Compare, containers: Containers) -> Iterator[str]:
    for operator, right in zip(node.ops, node.comparators, strict=True):
        if isinstance(operator, ast.In | ast.NotIn) and right in containers:
            yield "'in' over a container"
        if isinstance(operator, ast.Is | ast.IsNot) and not is_code(right):
            yield "'is' on something else than a code"


def is_code(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == Code.__name__


@pytest.mark.parametrize("component", components("").values(), ids=lambda component: component.name)
def test_normative_transitions_can_be_run_on_terms(component: Any) -> None:
    states = state_classes(component.normative)
    sources = reachable(component.normative)
    assert len(sources) >= len(component.normative.transitions)
    assert [said for current in sources for said in breaches(current, states)] == []


def of_another_operation(variant: Variant[Any, Any, Any]) -> list[str]:
    """Operations whose transition is annotated for another operation; the type of the mapping cannot say so."""
    wrong = []
    for kind, transition in variant.transitions.items():
        hints = get_type_hints(transition) if isinstance(transition, FunctionType) else {}
        hints.pop("return", None)
        expected = list(hints.values())[2:3] or [Operation]
        if not any(isinstance(each, TypeVar) or issubclass(kind, get_args(each) or each) for each in expected):
            wrong.append(kind.__name__)
    return wrong


@pytest.mark.parametrize("component", components().values(), ids=lambda component: component.name)
def test_each_operation_has_a_transition_of_its_own_type(component: Any) -> None:
    for variant in component.variants.values():
        assert of_another_operation(variant) == []


def test_a_transition_of_another_operation_is_noticed() -> None:
    normative = lru.COMPONENT.normative
    swapped = replace(normative, transitions={**normative.transitions, lru.Touch: normative.transitions[Put]})
    assert of_another_operation(swapped) == ["Touch"]


def test_helpers_and_methods_are_read_too() -> None:
    names = {current.function.__name__ for current in reachable(lru.COMPONENT.normative)}
    assert {"put", "begin_or_store", "stored", "evict_oldest", "without", "continuation"} <= names


def with_formatting(config: Config, cache: Cache, op: Put) -> Result:
    return cache, DONE if f"{op.key}" else REFUSED


def with_isinstance(config: Config, cache: Cache, op: Put) -> Result:
    return cache, DONE if isinstance(op.key, bool) else REFUSED


def with_length(config: Config, cache: Cache, op: Put) -> Result:
    return cache, DONE if len(tuple(cache.entries.items())) < op.size else REFUSED


def with_membership(config: Config, cache: Cache, op: Put) -> Result:
    held = cache.entries
    return cache, DONE if op.key in [key for key, _ in held.items()] else REFUSED


def with_exception(config: Config, cache: Cache, op: Put) -> Result:
    if op.size > config.capacity:
        raise ValueError
    return cache, DONE


def with_ratio(config: Config, cache: Cache, op: Put) -> Result:
    return cache, DONE if op.size * 1.5 < config.capacity / 2 else REFUSED


def with_unnamed_loop(config: Config, cache: Cache, op: Put) -> Result:
    while cache.order.length > 1:
        cache = lru.evict_oldest(cache)
    return cache, DONE


def with_identity(config: Config, cache: Cache, op: Put) -> Result:
    return cache, DONE if cache.used is op.size else REFUSED


def hidden(cache: Cache) -> Outcome:
    return Outcome(Code.DONE, tuple(sorted(key for key, _ in cache.entries.items())))


def with_hidden_helper(config: Config, cache: Cache, op: Put) -> Result:
    return recent(cache, op.key), hidden(cache)


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (with_formatting, "an f-string"),
        (with_isinstance, "isinstance()"),
        (with_length, "len() over a container"),
        (with_membership, "a loop over a container"),
        (with_exception, "an exception"),
        (with_ratio, "a float"),
        (with_unnamed_loop, "a while over a container whose test has no name"),
        (with_identity, "'is' on something else than a code"),
        (hidden, "sorted() over a container"),
    ],
)
def test_a_planted_breach_is_found(planted: Callable[..., Any], said: str) -> None:
    states = state_classes(lru.COMPONENT.normative)
    assert any(line.endswith(said) for line in breaches(source(planted), states))


def test_the_rules_of_a_table_are_read_too() -> None:
    names = {current.function.__name__ for current in reachable(components("")["scheduler"].normative)}
    assert {"schedule", "serve_running", "fit_item", "wanted", "last_running", "executed"} <= names


def test_a_breach_in_a_helper_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in (hidden, with_hidden_helper):
        monkeypatch.setattr(function, "__module__", "cachespec.planted")
    normative = lru.COMPONENT.normative
    variant = replace(normative, transitions={**normative.transitions, Put: with_hidden_helper})
    found = [said for current in reachable(variant) for said in breaches(current, state_classes(variant))]
    assert any("hidden: sorted() over a container" in said for said in found)
