"""What a name means: a property, a variant, or an entry of the catalogue, wherever it occurs.

Nothing is kept here: everything is found in the components, in their scope files and in the register of the catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from cacheproof.catalogue.register import Entry, entries, entry_named
from cacheproof.model.registry import AnyComponent, AnyVariant, scope_file
from cacheproof.model.scope import Scope, scopes_of
from cachespec.kernel import NORMATIVE, Progress, Safety, Step

KINDS = {Safety: "safety", Step: "step", Progress: "liveness"}

CATALOGUE = re.compile(r"C-[A-Z]+-\d+\w?")
"""What a reference to an entry of the catalogue looks like in a text."""

AnyProperty = Safety[Any, Any] | Step[Any, Any] | Progress[Any, Any]


def kind_of(rule: AnyProperty) -> str:
    """Safety, step or liveness."""
    return KINDS[type(rule)]


@dataclass(frozen=True, slots=True)
class Refutation:
    """A variant that is expected to break a property in a scope, as the scope file says."""

    component: str
    variant: str
    title: str
    scope: str
    property: str
    length: int | None
    catalogue: str


@dataclass(frozen=True, slots=True)
class PropertyMeaning:
    """A property of one component: what it says, in which scopes it is checked, and who is expected to break it.

    `held_by` names, by scope, the variants that must hold it there. `exempt` says by variant why it does not apply.
    """

    component: str
    name: str
    kind: str
    statement: str
    held_by: dict[str, tuple[str, ...]]
    broken_by: tuple[Refutation, ...]
    exempt: dict[str, str]


@dataclass(frozen=True, slots=True)
class VariantMeaning:
    """One behaviour of a component: where it differs from the normative one, and what it is expected to break."""

    component: str
    tag: str
    title: str
    differences: dict[str, str]
    exempt: dict[str, str]
    breaks: tuple[Refutation, ...]


@dataclass(frozen=True, slots=True)
class EntryMeaning:
    """An entry of the catalogue: what is known of it, who is expected to show it, the rules of eras that come from it.

    `registered` is None for the entry of a component from elsewhere.
    """

    name: str
    registered: Entry | None
    shown_by: tuple[Refutation, ...]
    statements: dict[str, str]
    differences: tuple[str, ...]


Meaning = PropertyMeaning | VariantMeaning | EntryMeaning


def meanings(name: str, components: Iterable[AnyComponent]) -> list[Meaning]:
    """Everything that a name means; nothing where it is unknown."""
    known = list(components)
    return [*_properties(name, known), *_variants(name, known), *_entries(name, known)]


def names(components: Iterable[AnyComponent]) -> list[str]:
    """Every name that has a meaning, sorted."""
    found = {entry.id for entry in entries()}
    for component in components:
        found |= {rule.name for rule in component.properties()} | (set(component.variants) - {NORMATIVE})
        found |= {refutation.catalogue for refutation in refutations(component) if refutation.catalogue}
        found |= {mention for _, text in _all_differences(component) for mention in CATALOGUE.findall(text)}
    return sorted(found)


def refutations(component: AnyComponent) -> Iterator[Refutation]:
    """What the scope file of a component expects to be broken."""
    for scope in _scopes(component):
        for tag in scope.variants:
            for found in scope.expectation(tag).violations:
                title = component.variants[tag].title
                where = (component.name, tag, title, scope.name)
                yield Refutation(*where, found.property, found.length, found.catalogue)


def _scopes(component: AnyComponent) -> tuple[Scope, ...]:
    return scopes_of(component) if scope_file(component).is_file() else ()


def _properties(name: str, components: Iterable[AnyComponent]) -> Iterator[PropertyMeaning]:
    """The property and its parts: `MIR-7` is `MIR-7` and `MIR-7/served`."""
    for component in components:
        for rule in component.properties():
            if rule.name == name or rule.name.startswith(f"{name}/"):
                yield _property(component, rule)


def _property(component: AnyComponent, rule: AnyProperty) -> PropertyMeaning:
    broken = tuple(found for found in refutations(component) if found.property == rule.name)
    exempt = {
        tag: variant.exempt[rule.name] for tag, variant in component.variants.items() if rule.name in variant.exempt
    }
    held = {scope.name: _holding(scope, rule, exempt) for scope in _scopes(component)}
    return PropertyMeaning(
        component.name,
        rule.name,
        kind_of(rule),
        rule.statement,
        {scope: tags for scope, tags in held.items() if tags},
        broken,
        exempt,
    )


def _holding(scope: Scope, rule: AnyProperty, exempt: Iterable[str]) -> tuple[str, ...]:
    """The variants that must hold the property in the scope; liveness is only checked where the scope asks for it."""
    if isinstance(rule, Progress) and not scope.plan.liveness:
        return ()
    return tuple(
        tag for tag in scope.variants if tag not in exempt and rule.name not in scope.expectation(tag).violated
    )


def _variants(name: str, components: Iterable[AnyComponent]) -> Iterator[VariantMeaning]:
    for component in components:
        for variant in component.variants.values():
            if name in (variant.tag, variant.title):
                yield _variant(component, variant)


def _variant(component: AnyComponent, variant: AnyVariant) -> VariantMeaning:
    broken = tuple(found for found in refutations(component) if found.variant == variant.tag)
    return VariantMeaning(
        component.name,
        variant.tag,
        variant.title,
        dict(_differences(variant)),
        dict(variant.exempt),
        broken,
    )


def _differences(variant: AnyVariant) -> Iterator[tuple[str, str]]:
    if variant.start_differs:
        yield "at first", variant.start_differs
    for operation, reason in variant.differences.items():
        yield operation.wire_name(), reason


def _all_differences(component: AnyComponent) -> Iterator[tuple[str, str]]:
    """Who differs in what, and why."""
    for variant in component.variants.values():
        for operation, reason in _differences(variant):
            yield f"{component.name} {variant.tag} {operation}", reason


def refutations_of(word: str, components: Iterable[AnyComponent]) -> tuple[Refutation, ...]:
    """Every refutation that the scope files expect of a property or of an entry of the catalogue."""
    return tuple(
        found
        for component in components
        for found in refutations(component)
        if word in (found.property, found.catalogue)
    )


def _statements(components: Iterable[AnyComponent], broken: set[tuple[str, str]]) -> dict[str, str]:
    """What the broken properties say. Where two components say it in different words, each is named with its own."""
    said = [
        (rule.name, component.name, rule.statement)
        for component in components
        for rule in component.properties()
        if (component.name, rule.name) in broken
    ]
    ambiguous = {name for name, _, text in said if any(text != other for same, _, other in said if same == name)}
    return {f"{name} of {component}" if name in ambiguous else name: text for name, component, text in said}


def _entries(name: str, components: Iterable[AnyComponent]) -> Iterator[EntryMeaning]:
    known = list(components)
    shown = tuple(found for component in known for found in refutations(component) if found.catalogue == name)
    differing = tuple(
        f"{who}: {reason}"
        for component in known
        for who, reason in _all_differences(component)
        if name in CATALOGUE.findall(reason)
    )
    statements = _statements(known, {(found.component, found.property) for found in shown})
    registered = entry_named(name)
    if shown or differing or registered is not None:
        yield EntryMeaning(name, registered, shown, statements, differing)
