"""One mutant: what notices it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase

from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent, component_named
from cacheproof.model.rewriting import Rewritten
from cacheproof.model.scope import DEFAULT, Scope, scopes_of
from cacheproof.mutants.equivalence import looks_the_same
from cacheproof.mutants.functions import entrances
from cacheproof.mutants.generate import Mutant
from cacheproof.mutants.plant import planted
from cacheproof.mutants.watch import Stopped, TooLongError, timed
from cacheproof.search.reference import ENGINE, explore
from cacheproof.search.result import Ending, Exploration
from cacheproof.search.verdict import unwitnessed
from cachespec.kernel import NORMATIVE

STATES_AT_LEAST = 50_000
"""A mutant may always have so many states in a scope."""


class Fate(Enum):
    """What became of a mutant."""

    PROPERTY = "property"
    """A property does not hold."""
    WITNESS = "witness"
    """Every property holds, and a witness is not reached in any scope."""
    DIVERGED = "diverged"
    """A call does not return."""
    RAISED = "raised"
    """A call raises: what is written there is no transition, and any use would show it. Not counted as killed."""
    EQUIVALENT = "equivalent"
    """The same to be seen and the same outcomes, however it is driven: in these scopes no property could notice it."""
    SURVIVED = "survived"
    """It can be told from the original, and nothing notices."""
    OPEN = "open"
    """A limit was reached before anything noticed."""


KILLED = frozenset({Fate.PROPERTY, Fate.WITNESS, Fate.DIVERGED})
LIVING = KILLED | {Fate.SURVIVED, Fate.OPEN}
"""Those that count: what raises, and what nobody could tell from the original, is left out."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one mutant: processor seconds over all scopes, and how many times the states of the original."""

    seconds: float = 120.0
    growth: int = 10


@dataclass(frozen=True, slots=True)
class MutantResult:
    """A mutant's fate: `by` is the property, the witness or the error that showed it, `scope` where."""

    name: str
    change: str
    fate: Fate
    by: str = ""
    scope: str = ""
    seconds: float = 0.0
    engine: str = ENGINE
    why: str = ""
    """Why the native engine left the mutant to the reference engine; empty if it was not asked, or answered."""


def never() -> bool:
    """A run that the user does not end."""
    return False


def judged(mutant: Mutant, limits: Limits, stopped: Stopped = never, *, first: tuple[str, ...] = ()) -> MutantResult:
    """Explore the default scopes, small ones first, until something notices the mutant.

    Before them come the scopes with the names in `first`, which may have `*`; that saves time and changes no fate.

    What nothing notices is compared with the original. Raises KeyboardInterrupt soon after `stopped` says so.
    """
    component = component_named(mutant.component)
    calls = frozenset(one.__code__ for one in entrances(component))
    started = time.process_time()
    trial = Trial(mutant, component, limits, first)
    with planted(mutant) as forms:
        calls |= {mutant.function.__code__}
        try:
            with timed(limits.seconds, calls, stopped):
                trial.run(forms)
        except TooLongError as late:
            if late.diverged:
                trial.says(Fate.DIVERGED, "a call does not return")
            else:
                trial.says(Fate.OPEN, f"over {limits.seconds:g} s")
        except MemoryError:
            trial.says(Fate.OPEN, "no more memory")
        except Exception as error:  # noqa: BLE001  # whatever nonsense a mutant computes
            trial.says(Fate.RAISED, f"{type(error).__name__}: {error}"[:120])
    return replace(trial.result, seconds=round(time.process_time() - started, 3))


class Trial:
    """The scopes of one mutant, one after the other."""

    def __init__(self, mutant: Mutant, component: AnyComponent, limits: Limits, first: tuple[str, ...]) -> None:
        self.component, self.limits, self.first = component, limits, first
        self.scope: Scope | None = None
        self.result = MutantResult(mutant.name, mutant.change, Fate.SURVIVED)

    def says(self, fate: Fate, by: str = "") -> None:
        """What is known of the mutant now."""
        where = self.scope.name if self.scope is not None else ""
        self.result = replace(self.result, fate=fate, by=by, scope=where)

    def run(self, forms: Rewritten) -> None:
        """Until something notices it; if nothing does, until something differs."""
        scopes, found, grown = scopes_for(self.component, self.first), list[Exploration](), ""
        for self.scope in scopes:
            exploration = self.exploration(self.scope)
            if exploration.violations:
                self.says(Fate.PROPERTY, exploration.violations[0].property)
                return
            if exploration.ending is Ending.STATES:
                grown = grown or f"over {exploration.states} states in {self.scope.name}"
            if exploration.ending is Ending.INTERRUPTED:
                raise KeyboardInterrupt
            found.append(exploration)
        self.scope = None
        if grown:
            self.says(Fate.OPEN, grown)
            return
        missing = unwitnessed(self.component, found)
        if missing:
            self.says(Fate.WITNESS, missing[0])
            return
        self.says(Fate.SURVIVED)
        if all(self.looks_the_same(scope, forms) for scope in scopes):
            self.says(Fate.EQUIVALENT)

    def exploration(self, scope: Scope) -> Exploration:
        """The mutant in one scope, up to the level of the first violation."""
        golden = scope.expectation(NORMATIVE).states or 0
        most = max(STATES_AT_LEAST, self.limits.growth * golden)
        plan = replace(scope.plan, first=True, limit_states=most)
        return self.explored(scope, plan)

    def explored(self, scope: Scope, plan: Plan) -> Exploration:
        """What an engine finds in a scope."""
        return explore(self.component, self.component.normative, scope.config, plan)

    def looks_the_same(self, scope: Scope, forms: Rewritten) -> bool:
        """Whether nothing tells the mutant from the original in a scope."""
        return looks_the_same(self.component, scope, forms)


def scopes_for(component: AnyComponent, first: tuple[str, ...] = ()) -> list[Scope]:
    """The default scopes of the normative variant: those named first, then those with the fewest states."""
    chosen = [scope for scope in scopes_of(component) if scope.set == DEFAULT and NORMATIVE in scope.variants]

    def order(scope: Scope) -> tuple[bool, int]:
        is_first = any(fnmatchcase(scope.name, pattern) for pattern in first)
        return not is_first, scope.expectation(NORMATIVE).states or 0

    return sorted(chosen, key=order)
