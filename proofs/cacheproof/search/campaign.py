"""Many explorations at once, over processes; the number of processes does not change the results."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cacheproof.foundation import workers
from cacheproof.foundation.cluster import Cluster
from cacheproof.foundation.console import Show, announce
from cacheproof.foundation.errors import NoCompilerError
from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyVariant, component_named, fault_in_component, variant_named
from cacheproof.model.scope import Scope, scope_named
from cacheproof.search.checkpoint import Checkpoint, identity_of
from cacheproof.search.crew import Crew
from cacheproof.search.engines import CUDA, SHARING, engine_module, engine_named
from cacheproof.search.on_ray import crew_on
from cacheproof.search.path import UnsoundReductionError
from cacheproof.search.processes import Processes
from cacheproof.search.result import Ending, Exploration, Snapshot, Watch
from cacheproof.search.tasks import Library, Task, as_judged, expected_states, run_name, states_by_library
from cacheproof.search.verdict import RunJudgement, judge
from cacheproof.search.worker import NATIVE, REFERENCE, Subject


@dataclass(frozen=True, slots=True)
class Run:
    """A task and what came of it."""

    task: Task
    scope: Scope
    exploration: Exploration
    judgement: RunJudgement
    unsound: str = ""
    """Why a reduction of the explorer is wrong here, if it is, and what was done instead."""


SHARED_FROM = 20_000
"""A run that is expected to have so many states is shared by several processes where these have nothing else to do."""
ALONE_FROM = 20_000_000
"""Expected states from which nothing else is explored beside a run of compiled code. It takes gigabytes of memory."""
TIMES_BEYOND, STATES_BEYOND = 4, 10_000
"""A run stops at this many times the expected states, or at this many more, whichever is later. It may have no end."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How the work is divided; the results do not depend on it.

    `jobs` processes take a run each. With `split`, the runs are taken one after the other, and `split` processes, or
    threads of compiled code, share each; 0 leaves that to `shared_by`. `checkpoint` is a folder to keep each run's
    progress in; with `resume` it goes on from what is there. Of an implementation that is explored, the steps from
    these shares of the states are compared with the specification's. With `to_the_end`, a run goes on however many more
    states it has than are expected. With `first`, a run that expects no violation ends with the first one. On a
    `cluster`, the runs are taken one after the other, and its workers share each; with `or_reference`, the reference
    engine explores what a worker cannot compile. With `states`, each run ends there, whatever its scope says.
    """

    jobs: int = 1
    split: int = 0
    checkpoint: Path | None = None
    resume: bool = False
    shares: Mapping[Task, float] = field(default_factory=dict)
    to_the_end: bool = False
    first: bool = False
    cluster: Cluster | None = None
    or_reference: bool = False
    states: int | None = None

    def shared_by(self, tasks: Sequence[Task]) -> int:
        """How many share a run: several if that was asked for, or if a single run is known to be large."""
        if self.cluster is not None:
            return self.cluster.workers
        if self.split:
            return self.split
        alone = len(tasks) == 1 and tasks[0].engine in SHARING
        return self.jobs if alone and expected_states(tasks[0]) >= SHARED_FROM else 1


class Compilation(NamedTuple):
    """What is done before the runs begin, so that several variants are compiled at a time."""

    library: Library
    states: int
    """How many the variant's runs are expected to have together."""


def perform(task: Task, watch: Watch | None = None, effort: Effort = Effort(), shared_by: int = 1) -> Run:
    """Explore, and judge; `shared_by` is the number of processes, or of threads of compiled code."""
    component = component_named(task.component)
    variant, scope = variant_named(component, task.variant), scope_named(component, task.scope)
    scope = as_judged(engine_module(task.engine), scope)
    plan = scope.plan_for(task.variant)
    if not effort.to_the_end:
        plan = bounded(plan, scope.expectation(task.variant).states)
    if effort.states is not None:
        plan = replace(plan, limit_states=effort.states)
    if effort.first and not scope.expectation(task.variant).violations:
        plan = replace(plan, first=True)
    subject = Subject(component.name, variant.tag, scope.config, plan, task.engine)
    threads = shared_by if task.engine == NATIVE and effort.cluster is None else 1
    checkpoint = None
    if effort.checkpoint is not None:
        identity = identity_of(component, variant, scope.config, subject.plan)
        checkpoint = Checkpoint(effort.checkpoint / run_name(task), identity, effort.resume)
    share = effort.shares.get(task, 0.0)

    def explored(subject: Subject) -> Exploration:
        if effort.cluster is None:
            states = scope.expectation(task.variant).states or 0
            engine_module(subject.engine).prepare(component, subject.plan.explored(variant), states)
        return engine_named(subject.engine)(
            component,
            variant,
            scope.config,
            subject.plan,
            watch,
            crew=_crew(subject, effort, shared_by),
            share=share,
            checkpoint=checkpoint,
            threads=threads,
        )

    try:
        exploration = explored(subject)
    except NoCompilerError as error:
        if not effort.or_reference:
            raise
        announce(f"{error}. The reference engine goes on")
        exploration = explored(subject._replace(engine=REFERENCE))
    except UnsoundReductionError as error:
        exploration = _unreduced(task, variant, scope, plan, watch)
        remark = f"{error}; {MISCOMPILED if task.engine == NATIVE else UNSOUND}"
        return Run(task, scope, exploration, judge(component, variant, scope, exploration, (remark,)), remark)
    return Run(task, scope, exploration, judge(component, variant, scope, exploration))


