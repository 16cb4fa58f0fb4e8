"""Which runs there are: of which scopes, for which variants, by which engine, and how large they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError
from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named, variant_named
from cacheproof.model.scope import DEFAULT, LARGE, STATES_OF_DRAWN, Expectation, Scope, is_drawn, scope_named, scopes_of
from cacheproof.search.engines import CUDA, OF_SPECIFICATION, EngineModule, engine_module
from cacheproof.search.worker import NATIVE, REFERENCE

SMALL = 1_500
"""States of a scope that asks for progress, up to which an engine that does not judge it explores it by default."""
MOST_IN_PYTHON = 600_000
"""A scope with more states is left to compiled code, unless it is asked for by name."""
COMPILED_FROM = 10_000
"""Expected states of a variant's runs from which it is compiled. The compiler takes 4 to 15 seconds."""
MORE = 1.02
"""States are chosen, and not triples: of chance, some have fewer."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run, by names: what a worker process is given."""

    component: str
    variant: str
    scope: str
    engine: str

    def __str__(self) -> str:
        return f"{self.component} {self.variant} {self.scope}"


def run_name(task: Task) -> str:
    """Under which a run is kept; a later run of the same task replaces it."""
    return f"{task.component}.{task.variant}.{task.scope}.{task.engine}"


def tasks_for(
    components: Sequence[AnyComponent],
    *,
    variant: str | None = None,
    scope: str | None = None,
    sets: Collection[str] = (DEFAULT,),
    engine: str = REFERENCE,
) -> list[Task]:
    """The runs of the scopes in some sets, in their order; a scope that is named runs whatever set it is in.

    An engine that cannot do all of them does those that it can; where it can do none, it is an error that says why. One
    that does not judge progress leaves out larger scopes that ask for it, unless more than the default set is wanted.
    """
    tasks, reasons = [], []
    module = engine_module(engine)
    for component in components:
        wanted = variant_named(component, variant).tag if variant is not None else None
        scopes = scopes_of(component) if scope is None else (scope_named(component, scope),)
        asked = [
            (one, tag)
            for one in scopes
            if scope is not None or one.set in sets
            for tag in one.variants
            if wanted in (None, tag)
        ]
        for one, tag in asked:
            if scope is None and tuple(sets) == (DEFAULT,) and is_left_out(module, one, tag):
                continue
            reason = module.cannot(component, component.variants[tag], as_judged(module, one).plan, one.config)
            if reason is None:
                tasks.append(Task(component.name, tag, one.name, engine))
            else:
                reasons.append(reason)
    if reasons and not tasks:
        raise InputError(reasons[0])
    return tasks


def as_judged(engine: EngineModule, scope: Scope) -> Scope:
    """What the engine judges of the scope: without progress, if it does not judge that."""
    return scope if engine.judges_progress else replace(scope, plan=replace(scope.plan, liveness=False))


def is_left_out(engine: EngineModule, scope: Scope, tag: str) -> bool:
    """Whether the engine judges only a part of what this scope asks for, and the scope is not small."""
    states = scope.expectation(tag).states
    return scope.plan.liveness and not engine.judges_progress and (states is None or states > SMALL)


def _expectation(task: Task) -> Expectation:
    return scope_named(component_named(task.component), task.scope).expectation(task.variant)


def expected_states(task: Task) -> int:
    """How many states the run is expected to have: the golden count, or where it ends; 0 if neither is known."""
    if is_drawn(task.scope):
        return STATES_OF_DRAWN
    scope = scope_named(component_named(task.component), task.scope)
    return scope.expectation(task.variant).states or scope.plan.limit_states or 0


def shares_of(tasks: Sequence[Task], triples: int) -> dict[Task, float]:
    """Of which share of its states each run of an implementation compares what happens in them.

    All runs together compare `triples` triples of state, operation and result, or a few more, or all that there are. A
    small run compares all of its own.
    """
    ours = [task for task in tasks if task.engine not in OF_SPECIFICATION]
    known = {task: _expectation(task).transitions for task in ours}
    shares = dict.fromkeys(ours, 1.0)
    left = triples
    counted = sorted((count, str(task), task) for task, count in known.items() if count)
    for place, (count, _, task) in enumerate(counted):
        given = min(count, -(-left // (len(counted) - place)))
        shares[task] = min(1.0, MORE * given / count)
        left -= given
    return shares


class Library(NamedTuple):
    """A variant that is compiled for its runs."""

    component: str
    variant: str
    normal_form: bool

    def subject(self) -> tuple[AnyComponent, AnyVariant]:
        """What is compiled."""
        component = component_named(self.component)
        return component, Plan(normal_form=self.normal_form).explored(component.variants[self.variant])


def library_of(task: Task) -> Library:
    """What is compiled for this run."""
    plan = scope_named(component_named(task.component), task.scope).plan
    return Library(task.component, task.variant, plan.normal_form)


def states_by_library(tasks: Iterable[Task]) -> dict[Library, int]:
    """How many states the runs of each variant are expected to have together."""
    expected: dict[Library, int] = {}
    for task in tasks:
        library = library_of(task)
        expected[library] = expected.get(library, 0) + expected_states(task)
    return expected


def with_faster_engines(tasks: Sequence[Task], show: Show = lambda _: None) -> tuple[list[Task], list[str]]:
    """Each run by the engine that is done first, and why a variant that is worth compiling is not.

    A run is compiled with the others of its variant if they are expected to have many states together.
    """
    compiled: set[Library] = set()
    reasons: dict[str, None] = {}
    for library, states in states_by_library(tasks).items():
        if states >= COMPILED_FROM:
            show(f"{library.component} {library.variant}: translating")
            reason = engine_module(NATIVE).cannot(*library.subject(), Plan())
            if reason is None:
                compiled.add(library)
            else:
                reasons[reason] = None
    fast = [replace(task, engine=NATIVE if library_of(task) in compiled else REFERENCE) for task in tasks]
    return fast, list(reasons)


def is_for_compiled_code(task: Task) -> bool:
    """Whether the scope is large, so that it takes minutes without compilation."""
    return task.engine != NATIVE and scope_named(component_named(task.component), task.scope).set == LARGE


def is_beyond_python(task: Task) -> bool:
    """Whether the run would take an engine in Python hours."""
    return task.engine not in (NATIVE, CUDA) and expected_states(task) > MOST_IN_PYTHON
