"""The functions that a component's normative transitions are made of."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, get_args, get_type_hints

from cacheproof.model.registry import AnyComponent
from cacheproof.model.rewriting import SPECIFICATION, tree_of

KERNEL = "cachespec.kernel"


def home_of(component: AnyComponent) -> str:
    """The package or module that is the component's own: `cachespec.lru`, or the module of a file in a folder."""
    module = component.config.__module__
    return ".".join(module.split(".")[:2]) if module.startswith(SPECIFICATION + ".") else module


def own_functions(component: AnyComponent) -> list[FunctionType]:
    """Those that are written in the component itself, in the order in which they are met.

    What a part of a composite does belongs to the part; what derives one configuration from another (and is cached) is
    no transition.
    """
    home = home_of(component)
    return [one for one in reachable(component) if _within(home, one.__module__)]


def reachable(component: AnyComponent) -> list[FunctionType]:
    """The normative transitions, the continuation, and every function of the specification that they call."""
    return called_from(component, entrances(component))


def called_from(component: AnyComponent, first: Iterable[Callable[..., Any]]) -> list[FunctionType]:
    """These functions, and every function of the specification that they call, in the order in which they are met."""
    members = _members(component.normative.state)
    pending = list(first)
    home, found = home_of(component), dict[int, FunctionType]()
    while pending:
        function = inspect.unwrap(pending.pop(0))
        if id(function) in found or not _belongs(function, home):
            continue
        found[id(function)] = function
        pending += [one for one in _named(function, members) if not hasattr(one, "cache_clear")]
    return list(found.values())


def by_operation(component: AnyComponent) -> dict[str, list[FunctionType]]:
    """By the name of each operation: the component's own functions that its normative transition calls."""
    home = home_of(component)
    return {
        kind.wire_name(): [
            one for one in called_from(component, _functions_in(transition)) if _within(home, one.__module__)
        ]
        for kind, transition in component.normative.transitions.items()
    }


def entrances(component: AnyComponent) -> Iterator[FunctionType]:
    """The functions that a step begins with."""
    variant = component.normative
    for value in (*variant.transitions.values(), variant.continuation):
        yield from map(inspect.unwrap, _functions_in(value))


def _belongs(function: Any, home: str) -> bool:
    if not isinstance(function, FunctionType) or function.__module__.startswith(KERNEL):
        return False
    return _within(SPECIFICATION, function.__module__) or _within(home, function.__module__)


def _within(home: str, module: str) -> bool:
    return module == home or module.startswith(home + ".")


def _named(function: FunctionType, members: dict[str, list[Callable[..., Any]]]) -> Iterator[Callable[..., Any]]:
    """The functions that this one names: as a name, as a member of a module, or as a member of the state."""
    tree = tree_of(function)
    meaning = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Name):
            yield from _functions_in(meaning.get(node.id))
        elif isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and isinstance(owner := meaning.get(node.value.id), ModuleType):
                yield from _functions_in(getattr(owner, node.attr, None))
            yield from members.get(node.attr, ())


def _functions_in(value: Any) -> Iterator[Callable[..., Any]]:
    """A function, those that a record of functions holds, or those that a function with some arguments is made of."""
    if isinstance(value, partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            yield from _functions_in(part)
    elif callable(value) and hasattr(value, "__module__") and isinstance(inspect.unwrap(value), FunctionType):
        yield value
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for part in value:
            yield from _functions_in(part)


def _members(state: Any) -> dict[str, list[Callable[..., Any]]]:
    """Methods and properties of the state and of the classes that its fields hold, by name."""
    pending, seen, found = [state], set[Any](), dict[str, list[Callable[..., Any]]]()
    while pending:
        owner = pending.pop()
        parts = get_args(owner)
        if parts:
            pending.extend(parts)
        if not isinstance(owner, type) or owner in seen or owner.__module__.startswith((KERNEL, "builtins")):
            continue
        seen.add(owner)
        for name, member in vars(owner).items():
            function = member.fget if isinstance(member, property) else member
            if isinstance(function, FunctionType) and function.__module__ == owner.__module__:
                found.setdefault(name, []).append(function)
        pending.extend(get_type_hints(owner, include_extras=False).values())
    return found
