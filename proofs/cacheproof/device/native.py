"""The compiled specification on a device: kernels of the generated functions, beside the native engine on the host."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from cacheproof.device.listing import Asked, DifferenceError, Found, figure_named
from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import ExitStatus
from cacheproof.model.registry import component_named, components
from cacheproof.model.scope import DEFAULT, Scope, scope_named, scopes_of
from cacheproof.search import cuda, native
from cacheproof.search.campaign import bounded
from cacheproof.search.cuda.build import missing
from cacheproof.search.cuda.shard import EMULATED, Sizes, library_of
from cacheproof.search.native.build import NONE, compiler_of_this_machine
from cacheproof.search.native.library import translated
from cacheproof.search.result import Exploration
from cacheproof.search.verdict import judge
from cachespec.kernel import NORMATIVE

BROKEN = (("lru", "M2"), ("encoder_cache", "E0"))
"""Variants whose runs expect violations."""
SMALL = ("lru", "encoder_budget")
"""Components of a small run, and of a run on a CPU."""
SECONDS = 240.0
"""No scope is begun after so many, and nvcc is ended. On one core it takes minutes for the largest component."""
SPEED_SECONDS = 240.0
LARGEST = (
    ("mirror", "two-senders-pipelined"),
    ("mirror", "crowd"),
    ("encoder_cache", "any-call-larger"),
    ("ring", "larger"),
)
SMALL_LARGEST = (("lru", "turns"),)
REPEATS = 3
HOST_SECONDS = 15.0
"""So long the native engine explores a scope with one thread."""
OF_DEFAULT = Sizes(all_bytes=4 << 30)

Subject = tuple[str, str]
"""Names of a component and a variant."""


def exploration(asked: Asked, found: Found, show: Show) -> None:
    """Default scopes, those of the component that is compiled first first."""
    if (reason := _missing(asked)) is not None:
        found.leave_out("native-exploration", reason)
        return
    small = asked.small or not asked.on_cuda
    subjects = [(name, NORMATIVE) for name in (SMALL if small else components())]
    until = time.monotonic() + SECONDS
    for subject in _compiled([*subjects, *(BROKEN[:1] if small else BROKEN)], asked, found, show, until):
        for scope in _scopes(*subject):
            if time.monotonic() > until:
                found.leave_out(f"{' '.join(subject)} {scope.name}", f"the time of {SECONDS:.0f} seconds was over")
                continue
            show(f"native-exploration: {' '.join(subject)} {scope.name}")
            _as_expected(subject, scope, asked, found)


def _missing(asked: Asked) -> str | None:
    if asked.on_cuda:
        return missing() or (NONE if compiler_of_this_machine() is None else None)
    return NONE if compiler_of_this_machine() is None else None


def _compiled(subjects: Sequence[Subject], asked: Asked, found: Found, show: Show, until: float) -> Iterator[Subject]:
    """Each as it is ready: several are compiled at a time. What is not ready in time is left out."""
    pool = ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)) - 1))
    waiting: dict[Future[Any], Subject] = {}
    for name, tag in subjects:
        component = component_named(name)
        variant, left = component.variants[tag], max(1.0, until - time.monotonic())
        translated(component, variant)  # the threads only wait for compilers
        waiting[pool.submit(library_of, component, variant, emulated=not asked.on_cuda, seconds=left)] = name, tag
    try:
        while waiting:
            show(f"native-exploration: {len(waiting)} variants are being compiled")
            done, _ = wait(waiting, timeout=max(0.0, until - time.monotonic()), return_when="FIRST_COMPLETED")
            if not done:
                break
            for one in done:
                subject = waiting.pop(one)
                one.result()
                found.count("variants")
                yield subject
    finally:
        for subject in waiting.values():
            found.leave_out(" ".join(subject), f"not compiled within {SECONDS:.0f} seconds")
        pool.shutdown(wait=False, cancel_futures=True)


def _scopes(name: str, tag: str) -> list[Scope]:
    chosen = [scope for scope in scopes_of(component_named(name)) if scope.set == DEFAULT and tag in scope.variants]
    return sorted(chosen, key=lambda scope: scope.expectation(tag).transitions or 0)


def _as_expected(subject: Subject, scope: Scope, asked: Asked, found: Found) -> None:
    """Counts, digest, depth and verdicts are those of the scope file."""
    component, tag = component_named(subject[0]), subject[1]
    scope = replace(scope, plan=replace(scope.plan, liveness=False))
    explored = _on_device(subject, scope, asked, OF_DEFAULT)
    judgement = judge(component, component.variants[tag], scope, explored)
    if judgement.status is not ExitStatus.AS_EXPECTED:
        otherwise = [verdict.rule for verdict in judgement.verdicts if not verdict.as_expected]
        said = [*judgement.drift, *judgement.amiss] or otherwise or [explored.ending.value]
        raise DifferenceError(f"{' '.join(subject)} {scope.name}: {'; '.join(said)}")
    found.count("scopes")
    found.count("states", explored.states)
    found.count("transitions", explored.transitions)
    found.count("violations", len(explored.violations))


def _on_device(subject: Subject, scope: Scope, asked: Asked, sizes: Sizes) -> Exploration:
    component, tag = component_named(subject[0]), subject[1]
    # A device that computes other states than there are would not come to an end.
    plan = bounded(replace(scope.plan_for(tag), liveness=False), scope.expectation(tag).states)
    emulated = not asked.on_cuda
    own = EMULATED if emulated else sizes
    return cuda.explore(component, component.variants[tag], scope.config, plan, sizes=own, emulated=emulated)


# Speed --------------------------------------------------------------------------------------------------------------


def speed(asked: Asked, found: Found, show: Show) -> None:
    """The largest scopes, on the device and with one thread of the native engine on the host."""
    if (reason := _missing(asked)) is not None:
        found.leave_out("native-exploration-speed", reason)
        return
    until = time.monotonic() + SPEED_SECONDS
    chosen = SMALL_LARGEST if asked.small or not asked.on_cuda else LARGEST
    subjects = dict.fromkeys((name, NORMATIVE) for name, _ in chosen)
    for subject in _compiled(list(subjects), asked, found, show, until):
        for name, scope in chosen:
            if name == subject[0]:
                show(f"native-exploration-speed: {name} {scope}")
                _measured(subject, scope_named(component_named(name), scope), asked, found)


def _measured(subject: Subject, scope: Scope, asked: Asked, found: Found) -> None:
    component = component_named(subject[0])
    plan = replace(scope.plan_for(NORMATIVE), liveness=False)
    runs = []
    golden = scope.expectation(NORMATIVE)
    for _ in range(1 + REPEATS):  # the first one also pays for the start of the device
        started = time.perf_counter()
        explored = _on_device(subject, scope, asked, Sizes())
        runs.append(max(time.perf_counter() - started, 1e-9))
        if (explored.states, explored.transitions, explored.digest) != (
            golden.states,
            golden.transitions,
            golden.digest,
        ):
            raise DifferenceError(f"{subject[0]} {scope.name}: {_counts(explored)} on the device, not {golden.states}")
    runs = runs[1:]
    native.prepare(component, component.normative)
    limited = replace(plan, limit_seconds=HOST_SECONDS)
    started = time.perf_counter()
    host = native.explore(component, component.normative, scope.config, limited)
    seconds = max(time.perf_counter() - started, 1e-9)
    if host.ending is explored.ending and _counts(host) != _counts(explored):
        raise DifferenceError(
            f"{subject[0]} {scope.name}: {_counts(explored)} on the device, {_counts(host)} on the host"
        )
    size = f"{subject[0]} {scope.name}, {explored.states:,} states"
    rate = _keep(found, "native-transitions", size, [explored.transitions / one for one in runs])
    _keep(found, "native-states", size, [explored.states / one for one in runs])
    known = _keep(found, "native-transitions-on-host", size, [host.transitions / seconds])
    _keep(found, "native-times-host", size, [rate / known])
    found.count("states", explored.states)
    found.count("transitions", explored.transitions)


def _counts(explored: Exploration) -> tuple[int, int, int, str]:
    return explored.states, explored.transitions, explored.depth, explored.digest


def _keep(found: Found, name: str, size: str, values: list[float]) -> float:
    median = statistics.median(values)
    found.figures.append(
        {
            "name": name,
            "size": size,
            "unit": figure_named(name).unit,
            "median": median,
            "least": min(values),
            "most": max(values),
            "repeats": len(values),
            "goal": None,
            "met": None,
        }
    )
    return median
