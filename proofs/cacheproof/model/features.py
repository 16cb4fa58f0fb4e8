"""Features: what an implementation may lack, by name, so that what needs one can be left out by name.

`lru/operation/pin` is an operation of a component, `lru/observable/hits` an observable, and `refusals` says that what
is not a call of the component is refused with the codes of the line protocol. Nothing is listed here: the names are
those of the declarations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.misspelt import UnknownNameError, did_you_mean
from cacheproof.model.registry import AnyComponent
from cachespec.kernel import Operation

REFUSALS = "refusals"
"""The only feature that belongs to no component."""

FORM = re.compile(r"(?P<component>[a-z0-9_]+)/(?P<sort>operation|observable)/(?P<name>[a-z0-9_]+)")


def operation_feature(component: AnyComponent, kind: type[Operation]) -> str:
    """The feature of an operation."""
    return f"{component.name}/operation/{kind.wire_name()}"


def observable_feature(component: AnyComponent, name: str) -> str:
    """The feature of an observable."""
    return f"{component.name}/observable/{name}"


def is_observable(component: AnyComponent, name: str) -> bool:
    """Whether the component may show this; `p0_order_{sender}` stands for one observable of each sender."""
    forms = (re.sub(r"\\\{\w+\\\}", r"\\d+", re.escape(known)) for known in component.observables)
    return any(re.fullmatch(form, name) for form in forms)


def operations_in(component: AnyComponent, features: Iterable[str]) -> frozenset[str] | None:
    """The operations of the component that are among the features by wire name; None where none is: all are there."""
    return _named(component, features, "operation")


def observables_in(component: AnyComponent, features: Iterable[str]) -> frozenset[str] | None:
    """The observables of the component that are among the features; None where none is: any may be left out."""
    return _named(component, features, "observable")


def checked(component: AnyComponent, features: Iterable[str]) -> frozenset[str]:
    """The features, each of the form of one, and those of this component known to it; or InputError."""
    given = frozenset(features)
    known = {"operation": {kind.wire_name() for kind in component.operations}, "observable": set(component.observables)}
    for feature in sorted(given - {REFUSALS}):
        found = FORM.fullmatch(feature)
        if found is None:
            raise InputError(f"'{feature}' is no feature: one is COMPONENT/operation/NAME or COMPONENT/observable/NAME")
        sort, name = found["sort"], found["name"]
        there = name in known[sort] or (sort == "observable" and is_observable(component, name))
        if found["component"] == component.name and known[sort] and not there:
            raise UnknownNameError(f"{component.name} has no {sort} '{name}'{did_you_mean(name, sorted(known[sort]))}")
    return given


def _named(component: AnyComponent, features: Iterable[str], sort: str) -> frozenset[str] | None:
    start = f"{component.name}/{sort}/"
    return frozenset(one.removeprefix(start) for one in features if one.startswith(start)) or None
