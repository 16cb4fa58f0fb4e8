"""A replay as a record, which `--json` prints and `status` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cacheproof.foundation.errors import ExitStatus
from cacheproof.model.store import name_of, save
from cacheproof.replay.result import BY_CLOCK, ReplayResult, Setting

KIND = "replay"


def status_of(result: ReplayResult, *, interrupted: bool = False) -> ExitStatus:
    """Whether everything held, to the end."""
    if result.violations:
        return ExitStatus.FELL_SHORT
    return ExitStatus.INCONCLUSIVE if interrupted else ExitStatus.AS_EXPECTED


def data_of(
    setting: Setting,
    result: ReplayResult,
    paths: Sequence[Path],
    options: Mapping[str, str],
    *,
    target: str | None = None,
    interrupted: bool = False,
) -> dict[str, Any]:
    """Everything that a replay says, in JSON's own types."""
    workload = setting.workload
    return {
        "traces": [str(path) for path in paths],
        "title": workload.title,
        "composed": workload.composed,
        "seed": workload.seed,
        "options": dict(options),
        "component": setting.component.name,
        "variant": setting.variant.tag,
        "target": target,
        "capacity": setting.capacity,
        "unit": workload.unit,
        "concurrency": "clock" if setting.concurrency == BY_CLOCK else setting.concurrency,
        "requests": result.requests,
        "references": result.references,
        "hits": result.hits,
        "hit_ratio": result.hit_ratio,
        "waited": result.waited,
        "rejected": result.rejected,
        "in_flight": result.in_flight,
        "longest_wait": round(result.longest_wait, 3),
        "peaks": dict(result.peaks),
        "rounds": result.rounds,
        "tokens": result.tokens,
        "least": result.least,
        "preempted": result.preempted,
        "events": result.events,
        "seconds": round(result.seconds, 3),
        "events_per_second": round(result.events_per_second),
        "checks": {
            "every": setting.check_every,
            "constant_time": result.constant_checks,
            "full_states": result.full_states,
            "full_steps": result.full_steps,
            "compared": result.compared,
        },
        "violations": [asdict(violation) for violation in result.violations],
        "status": status_of(result, interrupted=interrupted).name.lower(),
    }


def keep(data: Mapping[str, Any]) -> None:
    """Under a name that a later run of the same replaces."""
    options = ".".join(f"{key}-{value}" for key, value in sorted(data["options"].items()))
    traces = "+".join(Path(trace).name.partition(".")[0] for trace in data["traces"])
    of = (data["component"], data["variant"], traces, options, str(data["capacity"]), data["target"] or "")
    save(KIND, name_of(*of), data)
