"""Mixtures: a variant of a component with some rules, written `normative+unhashed-last+K1:allocate_slots`.

A rule is a choice in which implementations differ. Three sorts have names:

- rules that the component declares, such as `last-copy`;
- each transition by which an era differs, `ERA:OPERATION`, and the era's initial state, `ERA:start`, with the sentence
  of the era's differences; it can be mixed into variants with the same state;
- `unguarded:CODE`: callers make no call that is answered with this code, so the implementation needs no guard.

A number of the catalogue names the rule that is this entry. So a declared deviation is a rule too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from cacheproof.foundation.errors import InputError, shortened
from cachespec.kernel import NORMATIVE, Code, Component, Operation, Rule, Transition, Variant

JOIN = "+"
"""Between the tag of a variant and its rules."""
START = "start"
UNGUARDED = "unguarded"
GUARDS = (Code.PRESENT, Code.TOO_LARGE, Code.STALE, Code.ABSENT, Code.REFUSED)
"""The codes with which a guard turns a call down."""
ENTRY = re.compile(r"C-[A-Z]+-\d+")

AnyComponent = Component[Any, Any, Any]
AnyVariant = Variant[Any, Any, Any]
AnyRule = Rule[Any, Any]


def rules_of(component: AnyComponent) -> tuple[AnyRule, ...]:
    """All rules that can be named: the declared ones first, then those of eras, then the guards."""
    return (*component.rules, *_of_eras(component), *map(_guard, GUARDS))


def entries_of(rule: AnyRule) -> tuple[str, ...]:
    """The numbers of the catalogue that its sentence names."""
    return tuple(dict.fromkeys(ENTRY.findall(rule.statement)))


def mixture(component: AnyComponent, base: AnyVariant, names: Sequence[str]) -> AnyVariant:
    """The variant with these rules, by name or by the number of the catalogue.

    Raises InputError for a name that there is not, for one that is given twice, for two rules that replace the same
    transition, and for a rule of variants with another state.
    """
    rules = tuple(_named(component, base, name) for name in names)
    tag = JOIN.join((base.tag, *names))
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise InputError(f"{tag}: {twice[0]} is given twice")
    if conflict := _conflict(rules):
        raise InputError(f"{tag}: {conflict}: leave one of them out")
    return base.mixture(tag, rules)


def suits(component: AnyComponent, rule: AnyRule, base: AnyVariant) -> bool:
    """Whether the rule can be mixed into a variant: it changes nothing, or the variant's state is the rule's."""
    if not (rule.replaces or rule.wraps or rule.initial):
        return True
    era = component.variants.get(era_of(rule), component.normative)
    normative = component.normative.state
    state = normative if issubclass(era.state, normative) and not rule.initial else era.state
    return base.state is state


def agree(rules: Sequence[AnyRule]) -> bool:
    """Whether a mixture can have all of these rules."""
    return not _conflict(rules)


def with_deviations(variant: str | None, deviations: Iterable[str]) -> str:
    """The tag of the variant with these deviations as rules."""
    return JOIN.join((variant or NORMATIVE, *deviations))


def base_of(tag: str) -> str:
    """The tag of the variant that a mixture begins with; a variant's own tag otherwise."""
    return tag.partition(JOIN)[0]


def without(component: AnyComponent, variant: AnyVariant, rule: AnyRule) -> AnyVariant:
    """The same mixture without one of its rules."""
    base, *names = variant.tag.split(JOIN)
    left = [name for name in names if name != rule.name]
    plain = component.variants[base]
    return mixture(component, plain, left) if left else plain


def parts(component: AnyComponent, tag: str) -> tuple[str, list[str]] | None:
    """The variant and the rules that the tag of a mixture names; None if it is that of a variant."""
    base, *names = tag.split(JOIN)
    return (base, names) if names and tag not in component.variants else None


def _conflict(rules: Sequence[AnyRule]) -> str:
    """Two rules that replace the same, as a sentence; empty if there are none."""
    taken: dict[type[Operation] | None, AnyRule] = {}
    for rule in rules:
        for kind in (*rule.replaces, *([None] if rule.initial else [])):
            other = taken.setdefault(kind, rule)
            if other is not rule:
                what = "the initial state" if kind is None else kind.wire_name()
                return f"{other.name} and {rule.name} both replace {what}"
    return ""


