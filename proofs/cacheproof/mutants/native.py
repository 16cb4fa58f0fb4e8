"""Mutants on the native engine: many in one compiled library, each explored in a process of its own."""

from __future__ import annotations

import ast
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cacheproof.foundation.errors import InputError
from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent
from cacheproof.model.rewriting import Rewritten
from cacheproof.model.scope import Scope
from cacheproof.mutants.apart import EndedError, apart
from cacheproof.mutants.changes import INJECTED
from cacheproof.mutants.equivalence import PAIRS
from cacheproof.mutants.generate import Mutant
from cacheproof.mutants.judge import Fate, Limits, MutantResult, Trial, judged, never, scopes_for
from cacheproof.mutants.plant import planted
from cacheproof.mutants.watch import Stopped
from cacheproof.search.native.forms import ORIGINAL, Form
from cacheproof.search.native.several import Several, several
from cacheproof.search.result import Exploration

ENGINE = "native"
MEMORY_BYTES = 4 << 30
"""A mutant that makes endless data is ended by this, not by the machine."""
COMPARING_SECONDS = 60.0
"""Processor time for the comparison of all mutants in one scope. Without it, all of them are explored there."""
ENDLESS = "a call does not return"
"""What `forms.hpp` says of a call whose loops have too many turns."""


class Library:
    """Mutants of one component, compiled together: a library for each variant that the default scopes explore."""

    def __init__(self, component: AnyComponent, mutants: Sequence[Mutant], folder: Path) -> None:
        self.component = component
        self.numbers = {mutant.name: number for number, mutant in enumerate(mutants, start=1)}
        forms = [_form(number, mutant) for number, mutant in enumerate(mutants, start=1)]
        self._made: dict[int, Several] = {}
        scopes = scopes_for(component)
        for scope in scopes:
            variant = scope.plan.explored(component.normative)
            if id(variant) not in self._made:
                self._made[id(variant)] = several(component, variant, forms, folder)
        self._originals = {scope.name: self._original(scope) for scope in scopes}

    def refuses(self, mutant: Mutant) -> str:
        """Why the mutant is not in the library; empty if it is."""
        number = self.numbers[mutant.name]
        return next((made.refused[number] for made in self._made.values() if number in made.refused), "")

    def original(self, scope: Scope) -> tuple[Exploration, frozenset[int]]:
        """What is found of the original in a scope, and the mutants that differ from it in some call there."""
        return self._originals[scope.name]

    def _original(self, scope: Scope) -> tuple[Exploration, frozenset[int]]:
        made, plan = self.of(scope.plan), replace(scope.plan, first=True)
        try:  # a mutant may crash, or take all memory
            differing = apart(lambda: _differing(made, scope, plan), COMPARING_SECONDS, MEMORY_BYTES, never)
        except EndedError:
            differing = None
        return made.explore(ORIGINAL, scope.config, plan), made.numbers if differing is None else differing

    def of(self, plan: Plan) -> Several:
        """The library for a plan."""
        return self._made[id(plan.explored(self.component.normative))]


def _differing(made: Several, scope: Scope, plan: Plan) -> frozenset[int] | None:
    """The mutants that differ from the original in some call; None if the comparison fails."""
    try:
        return made.differing(scope.config, plan)
    except InputError:
        return None


def _form(number: int, mutant: Mutant) -> Form:
    tree = ast.parse(mutant.text).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return Form(number, mutant.function, tree, INJECTED)


class NativeTrial(Trial):
    """The scopes of one mutant in compiled code; the Python specification executes its counterexample."""

    def __init__(self, mutant: Mutant, limits: Limits, first: tuple[str, ...], library: Library) -> None:
        super().__init__(mutant, library.component, limits, first)
        self.library, self.form = library, library.numbers[mutant.name]
        self.result = replace(self.result, engine=ENGINE)

    def explored(self, scope: Scope, plan: Plan) -> Exploration:
        """A mutant that is in each call as the original finds the same."""
        found, differing = self.library.original(scope)
        return self.library.of(plan).explore(self.form, scope.config, plan) if self.form in differing else found

    def looks_the_same(self, scope: Scope, forms: Rewritten) -> bool:  # noqa: ARG002  # the library has both forms
        _, differing = self.library.original(scope)
        if self.form not in differing:
            return True
        return self.library.of(scope.plan).alike(self.form, scope.config, scope.plan, PAIRS) is True


def judged_natively(
    mutant: Mutant, limits: Limits, library: Library, stopped: Stopped = never, *, first: tuple[str, ...] = ()
) -> MutantResult:
    """As `judged`, in compiled code. The reference engine takes over if that cannot say, and the result says why."""
    why = library.refuses(mutant)
    if not why:
        try:
            found: MutantResult | str = apart(
                lambda: _outcome(mutant, limits, library, first), limits.seconds, MEMORY_BYTES, stopped
            )
        except EndedError as error:
            found = str(error)
        if isinstance(found, MutantResult):
            return found
        why = found
    return replace(judged(mutant, limits, stopped, first=first), why=why)


def _outcome(mutant: Mutant, limits: Limits, library: Library, first: tuple[str, ...]) -> MutantResult | str:
    """The result; or why compiled code has none, such as a number that does not fit, or an error of Python's."""
    started = time.process_time()
    trial = NativeTrial(mutant, limits, first, library)
    try:
        with planted(mutant) as forms:
            trial.run(forms)
    except InputError as error:
        if ENDLESS not in str(error):
            return str(error)
        trial.says(Fate.DIVERGED, ENDLESS)
    except Exception as error:  # noqa: BLE001  # whatever nonsense a mutant computes
        return f"{type(error).__name__}: {error}"[:120]
    return replace(trial.result, seconds=round(time.process_time() - started, 3))
