"""The catalogue of known violations as the scope files have it: which entry is shown where, and if it still is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from cacheproof.errors import ExitStatus
from cacheproof.explore.campaign import Run, Task
from cacheproof.explore.verdict import Finding, Verdict
from cacheproof.registry import AnyComponent
from cacheproof.scope import ExpectedViolation, Scope, scopes_of
from cachespec.kernel import NORMATIVE


@dataclass(frozen=True, slots=True)
class Entry:
    """One way in which a variant shows one entry of the catalogue."""

    catalogue: str
    variant: str
    scope: Scope
    violation: ExpectedViolation

    @property
    def task(self) -> Task:
        """The run that derives it."""
        return Task(self.scope.component, self.variant, self.scope.name, "reference")

    @property
    def beside(self) -> Task | None:
        """The run of the normative variant in the same scope, where there is one."""
        present = NORMATIVE in self.scope.variants
        return Task(self.scope.component, NORMATIVE, self.scope.name, "reference") if present else None


class Status(Enum):
    """What became of an entry."""

    REPRODUCED = "reproduced"
    """With a shortest trace of the expected length."""
    CHANGED = "changed"
    """With a shortest trace of another length."""
    MISSING = "not reproduced"
    UNKNOWN = "not known"
    """The run did not come to its end."""


@dataclass(frozen=True, slots=True)
class Derived:
    """An entry and what the runs say of it; `normative` is None where the scope is not run for that variant."""

    entry: Entry
    status: Status
    trace_length: int | None
    normative: Finding | None

    @property
    def exit_status(self) -> ExitStatus:
        """Reproduced, and the normative variant does not do the same."""
        if self.status is Status.UNKNOWN or self.normative is Finding.OPEN:
            return ExitStatus.INCONCLUSIVE
        good = self.status is Status.REPRODUCED and self.normative is not Finding.VIOLATED
        return ExitStatus.AS_EXPECTED if good else ExitStatus.FELL_SHORT


def entries(components: Iterable[AnyComponent], *, nightly: bool) -> list[Entry]:
    """Every catalogued violation that a scope expects, sorted by number."""
    found = [
        Entry(violation.catalogue, variant, scope, violation)
        for component in components
        for scope in scopes_of(component)
        if nightly or scope.set == "default"
        for variant in scope.variants
        for violation in scope.expectation(variant).violations
        if violation.catalogue
    ]
    return sorted(found, key=lambda entry: _sorting(entry.catalogue))


def _sorting(number: str) -> tuple[str, int, str]:
    family, _, last = number.rpartition("-")
    return family, int(last) if last.isdigit() else 0, last


def tasks_of(wanted: Sequence[Entry]) -> list[Task]:
    """The runs that derive these entries, and those of the normative variant beside them, each once."""
    tasks = (task for entry in wanted for task in (entry.task, entry.beside) if task is not None)
    return list(dict.fromkeys(tasks))


def derive(wanted: Iterable[Entry], runs: Mapping[Task, Run]) -> Iterator[Derived]:
    """What the runs say of each entry."""
    for entry in wanted:
        run = runs.get(entry.task)
        beside = runs.get(entry.beside) if entry.beside is not None else None
        normative = _verdict(beside, entry).found if beside is not None else None
        if entry.beside is not None and beside is None:
            normative = Finding.OPEN
        if run is None:
            yield Derived(entry, Status.UNKNOWN, None, normative)
            continue
        verdict = _verdict(run, entry)
        yield Derived(entry, _status(run, verdict), verdict.trace_length, normative)


def _verdict(run: Run, entry: Entry) -> Verdict:
    return next(verdict for verdict in run.judgement.verdicts if verdict.rule == entry.violation.property)


def _status(run: Run, verdict: Verdict) -> Status:
    if verdict.found is Finding.VIOLATED:
        return Status.REPRODUCED if verdict.as_expected else Status.CHANGED
    return Status.MISSING if run.exploration.ending.conclusive else Status.UNKNOWN
