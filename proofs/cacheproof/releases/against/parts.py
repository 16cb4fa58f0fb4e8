"""What is run when two implementations are compared: which component of both, in which configurations, how far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from cacheproof.lockstep.campaign import RESTART_EVERY
from cacheproof.lockstep.configurations import GENERATORS, STEPS_IN_EACH, drawn
from cacheproof.lockstep.pair import PATIENCE
from cacheproof.model.registry import component_named
from cacheproof.releases.budget import RANDOM, Budget
from cacheproof.targets.vllm.eras import Era
from cachespec.kernel import NORMATIVE

DRAWN_IN_PART = 20
"""Random configurations in one part of a run."""
ELSEWHERE = Budget(times=1, steps_in_each=STEPS_IN_EACH, episode=RESTART_EVERY, patience=PATIENCE)
"""For the random configurations of components without a budget of their own."""


@dataclass(frozen=True, slots=True)
class Line:
    """One component of both sides, by names only: other processes read it."""

    component: str
    alphabet: str
    """The variant whose environment offers the calls: that of the base."""
    target: str
    base: str
    """The variants that the drivers are told."""

    @property
    def name(self) -> str:
        """As reports name it."""
        return self.component if self.alphabet == NORMATIVE else f"{self.component} {self.alphabet}"


@dataclass(frozen=True, slots=True)
class Listed:
    """A line with its configurations. The eras of both sides limit the settings."""

    line: Line
    configurations: tuple[Any, ...]
    eras: tuple[Era, ...] = ()

    def has(self, config: Any) -> bool:
        """Whether both sides have all settings of this configuration."""
        return all(era.has(config) for era in self.eras)


@dataclass(frozen=True, slots=True)
class Part:
    """Some configurations of one line; each is run for `steps` calls."""

    line: Line
    number: int
    """Parts of a line are numbered: of several differences the one in the first part is reported."""
    configurations: tuple[tuple[Any, ...], ...]
    """As plain tuples, which another process reads."""
    steps: int
    episode: int
    patience: int
    seed: int


def parts_of(lines: Iterable[Listed], *, steps: int, seed: int, endless: bool) -> Iterator[Part]:
    """The listed configurations of every line, then random ones; with `endless`, more of both for ever.

    Each round takes another seed, so no round repeats the calls of another.
    """
    every, numbers = list(lines), dict[Line, int]()
    for turn in count():
        for one in every:
            for part in (*_listed(one, steps, seed, turn), *_random(one, steps, seed, turn)):
                numbers[one.line] = numbers.get(one.line, -1) + 1
                yield Part(one.line, numbers[one.line], *part)
        if not endless:
            return


APART = 1_000_003
"""Between the seeds of two rounds."""

_Told = tuple[tuple[tuple[Any, ...], ...], int, int, int, int]


def _listed(one: Listed, steps: int, seed: int, turn: int) -> Iterator[_Told]:
    """One part: the calls are shared out among the configurations."""
    there = [config for config in one.configurations if one.has(config)]
    if there:
        share = -(-steps // len(there))
        yield _plain(there), share, RESTART_EVERY, PATIENCE, seed + turn * APART


def _random(one: Listed, steps: int, seed: int, turn: int) -> Iterator[_Told]:
    """Parts of a few configurations each, which processes can share."""
    if one.line.component not in GENERATORS:
        return
    component, budget = component_named(one.line.component), RANDOM.get(one.line.component, ELSEWHERE)
    amount = -(-steps * budget.times // budget.steps_in_each)
    for first in range(turn * amount, (turn + 1) * amount, DRAWN_IN_PART):
        numbers = range(first, min(first + DRAWN_IN_PART, (turn + 1) * amount))
        there = [drawn(component, seed, number, one.has) for number in numbers]
        yield _plain(there), budget.steps_in_each, budget.episode, budget.patience, seed


def _plain(configs: Iterable[Any]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(config) for config in configs)
