"""Tables of a component: its properties, its variants, where an era differs, its scopes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cacheproof.catalogue.meaning import CATALOGUE, Refutation, kind_of, refutations
from cacheproof.catalogue.register import sorting
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import AnyComponent, component_named, variant_named
from cacheproof.model.scope import scopes_of
from cachespec.kernel import NORMATIVE

CATALOGUE_PAGE = "catalogue.md"


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown; cells are text of one line."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cell(text) for text in line) + " |" for line in lines)


def cell(text: str) -> str:
    """Text as it may stand in a cell."""
    return " ".join(text.split()).replace("|", "\\|")


def linked(text: str) -> str:
    """The text with catalogue numbers leading to their entries."""
    return CATALOGUE.sub(lambda found: link(found[0]), text)


def link(number: str, page: str = CATALOGUE_PAGE) -> str:
    """A link to an entry of the catalogue, which is on this page."""
    return f"[{number}]({page}#{number.lower()})"


def anchor(title: str) -> str:
    """Of a heading, as sites make them."""
    kept = "".join(character for character in title.lower() if character.isalnum() or character in "_- ")
    return kept.replace(" ", "-")


def properties_part(words: Sequence[str]) -> str:
    """`lru`, or `lru LRU-1 LRU-6`: what the properties say, with their parts, and which eras break them."""
    component, wanted = _component(words)
    rules = component.properties()
    for name in wanted:
        if not any(_is_part(rule.name, name) for rule in rules):
            raise InputError(f"{component.name} has no property '{name}'")
    broken = list(refutations(component))
    rows = (
        (f"`{rule.name}`", kind_of(rule), rule.statement, _breakers(rule.name, broken))
        for rule in rules
        if not wanted or any(_is_part(rule.name, name) for name in wanted)
    )
    return markdown_table(("property", "kind", "statement", "broken by"), rows)


def _is_part(name: str, of: str) -> bool:
    return name == of or name.startswith(f"{of}/")


def _breakers(name: str, broken: Iterable[Refutation]) -> str:
    tags = dict.fromkeys(one.variant for one in broken if one.property == name)
    return ", ".join(tags)


def eras_part(words: Sequence[str]) -> str:
    """`lru`: the variants of a component, and the entries of the catalogue that each shows."""
    component, others = _component(words)
    _no_more(others)
    known = list(refutations(component))
    rows = [
        (f"`{variant.tag}`", variant.title, _numbers(one for one in known if one.variant == variant.tag))
        for variant in component.variants.values()
        if variant.tag != NORMATIVE
    ]
    return markdown_table(("era", "name", "shows"), rows)


def _numbers(shown: Iterable[Refutation]) -> str:
    numbers = {one.catalogue for one in shown if one.catalogue}
    return ", ".join(map(link, sorted(numbers, key=sorting))) or "nothing"


def era_part(words: Sequence[str]) -> str:
    """`lru M2`: the operations in which an era differs from the normative variant, and how."""
    component, others = _component(words)
    if len(others) != 1:
        raise InputError(f"say which era: {', '.join(component.variants)}")
    variant = variant_named(component, others[0])
    rows = [("at first", linked(variant.start_differs))] if variant.start_differs else []
    rows += [(f"`{kind.wire_name()}`", linked(reason)) for kind, reason in variant.differences.items()]
    return markdown_table(("operation", f"in {variant.title} ({variant.tag})"), rows)


def rules_part(words: Sequence[str]) -> str:
    """`lru`: the rules that a component declares, and the properties that each gives up."""
    component, others = _component(words)
    _no_more(others)
    rows = [
        (f"`{rule.name}`", linked(rule.statement), ", ".join(rule.gives_up) or "nothing") for rule in component.rules
    ]
    return markdown_table(("rule", "what it changes", "gives up"), rows)


def scopes_part(words: Sequence[str]) -> str:
    """`lru`: the scopes, their sizes for the normative variant, and their depths."""
    component, others = _component(words)
    _no_more(others)
    return markdown_table(("scope", "contents", "normative states", "set"), _scopes(component))


def _scopes(component: AnyComponent) -> Iterator[tuple[str, str, str, str]]:
    for scope in scopes_of(component):
        states = scope.expectation(NORMATIVE).states if NORMATIVE in scope.variants else None
        depth = f", to depth {scope.plan.depth}" if scope.plan.depth is not None else ""
        count = "not run" if states is None else f"{states:,}{depth}"
        yield f"`{scope.name}`", scope.about, count, scope.set


def _component(words: Sequence[str]) -> tuple[AnyComponent, Sequence[str]]:
    if not words:
        raise InputError("say which component")
    return component_named(words[0]), words[1:]


def _no_more(words: Sequence[str]) -> None:
    if words:
        raise InputError(f"nothing is known about '{' '.join(words)}' here")
