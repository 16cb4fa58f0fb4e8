"""The table of features: what of each is specified, explored, held to releases, implemented, and shown as violation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any

from cacheproof.catalogue.meaning import refutations
from cacheproof.catalogue.register import sorting
from cacheproof.foundation.errors import InputError
from cacheproof.model.configurations import configurations
from cacheproof.model.registry import AnyComponent, component_named, components
from cacheproof.model.scope import DEFAULT, Scope, scopes_of
from cacheproof.model.target import TargetError
from cacheproof.present.book.features import CLASSES, CONDITIONS, FEATURES, Feature
from cacheproof.present.book.tables import link, markdown_table
from cacheproof.releases.budget import RANDOM
from cacheproof.search.tasks import tasks_for
from cacheproof.targets.vllm.eras import UNEQUAL_TURNS, Era, table
from cachespec.kernel import NORMATIVE

HEADINGS = (
    *("item", "feature", "specified", "explored in", "eras held to", "implemented"),
    *("explored on tensors", "public violations shown"),
)
MOST = 3
"""Scopes that a cell names."""
MOST_SHOWN = 6
"""Entries of the catalogue that a cell names."""
DRAWN = 400
"""Random configurations of `conform` that are looked at, of those with its first seed."""
NO, NONE = "no", "none"


def features_part(words: Sequence[str]) -> str:
    """`table`: all features; `refused`: what is refused by name, and by which part."""
    if list(words) == ["table"]:
        return features_table(FEATURES)
    if list(words) == ["refused"]:
        from cacheproof.targets.tensor.declared import refusals  # noqa: PLC0415  # torch is an extra

        return markdown_table(("refused", "by"), (*_unspecified(), *_not_compared(), *refusals()))
    raise InputError("say 'table' or 'refused'")


def _unspecified() -> Iterator[tuple[str, str]]:
    """What components have no rules for."""
    for component in components().values():
        for each in component.unspecified:
            yield each.what, f"specification of `{component.name}`"


def _not_compared() -> Iterator[tuple[str, str]]:
    """What the drivers of releases refuse, with the releases."""
    releases: dict[tuple[str, str], list[str]] = {}
    for era in table().eras:
        groups = [" together with ".join(group) for group in era.refused]
        for what in (*groups, *([UNEQUAL_TURNS] if era.outputs_of_first_turn else [])):
            releases.setdefault((what, era.component), []).append(era.release.name)
    for (what, component), names in releases.items():
        yield what, f"driver of `{component}` for {', '.join(dict.fromkeys(names))}"


def features_table(features: Sequence[Feature]) -> str:
    """A row for each feature. Raises `InputError` for a setting, an operation or a refusal that does not exist."""
    return markdown_table(HEADINGS, map(_row, features))


def _row(feature: Feature) -> tuple[str, ...]:
    from cacheproof.targets.tensor.declared import check_interface, refusals  # noqa: PLC0415  # torch is an extra

    feature.check()
    if feature.interface:
        check_interface(feature.interface)
    if feature.refused and feature.refused not in dict(refusals()):
        raise InputError(f"feature '{feature.name}': the implementation refuses nothing called '{feature.refused}'")
    if not feature.component:
        implemented = f"refused: {feature.refused}" if feature.refused else f"`{feature.interface}`"
        return feature.item, feature.name, NO, NO, NO, implemented if implemented != "``" else NO, NO, NONE
    component = component_named(feature.component)
    scopes = [scope for scope in scopes_of(component) if feature.is_on(scope.config)]
    on_tensors, refusal = _on_tensors(feature, component, scopes)
    return (
        feature.item,
        feature.name,
        _specified(feature),
        _named([scope for scope in scopes if scope.set == DEFAULT]) or _named(scopes, of="larger: ") or NO,
        ", ".join(_releases(feature)) or NO,
        _implemented(feature, refusal),
        _named(on_tensors) or refusal or NO,
        _shown(component, {scope.name for scope in scopes}) or NONE,
    )


def _specified(feature: Feature) -> str:
    settings = (
        " ".join(filter(None, (f"`{each.setting}` {CONDITIONS[each.holds]}", _value(each.value, each.holds))))
        for each in feature.conditions
    )
    parts = [*settings, *(f"`{name}()`" for name in feature.operations)]
    return f"`{feature.component}`: {', '.join(parts)}"


def _value(value: int | str, holds: str) -> str:
    return f"`{value}`" if isinstance(value, str) else str(value) if holds == "has" else ""


def _named(scopes: Sequence[Scope], of: str = "") -> str:
    names = [f"`{scope.name}`" for scope in scopes]
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"{of}{', '.join(names[:MOST])}{more}" if names else ""


def _releases(feature: Feature) -> Iterator[str]:
    """Releases that are compared with their era in a configuration that has the feature."""
    for era, compared in _compared(feature.component):
        if any(map(feature.is_on, compared)):
            yield f"{era.release.name.partition('==')[2]} ({era.variant})"


@cache
def _compared(name: str) -> tuple[tuple[Era, tuple[Any, ...]], ...]:
    """Each era of a component with the configurations of `conform`: the listed ones, and the first drawn ones."""
    component, known = component_named(name), table()
    lines = []
    for era in known.eras:
        if era.component == name:
            drawn = islice(configurations(component, 0, era.has), DRAWN) if name in RANDOM else ()
            lines.append((era, (*filter(era.has, known.configurations.get(name, ())), *drawn)))
    return tuple(lines)


def _on_tensors(feature: Feature, component: AnyComponent, scopes: Sequence[Scope]) -> tuple[list[Scope], str]:
    """The scopes that the tensor explorer takes; and why it takes none, which is a setting of the feature if one is."""
    from cacheproof.tensor_models import without_tensor_code  # noqa: PLC0415  # torch is an extra

    if without_tensor_code(component) is not None:
        return [], "no tensor code"
    chosen = [scope for scope in scopes if NORMATIVE in scope.variants and scope.set == DEFAULT]
    taken = [scope for scope in chosen if scope.name in _explored_on_tensors(component.name)]
    if taken or not chosen:
        return taken, ""
    if any(not _refused(component, scope.config) for scope in chosen):
        return [], "larger"
    return [], f"refused: {_own(component, chosen[0].config, {condition.setting for condition in feature.conditions})}"


@cache
def _explored_on_tensors(name: str) -> frozenset[str]:
    """The scopes of a component that `check --engine tensor` explores."""
    tasks = tasks_for([component_named(name)], variant=NORMATIVE, engine="tensor")
    return frozenset(task.scope for task in tasks)


def _refused(component: AnyComponent, config: Any) -> str:
    """The setting that the tensor code does not have; empty if it takes the configuration."""
    from cacheproof.tensor_models import model_of  # noqa: PLC0415  # torch is an extra

    try:
        model_of(component, config)
    except TargetError as error:
        return str(error).partition(" = ")[0]
    return ""


def _own(component: AnyComponent, config: Any, own: Collection[str]) -> str:
    """The refused setting that is one of these; if none is, the first one."""
    first = refused = _refused(component, config)
    while refused and refused not in own:
        config = config._replace(**{refused: config._field_defaults[refused]})
        refused = "" if component.invalid(config) else _refused(component, config)
    return f"`{refused or first}`"


def _implemented(feature: Feature, refusal: str) -> str:
    if feature.interface:
        return f"`{feature.interface}`"
    if feature.component == "scheduler" and refusal.startswith("refused"):
        return refusal
    return f"`{CLASSES[feature.component]}`" if feature.component in CLASSES else NO


def _shown(component: AnyComponent, scopes: set[str]) -> str:
    numbers = {each.catalogue for each in refutations(component) if each.scope in scopes and each.catalogue}
    ordered = sorted(numbers, key=sorting)
    more = f" and {len(ordered) - MOST_SHOWN} more" if len(ordered) > MOST_SHOWN else ""
    return ", ".join(map(link, ordered[:MOST_SHOWN])) + more
