"""`BatchedScheduler` in a release's loop, in each mode: `batched_modes.py DRIVER SOURCE IMPL FIRST LAST [MODE...]`.

It stands alone: the Python of a release's environment runs it. It prints as JSON how random loads ended; in how many
the release's own scheduler has the same plans; and how loads ended with a planted bug.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOM = 400
"""Blocks with which no request is preempted."""
ITEMS = {"image": 4}
STEPS_TO_END = 1000
"""In so many steps all requests have ended, or they never do."""
STOP = -2
"""The token that ends the driver's requests."""
BUGS = "planted"
"""In the place of a mode: loads with each planted bug."""
SCHEDULER = "vllm.v1.core.sched.scheduler"


@contextmanager
def multimodal(vllm_config: Any) -> Iterator[None]:
    """Schedulers that are made meanwhile have budgets for items, which the release derives from the model."""
    module: Any = importlib.import_module(SCHEDULER)
    wanted, kind = vllm_config.scheduler_config, type(vllm_config.model_config)
    budget = SimpleNamespace(
        encoder_compute_budget=wanted.max_num_encoder_input_tokens, encoder_cache_size=wanted.encoder_cache_size
    )
    before = kind.supports_multimodal_inputs, module.MultiModalBudget
    kind.supports_multimodal_inputs, module.MultiModalBudget = True, lambda *_: budget
    kind.multimodal_config = SimpleNamespace(limit_per_prompt=ITEMS)
    try:
        yield
    finally:
        kind.supports_multimodal_inputs, module.MultiModalBudget = before


def made_by(schedulers: Any, *, ours: bool, **options: Any) -> Any:
    """The driver's classes, with our scheduler or the release's, which makes engines with these settings."""
    kind = importlib.import_module("cacheimpl.vllm").BatchedScheduler

    def make(vllm_config: Any, **named: Any) -> Any:
        if not vllm_config.scheduler_config.encoder_cache_size:
            return kind(vllm_config=vllm_config, **named)
        with multimodal(vllm_config):
            return kind(vllm_config=vllm_config, **named)

    make.__signature__ = inspect.signature(kind)  # type: ignore[attr-defined]  # the driver reads it

    def classes() -> Any:
        made = schedulers.Classes()
        if ours:
            made.scheduler = made.asynchronous = make
        make_engine = made.make
        made.item = schedulers.Item
        made.make = lambda settings: make_engine(settings._replace(**options))
        return made

    return SimpleNamespace(Classes=classes, Settings=schedulers.Settings)


def served(make: Callable[[], Any]) -> tuple[str, Any]:
    """Serve a load to its end; the error that ended it, and the load."""
    load = make()
    try:
        load.run()
        for _ in range(STEPS_TO_END):
            if not load.scheduler.has_requests():
                break
            load.step()
        while load.steps:
            load.update()
    except Exception as error:  # noqa: BLE001  # whatever it is
        return f"{type(error).__name__}: {error}", load
    return "", load


def alone(loads: Any, schedulers: Any, mode: str, seeds: range) -> dict[str, Any]:
    """How loads end with our scheduler."""
    found: dict[str, Any] = {"errors": [], "unheard": 0, "left": 0}
    counts = dict.fromkeys(("hits", "resumed", "drafted", "accepted", "encoded"), 0)
    for seed in seeds:
        error, load = served(lambda: loads.Load(made_by(schedulers, ours=True, **budgets(loads, mode)), mode, seed))  # noqa: B023
        found["errors"] += [error] if error else []
        found["unheard"] += 0 if error else len(load.unheard())
        found["left"] += 0 if error else round(100 * load.scheduler.get_kv_cache_usage()) + len(load.scheduler.requests)
        load.encoded = load.worker.encoded
        counts = {name: count + getattr(load, name) for name, count in counts.items()}
    return {**found, **counts}


def budgets(loads: Any, mode: str, *, roomy: bool = False) -> dict[str, int]:
    """Settings of the encoder."""
    compute, capacity = loads.ROOMY if roomy else (loads.COMPUTE, loads.CAPACITY)
    return {"encoder_compute": compute, "encoder_capacity": capacity} if loads.MODES[mode][1] else {}


def beside(loads: Any, schedulers: Any, mode: str, seeds: range) -> dict[str, Any]:
    """In how many loads both schedulers have the same plans at each step, and the first step of those that differ.

    No prefix is cached, as both find blocks by other rules, and requests are admitted by the blocks of the step. With
    steps ahead there is room for all: the release gives clients what was in flight for a preempted request. Few items
    are refused: ours lets no request behind such an item have one, and the release does (C-SCH-12).
    """
    room = {"blocks": ROOM} if loads.MODES[mode][0] == "async" else {}
    options = {"prefix_caching": False, "reserves": False, **room, **budgets(loads, mode, roomy=True)}
    same, steps, parted = 0, 0, list[int]()
    for seed in seeds:
        plans = []
        for ours in (False, True):
            classes = made_by(schedulers, ours=ours, **options)
            error, load = served(lambda: loads.Load(classes, mode, seed, loads.ROOMY))  # noqa: B023
            plans.append([*map(numbers_of_blocks, load.plans), error])
        same += plans[0] == plans[1]
        steps += len(plans[1]) - 1
        if plans[0] != plans[1]:
            pairs = enumerate(zip(*plans, strict=False))
            parted.append(next((step for step, (one, other) in pairs if one != other), -1))
    return {"same": same, "of": len(seeds), "steps": steps, "parted": parted}


