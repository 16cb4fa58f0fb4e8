"""What a macro is: a generator of bursts, of which each stands for calls one after the other."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from cacheproof.foundation.discover import discover
from cacheproof.foundation.errors import InputError
from cacheproof.model.burst import Answered, Together


class Side(Protocol):
    """The specification's side, as macros look at it to choose their callers."""

    @property
    def config(self) -> Any:
        """The configuration of both sides."""
        ...

    @property
    def state(self) -> Any:
        """The state now; it changes whenever a burst was answered."""
        ...


Play = Generator[Together, Answered, None]
"""Yields bursts, and is sent what came of each."""


@dataclass(frozen=True, slots=True)
class Macro(ABC):
    """So many callers do the same at once. The seed says which, and how much each of them asks for."""

    count: int
    seed: int

    MOST: ClassVar[int | None] = None
    """The largest count that is drawn; None: as many as there are requests."""

    @abstractmethod
    def play(self, side: Side) -> Play:
        """The bursts."""

    def chosen(self, fit: Iterable[int]) -> list[int]:
        """So many of those that fit, in any order; a smaller count chooses the first of them."""
        order = list(fit)
        random.Random(self.seed).shuffle(order)  # noqa: S311  # not a secret
        return order[: self.count]

    def source(self, request: int) -> random.Random:
        """What one caller draws from: the same, whoever else is there."""
        return random.Random(f"{self.seed}/{request}")  # noqa: S311  # not a secret

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.count}, {self.seed})"


def always(_config: Any, _kind: type[Macro]) -> bool:
    """Whatever the configuration."""
    return True


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The macros of one component.

    `weights` says how often each is drawn. `load` makes a configuration of so many requests and, if said, blocks.
    `size` is the number of requests of a configuration: no count is larger. `applies` says whether a configuration has
    what the macro is about.
    """

    weights: Mapping[type[Macro], int]
    load: Callable[[int, int | None, random.Random], Any]
    size: Callable[[Any], int]
    applies: Callable[[Any, type[Macro]], bool] = always

    def draw(self, config: Any, source: random.Random) -> Macro:
        """One macro: of a few callers, of many, or of all."""
        weights = {kind: weight for kind, weight in self.weights.items() if self.applies(config, kind)}
        (kind,) = source.choices(list(weights), list(weights.values()))
        most = min(self.size(config), kind.MOST or self.size(config))
        count = source.choice((most, 1 + source.randrange(most), round(most ** source.random())))
        return kind(count, source.randrange(SEEDS))


SEEDS = 1000
"""Macros have small seeds, to be written down."""


VOCABULARIES = discover(f"{__package__}.vocabularies", "VOCABULARY", Vocabulary)
"""The vocabulary of each component that has one."""


def vocabulary_of(component: str) -> Vocabulary:
    """The macros of a component, or an error that names the components that have some."""
    if component not in VOCABULARIES:
        raise InputError(f"{component} has no macro operations: there are some of {', '.join(VOCABULARIES)}")
    return VOCABULARIES[component]


def spelled(macros: Sequence[Macro]) -> str:
    """As people read them."""
    return ", ".join(map(str, macros))
