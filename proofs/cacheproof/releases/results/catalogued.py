"""The catalogue's shortest traces of an era, made on the release that the era is."""

from __future__ import annotations

from collections.abc import Iterator

from cacheproof.catalogue.attribution import Certainty
from cacheproof.catalogue.kept import Kept, load
from cacheproof.catalogue.meaning import kind_of
from cacheproof.catalogue.register import entry_named
from cacheproof.lockstep.pair import Pair
from cacheproof.model.finding import Subject
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.scope import scope_named
from cacheproof.model.target import Target
from cacheproof.model.wire import config_to_message, operation_from_message
from cacheproof.releases.reach import STRENGTH, Reach, reach_of
from cacheproof.releases.results.record import Violation
from cacheproof.targets.vllm.eras import Era
from cachespec.kernel import Code, Kind


def shown_by_release(era: Era, target: Target) -> Iterator[Violation]:
    """Every catalogued violation of the era that the release shows call by call.

    For each entry and property the one whose callers do least wrong, and of these the shortest. A trace that the
    release answers otherwise is a difference, which `conform` is there to find, and is left out.
    """
    best: dict[tuple[str, str], Kept] = {}
    component = component_named(era.component)
    for kept in load(era.component).values():
        if kept.variant != era.variant or not era.has(scope_named(component, kept.scope).config):
            continue
        known = best.get((kept.catalogue, kept.rule))
        if known is None or _telling(component.name, kept) > _telling(component.name, known):
            best[kept.catalogue, kept.rule] = kept
    for kept in best.values():
        violation = _made(era, kept, target)
        if violation is not None:
            yield violation


def _telling(component: str, kept: Kept) -> tuple[int, int]:
    config = scope_named(component_named(component), kept.scope).config
    return STRENGTH.index(_reach(component, kept, config)), -len(kept.operations)


def _made(era: Era, kept: Kept, target: Target) -> Violation | None:
    component = component_named(era.component)
    variant = variant_named(component, era.variant)
    config = scope_named(component, kept.scope).config
    calls = [operation_from_message(component.operations, message) for message in kept.operations]
    pair = Pair(Subject(component, variant, config), target, era.release.name)
    if pair.replay(calls, only_offered=True) is not None:
        return None
    made = pair.operations
    state, outcomes = variant.start(config), []
    for operation in made:
        state, outcome = variant.call(config, state, operation)
        outcomes.append({"code": outcome.code.value, "values": list(outcome.values)})
    diverged = bool(outcomes) and outcomes[-1]["code"] == Code.DIVERGED.value
    if made != calls and not diverged:  # what a trace has behind a call that does not return, nobody can make
        return None
    rule = next(one for one in component.properties() if one.name == kept.rule)
    entry = entry_named(kept.catalogue)
    faults = sorted({one.wire_name() for one in made if one.kind is Kind.FAULT})
    return Violation(
        component=era.component,
        variant=era.variant,
        target=era.release.name,
        first=era.first,
        property=kept.rule,
        kind=kind_of(rule),
        statement=rule.statement,
        operation=made[-1].wire_name() if made else "",
        faults=faults,
        config=dict(config_to_message(config)),
        operations=[dict(message) for message in kept.operations[: len(made)]],
        outcomes=outcomes,
        reach=_reach(era.component, kept, config),
        ending="lasso" if kept.cycle is not None else "",
        cycle=[dict(message) for message in kept.operations[kept.cycle :]] if kept.cycle is not None else None,
        catalogue=[kept.catalogue],
        certainty=Certainty.CAUSE.value,
        issues=list(entry.threads) if entry is not None else [],
        found="catalogue",
    )


def _reach(component: str, kept: Kept, config: object) -> Reach:
    return reach_of(component, {message["op"] for message in kept.operations}, config)
