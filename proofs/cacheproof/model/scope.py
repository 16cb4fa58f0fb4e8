"""Scope files: which configurations are explored for which variants, and what is expected to be found.

Every component has one, `NAME.toml`, an array of `[[scope]]` tables; docs/formats/scopes.md describes it. Nothing of a
file is used before all of it is checked: an unknown key, a wrong type, a configuration that the component refuses, or
a name that does not exist is an `InputError` that says where it is.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import toml_of
from cacheproof.foundation.seeds import LARGEST_SEED
from cacheproof.model.configurations import GENERATORS, drawn
from cacheproof.model.plan import Granularity, Plan
from cacheproof.model.registry import AnyComponent, component_named, scope_file
from cacheproof.model.varied import varied
from cacheproof.model.wire import config_from_message
from cachespec.kernel import NORMATIVE

DEFAULT, LARGE, NIGHTLY = SETS = "default", "large", "nightly"
"""`large` is explored by default where the specification is compiled, `nightly` if it is asked for."""

DRAWN = "drawn"
"""The set of the scopes that are in no file: each is named for the seed and the number of its configuration."""
NAME_OF_DRAWN = re.compile(r"drawn-(\d{1,10})-(\d{1,9})")
STATES_OF_DRAWN = 200_000
"""Where the exploration of such a scope ends, unless it is asked for more."""


class ExpectedViolation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A property that this variant breaks in this scope, and how many operations its shortest counterexample has.

    `catalogue` is the number of the known violation that it shows, and `about` says in a sentence what happens.
    """

    property: str
    length: int | None = None
    catalogue: str = ""
    about: str = ""


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a run of one variant must find.

    With `exhaust` the space is explored to its end although properties are violated. `uncovered` names, with the
    reason, operations that cannot happen for this variant only.
    """

    states: int | None = None
    transitions: int | None = None
    depth: int | None = None
    digest: str | None = None
    exhaust: bool = False
    violations: tuple[ExpectedViolation, ...] = ()
    uncovered: dict[str, str] = {}  # msgspec copies it

    @property
    def violated(self) -> frozenset[str]:
        """The names of the properties that are to be refuted."""
        return frozenset(violation.property for violation in self.violations)


class Numbers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Integers of the configuration for which `regions` takes any number, and what it must find.

    `any` names them as on the command line: "capacity", "sizes[1]", "prompts=1..4". `regions` is how many regions the
    normative variant has, `states` how many states these have, and `unreached` which properties none of them puts to
    the test.
    """

    any: tuple[str, ...]
    set: Literal["default", "nightly"] = "default"
    regions: int | None = None
    states: int | None = None
    unreached: tuple[str, ...] = ()


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[scope]]`, as it stands in the file."""

    name: str
    about: str
    variants: tuple[str, ...]
    config: dict[str, Any]
    set: Literal["default", "large", "nightly"] = "default"
    granularity: Granularity = Granularity.CALL
    symmetry: bool = True
    normal_form: bool = True
    liveness: bool = False
    depth: int | None = None
    limit_states: int | None = None
    limit_seconds: float | None = None
    uncovered: dict[str, str] = {}  # msgspec copies it
    numbers: Numbers | None = None
    expect: dict[str, Expectation] = {}  # msgspec copies it


@dataclass(frozen=True, slots=True)
class Scope:
    """One configuration to be explored for some variants."""

    component: str
    name: str
    about: str
    set: str
    variants: tuple[str, ...]
    config: Any
    plan: Plan
    uncovered: Mapping[str, str]
    expect: Mapping[str, Expectation]
    numbers: Numbers | None = None

    def expectation(self, variant: str) -> Expectation:
        """What is expected of a variant; nothing is violated where nothing is said."""
        return self.expect.get(variant, Expectation())

    def plan_for(self, variant: str) -> Plan:
        """How to explore this variant: until all that is to be refuted is, or to the end."""
        expectation = self.expectation(variant)
        return self.plan if expectation.exhaust else replace(self.plan, until=expectation.violated)

    def reasons(self, variant: str) -> dict[str, str]:
        """Why some operations cannot happen, by wire name."""
        ruled_out = component_named(self.component).switched_off(self.config)
        named = {operation.wire_name(): reason for operation, reason in ruled_out.items()}
        return {**named, **self.uncovered, **self.expectation(variant).uncovered}


def scopes_of(component: AnyComponent) -> tuple[Scope, ...]:
    """All scopes of a component, in the order of its file."""
    return read(component, scope_file(component))


def scope_named(component: AnyComponent, name: str) -> Scope:
    """The scope, or an error that names those there are."""
    known = {scope.name: scope for scope in scopes_of(component)}
    if (numbers := NAME_OF_DRAWN.fullmatch(name)) is not None:
        return drawn_scope(component, *map(int, numbers.groups()))
    if name not in known:
        raise InputError(f"{component.name} has no scope '{name}': there are {', '.join(known)}")
    return known[name]


def drawn_name(seed: int, number: int) -> str:
    """The name of the scope with this random configuration."""
    return f"{DRAWN}-{seed}-{number}"


def is_drawn(name: str) -> bool:
    """Whether a scope of this name has a random configuration."""
    return NAME_OF_DRAWN.fullmatch(name) is not None


def drawn_scope(component: AnyComponent, seed: int, number: int) -> Scope:
    """A random configuration as a scope, for every variant. Nothing is expected of it but that all properties hold.

    Raises InputError for a seed that is too large.
    """
    if seed > LARGEST_SEED:
        raise InputError(f"the seed of a drawn scope is at most {LARGEST_SEED:,}, not {seed:,}")
    return Scope(
        component=component.name,
        name=drawn_name(seed, number),
        about="a random configuration",
        set=DRAWN,
        variants=tuple(component.variants),
        config=random_configuration(component, seed, number),
        plan=Plan(symmetry=False, liveness=True, limit_states=STATES_OF_DRAWN),
        uncovered={},
        expect={},
    )


def random_configuration(
    component: AnyComponent, seed: int, number: int, suitable: Callable[[Any], bool] = lambda config: True
) -> Any:
    """The configuration of this number. With an even number the component's generator draws it.

    With an odd number, or without a generator, it is a random change of the configuration of a suitable scope: a
    generator combines what it was written for, and a change reaches every field. Raises InputError if none is suitable.
    """
    bases = [scope.config for scope in scopes_of(component) if suitable(scope.config)]
    if component.name in GENERATORS and (number % 2 == 0 or not bases):
        return drawn(component, seed, number, suitable)
    return varied(component, bases, seed, number, suitable)


class _Read(NamedTuple):
    """What a file held when it was read last."""

    component: AnyComponent
    text: str
    scopes: tuple[Scope, ...]


_READ: dict[Path, _Read] = {}
"""By file. Checking the tables takes a hundred times as long as reading the text, and verbs ask for them often."""


def read(component: AnyComponent, path: Path) -> tuple[Scope, ...]:
    """The scopes in a file, every one of them checked."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}") from None
    known = _READ.get(path)
    if known is None or known.component is not component or known.text != text:
        known = _READ[path] = _Read(component, text, _checked(component, path, text))
    return known.scopes


def _checked(component: AnyComponent, path: Path, text: str) -> tuple[Scope, ...]:
    try:
        tables = toml_of(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not TOML: {error}") from None
    entries = tables.pop("scope", None)
    if tables:
        raise InputError(f"{path}: unknown key {', '.join(map(repr, tables))}: there are only [[scope]] tables")
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{path}: no [[scope]] table: add one with name, about, variants and [scope.config]")
    scopes = tuple(_scope(component, path, place, entry) for place, entry in enumerate(entries, 1))
    names = [scope.name for scope in scopes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: two scopes are named {', '.join(map(repr, twice))}: give each its own name")
    return scopes


def _scope(component: AnyComponent, path: Path, place: int, entry: Any) -> Scope:
    named = entry.get("name") if isinstance(entry, dict) else None
    where = f"{path}: scope {named!r}" if isinstance(named, str) else f"{path}: scope number {place}"
    try:
        table = msgspec.convert(entry, _Table)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {str(error).replace('$.', '').replace(' - at', ' at')}") from None
    try:
        config = config_from_message(component, table.config)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    wrong = _wrong(component, table)
    if wrong is not None:
        raise InputError(f"{where}: {wrong}")
    plan = Plan(
        granularity=table.granularity,
        symmetry=table.symmetry,
        normal_form=table.normal_form,
        liveness=table.liveness,
        depth=table.depth,
        limit_states=table.limit_states,
        limit_seconds=table.limit_seconds,
    )
    return Scope(
        component=component.name,
        name=table.name,
        about=table.about,
        set=table.set,
        variants=table.variants,
        config=config,
        plan=plan,
        uncovered=table.uncovered,
        expect=table.expect,
        numbers=table.numbers,
    )


def _wrong(component: AnyComponent, table: _Table) -> str | None:
    """What the types cannot say."""
    if not table.name or not table.name.replace("-", "").isalnum() or not table.name.isascii():
        return "name must be of letters, digits and hyphens"
    if is_drawn(table.name):
        return f"name {table.name!r} is that of a random configuration: give it another"
    if not table.variants:
        return f"variants must name at least one of {', '.join(component.variants)}"
    if table.liveness and table.symmetry:
        return "liveness needs symmetry = false: fairness is per operation with its fields"
    for key in ("depth", "limit_states", "limit_seconds"):
        value = getattr(table, key)
        if value is not None and value <= 0:
            return f"{key} must be positive, not {value}"
    for variant in table.variants:
        if variant not in component.variants:
            return f"variants: {component.name} has no variant {variant!r}: there are {', '.join(component.variants)}"
    for variant, expectation in table.expect.items():
        if variant not in table.variants:
            return f"expect.{variant}: the scope is not run for that variant: add it to variants, or remove the table"
        wrong = _wrong_expectation(component, variant, expectation)
        if wrong is not None:
            return f"expect.{variant}: {wrong}"
    if table.numbers is not None and (wrong := _wrong_numbers(component, table)) is not None:
        return f"numbers: {wrong}"
    return _wrong_operations(component, table.uncovered)


def _wrong_numbers(component: AnyComponent, table: _Table) -> str | None:
    """The texts themselves are read where the configuration is."""
    if NORMATIVE not in table.variants:
        return "regions explores the normative variant: add it to variants"
    known = [rule.name for rule in component.properties()]
    strange = next((name for name in (table.numbers.unreached if table.numbers else ()) if name not in known), None)
    return strange and f"unreached: {component.name} has no property {strange!r}: there are {', '.join(known)}"


def _wrong_expectation(component: AnyComponent, variant: str, expectation: Expectation) -> str | None:
    known = [rule.name for rule in component.properties()]
    names = [violation.property for violation in expectation.violations]
    if variant == NORMATIVE and names:
        return "the normative variant holds every property: no violation can be expected of it"
    for name in names:
        if name not in known:
            return f"violations: {component.name} has no property {name!r}: there are {', '.join(known)}"
        if names.count(name) > 1:
            return f"violations: {name} is listed twice"
    for violation in expectation.violations:
        if violation.length is not None and violation.length < 0:
            return f"violations: the length of {violation.property} must not be negative"
    return _wrong_operations(component, expectation.uncovered)


def _wrong_operations(component: AnyComponent, uncovered: Mapping[str, str]) -> str | None:
    known = [operation.wire_name() for operation in component.operations]
    for name, reason in uncovered.items():
        if name not in known:
            return f"uncovered: {component.name} has no operation {name!r}: there are {', '.join(known)}"
        if not reason.strip():
            return f"uncovered: say why {name} cannot happen"
    return None
