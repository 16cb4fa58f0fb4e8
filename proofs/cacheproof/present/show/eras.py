"""Eras beside their releases, for people and machines: the table, its cases and its record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.table import Table

from cacheproof.foundation.errors import ExitStatus
from cacheproof.foundation.junit import STATUSES, Case
from cacheproof.model.finding import Breakdown, Difference
from cacheproof.model.finding_json import finding_to_message
from cacheproof.model.wording import remarks
from cacheproof.present.show.formats import FORMATS
from cacheproof.present.show.plain import finding_as_text
from cacheproof.releases import nearest
from cacheproof.releases.conformance import EraResult


def worst(statuses: Iterable[ExitStatus]) -> ExitStatus:
    """The status of the whole: something fell short, or else something has no answer, or else all is as expected."""
    there = set(statuses)
    return next(
        (one for one in (ExitStatus.FELL_SHORT, ExitStatus.INCONCLUSIVE) if one in there), ExitStatus.AS_EXPECTED
    )


def record(result: EraResult) -> dict[str, Any]:
    """A result for a machine; also what `status` reads."""
    finding, era = result.finding, result.era
    told = None if finding is None else finding_to_message(finding)
    return {
        "component": era.component,
        "variant": era.variant,
        "target": era.release.name,
        "first": era.first,
        "nearest": era.like.name if era.like else None,
        "seed": result.seed,
        "steps": result.steps,
        "seconds": round(result.seconds, 3),
        "operations": result.operations,
        "observables": sorted(result.observables),
        "states": result.states,
        "difference": told if isinstance(finding, Difference) else None,
        "breakdown": told if isinstance(finding, Breakdown) else None,
        "known_as": [f"{one.operation}: {one.reason}" for one in result.known],
        "vanished": [one.operation for one in result.vanished],
    }


def case(result: EraResult) -> Case:
    """A result for a CI service."""
    era, finding = result.era, result.finding
    package = f"{era.release.name} with {era.first}" if era.first else era.release.name
    return Case(
        f"conform.{era.component}",
        f"{era.variant} beside {package}",
        STATUSES[status([result]) if era.like is None else nearest.status([result], [])],
        verdict(result) if finding is None else f"{verdict(result)}: {'; '.join(remarks(finding))}",
        "" if finding is None else finding_as_text(finding),
        result.seconds,
        {"seed": result.seed, "steps": result.steps},
    )


def status(results: list[EraResult]) -> ExitStatus:
    """A difference is worse than a driver that failed."""
    if any((result.finding is not None and not result.broke_down) or result.vanished for result in results):
        return ExitStatus.FELL_SHORT
    return ExitStatus.AS_EXPECTED if all(result.agrees for result in results) else ExitStatus.INCONCLUSIVE


def rendered(results: list[EraResult], undriven: Iterable[nearest.Undriven] = ()) -> list[Any]:
    """The table, and each finding in full, but for an era of a neighbour where the other neighbour's agrees."""
    shown = Table(box=None)
    for name in ("component", "era", "released package", "steps", "seconds", "verdict"):
        shown.add_column(name, justify="right" if name in ("steps", "seconds") else "left")
    for result in results:
        era = result.era
        package = f"{era.release.name} with {era.first}" if era.first else era.release.name
        name = f"{era.variant} (nearest: {era.like.name})" if era.like else era.variant
        shown.add_row(era.component, name, package, f"{result.steps:,}", f"{result.seconds:.1f}", verdict(result))
    for one in undriven:
        shown.add_row(one.component, "", one.release.name, "0", "", f"not driven: {one.reason}")
    parts: list[Any] = [shown]
    explained = nearest.explained(results)
    for result in results:
        by_the_other = result.era.like is not None and (result.era.component, result.era.release) in explained
        if result.finding is not None and not by_the_other:
            parts += ["", FORMATS["table"](result.finding)]
    return parts


def verdict(result: EraResult) -> str:
    """In words, and no stronger than what was seen."""
    if isinstance(result.finding, Breakdown):
        return f"the driver failed: {result.finding.reason}" if result.era.like is not None else "the driver failed"
    if result.era.like is not None and not result.interrupted:
        return nearest.verdict(result)
    if result.finding is not None:
        return "a difference that is not listed"
    if result.vanished:
        return f"listed as different and not seen: {', '.join(one.operation for one in result.vanished)}"
    if result.interrupted:
        return "interrupted"
    known = f", but for what is listed: {', '.join(one.operation for one in result.known)}" if result.known else ""
    return f"agrees{known}"
