"""Every catalogued violation, derived anew: what the runs say of each place, and what becomes of each entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from cacheproof.catalogue.places import Place
from cacheproof.catalogue.register import Entry
from cacheproof.foundation.errors import ExitStatus
from cacheproof.search.campaign import Run
from cacheproof.search.tasks import Task
from cacheproof.search.verdict import Finding, Verdict


class Status(Enum):
    """What became of an entry, or of one place where it is shown."""

    REPRODUCED = "reproduced"
    """With a shortest trace of the expected length."""
    CHANGED = "changed"
    """With a shortest trace of another length."""
    MISSING = "missing"
    """A scope expects it, and it was not found."""
    UNKNOWN = "not known"
    """The run did not come to its end."""
    ALONE = "alone"
    """Reproduced, but no scope that shows it is run for the normative variant, or the normative one does the same."""
    OUTSIDE = "outside"
    """The model does not have it; the register says why."""
    PENDING = "pending"
    """No scope shows it, and the register does not say why."""

    @property
    def exit_status(self) -> ExitStatus:
        """What is expected and not found falls short; so does what the normative variant does not set right."""
        if self is Status.UNKNOWN:
            return ExitStatus.INCONCLUSIVE
        fine = self in (Status.REPRODUCED, Status.OUTSIDE, Status.PENDING)
        return ExitStatus.AS_EXPECTED if fine else ExitStatus.FELL_SHORT


@dataclass(frozen=True, slots=True)
class Derived:
    """A place and what the runs say of it; `normative` is None where the scope is not run for that variant."""

    place: Place
    status: Status
    trace_length: int | None
    normative: Finding | None


def tasks_of(wanted: Sequence[Place]) -> list[Task]:
    """The runs that derive these places, and those of the normative variant beside them, each once."""
    tasks = (task for place in wanted for task in (place.task, place.beside) if task is not None)
    return list(dict.fromkeys(tasks))


def derive(wanted: Iterable[Place], runs: Mapping[Task, Run]) -> Iterator[Derived]:
    """What the runs say of each place."""
    for place in wanted:
        run = runs.get(place.task)
        normative = _beside(place, runs)
        if run is None:
            yield Derived(place, Status.UNKNOWN, None, normative)
            continue
        verdict = _verdict(run, place)
        yield Derived(place, _status(run, verdict, normative), verdict.trace_length, normative)


def _beside(place: Place, runs: Mapping[Task, Run]) -> Finding | None:
    if place.beside is None:
        return None
    run = runs.get(place.beside)
    return Finding.OPEN if run is None else _verdict(run, place).found


def _verdict(run: Run, place: Place) -> Verdict:
    return next(verdict for verdict in run.judgement.verdicts if verdict.rule == place.violation.property)


def _status(run: Run, verdict: Verdict, normative: Finding | None) -> Status:
    if verdict.found is not Finding.VIOLATED:
        return Status.MISSING if run.exploration.ending.conclusive else Status.UNKNOWN
    if not verdict.as_expected:
        return Status.CHANGED
    if normative is Finding.OPEN:
        return Status.UNKNOWN
    return Status.ALONE if normative is Finding.VIOLATED else Status.REPRODUCED


def status_of(entry: Entry | None, derived: Sequence[Derived]) -> Status:
    """The status of an entry: the worst of its places; one of them has to be beside the normative variant."""
    if not derived:
        return Status.OUTSIDE if entry is not None and entry.outside else Status.PENDING
    for status in (Status.MISSING, Status.CHANGED, Status.ALONE, Status.UNKNOWN):
        if any(one.status is status for one in derived):
            return status
    held = any(one.normative is Finding.HOLDS for one in derived)
    return Status.REPRODUCED if held else Status.ALONE
