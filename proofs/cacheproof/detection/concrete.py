"""Evidence that executes the specification: exploration, any numbers, lockstep with the tensor code, vectors.

A call that raises is detected by all evidence that executes it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import cache, wraps

from cacheproof.detection.evidence import (
    Answer,
    Ask,
    Cell,
    Question,
    detected,
    error_in_words,
    first_detected,
    not_decided,
    not_detected,
)
from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.plan import PROFILES, Plan, perform, subjects_from
from cacheproof.lockstep.tally import Limit
from cacheproof.model.declaration import declared_by
from cacheproof.model.finding import Breakdown, Difference, Finding
from cacheproof.model.registry import AnyComponent, component_named
from cacheproof.model.scope import DEFAULT, Scope, scopes_of
from cacheproof.model.trace import Violation
from cacheproof.mutants.judge import KILLED, Fate, Limits, judged
from cacheproof.mutants.plant import planted
from cacheproof.search.path import UnsoundReductionError
from cacheproof.search.regions.generalised import Extent, Generalisation
from cacheproof.search.regions.number import RefusedError
from cacheproof.search.regions.unknowns import unknowns
from cacheproof.targets.child import SECONDS_TO_ANSWER
from cacheproof.targets.factory import open_target
from cacheproof.vectors.consuming import Consumer, Verdict
from cacheproof.vectors.files import read as read_vectors
from cacheproof.vectors.files import released
from cachespec.kernel import NORMATIVE

STEPS, SEED = 2_000, 1
"""Of lockstep: the number of calls, and the seed."""
TARGET = "torch"
OWN = f"spec:{NORMATIVE}"


def seen_when_it_raises(ask: Ask) -> Ask:
    """The same, and an error of the changed code is detected."""

    @wraps(ask)
    def asked(question: Question) -> Cell:
        try:
            return ask(question)
        except Exception as error:  # noqa: BLE001  # whatever nonsense a mutant computes
            return detected(f"a call raises {error_in_words(error)}")

    return asked


# Exploration ---------------------------------------------------------------------------------------------------------


def explored(question: Question) -> Cell:
    """As `cacheproof mutants` does."""
    found = judged(question.mutant, Limits(seconds=question.seconds))
    if found.fate in KILLED:
        lost = "the witness is lost: " if found.fate is Fate.WITNESS else ""
        return detected(f"{lost}{found.by}" + (f" in {found.scope}" if found.scope else ""))
    if found.fate is Fate.RAISED:
        return detected(f"a call raises {found.by}")
    if found.fate is Fate.OPEN:
        return not_decided(found.by)
    return not_detected("no difference in the default scopes" if found.fate is Fate.EQUIVALENT else "")


# Any numbers ---------------------------------------------------------------------------------------------------------


def has_numbers(component: AnyComponent) -> bool:
    """Whether a default scope is explored for any numbers."""
    return any(_with_numbers(component))


def _with_numbers(component: AnyComponent) -> Iterator[Scope]:
    return (scope for scope in scopes_of(component) if scope.numbers is not None and scope.numbers.set == DEFAULT)


class _BrokenError(Exception):
    """Enough was seen."""


@seen_when_it_raises
def regions(question: Question) -> Cell:
    """Every default scope that names numbers, until one shows the mutant."""
    component = component_named(question.mutant.component)
    with planted(question.mutant):
        return first_detected(list(_until_detected(_region(component, scope) for scope in _with_numbers(component))))


def prepare_regions(component: AnyComponent) -> None:
    """Which witnesses the original reaches: a list in the scope file may be out of date."""
    for scope in _with_numbers(component):
        _unreached(component.name, scope.name)


@cache
def _unreached(component: str, name: str) -> frozenset[str]:
    """The witnesses that the original reaches in no region of a scope. Raises `InputError` if it breaks a property."""
    scope = next(one for one in _with_numbers(component_named(component)) if one.name == name)
    search = _search(component_named(component), scope)
    search.run()
    if search.made.broken:
        raise InputError(
            f"{next(iter(search.made.broken))} is broken in {name} without a mutant: cacheproof regions {component}"
        )
    return frozenset(search.made.unreached)


def _search(component: AnyComponent, scope: Scope, tell: Show = lambda _: None) -> Generalisation:
    assert scope.numbers is not None
    every = unknowns(scope.config, scope.numbers.any)
    return Generalisation(component, component.normative, scope.config, scope.plan, every, tell=tell)


def _region(component: AnyComponent, scope: Scope) -> Cell:
    def look(_: str) -> None:
        if search.made.broken:
            raise _BrokenError

    search = _search(component, scope, look)
    made = search.made
    try:
        search.run()
    except _BrokenError:
        pass
    except (RefusedError, UnsoundReductionError) as error:
        return not_decided(f"{scope.name}: {error}")
    if made.broken:
        return detected(f"{next(iter(made.broken))} in {scope.name}")
    if made.extent is not Extent.COVERED:
        return not_decided(f"{scope.name}: ended by {made.extent.value}")
    lost = [name for name in made.unreached if name not in _unreached(component.name, scope.name)]
    return detected(f"the witness is lost: {lost[0]} in {scope.name}") if lost else not_detected()


def _until_detected(cells: Iterator[Cell]) -> Iterator[Cell]:
    for cell in cells:
        yield cell
        if cell.answer is Answer.DETECTED:
            return


# Lockstep ------------------------------------------------------------------------------------------------------------


def has_tensors(component: AnyComponent) -> bool:
    """Whether the component has tensor code that takes its calls."""
    if importlib.util.find_spec("torch") is None:
        return False
    try:
        open_target(TARGET, component, component.normative).close()
    except InputError:
        return False
    return True


@seen_when_it_raises
def in_lockstep(question: Question) -> Cell:
    """The changed specification beside the tensor code, which is as it was."""
    plan = Plan(
        subjects=subjects_from(question.mutant.component, None, None, []),
        target=TARGET,
        limit=Limit(STEPS, None),
        seed=SEED,
        reuse=False,
        profile=PROFILES["ci"],
        driver="lockstep",
        left_out=frozenset(),
        seconds_to_answer=SECONDS_TO_ANSWER,
        around=True,
        minimises=False,
    )
    with planted(question.mutant):
        campaign = perform(plan)
    if campaign.finding is None:
        return not_detected(f"{campaign.tally.steps:,} calls agree")
    return _of_finding(campaign.finding, campaign.tally.steps)


def _of_finding(finding: Finding, steps: int) -> Cell:
    if isinstance(finding, Breakdown) and not finding.crash:
        return not_decided(f"the target failed: {finding.failure.value}")
    if isinstance(finding, Violation):
        return detected(f"{finding.property} after {steps:,} calls")
    what = "a difference" if isinstance(finding, Difference) else "a crash"
    return detected(f"{what} after {steps:,} calls")


# Vectors -------------------------------------------------------------------------------------------------------------


def has_vectors(component: AnyComponent) -> bool:
    """Whether vectors of the component come with the package."""
    try:
        return bool(released(component.name))
    except InputError:
        return False


@seen_when_it_raises
def with_vectors(question: Question) -> Cell:
    """The released vectors on the changed specification, until one fails."""
    component = component_named(question.mutant.component)
    sets = [(path, read_vectors(path)) for path in released(component.name)]
    with planted(question.mutant):
        target = open_target(OWN, component, component.normative)
        consumer = Consumer(target, OWN, declared_by(component, target))
        failed = 0
        for path, vectors in sets:
            if vectors.variant != NORMATIVE:
                continue
            for result in consumer.consume([(path, vectors)]).results:
                if result.verdict is Verdict.FAILED:
                    return detected(f"{result.name}, step {result.step}")
                failed += result.verdict is Verdict.BROKE_DOWN
    return not_decided(f"{failed} cases gave no answer") if failed else not_detected()
