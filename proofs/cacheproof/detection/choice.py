"""The mutants that every kind of evidence is asked about: some for each transition, the same ones every time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType

from cacheproof.model.registry import AnyComponent
from cacheproof.mutants.functions import by_operation
from cacheproof.mutants.generate import Mutant, mutants_of

FOR_EACH_TRANSITION = 3
SEED = 1


@dataclass(frozen=True, slots=True)
class Drawn:
    """A mutant, and the transition that it was drawn for."""

    operation: str
    mutant: Mutant


def drawn(component: AnyComponent, each: int = FOR_EACH_TRANSITION, seed: int = SEED) -> list[Drawn]:
    """`each` mutants for each normative transition, or as many as there are; each mutant once.

    A function that the transition calls is drawn first, and then one of its mutants. So a long helper has no more
    mutants than a short one. The draws of a transition do not depend on those of other components.
    """
    mutants: dict[FunctionType, list[Mutant]] = {}
    for mutant in mutants_of(component):
        mutants.setdefault(mutant.function, []).append(mutant)
    taken: set[str] = set()
    found: list[Drawn] = []
    for operation, functions in by_operation(component).items():
        source = random.Random(f"{seed}/{component.name}/{operation}")  # noqa: S311  # not a secret
        own = [[one for one in mutants.get(function, ()) if one.name not in taken] for function in functions]
        for mutant in _some(own, each, source):
            taken.add(mutant.name)
            found.append(Drawn(operation, mutant))
    return found


def _some(groups: Sequence[list[Mutant]], wanted: int, source: random.Random) -> list[Mutant]:
    """Draw this number of mutants: a group first, and then one of its mutants. An empty group is left out."""
    groups = [group for group in groups if group]
    chosen: list[Mutant] = []
    while groups and len(chosen) < wanted:
        group = source.choice(groups)
        chosen.append(group.pop(source.randrange(len(group))))
        groups = [one for one in groups if one]
    return chosen
