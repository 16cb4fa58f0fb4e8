"""What is run when two implementations are compared: which component of both, in which configurations, how far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from cacheproof.lockstep.campaign import RESTART_EVERY
from cacheproof.lockstep.decisions import DECISIONS
from cacheproof.lockstep.pair import PATIENCE
from cacheproof.model.registry import component_named
from cacheproof.model.scope import random_configuration
from cacheproof.releases.budget import RANDOM, STEPS_IN_EACH, Budget
from cacheproof.targets.vllm.eras import Era
from cachespec.kernel import NORMATIVE

FIRST_ROUND = 5
"""The first round of an endless run has this part of the calls of each other round."""
WINDOWED = 4
"""A line with a window has this part of the random configurations."""
LEAST = 2 * RESTART_EVERY
"""Calls in each listed configuration: two episodes."""
APART = 1_000_003
"""Between the seeds of two rounds."""
DRAWN_AT_ONCE = 20
"""Random configurations in one stretch."""
SCREENED = 5
"""A screened round draws this many times as many configurations, because most of their episodes show nothing new."""
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
    window: int = 0
    """Tokens that a layer looks back, on both sides. The specification has no windows: it offers the calls."""

    @property
    def name(self) -> str:
        """As reports name it."""
        plain = self.component if self.alphabet == NORMATIVE else f"{self.component} {self.alphabet}"
        return f"{plain}, window {self.window}" if self.window else plain


@dataclass(frozen=True, slots=True)
class Listed:
    """A line with its configurations. The eras of both sides limit the settings."""

    line: Line
    configurations: tuple[Any, ...]
    eras: tuple[Era, ...] = ()
    changed: frozenset[str] | None = None
    """The files that its driver reads and that differ between two releases; None if the sides are no releases."""

    def has(self, config: Any) -> bool:
        """Whether both sides have all settings of this configuration."""
        return all(era.has(config) for era in self.eras)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some configurations; each is run for `steps` calls."""

    configurations: tuple[tuple[Any, ...], ...]
    """As plain tuples, which another process reads."""
    steps: int
    episode: int
    patience: int
    seed: int
    screened: bool = False
    """Whether both sides make only the episodes with a situation that is new to the specification."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one process does at a time, with both sides opened once."""

    line: Line
    number: int
    """Parts of a line are numbered: of several differences the one in the first part is reported."""
    stretches: tuple[Stretch, ...]


def parts_of(lines: Iterable[Listed], *, steps: int, seed: int, endless: bool) -> Iterator[Part]:
    """The listed configurations of every line, then random ones; with `endless`, more of both for ever.

    Each round takes another seed, so no round repeats the calls of another. The first of an endless run is short: what
    any component shows soon comes before the long runs of the others. A line is one part of a round, unless its random
    configurations have a budget of their own: then processes share them, and later rounds begin with them.
    """
    numbers = dict[Line, int]()
    for turn, one in _turns(list(lines), endless=endless):
        share = -(-steps // FIRST_ROUND) if endless and turn == 0 else steps
        stretches = [*_listed(one, share, seed, turn), *_random(one, share, seed, turn)]
        shared = one.line.component in RANDOM
        for together in [(each,) for each in stretches] if shared else [tuple(stretches)]:
            numbers[one.line] = numbers.get(one.line, -1) + 1
            yield Part(one.line, numbers[one.line], together)


def _turns(lines: list[Listed], *, endless: bool) -> Iterator[tuple[int, Listed]]:
    """The number of the round, and a line that is run in it.

    Lines whose files have changed come first, and are in every round. The others have one, behind the second round of
    those. If no file has changed, one round is all.
    """
    first = [one for one in lines if one.changed != frozenset()]
    others = [one for one in lines if one not in first]
    if not endless or not first:
        yield from ((0, one) for one in (*first, *others))
        return
    for turn in count():
        yield from ((turn, one) for one in (sorted(first, key=_is_plain) if turn else first))
        yield from ((0, one) for one in (others if turn == 1 else ()))


def _is_plain(one: Listed) -> bool:
    return one.line.component not in RANDOM


def _listed(one: Listed, steps: int, seed: int, turn: int) -> Iterator[Stretch]:
    """The calls are shared out among the configurations."""
    there = [config for config in one.configurations if one.has(config)]
    if there:
        share = max(-(-steps // len(there)), LEAST)
        yield Stretch(_plain(there), share, RESTART_EVERY, PATIENCE, seed + turn * APART)


def _random(one: Listed, steps: int, seed: int, turn: int) -> Iterator[Stretch]:
    """A few configurations each. Behind the first round they are screened if the component decides between requests."""
    component, budget = component_named(one.line.component), RANDOM.get(one.line.component, ELSEWHERE)
    amount = -(-steps * budget.times // budget.steps_in_each) // (WINDOWED if one.line.window else 1)
    screened = turn > 0 and one.line.component in DECISIONS
    amount, at_once = (times * (SCREENED if screened else 1) for times in (amount, DRAWN_AT_ONCE))
    for first in range(turn * amount, (turn + 1) * amount, at_once):
        numbers = range(first, min(first + at_once, (turn + 1) * amount))
        there = [random_configuration(component, seed, number, one.has) for number in numbers]
        yield Stretch(_plain(there), budget.steps_in_each, budget.episode, budget.patience, seed, screened)


def _plain(configs: Iterable[Any]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(config) for config in configs)
