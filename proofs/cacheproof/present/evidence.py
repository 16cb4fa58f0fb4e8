"""The evidence of the last runs for each component: computed from the stored runs, never in a stronger word."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cacheproof.foundation.errors import ExitStatus
from cacheproof.model.fingerprint import implementation_digest, specification_digest
from cacheproof.model.registry import AnyComponent, scope_file
from cacheproof.model.scope import scopes_of
from cacheproof.model.store import Record
from cacheproof.model.wording import count
from cachespec.kernel import NORMATIVE

NOTHING = "no run yet"
UNANSWERED = ("unknown", "hangs", "gave up")
"""Verdicts of `prove` that are no answer."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One cell: the evidence of one method for one component.

    `says` is a sentence about the runs that were as expected and of this specification; the other runs are counted.
    """

    component: str
    method: str
    says: str
    as_expected: int = 0
    fell_short: int = 0
    inconclusive: int = 0
    outdated: int = 0

    @property
    def text(self) -> str:
        """The cell as a person reads it."""
        if self.as_expected + self.fell_short + self.inconclusive + self.outdated == 0:
            return NOTHING
        counted = {
            "fell short": self.fell_short,
            "inconclusive": self.inconclusive,
            "of an older specification": self.outdated,
        }
        parts = [self.says] if self.as_expected else []
        return "; ".join([*parts, *(f"{number} {what}" for what, number in counted.items() if number)])


@dataclass(frozen=True, slots=True)
class Method:
    """A column: the kind of runs it comes from, which of a record's findings belong to it, and what they say.

    `parts` splits a stored run into findings, each with `component` and `status`; `says` puts good ones into words.
    """

    name: str
    kind: str
    parts: Callable[[Record], Iterable[Record]]
    says: Callable[[list[Record]], str]


def whole(record: Record) -> Iterable[Record]:
    """A run of one component is one finding."""
    return (record,)


def lockstep(record: Record) -> Iterable[Record]:
    """A run of a target; one of the specification beside itself says nothing about an implementation."""
    if record["target"].startswith("spec:"):
        return
    status = ExitStatus.AS_EXPECTED if record["steps"] > 0 else ExitStatus.INCONCLUSIVE
    crashed = (record.get("breakdown") or {}).get("crash")
    if record.get("difference") or record.get("violations") or record.get("vanished") or crashed:
        status = ExitStatus.FELL_SHORT
    elif record.get("breakdown") or record.get("partial"):
        status = ExitStatus.INCONCLUSIVE
    yield {**record, "status": status.name.lower()}


def consumed(record: Record) -> Iterable[Record]:
    """A run of vectors on a target; the specification's own target says nothing about an implementation."""
    if record["target"].startswith("spec:"):
        return
    cases, deviations = record["cases"], record["deviations"]
    ran = cases["passed"] + cases["deviated"]
    status = ExitStatus.AS_EXPECTED if ran and not cases["broke_down"] else ExitStatus.INCONCLUSIVE
    if cases["failed"] or deviations["vanished"]:
        status = ExitStatus.FELL_SHORT
    if record.get("interrupted") or (record.get("partial") and status is ExitStatus.AS_EXPECTED):
        status = ExitStatus.INCONCLUSIVE
    yield {**record, "ran": ran, "status": status.name.lower()}


def logged(record: Record) -> Iterable[Record]:
    """A log that was validated."""
    verdicts = {"possible": ExitStatus.AS_EXPECTED, "impossible": ExitStatus.FELL_SHORT}
    verdict = "partial" if record.get("partial") else record["verdict"]
    status = verdicts.get(verdict, ExitStatus.INCONCLUSIVE)
    yield {**record, "status": status.name.lower()}


def watched(record: Record) -> Iterable[Record]:
    """A search for requests that are never served; of an era of the specification it says what is known of it."""
    if record["target"].startswith("spec:"):
        return
    status = ExitStatus.AS_EXPECTED if record["calls"] > 0 else ExitStatus.INCONCLUSIVE
    if record["finding"] is not None:
        status = ExitStatus.FELL_SHORT
    yield {**record, "status": status.name.lower()}