def numbers_of_blocks(plan: Any) -> Any:
    """The plan with how many new blocks each request gets; the release takes free blocks in another order."""
    tokens, told, *rest = plan
    return [*tokens.items()], [(request, len(blocks), whole) for request, blocks, whole in told], rest


BESIDE = ("sync", "sync, images", "drafts", "drafts, images", "async")
"""By priority the release serves requests as they came, and ours the most important one first. With steps ahead it
releases items before the step that reads them was executed (C-ENC-25)."""


def in_rows(name: str, changed: Any) -> tuple[str, str, Any]:
    """A method of the tables of the host, and another one."""
    return "cacheimpl.vllm.rows:Rows", name, changed


def in_scheduler(name: str, changed: Any) -> tuple[str, str, Any]:
    """The same of the scheduler."""
    return "cacheimpl.vllm:BatchedScheduler", name, changed


def none_accepted(scheduler: Any, step: Any, _sampled: Any) -> tuple[int, None]:
    """All drafts count as rejected."""
    scheduler._drafting = step.parts
    return 0, None


PLANTED: dict[str, tuple[str, tuple[str, str, Any]]] = {
    "workers' tables are those from before": ("sync", in_rows("_preempted", lambda *_: [])),
    "output in flight counts after a preemption": ("async", in_scheduler("_drop_output", lambda *_: None)),
    "each request has as many drafts as there may be": ("drafts", in_scheduler("_limit_drafts", lambda *_: None)),
    "no draft counts as accepted": (
        "drafts",
        in_scheduler("_verdict", none_accepted),
    ),
    "workers do not hear which encoder outputs they drop": (
        "sync, images",
        ("cacheimpl.scheduler.output:SchedulerOutput", "free_encoder_mm_hashes", property(lambda _: [])),
    ),
    "workers do not hear what to encode": (
        "sync, images",
        ("cacheimpl.scheduler.output:SchedulerOutput", "scheduled_encoder_inputs", property(lambda _: {})),
    ),
}
"""Bugs: the mode that shows each, and what is changed."""


def planted(loads: Any, schedulers: Any, seeds: range) -> dict[str, bool]:
    """Whether each bug is noticed: by an error, by what clients have heard, or by the release's plans."""
    noticed = {}
    for name, (mode, (place, method, changed)) in PLANTED.items():
        module, _, owner = place.partition(":")
        kind: Any = getattr(importlib.import_module(module), owner)
        right = vars(kind)[method]
        setattr(kind, method, changed)
        try:
            found, compared = alone(loads, schedulers, mode, seeds), beside(loads, schedulers, mode, seeds)
        finally:
            setattr(kind, method, right)
        noticed[name] = bool(found["errors"] or found["unheard"] or found["left"] or compared["same"] < compared["of"])
    return noticed


def stopped(schedulers: Any, *, ours: bool, ahead: bool) -> dict[str, Any]:
    """A request meets a stop token among accepted drafts, or while its next step is in flight."""
    settings = schedulers.Settings(4, 40, 64, 8, 64, asynchronous=ahead, drafts=0 if ahead else 3)
    classes = made_by(schedulers, ours=ours).Classes()
    scheduler = classes.make(settings)
    request = classes.new_request("one", [1, 2, 3], 20, classes.hasher(4))
    scheduler.add_request(request)
    said, heard, told = [scheduler.schedule()], list[int](), list[dict[str, Any]]()
    for sampled in ([7], [STOP]) if ahead else ([7], [5, STOP, 6, 8]):
        if ahead or len(told) == 1:
            said.append(scheduler.schedule())
        told.append({name: list(tokens) for name, tokens in said[0].scheduled_spec_decode_tokens.items()})
        made = scheduler.update_from_output(said.pop(0), classes.output({"one": list(sampled)}))
        heard += [token for its in made.values() for output in its.outputs for token in output.new_token_ids]
        if not ahead:
            scheduler.update_draft_token_ids(classes.drafts(["one"], [[5, STOP, 6]]))
    for one in said:
        made = scheduler.update_from_output(one, classes.output({"one": [9]}))
        heard += [token for its in made.values() for output in its.outputs for token in output.new_token_ids]
    ends = request.status.name, request.stop_reason, list(request.output_token_ids)
    return {"heard": heard, "told": told, "ends": ends, "left": len(scheduler.requests)}


def main(driver: str, source: str, impl: str, first: str, last: str, *modes: str) -> None:
    """Print what came of it."""
    sys.path[:0] = [driver, impl, str(Path(__file__).parent)]
    answers, sys.stdout = sys.stdout, sys.stderr
    importlib.import_module("driver.stand_ins").install(Path(source))
    schedulers: Any = importlib.import_module("driver.schedulers")
    loads: Any = importlib.import_module("batched_load")
    seeds, chosen = range(int(first), int(last)), modes or (*loads.MODES, BUGS)
    report: dict[str, Any] = {
        "alone": {mode: alone(loads, schedulers, mode, seeds) for mode in chosen if mode != BUGS},
        "beside": {mode: beside(loads, schedulers, mode, seeds) for mode in BESIDE if mode in chosen},
        "planted": planted(loads, schedulers, seeds) if BUGS in chosen else {},
    }
    if BUGS in chosen:
        report["stopped"] = [
            [stopped(schedulers, ours=ours, ahead=ahead) for ours in (False, True)] for ahead in (False, True)
        ]
    answers.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
