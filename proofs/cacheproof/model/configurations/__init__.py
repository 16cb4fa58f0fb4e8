"""Random configurations of components, for `explore` and for lockstep where the listed ones do not lead.

A module here has a component's name and a `draw`, which makes a small configuration from a random source. What it draws
are configurations in which released packages can be driven. Whether the numbers of one go together is for the component
to say: one that does not hold is drawn again.

`near` mixes a drawn configuration with a given one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

from cacheproof.foundation.discover import discover
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import AnyComponent

Draw = Callable[[random.Random], Any]

ATTEMPTS = 2_000
"""The number of draws for one configuration. If none of them holds, the generator is wrong."""
SHARES = (0.15, 0.4, 0.8)
"""The share of the values that `near` takes from a drawn configuration, or more; one of them for each number."""
ATTEMPTS_NEAR = 20
"""The number of draws that `near` makes before it gives up."""


GENERATORS: Mapping[str, Draw] = discover(__name__, "draw", FunctionType)
"""The generator of each component that has one."""


def configurations(
    component: AnyComponent, seed: int, suitable: Callable[[Any], bool] = lambda config: True
) -> Iterator[Any]:
    """Configurations without end, the same ones for the same seed. Raises InputError where none can be drawn.

    Each has its own random source, so the part of a run that found something can be had alone.
    """
    number = 0
    while True:
        yield drawn(component, seed, number, suitable)
        number += 1


def drawn(
    component: AnyComponent, seed: int, number: int, suitable: Callable[[Any], bool] = lambda config: True
) -> Any:
    """The configuration of this number: the first one drawn that holds and is suitable.

    Raises InputError if none is, or if the component has no generator.
    """
    if component.name not in GENERATORS:
        raise InputError(f"{component.name} has no generator of configurations: there are {', '.join(GENERATORS)}")
    draw = GENERATORS[component.name]
    source = random.Random(f"{component.name}/{seed}/{number}")  # noqa: S311  # not a secret
    attempts = (draw(source) for _ in range(ATTEMPTS))
    found = next((one for one in attempts if component.invalid(one) is None and suitable(one)), None)
    if found is None:
        raise InputError(f"{component.name}: none of {ATTEMPTS:,} random configurations is suitable")
    return found


def near(component: AnyComponent, config: Any, number: int) -> Any:
    """The configuration with some values of a drawn one, the same for the same number; it holds.

    Values that do not hold with the others bring more of the drawn ones with them, such as the sizes of the contents
    that the drawn requests have. The configuration itself where the component has no generator, or where none holds.
    """
    draw = GENERATORS.get(component.name)
    if draw is None:
        return config
    source = random.Random(f"{component.name}/near/{number}")  # noqa: S311  # not a secret
    share = source.choice(SHARES)
    for _ in range(ATTEMPTS_NEAR):
        values = draw(source)._asdict()
        names = list(config._fields)
        source.shuffle(names)
        for count in range(max(1, round(share * len(names))), len(names) + 1):
            mixed = config._replace(**{name: values[name] for name in names[:count]})
            if mixed != config and component.invalid(mixed) is None:
                return mixed
    return config
