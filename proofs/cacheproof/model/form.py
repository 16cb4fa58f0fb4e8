"""The rules of the form: a prover runs the normative transitions on terms instead of values.

Transitions use integers, comparisons, `min`, `max`, `_replace`, and the containers' interface. This module reads their
source, and that of every function of the specification that they call. The length of a map or a queue is not known in
a proof, so no transition counts, sorts, searches or walks a container directly.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, get_args, get_origin, get_type_hints

from cacheproof.model.registry import FROM_PATH, AnyComponent
from cachespec.kernel import Code, Map, Queue, Variant

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
SPECIFICATION = ("cachespec.", FROM_PATH)
"""How the names of modules begin whose functions are read."""
NOT_IN_A_STATE = (float, complex, str, bytes, bytearray, list, dict, set, frozenset)
"""Types that a field of a state must not have: a state holds integers, tuples, maps and queues."""


class FormError(Exception):
    """A function whose source cannot be read; the message is one line."""


def breaches_of(component: AnyComponent) -> list[str]:
    """Where the normative variant breaks the rules of the form, one line each, with file and line."""
    variant = component.normative
    lines = [*breaches_of_fields(state_classes(variant))]
    try:
        states = state_classes(variant)
        return lines + [line for current in reachable(variant) for line in breaches(current, states)]
    except FormError as error:
        return [*lines, str(error)]


def breaches_of_fields(states: set[type]) -> Iterator[str]:
    """Fields of the state that hold something else than integers."""
    for state in sorted(states, key=lambda state: state.__qualname__):
        fields = {} if state.__module__.startswith(KERNEL) else get_type_hints(state)
        for name, hint in fields.items():
            for kind in sorted(classes_in(hint) & set(NOT_IN_A_STATE), key=lambda kind: kind.__name__):
                yield f"{state.__module__}.{state.__qualname__}: field {name} holds {kind.__name__}"


@dataclass(frozen=True)
class Source:
    """A function of the specification, its syntax, and what its names mean there."""

    function: FunctionType
    tree: ast.FunctionDef

    @property
    def name(self) -> str:
        """The name of the function with its module."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    @property
    def meaning(self) -> dict[str, Any]:
        """The names that the function can use, with their values."""
        return {**self.function.__globals__, **inspect.getclosurevars(self.function).nonlocals}


def source(function: Callable[..., Any]) -> Source:
    """The syntax of one function."""
    plain = inspect.unwrap(function)
    if not isinstance(plain, FunctionType):
        raise FormError(f"{function} has no source to read: write it as a function")
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(plain))).body[0]
    except (OSError, SyntaxError):  # a lambda in the middle of an expression is no statement
        tree = ast.Pass()
    if not isinstance(tree, ast.FunctionDef):
        raise FormError(f"{_line(plain, 1)}: {plain.__module__}.{plain.__qualname__} must be written with def")
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
    if isinstance(value, FunctionType) and value.__module__.startswith(SPECIFICATION):
        yield value
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from (function for entry in value for function in of_the_specification(entry))


def state_classes(variant: Variant[Any, Any, Any]) -> set[type]:
    """The class of the state, and the classes of the specification that its fields hold."""
    pending: set[type] = {variant.state}
    found: set[type] = set()
    while pending:
        hint = pending.pop()
        if hint.__module__.startswith(SPECIFICATION) and hint not in found:
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
    return [
        f"{_line(current.function, getattr(node, 'lineno', 1))}: {current.name}: {rule}"
        for node in body
        for rule in breach(node, over)
    ]


def _line(function: FunctionType, line: int) -> str:
    """The file and the line, counted from the first line of the function."""
    return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno + line - 1}"


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
    """The names that an assignment binds."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    yield from (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))


def is_helper(function: ast.expr) -> bool:
    """Whether it is a function of the specification, which is read by itself, with its arguments as parameters."""
    return isinstance(function, ast.Name) and function.id not in NOT_OVER_CONTAINERS


def breach(node: ast.AST, containers: Containers) -> Iterator[str]:
    """The rules that one node of the syntax breaks."""
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
    """`in` over a container, and `is` on other values than codes."""
    for operator, right in zip(node.ops, node.comparators, strict=True):
        if isinstance(operator, ast.In | ast.NotIn) and right in containers:
            yield "'in' over a container"
        if isinstance(operator, ast.Is | ast.IsNot) and not is_code(right):
            yield "'is' on something else than a code"


def is_code(node: ast.expr) -> bool:
    """Whether it is a member of `Code`."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == Code.__name__