def _named(component: AnyComponent, base: AnyVariant, name: str) -> AnyRule:
    known = {rule.name: rule for rule in rules_of(component)}
    if name not in known:
        if ENTRY.fullmatch(name):
            return _entry(component, base, name)
        listed = f"see `cacheproof list --rules {component.name}`"
        raise InputError(f"{component.name} has no rule {shortened(repr(name))}: {listed}")
    if not suits(component, known[name], base):
        raise InputError(f"{name} changes the state of {_homes(component, known[name])}, and {base.tag} has another")
    return known[name]


def _homes(component: AnyComponent, rule: AnyRule) -> str:
    """The variants that a rule can be mixed into."""
    return ", ".join(other.tag for other in component.variants.values() if suits(component, rule, other))


def _entry(component: AnyComponent, base: AnyVariant, number: str) -> AnyRule:
    """The rule that is this entry: a declared one, or the transitions of the first era that names it alone."""
    declared = [rule for rule in component.rules if number in entries_of(rule) and suits(component, rule, base)]
    if declared:
        return _together(number, declared)
    naming = [rule for rule in _of_eras(component) if number in entries_of(rule)]
    suited = [rule for rule in naming if suits(component, rule, base)]
    if naming and not suited:
        raise InputError(f"{number} is a rule of {_homes(component, naming[0])}, and {base.tag} has another state")
    if begun := [rule for rule in suited if rule.initial is not None]:
        raise InputError(f"{number} begins in the initial state of {era_of(begun[0])}: compare with this variant")
    for era in dict.fromkeys(map(era_of, suited)):
        of_era = [rule for rule in suited if era_of(rule) == era]
        if all(entries_of(rule) == (number,) for rule in of_era):
            return _together(number, of_era)
    if suited:
        also = ", ".join(each for each in entries_of(suited[0]) if each != number)
        raise InputError(f"{component.name} has {number} only together with {also}: name the rule {suited[0].name}")
    known = sorted({each for rule in rules_of(component) for each in entries_of(rule)})
    raise InputError(f"{component.name} has no rule for {number}: there are {', '.join(known) or 'none'}")


def era_of(rule: AnyRule) -> str:
    """The era that a rule is derived from."""
    return rule.name.partition(":")[0]


def _together(name: str, rules: Sequence[AnyRule]) -> AnyRule:
    """Several rules as one."""
    replaces: dict[type[Operation], Transition[Any, Any, Any]] = {}
    wraps: dict[type[Operation], Any] = {}
    for rule in rules:
        replaces |= rule.replaces
        wraps |= rule.wraps
    statement = "; ".join(dict.fromkeys(rule.statement for rule in rules))
    return Rule(name, statement, replaces, wraps, gives_up=tuple(each for rule in rules for each in rule.gives_up))


def _of_eras(component: AnyComponent) -> Iterator[AnyRule]:
    """Each transition by which an era differs, where an era before it does not have the same."""
    known = {(kind, id(transition)) for kind, transition in component.normative.transitions.items()}
    for era in component.variants.values():
        for kind, why in era.differences.items():
            transition = era.transitions.get(kind)
            if transition is not None and (kind, id(transition)) not in known:
                known.add((kind, id(transition)))
                yield Rule(f"{era.tag}:{kind.wire_name()}", why, replaces=MappingProxyType({kind: transition}))
        if era.start_differs:
            yield Rule(f"{era.tag}:{START}", era.start_differs, initial=era.initial)


def _guard(code: Code) -> AnyRule:
    about = f"callers make no call that is answered `{code.value}`, so the implementation needs no guard against it"
    return Rule(f"{UNGUARDED}:{code.value}", about, unasked=frozenset({code}))


def rules_as_message(component: AnyComponent) -> list[Mapping[str, Any]]:
    """The rules of a component, as JSON has them, each with the variants that it can be mixed into."""
    return [
        {
            "name": rule.name,
            "statement": rule.statement,
            "entries": list(entries_of(rule)),
            "gives_up": list(rule.gives_up),
            "variants": [each.tag for each in component.variants.values() if suits(component, rule, each)],
        }
        for rule in rules_of(component)
    ]
