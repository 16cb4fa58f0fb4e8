"""What a run of vectors came to: by feature, case by case, for people, for programs and for CI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rich.table import Column, Table

from cacheproof.catalogue.register import entry_named
from cacheproof.foundation.errors import InputError
from cacheproof.foundation.junit import Case, CaseStatus
from cacheproof.model.declaration import NUMBER
from cacheproof.model.features import checked, observable_feature
from cacheproof.model.registry import AnyComponent, variant_named
from cacheproof.vectors.consuming import CaseResult, Consumption, Verdict, worded_run
from cacheproof.vectors.mixed import rules_among
from cacheproof.vectors.vector import VectorSet

HEADS = {
    Verdict.PASSED: "passed",
    Verdict.FAILED: "failed",
    Verdict.DEVIATED: "deviated",
    Verdict.SKIPPED: "skipped",
    Verdict.BROKE_DOWN: "driver failed",
}
CASE_STATUSES = {
    Verdict.PASSED: CaseStatus.PASSED,
    Verdict.FAILED: CaseStatus.FAILED,
    Verdict.DEVIATED: CaseStatus.PASSED,
    Verdict.SKIPPED: CaseStatus.SKIPPED,
    Verdict.BROKE_DOWN: CaseStatus.ERROR,
}
RAN = frozenset(Verdict) - {Verdict.SKIPPED}
"""Verdicts of cases of which something was tried."""


def checked_skips(component: AnyComponent, sets: Iterable[VectorSet], features: Iterable[str]) -> frozenset[str]:
    """Features that are to be left out, each of which means something here; or InputError."""
    given = checked(component, features)
    known: set[str] = set()
    for one in sets:
        known |= {*one.features(), *(observable_feature(component, name) for name in one.initial)}
    strange = sorted(given - known)
    if strange:
        raise InputError(f"nothing in these vectors needs '{strange[0]}': they need {', '.join(sorted(known))}")
    return given


def checked_deviations(sets: Iterable[VectorSet], names: Iterable[str]) -> tuple[str, ...]:
    """Deviations that are to be expected: rules, or numbers of the catalogue or of these vectors; or InputError."""
    given = tuple(dict.fromkeys(names))
    unknown = {name for name in given if NUMBER.fullmatch(name) and entry_named(name) is None}
    for one in sets:
        rules_among(one.component, variant_named(one.component, one.variant), given)
        unknown -= set(one.deviations)
        unknown -= {number for case in one.cases for step in case for number in getattr(step, "deviations", ())}
    if unknown:
        raise InputError(f"--deviation {min(unknown)}: neither the catalogue nor these vectors have it")
    return given


def by_feature(whole: Consumption) -> dict[str, Counter[Verdict]]:
    """How many cases that need a feature ended how."""
    table: dict[str, Counter[Verdict]] = {}
    for result in whole.results:
        for feature in result.vectors.needs(result.case):
            table.setdefault(feature, Counter())[result.verdict] += 1
    return table


def table_of(whole: Consumption) -> Table:
    """The same for people; the last line counts every case once."""
    counted = (Column(name, justify="right") for name in HEADS.values())
    shown = Table("cases that need", *counted, box=None, pad_edge=False)
    every = Counter(result.verdict for result in whole.results)
    for name, counts in [*sorted(by_feature(whole).items()), ("all cases", every)]:
        shown.add_row(name, *(f"{counts[verdict]:,}" if counts[verdict] else "" for verdict in HEADS))
    return shown


def data_of(whole: Consumption) -> dict[str, Any]:
    """The same for a machine, with every case that did not pass."""
    return {
        "implementation": whole.declaration.implementation,
        "own_names": whole.renaming,
        "calls": whole.calls,
        "cases": {verdict.value: len(whole.of(verdict)) for verdict in Verdict},
        "features": {
            feature: {verdict.value: counts[verdict] for verdict in Verdict if counts[verdict]}
            for feature, counts in sorted(by_feature(whole).items())
        },
        "observables": sorted(whole.observables),
        "deviations": {
            "seen": sorted(whole.shown),
            "vanished": list(whole.vanished),
            "untried": list(whole.untried),
        },
        "not_passed": [
            {
                "file": result.path.name,
                "case": result.number,
                "step": result.step,
                "verdict": result.verdict.value,
                "reason": result.reason,
                "deviation": result.deviation,
                "failure": None if result.failure is None else result.failure.value,
            }
            for result in whole.results
            if result.verdict is not Verdict.PASSED
        ],
        "given_up": whole.given_up,
    }


def cases_of(whole: Consumption, partial: str) -> list[Case]:
    """For a CI service: every case, every declared deviation, and why there is no answer where there is none."""
    found = [_case(result) for result in whole.results]
    found += [_declared(whole, number) for number in whole.deviations]
    if whole.given_up:
        text = f"given up: the driver failed {len(whole.of(Verdict.BROKE_DOWN))} times"
        found.append(Case("consume", "the rest", CaseStatus.ERROR, text))
    if not any(result.verdict in RAN for result in whole.results):
        found.append(Case("consume", "any case", CaseStatus.ERROR, "nothing ran"))
    elif partial:
        found.append(Case("consume", "most cases", CaseStatus.ERROR, partial))
    return found


def _case(result: CaseResult) -> Case:
    """One case of a file; an answer that is expected of a declared deviation is said beside it."""
    passed = result.verdict in (Verdict.PASSED, Verdict.DEVIATED)
    told = {"deviation": result.deviation, "instead of": result.reason} if result.deviation else {}
    kind = "" if result.failure is None else f" ({result.failure.value})"
    where = f"step {result.step}{kind}: " if result.verdict in RAN else ""
    return Case(
        f"consume.{result.vectors.stem}",
        f"case {result.number}",
        CASE_STATUSES[result.verdict],
        "" if passed else f"{where}{result.reason}",
        "" if passed else "\n".join(worded_run(result)),
        properties=told,
    )


def _declared(whole: Consumption, number: str) -> Case:
    if number in whole.vanished:
        return Case("consume.deviations", number, CaseStatus.FAILED, "declared, and it did not occur: take it out")
    if number in whole.untried:
        return Case("consume.deviations", number, CaseStatus.SKIPPED, "no call that was made could show it")
    return Case("consume.deviations", number, CaseStatus.PASSED)
