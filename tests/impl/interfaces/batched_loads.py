"""`BatchedScheduler` in a release's loop: `batched_loads.py DRIVER SOURCE IMPL FIRST LAST`.

It stands alone: the Python of a release's environment runs it. It prints as JSON how random loads ended, the same with
a planted bug, and how single requests ended.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

STOP, PLAIN = -2, 7


def with_batched(schedulers: Any) -> Any:
    """The driver's classes with our scheduler."""
    kind = importlib.import_module("cacheimpl.vllm").BatchedScheduler

    def make(vllm_config: Any, **named: Any) -> Any:
        return kind(vllm_config=vllm_config, **named)

    make.__signature__ = inspect.signature(kind)  # type: ignore[attr-defined]  # the driver reads it

    def classes() -> Any:
        made = schedulers.Classes()
        made.scheduler = make
        return made

    return SimpleNamespace(Classes=classes, Settings=schedulers.Settings)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "watermark": {"watermark": 3},
    "adapters": {"max_adapters": 2},
    "without prefix caching": {"prefix_caching": False},
}
"""Settings of the engine, by name; all of them once with priorities."""


def with_options(chosen: Any, **options: Any) -> Any:
    """The same classes, which make engines with these settings, and requests with adapters if there may be some."""
    count = options.get("max_adapters", 0)

    def classes() -> Any:
        made = chosen.Classes()
        make, new_request = made.make, made.new_request

        def with_adapter(name: str, *given: Any, **named: Any) -> Any:
            return new_request(name, *given, **named, **({"adapter": int(name) % (count + 2)} if count else {}))

        made.make = lambda settings: make(settings._replace(**options))
        made.new_request = with_adapter
        return made

    return SimpleNamespace(Classes=classes, Settings=chosen.Settings)


def urgent_request(schedulers: Any, chosen: Any) -> dict[str, Any]:
    """More requests than rows wait, and then an urgent one comes: the step of its first token, and how all end."""
    classes = chosen.Classes()
    scheduler = classes.make(schedulers.Settings(4, 40, 64, 2, 64, by_priority=True))
    hasher = classes.hasher(4)
    requests = [
        classes.new_request(str(number), [number % 7, 2, 3], 20, hasher, (), 5, float(number)) for number in range(90)
    ]
    for request in requests:
        scheduler.add_request(request)
    first = -1
    for step in range(2000):
        if step == 3:
            requests.append(classes.new_request("urgent", [8, 9], 2, hasher, (), 0, 1000.0))
            scheduler.add_request(requests[-1])
        said = scheduler.schedule()
        first = step if "urgent" in said.num_scheduled_tokens and first < 0 else first
        scheduler.update_from_output(said, classes.output({name: [PLAIN] for name in said.num_scheduled_tokens}))
        if not scheduler.has_requests():
            break
    return {"first": first, "ended": sorted({request.status.name for request in requests}), "steps": step}


def random_loads(loads: Any, chosen: Any, first: int, last: int, mode: str = "sync") -> dict[str, Any]:
    """Counts of the random loads."""
    ended: Any = importlib.import_module("random_loads").ended
    report: dict[str, Any] = {"errors": list[str](), "hits": 0, "resumed": 0, "left": 0}
    for seed in range(first, last):
        error, load = ended(lambda: loads.Load(chosen, mode, seed))  # noqa: B023
        report["errors"] += [error] if error else []
        report["hits"] += load.hits
        report["resumed"] += load.resumed
        if error:
            continue
        while load.scheduler.has_requests():
            load.step()
        report["left"] += len(load.scheduler.requests) + round(100 * load.scheduler.get_kv_cache_usage())
    return report


def single_requests(schedulers: Any, chosen: Any) -> dict[str, Any]:
    """Requests that end in each way: the status, the reason, the tokens, and what clients and workers heard."""
    classes = chosen.Classes()
    scheduler = classes.make(schedulers.Settings(4, 40, 64, 8, 64))
    hasher = classes.hasher(4)
    outputs = {"stopped": 9, "capped": 2, "refused": 3, "aborted": 9, "longest": 60}
    requests = {name: classes.new_request(name, [1, 2, 3, 4, 5], count, hasher) for name, count in outputs.items()}
    requests["refused"].resumable = True
    for request in requests.values():
        scheduler.add_request(request)
    waiting, heard, told, finished = scheduler.get_request_counts(), dict[str, Any](), list[Any](), set[str]()
    for step in range(80):
        said = scheduler.schedule()
        finished |= said.finished_req_ids
        if step == 1:
            scheduler.finish_requests("aborted", classes.status.FINISHED_ABORTED)
        sampled = {name: [STOP if (name, step) == ("stopped", 3) else PLAIN] for name in said.num_scheduled_tokens}
        made = scheduler.update_from_output(said, classes.output(sampled))
        for output in (one for its in made.values() for one in its.outputs):
            heard.setdefault(output.request_id, []).extend(output.new_token_ids)
            if output.finish_reason is not None:
                told.append(output.request_id)
    return {
        "waiting": waiting,
        "status": {name: request.status.name for name, request in requests.items()},
        "reason": requests["stopped"].stop_reason,
        "heard": {name: len(tokens) for name, tokens in heard.items()},
        "kept": {name: request.num_output_tokens for name, request in requests.items()},
        "told": sorted(told),
        "finished": sorted(finished),
        "left": [*scheduler.get_request_counts(), scheduler.has_requests()],
    }


def main(driver: str, source: str, impl: str, first: str, last: str) -> None:
    """Print what came of it."""
    sys.path[:0] = [driver, impl, str(Path(__file__).parent)]
    answers, sys.stdout = sys.stdout, sys.stderr
    importlib.import_module("driver.stand_ins").install(Path(source))
    schedulers: Any = importlib.import_module("driver.schedulers")
    loads: Any = importlib.import_module("engine_load")
    chosen = with_batched(schedulers)
    report: dict[str, Any] = {
        "loads": random_loads(loads, chosen, int(first), int(last)),
        "requests": single_requests(schedulers, chosen),
        "options": {
            f"{name}, {mode}": random_loads(loads, with_options(chosen, **options), int(first), int(first) + 2, mode)
            for name, options in OPTIONS.items()
            for mode in ("sync", "sync, by priority")
        },
        "urgent": [urgent_request(schedulers, either) for either in (schedulers, chosen)],
    }
    rows: Any = importlib.import_module("cacheimpl.vllm.rows").Rows
    right = rows._preempted
    rows._preempted = lambda self, plan: []  # the workers' tables are taken to be those from before
    report["planted"] = random_loads(loads, chosen, int(first), int(last))
    rows._preempted = right
    backlog: Any = importlib.import_module("cacheimpl.vllm.backlog").Backlog
    backlog.displaced = lambda self, waiting: None  # no request gives its row to one that is before it
    report["urgent"].append(urgent_request(schedulers, chosen))
    answers.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