def obligations(method: str) -> Callable[[Record], Iterable[Record]]:
    """The obligations of a run of `prove` by this method."""

    def chosen(record: Record) -> Iterable[Record]:
        for found in record["obligations"]:
            if found["method"] == method:
                status = _judged(found["verdict"], CLAIMS[method]).name.lower()
                current = record.get("implementation") in (None, implementation_digest())
                yield {**found, "status": status, "source": record.get("source") if current else None}

    return chosen


def _judged(found: str, wanted: str) -> ExitStatus:
    if found in UNANSWERED:
        return ExitStatus.INCONCLUSIVE
    return ExitStatus.AS_EXPECTED if found == wanted else ExitStatus.FELL_SHORT


CLAIMS = {
    "smt": "proved",
    "composition": "proved",
    "implementation": "proved at stated shapes",
    "implementation-turns": "proved",
    "crosshair": "confirmed",
    "implementation-crosshair": "confirmed",
}
"""The verdict that an obligation has to end with, by its method."""


def bounds(found: list[Record]) -> str:
    """For which sizes, as each finding says it."""
    return "; ".join(sorted({record["bound"] for record in found}))


def explored(found: list[Record]) -> str:
    """How much was explored, and which eras were refuted."""
    states = sum(record["states"] for record in found)
    scopes = {(record["scope"], record["engine"]) for record in found}
    normative = sum(record["variant"] == "normative" for record in found)
    eras = {record["variant"] for record in found} - {"normative"}
    said = f"{count(len(scopes), 'scope')}, {states:,} states: {count(normative, 'normative run')}"
    return said + (f", {count(len(eras), 'era')} as expected" if eras else "")


def for_any_numbers(found: list[Record]) -> str:
    """In which scopes the normative variant holds for any numbers, and how many regions that took."""
    normative = [record for record in found if record["variant"] == NORMATIVE]
    regions, states = (sum(record[name] for record in normative) for name in ("regions", "states"))
    scopes = {(record["component"], record["scope"]) for record in normative}
    return f"{count(len(scopes), 'scope')} for any numbers: {count(regions, 'region')}, {states:,} states"


def proved(found: list[Record]) -> str:
    """How many obligations are proved, and for what, in the words of the proofs."""
    return f"{count(len(found), 'obligation')} proved: {bounds(found)}"


def at_shapes(found: list[Record]) -> str:
    """How many obligations about the tensor code are proved, and at which shapes."""
    return f"{count(len(found), 'obligation')} of the tensor code proved at stated shapes: {bounds(found)}"


def in_bursts(found: list[Record]) -> str:
    """How many obligations about bursts are proved, whatever the number of turns."""
    return f"{count(len(found), 'obligation')} about bursts of the tensor code proved for any number of turns"


def confirmed(found: list[Record]) -> str:
    """How many obligations were followed on every path up to their bound."""
    return f"{count(len(found), 'contract')} confirmed: {bounds(found)}"


def confirmed_beside(found: list[Record]) -> str:
    """How many contracts and pairs compare the implementation with the specification; too many to name each bound."""
    return f"{count(len(found), 'obligation')} of the implementation confirmed, each to its bound"


def fuzzed(found: list[Record]) -> str:
    """How many steps showed no difference, and of which targets."""
    steps = sum(record["steps"] for record in found)
    targets = sorted({record["target"] for record in found})
    return f"{count(steps, 'step')} without a difference: {', '.join(targets)}"


def conforming(found: list[Record]) -> str:
    """How many steps each era went beside the release that it describes, and what is listed as different."""
    pairs = sorted({f"{record['variant']} beside {record['target']}" for record in found})
    listed = sum(len(record["known_as"]) for record in found)
    said = (
        f"{count(sum(record['steps'] for record in found), 'step')} without an unlisted difference: {', '.join(pairs)}"
    )
    return said + (f" ({count(listed, 'listed difference')})" if listed else "")