def _crew(subject: Subject, effort: Effort, shared_by: int) -> Crew | None:
    """Several workers, if the run is shared by workers and not by threads."""
    if effort.cluster is not None:
        return crew_on(effort.cluster, subject)
    return Processes(subject, shared_by) if shared_by > 1 and subject.engine != NATIVE else None


def bounded(plan: Plan, golden: int | None) -> Plan:
    """The plan with a limit of states far beyond the golden count; a scope's own limit stays."""
    if golden is None or plan.limit_states is not None:
        return plan
    return replace(plan, limit_states=max(TIMES_BEYOND * golden, golden + STATES_BEYOND))


MISCOMPILED = (
    "the compiled code does another step than the specification, or the reduction is wrong: compare with --engine "
    "reference; the properties below were looked for without reductions, up to the first violation"
)
UNSOUND = (
    "a transition does not respect the declared reduction (`interchangeable`, ranks or `normal`), or the declaration "
    "is wrong; the properties below were looked for without reductions, up to the first violation"
)


def _unreduced(task: Task, variant: AnyVariant, scope: Scope, plan: Plan, watch: Watch | None) -> Exploration:
    """What the same run finds without symmetry and without a canonical form, up to the first violation."""
    component = component_named(task.component)
    most = max(plan.limit_states or 0, STATES_BEYOND)
    plain = replace(plan, symmetry=False, first=True, until=frozenset(), limit_states=most)
    try:
        return engine_named(REFERENCE)(component, replace(variant, normal=None), scope.config, plain, watch)
    except UnsoundReductionError:
        return Exploration(component.name, variant.tag, task.engine, 0, 0, 0, "", Ending.UNSOUND)


def judged_anew(run: Run) -> Run:
    """The same findings against what the scope file expects now."""
    component = component_named(run.task.component)
    scope = scope_named(component, run.task.scope)
    variant = variant_named(component, run.task.variant)
    return replace(run, scope=scope, judgement=judge(component, variant, scope, run.exploration))


def perform_all(tasks: Sequence[Task], effort: Effort, show: Show) -> Generator[Run, None, None]:
    """Every run, as it ends. An interruption ends those in progress with what is known so far, and starts no others.

    The largest runs of compiled code come last, one after another, each on all cores: two of them at once might take
    more memory than there is.
    """
    shared_by = effort.shared_by(tasks)
    on_a_device = any(task.engine == CUDA for task in tasks)  # each run takes what is left of its memory
    alone = on_a_device or effort.cluster is not None
    if alone or effort.jobs == 1 or len(tasks) < 2 or shared_by > 1:
        yield from _one_after_another(tasks, effort, shared_by, show)
        return
    largest = [task for task in tasks if task.engine == NATIVE and expected_states(task) >= ALONE_FROM]
    try:
        yield from _side_by_side([task for task in tasks if task not in largest], effort, show)
    except KeyboardInterrupt:  # the runs in progress have ended with what is known
        return
    yield from _one_after_another(largest, effort, effort.jobs, show)


def _side_by_side(tasks: Sequence[Task], effort: Effort, show: Show) -> Iterator[Run]:
    expected = states_by_library(task for task in tasks if task.engine == NATIVE)
    works: list[Compilation | Task] = [*(Compilation(*each) for each in expected.items()), *tasks]
    if not works:
        return
    for run in workers.shared_out(partial(_perform_in_worker, effort), works, min(effort.jobs, len(works)), show=show):
        if run is not None:
            yield run


def _one_after_another(tasks: Sequence[Task], effort: Effort, shared_by: int, show: Show) -> Iterator[Run]:
    for task in tasks:
        run = perform(task, _watch(task, show), effort, shared_by)
        yield run
        if run.exploration.ending is Ending.INTERRUPTED:
            return


def _watch(task: Task, show: Show) -> Watch:
    return lambda snapshot: _tell(show, task, snapshot)


def _tell(show: Show, task: Task, snapshot: Snapshot) -> None:
    show(
        f"{task}: {snapshot.states:,} states at depth {snapshot.depth}, "
        f"{snapshot.states_per_second:,.0f} states/s, {snapshot.resident_bytes / 2**20:,.0f} MiB"
    )


# In worker processes ------------------------------------------------------------------------------------------------


def _perform_in_worker(effort: Effort, task: Compilation | Task) -> Run | None:
    if isinstance(task, Compilation):
        workers.tell(f"{task.library.component} {task.library.variant}: compiling")
        engine_module(NATIVE).prepare(*task.library.subject(), task.states)
        return None
    try:
        return perform(task, lambda snapshot: _report_from_worker(task, snapshot), effort)
    except Exception as error:
        raise fault_in_component(error) or error from error  # the traceback stays in this process


def _report_from_worker(task: Task, snapshot: Snapshot) -> None:
    _tell(workers.tell, task, snapshot)
    if workers.stopped():
        raise KeyboardInterrupt
