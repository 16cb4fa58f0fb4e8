"""One answer to a recorded run: the control plane was right in all N steps, or the first step that was not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from heapq import merge
from pathlib import Path
from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError
from cacheproof.logs.judge.following import Following
from cacheproof.logs.judge.ledger import Ledger, requests_of
from cacheproof.logs.judge.wrong import Wrong
from cacheproof.logs.record.events import Event, Recording, recordings_in
from cacheproof.logs.record.logs import era_of, log_from
from cacheproof.logs.record.scheduler import COMPONENT as SCHEDULER
from cacheproof.logs.record.scheduler import NotSaidError
from cacheproof.logs.validate.run import Validation
from cacheproof.logs.validate.source import open_source
from cacheproof.logs.validate.verdict import Impossible, Inconclusive
from cacheproof.model.registry import component_named

WORKERS = "workers"
MANAGERS = ("kv_blocks", "encoder_cache")
COUNTED = {
    "written": "slots written",
    "read": "slots read",
    "computed": "encoder outputs computed",
    "entries_read": "read",
    "freed": "freed",
}


@dataclass(slots=True)
class Verdict:
    """What is known of one run."""

    steps: int = 0
    wrong: Wrong | None = None
    """The earliest; None if all steps were right, as far as they were judged."""
    judges: list[str] = field(default_factory=list)
    """The judges that have seen the run to its end, or up to the wrong step."""
    left_out: list[str] = field(default_factory=list)
    """What was not judged, and why."""
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def said_counts(self) -> list[tuple[str, int]]:
        """What the workers did, in words."""
        return [(COUNTED[name], value) for name, value in self.counts.items()]

    @property
    def says(self) -> str:
        """One line."""
        if self.wrong is None:
            return f"the control plane was right in all {self.steps:,} steps"
        return f"step {self.wrong.step:,} of {self.steps:,} is the first that was not right"

    def data(self) -> dict[str, Any]:
        """For a machine."""
        return {
            "steps": self.steps,
            "right": self.wrong is None,
            "wrong": None if self.wrong is None else self.wrong.data(),
            "judges": self.judges,
            "left_out": self.left_out,
            "counts": self.counts,
        }


def judged(folder: Path, show: Show = lambda _line: None) -> Verdict:
    """The verdict on what was recorded into a folder. Raises InputError if no scheduler was recorded there."""
    recordings = recordings_in(folder)
    schedulers = [one for one in recordings if one.component == SCHEDULER and one.has_calls]
    if len(schedulers) != 1:
        raise InputError(f"{folder}: recorded {len(schedulers)} schedulers; a verdict is on one")
    plans = schedulers[0]
    work = next((one for one in recordings if one.component == WORKERS and one.has_calls), None)
    verdict = Verdict(steps=sum(event.get("op") == "schedule" for event in plans.events()))
    found = [_step_by_step(plans, work, verdict)]
    ahead = plans.settings["ahead"] > 1 or plans.settings["drafts"] > 0
    for recording in recordings:
        if recording.component in MANAGERS and recording.has_calls:
            if recording.component == "kv_blocks" and ahead:
                verdict.left_out.append(
                    "kv_blocks: with steps ahead or drafts, blocks are allocated for unknown tokens"
                )
                continue
            show(f"validating {recording.path.name}")
            found.append(_of_manager(recording, verdict))
    verdict.wrong = min((one for one in found if one is not None), key=lambda one: one.step, default=None)
    return verdict


def _step_by_step(plans: Recording, work: Recording | None, verdict: Verdict) -> Wrong | None:
    """The scheduler and the workers, up to the first wrong step."""
    component = component_named(SCHEDULER)
    follower: Following | None = None
    try:
        follower = Following(plans, component, era_of(plans))
        verdict.judges.append(f"{SCHEDULER}, by its era")
    except NotSaidError as error:
        verdict.left_out.append(f"{SCHEDULER}: {error}")
    ledger = Ledger(plans.settings, requests_of(plans.events()))
    if work is None:
        verdict.left_out.append("workers: none was recorded")
    else:
        verdict.judges.append("workers, slot by slot")
    for event in _in_order(plans, work):
        for judge in (ledger, follower) if event.get("op") == "work" else (follower, ledger):
            if judge is None or (judge is follower and event.get("op") == "work"):
                continue
            wrong = judge.take(event)
            if wrong is not None:
                verdict.counts = ledger.counts
                return wrong
    verdict.counts = ledger.counts
    return None


def _in_order(plans: Recording, work: Recording | None) -> Iterator[Event]:
    """The events of both: what workers do comes behind the plan of the step, and before all that follows it."""

    def placed(recording: Recording, kind: int) -> Iterator[tuple[int, int, int, Event]]:
        for number, event in enumerate(recording.events()):
            if "op" in event:
                late = event["op"] != "schedule" and kind == 0
                yield event.get("step", 0), 2 * late + kind, number, event

    streams = [placed(plans, 0), *([] if work is None else [placed(work, 1)])]
    last = max((event["step"] for event in plans.events() if event.get("op") == "schedule"), default=0)
    for step, *_, event in merge(*streams, key=lambda one: one[:3]):
        if step <= last:  # a process that was killed has not written its last steps; another one may have
            yield event


def _of_manager(recording: Recording, verdict: Verdict) -> Wrong | None:
    """The calls of a cache manager, as a log of the era of its release."""
    name = recording.component
    log = log_from(recording, recording.path.with_suffix(".ndjson"))
    with closing(open_source(log.log)) as source:
        validation = Validation(source)
        validation.run()
    verdict.judges.append(f"{name}, call by call")
    if recording.stopped:
        verdict.left_out.append(f"{name}: recorded up to there: {recording.stopped}")
    match validation.found:
        case Impossible() as found:
            parts = [part.statement for tried in found.tried[:1] for part in tried.differences]
            said = parts[0] if parts else found.reason
            return Wrong(_step_of(found.source), name, "log", said, found.text)
        case Inconclusive() as found:
            verdict.left_out.append(f"{name}: line {found.line}: {found.reason}")
    return None


def _step_of(source: str) -> int:
    """The step that a line of a log names."""
    return int(source.removeprefix("step ") or 0)
