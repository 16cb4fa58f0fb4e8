"""The first line of a log: the component and configuration of the log, and the facts that it leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cacheproof.foundation.errors import InputError, shortened
from cacheproof.logs.validate.lines import Pattern, observations_said
from cacheproof.model.declaration import CLAIMS, NAMES, checked_claims
from cacheproof.model.mixture import with_deviations
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named, variant_named
from cacheproof.model.wire import config_from_message, config_to_message
from cachespec import SPECIFICATION_VERSION
from cachespec.kernel import NORMATIVE, Operation, OwnNames

FORMAT, VERSION = "cacheproof-log", "0.1"
"""Of the format; it changes apart from the specification's."""

KEYS = (
    *("format", "version", "specification", "source"),
    *("component", "variant", "config", "claims", "initial", "updates", "unlogged", "end"),
)
PROMISES = ("lines", "sha256")
"""What an end record may say."""
MOST_UNLOGGED = 16
"""Unlogged calls that a header may admit before each line."""


@dataclass(frozen=True, slots=True)
class Unlogged:
    """Calls that the log leaves out: of these operations up to `most` may have happened before any line."""

    operations: tuple[type[Operation], ...] = ()
    most: int = 1


@dataclass(frozen=True, slots=True)
class Header:
    """Of what it is a log. `updates` are the observables that a line has whenever they have changed.

    `initial` are the observables that were logged before the first call; `promises` is what the end record will say.
    """

    component: AnyComponent
    variant: AnyVariant
    config: Any
    initial: Mapping[str, Pattern]
    updates: tuple[str, ...] = ()
    unlogged: Unlogged = Unlogged()
    promises: tuple[str, ...] = ()
    specification: str = SPECIFICATION_VERSION
    source: str = ""
    claims: tuple[str, ...] = CLAIMS
    """As an implementation claims them; a header that says nothing of it claims all."""

    @property
    def own_names(self) -> OwnNames[Any, Any] | None:
        """The names that are the log's own; None where it has those of the specification."""
        return None if NAMES in self.claims else self.component.own_names

    def as_message(self) -> dict[str, Any]:
        """As it is written."""
        unlogged = {
            "operations": [kind.wire_name() for kind in self.unlogged.operations],
            "most": self.unlogged.most,
        }
        said = {
            "source": self.source,
            "initial": {
                name: list(value) if isinstance(value, tuple) else value for name, value in self.initial.items()
            },
            "updates": list(self.updates),
            "unlogged": unlogged if self.unlogged.operations else None,
            "end": list(self.promises),
        }
        return {
            "format": FORMAT,
            "version": VERSION,
            "specification": self.specification,
            "component": self.component.name,
            "variant": self.variant.tag,
            "config": config_to_message(self.config),
            **({} if self.claims == CLAIMS else {"claims": list(self.claims)}),
            **{key: value for key, value in said.items() if value},
        }


def header_from_message(
    message: Mapping[str, Any], component: str | None, variant: str | None, deviations: Sequence[str] = ()
) -> Header:
    """The header that a first line holds; options of the command line override it.

    Deviations are rules that are added to the variant.

    Raises InputError that says what is wrong with it.
    """
    if message.get("format") != FORMAT or message.get("version") != VERSION:
        found = shortened(f"{message.get('format')!r} {message.get('version')!r}")
        raise InputError(f"the first line must be the header of a log of format {FORMAT} {VERSION}, not {found}")
    _only(message, KEYS, "the header")
    said = _text(message, "component", component)
    if component not in (None, said):
        raise InputError(f"this is a log of {said}, not of {component}")
    chosen = component_named(said)
    config = message.get("config")
    if not isinstance(config, dict):
        raise InputError("the header needs 'config', an object")
    found_variant = variant_named(chosen, with_deviations(variant or _text(message, "variant", NORMATIVE), deviations))
    return Header(
        component=chosen,
        variant=found_variant,
        config=config_from_message(chosen, config),
        initial=observations_said(message.get("initial", {})),
        updates=_texts(message, "updates"),
        unlogged=_unlogged(chosen, message.get("unlogged")),
        promises=_promises(message),
        specification=_text(message, "specification", SPECIFICATION_VERSION),
        source=_text(message, "source", ""),
        claims=checked_claims(_texts(message, "claims")) if "claims" in message else CLAIMS,
    )


def check_observables(header: Header, known: Mapping[str, Any]) -> None:
    """Raise InputError where the header names an observable that the component does not have."""
    for name in (*header.updates, *header.initial):
        if name not in known:
            raise InputError(no_observable(header.component, name, known))


def no_observable(component: AnyComponent, name: str, known: Mapping[str, Any]) -> str:
    """Says that the component lacks a name, and lists the names that it has."""
    return f"{component.name} has no observable {shortened(repr(name))}: there are {', '.join(known)}"


def _unlogged(component: AnyComponent, said: Any) -> Unlogged:
    if said is None:
        return Unlogged()
    if not isinstance(said, dict):
        raise InputError("'unlogged' must be an object with 'operations' and 'most'")
    _only(said, ("operations", "most"), "'unlogged'")
    kinds = {kind.wire_name(): kind for kind in component.operations}
    names = _texts(said, "operations")
    strange = [name for name in names if name not in kinds]
    if strange:
        raise InputError(f"'unlogged' names the operation {shortened(repr(strange[0]))}: there are {', '.join(kinds)}")
    most = said.get("most", 1)
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= MOST_UNLOGGED:
        wanted = f"an integer from 1 to {MOST_UNLOGGED}"
        raise InputError(f"'most' of 'unlogged' must be {wanted}, not {shortened(repr(most))}")
    return Unlogged(tuple(kinds[name] for name in dict.fromkeys(names)), most)


def _promises(message: Mapping[str, Any]) -> tuple[str, ...]:
    promised = _texts(message, "end")
    strange = [name for name in promised if name not in PROMISES]
    if strange:
        raise InputError(f"'end' promises {shortened(repr(strange[0]))}: an end record may say {', '.join(PROMISES)}")
    return promised


def _only(message: Mapping[str, Any], keys: tuple[str, ...], owner: str) -> None:
    strange = sorted(set(message) - set(keys))
    if strange:
        raise InputError(f"{owner} has no {shortened(repr(strange[0]))}: there are {', '.join(keys)}")


def _text(message: Mapping[str, Any], key: str, default: str | None) -> str:
    value = message.get(key, default)
    if not isinstance(value, str):
        raise InputError(f"the header needs '{key}', a string, not {shortened(repr(value))}")
    return value


def _texts(message: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = message.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InputError(f"'{key}' must be an array of strings, not {shortened(repr(value))}")
    return tuple(value)
