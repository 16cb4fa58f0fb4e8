"""What an implementation says about itself before it is asked for anything: what it has, where it is known to differ.

A child process says it in its answer to `hello`; an implementation in this process by attributes of the same names.
Everything is optional: who says nothing is held to everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cacheproof.foundation.errors import InputError, shortened
from cacheproof.model.features import REFUSALS, checked, operations_in
from cacheproof.model.protocol import LONGEST_LINE_BYTES
from cacheproof.model.registry import AnyComponent
from cachespec import SPECIFICATION_VERSION

NUMBER = re.compile(r"(?P<family>C-[A-Z]+)-(?P<number>\d+)")
"""What the number of an entry of the catalogue looks like."""
DECLARED = ("implementation", "spec", "components", "features", "deviations", "own", "claims")
"""The fields of `hello` that a target in this process may have as attributes."""

NAMES, EVICTION_ORDER = "names", "eviction_order"
CLAIMS = (NAMES, EVICTION_ORDER)
"""What an implementation may claim beyond what is always compared: that the names that it gives, as the numbers of
blocks, are the specification's; that it evicts in the specification's order."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a peer said. Empty fields mean that it said nothing about that."""

    implementation: str = ""
    """Name and version, for people."""
    spec: str = ""
    """The version of the specification that it was written for."""
    components: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()
    """Where operations of a component are named, it has no others; the same for observables."""
    deviations: tuple[str, ...] = ()
    """Numbers of the catalogue (`C-LRU-2`) of which it is known to do what they say."""
    own: frozenset[str] = frozenset()
    """Observables that are its own: they are not looked at. Any other that the component does not have is an error."""
    claims: tuple[str, ...] = CLAIMS
    """Those of `CLAIMS` that the implementation makes. Where it claims nothing, it may choose. A child process and a
    user's object make no claim unless they name it."""
    longest_line: int = LONGEST_LINE_BYTES
    """In bytes, with the newline: what it can read."""

    @property
    def refuses(self) -> bool:
        """Whether it answers what is no call as the protocol says."""
        return REFUSALS in self.features

    def missing(self, component: AnyComponent) -> frozenset[str]:
        """The operations of the component that it does not have, by wire name."""
        there = operations_in(component, self.features)
        return frozenset() if there is None else frozenset(one.wire_name() for one in component.operations) - there


def declaration_from(component: AnyComponent, given: Mapping[str, Any]) -> Declaration:
    """What the fields of a `hello` say, each checked; fields of a later version are not looked at.

    Raises InputError for a field of another form, and for a component, an operation or a number that there is not. A
    peer that was written for another version of the specification may have operations that this one does not know.
    """
    spec = _text(given, "spec")
    found = Declaration(
        implementation=_text(given, "implementation"),
        spec=spec,
        components=_texts(given, "components"),
        features=frozenset(_texts(given, "features")),
        deviations=_texts(given, "deviations"),
        own=frozenset(_texts(given, "own")),
        claims=_texts(given, "claims"),
        longest_line=_bytes(given, "longest_line"),
    )
    if found.components and component.name not in found.components:
        raise InputError(f"it has no component '{component.name}': there are {shortened(', '.join(found.components))}")
    if spec in ("", SPECIFICATION_VERSION):
        checked(component, found.features)
    strange = [number for number in found.deviations if NUMBER.fullmatch(number) is None]
    if strange:
        raise InputError(f"deviations: {shortened(repr(strange[0]))} is no number of the catalogue, as C-LRU-2 is")
    checked_claims(found.claims)
    return found


def checked_claims(claims: tuple[str, ...]) -> tuple[str, ...]:
    """The claims, each of which there is; raises InputError."""
    if unknown := sorted(set(claims) - set(CLAIMS)):
        raise InputError(f"claims: nothing is claimed by {shortened(repr(unknown[0]))}: there are {', '.join(CLAIMS)}")
    return claims


def declared_by(component: AnyComponent, target: object, claims: tuple[str, ...] = CLAIMS) -> Declaration:
    """What a target declares of itself: by a method `declaration`, or by attributes named as the fields of `hello`.

    `claims` are those of an object that has no attribute `claims`.
    """
    ask = getattr(target, "declaration", None)
    if callable(ask):
        said: Declaration = ask()
        return said
    found = {"claims": claims} | {name: getattr(target, name) for name in DECLARED if hasattr(target, name)}
    plain = {name: value if isinstance(value, str) else list(value) for name, value in found.items()}
    return declaration_from(component, plain)


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key, "")
    if not isinstance(value, str):
        raise InputError(f"{key} must be a string, not {shortened(repr(value))}")
    return shortened(value)


def _texts(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = given.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InputError(f"{key} must be an array of strings, not {shortened(repr(value))}")
    return tuple(value)


def _bytes(given: Mapping[str, Any], key: str) -> int:
    value = given.get(key, LONGEST_LINE_BYTES)
    if not isinstance(value, int) or value < 1:
        raise InputError(f"{key} must be a number of bytes, not {shortened(repr(value))}")
    return value