def agreeing(found: list[Record]) -> str:
    """How many cases of vectors targets answered as the specification does, and what they deviate in as declared."""
    cases, calls = sum(record["ran"] for record in found), sum(record["calls"] for record in found)
    targets = ", ".join(sorted({record["target"] for record in found}))
    seen = {number for record in found for number in record["deviations"]["seen"]}
    said = f"{count(cases, 'case')} of vectors, {count(calls, 'call')}: {targets}"
    return said + (f" (as declared: {', '.join(sorted(seen))})" if seen else "")


def validated(found: list[Record]) -> str:
    """How many logs are those of runs, of which variant."""
    lines = sum(record["consumed"] for record in found)
    variants = ", ".join(sorted({record["variant"] for record in found}))
    return f"{count(len(found), 'log')}, {count(lines, 'line')}, each a run of the specification: {variants}"


def unstalled(found: list[Record]) -> str:
    """How much was tried without a request that is never served."""
    calls, loads = sum(record["calls"] for record in found), sum(record["loads"] for record in found)
    targets = ", ".join(sorted({record["target"] for record in found}))
    passed = sum(sum(record["passed_over"].values()) for record in found)
    said = f"{count(calls, 'call')} of {count(loads, 'load')} without a finding: {targets}"
    return said + (f" ({passed:,} of sorts that were not asked for)" if passed else "")


def replayed(found: list[Record]) -> str:
    """How much recorded work went through."""
    requests = sum(record["requests"] for record in found)
    return f"{count(len(found), 'workload')}, {count(requests, 'request')}"


METHODS = (
    Method("proved", "prove", obligations("smt"), proved),
    Method("proved of its parts", "prove", obligations("composition"), proved),
    Method("proved at stated shapes", "prove", obligations("implementation"), at_shapes),
    Method("proved for any number of turns", "prove", obligations("implementation-turns"), in_bursts),
    Method("confirmed to a bound", "prove", obligations("crosshair"), confirmed),
    Method("implementation confirmed to a bound", "prove", obligations("implementation-crosshair"), confirmed_beside),
    Method("explored for any numbers", "regions", whole, for_any_numbers),
    Method("explored", "check", whole, explored),
    Method("fuzzed", "fuzz", lockstep, fuzzed),
    Method("conforms", "conform", lockstep, conforming),
    Method("searched for stalls", "stalls", watched, unstalled),
    Method("agrees with vectors", "consume", consumed, agreeing),
    Method("logs validated", "validate", logged, validated),
    Method("replayed", "replay", whole, replayed),
)


def evidence(components: Iterable[AnyComponent], records: Iterable[Record]) -> list[Evidence]:
    """Every component by every method."""
    stored = list(records)
    return [_cell(component, method, stored) for component in components for method in METHODS]


def _cell(component: AnyComponent, method: Method, stored: Iterable[Record]) -> Evidence:
    found = [
        part
        for record in stored
        if record["kind"] == method.kind
        for part in method.parts(record)
        if part["component"] == component.name and not _of_a_scope_that_is_gone(component, part)
    ]
    current = [part for part in found if part.get("source") == specification_digest()]
    by_status = {status: [part for part in current if part["status"] == status.name.lower()] for status in ExitStatus}
    good = by_status[ExitStatus.AS_EXPECTED]
    return Evidence(
        component=component.name,
        method=method.name,
        says=method.says(good) if good else "",
        as_expected=len(good),
        fell_short=len(by_status[ExitStatus.FELL_SHORT]),
        inconclusive=len(by_status[ExitStatus.INCONCLUSIVE]),
        outdated=len(found) - len(current),
    )


def _of_a_scope_that_is_gone(component: AnyComponent, record: Record) -> bool:
    """Whether a scope was removed or renamed, or is not run for the variant any more."""
    if record.get("kind") != "check":
        return False
    scopes = scopes_of(component) if scope_file(component).is_file() else ()
    return not any(scope.name == record["scope"] and record["variant"] in scope.variants for scope in scopes)
