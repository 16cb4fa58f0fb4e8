"""What a run of vectors came to: by feature, case by case, for people, for programs and for CI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree as ET

from rich.table import Table

from cacheproof.errors import InputError
from cacheproof.features import checked, observable_feature
from cacheproof.registry import AnyComponent
from cacheproof.vectors.consuming import Consumption, Verdict
from cacheproof.vectors.vector import VectorSet

HEADS = {
    Verdict.PASSED: "passed",
    Verdict.FAILED: "failed",
    Verdict.DEVIATED: "deviated",
    Verdict.SKIPPED: "skipped",
    Verdict.BROKE_DOWN: "driver failed",
}


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


def by_feature(whole: Consumption) -> dict[str, Counter[Verdict]]:
    """How many cases that need a feature ended how."""
    table: dict[str, Counter[Verdict]] = {}
    for result in whole.results:
        for feature in result.vectors.needs(result.case):
            table.setdefault(feature, Counter())[result.verdict] += 1
    return table


def table_of(whole: Consumption) -> Table:
    """The same for people; the last line counts every case once."""
    shown = Table(box=None, pad_edge=False)
    for name in ("cases that need", *HEADS.values()):
        shown.add_column(name, justify="left" if name == "cases that need" else "right")
    every = Counter(result.verdict for result in whole.results)
    for name, counts in [*sorted(by_feature(whole).items()), ("all cases", every)]:
        shown.add_row(name, *(f"{counts[verdict]:,}" if counts[verdict] else "" for verdict in HEADS))
    return shown


def data_of(whole: Consumption) -> dict[str, Any]:
    """The same for a machine, with every case that did not pass."""
    return {
        "implementation": whole.declaration.implementation,
        "calls": whole.calls,
        "cases": {verdict.value: len(whole.of(verdict)) for verdict in Verdict},
        "features": {
            feature: {verdict.value: counts[verdict] for verdict in Verdict if counts[verdict]}
            for feature, counts in sorted(by_feature(whole).items())
        },
        "observables": sorted(whole.observables),
        "deviations": {
            "seen": sorted({result.deviation for result in whole.of(Verdict.DEVIATED)}),
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


def as_junit(whole: Consumption, target: str) -> str:
    """JUnit XML: a suite for each file, a test for each case, and one for each declared deviation."""
    suites = ET.Element("testsuites", name=f"cacheproof consume {target}")
    for path in dict.fromkeys(result.path for result in whole.results):
        results = [result for result in whole.results if result.path == path]
        suite = _suite(suites, path.name, Counter(result.verdict for result in results), len(results))
        for result in results:
            test = ET.SubElement(suite, "testcase", classname=result.vectors.stem, name=f"case {result.number}")
            if result.verdict is Verdict.FAILED:
                ET.SubElement(test, "failure", message=_legal(f"step {result.step}: {result.reason}"))
            elif result.verdict is Verdict.BROKE_DOWN:
                kind = "" if result.failure is None else result.failure.value
                ET.SubElement(test, "error", type=kind, message=_legal(f"step {result.step}: {result.reason}"))
            elif result.verdict is Verdict.SKIPPED:
                ET.SubElement(test, "skipped", message=_legal(result.reason))
            elif result.verdict is Verdict.DEVIATED:
                ET.SubElement(test, "system-out").text = _legal(f"{result.deviation}, as declared: {result.reason}")
    if whole.deviations:
        verdicts = Counter({Verdict.FAILED: len(whole.vanished), Verdict.SKIPPED: len(whole.untried)})
        suite = _suite(suites, "declared deviations", verdicts, len(whole.deviations))
        for number in whole.deviations:
            test = ET.SubElement(suite, "testcase", classname="deviations", name=number)
            if number in whole.vanished:
                ET.SubElement(test, "failure", message="declared, and it did not occur")
            elif number in whole.untried:
                ET.SubElement(test, "skipped", message="no call that was made could show it")
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _suite(suites: ET.Element, name: str, verdicts: Counter[Verdict], tests: int) -> ET.Element:
    counts = {
        "tests": tests,
        "failures": verdicts[Verdict.FAILED],
        "errors": verdicts[Verdict.BROKE_DOWN],
        "skipped": verdicts[Verdict.SKIPPED],
    }
    return ET.SubElement(suites, "testsuite", {"name": name, **{key: str(count) for key, count in counts.items()}})


def _legal(text: str) -> str:
    """Without the characters that XML cannot have: what a child says may be anything."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
