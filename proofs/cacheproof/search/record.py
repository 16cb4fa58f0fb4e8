"""A run as plain data: what `check --json` prints and what is kept for `status`, `show` and `catalogue`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cacheproof.foundation.cluster import cluster_on
from cacheproof.foundation.console import Show
from cacheproof.foundation.workers import cores
from cacheproof.model.finding_json import finding_to_message
from cacheproof.model.store import save
from cacheproof.model.trace import Violation
from cacheproof.model.trace_json import violation_to_message
from cacheproof.search.campaign import Effort, Run, perform_all
from cacheproof.search.result import Ending
from cacheproof.search.tasks import Task, run_name, shares_of
from cachespec import __version__

KIND = "check"
"""The kind of these runs in the store."""


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
        "triples": found.triples,
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
        "difference": None if found.parting is None else finding_to_message(found.parting.difference),
    }


def perform_and_keep(
    tasks: Sequence[Task],
    jobs: int,
    show: Show,
    *,
    split: int = 0,
    checkpoint: Path | None = None,
    resume: bool = False,
    refine: int = 0,
    to_the_end: bool = False,
    first: bool = False,
    on: str = "",
    or_reference: bool = False,
) -> tuple[list[Run], bool]:
    """All runs in the order of the tasks, each kept as it ends; and whether the user ended them early.

    `jobs` is a number of processes, 0 for as many as there are cores. `on` names a cluster; `split` of its workers
    share each run. The others are those of `Effort`.
    """
    shares = shares_of(tasks, refine)
    done: dict[Task, Run] = {}
    with suppress(KeyboardInterrupt), cluster_on(on, split) as cluster:
        own = cluster, or_reference
        effort = Effort(jobs or cores(), split, checkpoint, resume, shares, to_the_end, first, *own)
        for run in perform_all(tasks, effort, show):
            done[run.task] = run
            save(KIND, run_name(run.task), record_of(run))
            show(f"{len(done)} of {len(tasks)} runs: {run.task}")
    runs = [done[task] for task in tasks if task in done]
    return runs, len(runs) < len(tasks) or any(run.exploration.ending is Ending.INTERRUPTED for run in runs)


def named(run: Run, violation: Violation) -> Violation:
    """The violation with its catalogue number, where the scope file gives one."""
    known = {verdict.rule: verdict.catalogue for verdict in run.judgement.verdicts}
    return Violation(violation.property, violation.statement, violation.trace, known.get(violation.property, ""))
