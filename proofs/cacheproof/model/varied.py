"""Random changes of the configurations that a component's scopes have: for components without a generator."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.model.configuration_edits import holds, lengths, numbers, put, with_place_again, without_place
from cacheproof.model.registry import AnyComponent

ATTEMPTS = 500
"""The number of changes that are tried. If none of them holds, that is an error."""
MOST_CHANGES = 4
MOST_CALLS = 5_000
"""A configuration has no more calls at the start: each step of a run looks through all of them."""

Change = Callable[[Any, Sequence[Any], random.Random], Any]


def varied(
    component: AnyComponent,
    bases: Sequence[Any],
    seed: int,
    number: int,
    suitable: Callable[[Any], bool] = lambda config: True,
) -> Any:
    """The configuration of this number: one of `bases` with up to four changes. The same for the same seed.

    Raises InputError if no change of it holds and is suitable.
    """
    if not bases:
        raise InputError(f"{component.name}: no scope has a suitable configuration to change")
    source = random.Random(f"{component.name}/varied/{seed}/{number}")  # noqa: S311  # not a secret
    made, most = [source.choice(bases)], source.randint(1, MOST_CHANGES)
    for _ in range(ATTEMPTS):
        candidate = source.choice(CHANGES)(made[-1], bases, source)
        fits = candidate not in made and holds(component, candidate) and suitable(candidate)
        if fits and has_few_calls(component, candidate):
            made.append(candidate)
        if len(made) > most:
            break
    if len(made) == 1:
        raise InputError(f"{component.name}: none of {ATTEMPTS} random changes of a configuration holds")
    return made[-1]


def has_few_calls(component: AnyComponent, config: Any) -> bool:
    """Whether the environment may make few calls at first. A choice that is there twice doubles some numbers."""
    variant = component.normative
    return len(tuple(islice(variant.alphabet(config, variant.start(config)), MOST_CALLS + 1))) <= MOST_CALLS


def another_number(config: Any, bases: Sequence[Any], source: random.Random) -> Any:
    """One number is 0, 1, one less, one more, or twice as large."""
    path, value = source.choice(numbers(config))
    return put(config, path, source.choice((0, 1, value - 1, value + 1, 2 * value)))


def another_field(config: Any, bases: Sequence[Any], source: random.Random) -> Any:
    """One field is as in another configuration."""
    name = source.choice(config._fields)
    return config._replace(**{name: getattr(source.choice(bases), name)})


def one_more(config: Any, bases: Sequence[Any], source: random.Random) -> Any:
    """A request, or what else fields are about, is there twice."""
    return _at_a_place(config, source, with_place_again)


def one_less(config: Any, bases: Sequence[Any], source: random.Random) -> Any:
    """One is left out."""
    return _at_a_place(config, source, without_place)


def _at_a_place(config: Any, source: random.Random, change: Callable[[Any, int, int], Any]) -> Any:
    known = lengths(config)
    if not known:
        return config
    length = source.choice(known)
    return change(config, length, source.randrange(length))


CHANGES: tuple[Change, ...] = (another_number, another_number, another_field, one_more, one_less)
