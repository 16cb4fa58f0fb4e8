"""Exploration and refinement on the device: the same code as `check --engine tensor`, with tensors that live there."""

from __future__ import annotations

import time

import torch

from cacheproof.device.listing import Asked, DifferenceError, Found
from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import ExitStatus
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.search.result import Snapshot
from cacheproof.search.tasks import Task, as_judged, tasks_for
from cacheproof.search.tensor import search
from cacheproof.search.tensor.refinement import compare
from cacheproof.search.verdict import judge
from cacheproof.tensor_models import MODELS, model_of

TRIPLES, SMALL_TRIPLES = 30_000, 600
SECONDS_OF_ONE = 30.0
SECONDS = 200.0
"""No scope is begun after so many: how long all of them take on a device is not known."""


def exploration(asked: Asked, found: Found, show: Show) -> None:
    """Default scopes that the tensor engine can do, from the smallest on; of a small run, one of each component."""
    tasks = by_size()
    if asked.small:
        tasks = list({task.component: task for task in reversed(tasks)}.values())
    started = time.monotonic()
    for task in tasks:
        if time.monotonic() - started > SECONDS:
            found.leave_out(f"exploration of {task}", f"the smaller scopes took {SECONDS:.0f} seconds")
            continue
        show(f"exploration: {task}")
        one(task, asked, found, show)


def by_size() -> list[Task]:
    """The runs of the default set, those with the fewest transitions first."""
    tasks = tasks_for([component_named(name) for name in MODELS], engine="tensor")
    return sorted(tasks, key=_transitions)


def _transitions(task: Task) -> int:
    """As the scope file says; 0 where it does not."""
    return scope_named(component_named(task.component), task.scope).expectation(task.variant).transitions or 0


def one(task: Task, asked: Asked, found: Found, show: Show) -> None:
    """One scope: counts, digest, depth and verdicts are those of the scope file."""
    component = component_named(task.component)
    scope = as_judged(search, scope_named(component, task.scope))
    variant = component.variants[task.variant]

    def watch(snapshot: Snapshot) -> None:
        show(f"exploration: {task}, {snapshot.states:,} states")

    explored = search.explore(
        component, variant, scope.config, scope.plan_for(task.variant), watch, device=asked.device
    )
    judgement = judge(component, variant, scope, explored)
    if judgement.status is not ExitStatus.AS_EXPECTED:
        otherwise = [verdict.rule for verdict in judgement.verdicts if not verdict.as_expected]
        said = [*judgement.drift, *judgement.amiss] or otherwise or [explored.ending.value]
        raise DifferenceError(f"{task}: {'; '.join(said)}")
    found.count("scopes")
    found.count("states", explored.states)
    found.count("transitions", explored.transitions)


def refinement(asked: Asked, found: Found, show: Show) -> None:
    """So many triples, the same number in each component, from its smallest scopes on."""
    torch.set_num_threads(1)
    tasks, share = by_size(), (SMALL_TRIPLES if asked.small else TRIPLES) // len(MODELS)
    for name in MODELS:
        left, started = share, time.monotonic()
        for task in (one for one in tasks if one.component == name):
            if left > 0 and time.monotonic() - started > SECONDS_OF_ONE:
                found.leave_out(f"{left:,} triples of {name}", f"the others took {SECONDS_OF_ONE:.0f} seconds")
                break
            if left > 0:
                show(f"refinement: {task}")
                left -= refine(task, asked, found, left)


def refine(task: Task, asked: Asked, found: Found, limit: int) -> int:
    """So many triples of one scope at most; returns how many were compared."""
    component = component_named(task.component)
    config = scope_named(component, task.scope).config
    refined = compare(model_of(component, config, asked.device, task.variant), limit)
    found.count("triples", refined.triples)
    found.count("scopes")
    if refined.difference is not None:
        raise DifferenceError(f"{task}: {refined.difference.sentence()}")
    return refined.triples
