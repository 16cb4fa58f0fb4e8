"""A run as plain data: what `check --json` prints and what is kept for `status`, `show` and `catalogue`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cacheproof.explore.campaign import Run, Task
from cacheproof.show.trace_json import violation_to_message
from cacheproof.store import save
from cacheproof.trace import Violation
from cachespec import __version__

KIND = "check"
"""The kind of these runs in the store."""


def run_name(task: Task) -> str:
    """Under which a run is kept; a later run of the same task replaces it."""
    return f"{task.component}.{task.variant}.{task.scope}.{task.engine}"


def summary_of(run: Run) -> dict[str, Any]:
    """Counts, verdicts and coverage, without traces."""
    found, judgement = run.exploration, run.judgement
    return {
        "name": run_name(run.task),
        **asdict(run.task),
        "states": found.states,
        "transitions": found.transitions,
        "depth": found.depth,
        "digest": found.digest,
        "ending": found.ending.value,
        "seconds": round(found.seconds, 3),
        "peak_bytes": found.peak_bytes,
        "status": judgement.status.name.lower(),
        "verdicts": [
            {
                "property": verdict.rule,
                "expected": verdict.expected.value,
                "found": verdict.found.value,
                "trace_length": verdict.trace_length,
                "expected_length": verdict.expected_length,
                "catalogue": verdict.catalogue,
            }
            for verdict in judgement.verdicts
        ],
        "witnessed": sorted(found.witnessed),
        "coverage": {name: dict(codes) for name, codes in found.coverage.items()},
        "drift": list(judgement.drift),
        "amiss": list(judgement.amiss),
    }


def record_of(run: Run) -> dict[str, Any]:
    """Everything that was found, every counterexample included."""
    found = run.exploration
    return {
        **summary_of(run),
        "specification": __version__,
        "set": run.scope.set,
        "about": run.scope.about,
        "granularity": run.scope.plan.granularity.value,
        "violations": [violation_to_message(named(run, violation)) for violation in found.violations],
    }


def keep(run: Run) -> None:
    """Keep the run for the other verbs."""
    save(KIND, run_name(run.task), record_of(run))


def named(run: Run, violation: Violation) -> Violation:
    """The violation with its catalogue number, where the scope file gives one."""
    known = {verdict.rule: verdict.catalogue for verdict in run.judgement.verdicts}
    return Violation(violation.property, violation.statement, violation.trace, known.get(violation.property, ""))
