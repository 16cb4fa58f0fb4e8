"""The plainest configuration that still violates a property, and a shortest trace in it.

A random configuration has settings, requests and numbers that a violation does not need. Leaving them out one at a time
shows what it does need.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.foundation.minimise import descended
from cacheproof.model.configuration_edits import holds, lengths, nodes, numbers, put, without, without_place
from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.trace import Violation
from cacheproof.search.engines import engine_named
from cacheproof.search.path import UnsoundReductionError
from cacheproof.search.result import Ending
from cachespec.kernel import Progress


def plainest(
    component: AnyComponent,
    variant: AnyVariant,
    engine: str,
    violation: Violation,
    states: int,
    seconds: float,
    show: Show,
    suitable: Callable[[Any], bool] = lambda config: True,
    alike: Callable[[Violation], bool] = lambda violation: True,
) -> Violation:
    """The same property in a configuration from which nothing more can be left out alone; its trace is no longer.

    Each candidate is `suitable`, and explored up to `states`; its violation is `alike`. One in which a reduction is
    unsound is passed over. After `seconds` the plainest one until then stands.
    Raises KeyboardInterrupt if the user ends it.
    """
    (rule,) = (rule for rule in component.properties() if rule.name == violation.property)
    plan = Plan(
        symmetry=False, liveness=isinstance(rule, Progress), limit_states=states, until=frozenset({violation.property})
    )
    deadline = time.monotonic() + seconds
    tried: set[Any] = set()

    def accepted(best: Violation, config: Any) -> Violation | None:
        if config in tried or time.monotonic() > deadline or not (holds(component, config) and suitable(config)):
            return None
        tried.add(config)
        show(f"{component.name} {variant.tag} {violation.property}: plainer configurations, {len(tried):,} explored")
        try:
            made = engine_named(engine)(component, variant, config, plan, None)
        except UnsoundReductionError:
            return None
        if made.ending is Ending.INTERRUPTED:
            raise KeyboardInterrupt
        found = next((one for one in made.violations if one.property == violation.property), None)
        if found is None or len(found.trace.steps) > len(best.trace.steps) or not alike(found):
            return None
        return found

    return descended(violation, lambda best: plainer(best.trace.config), accepted)


def plainer(config: Any) -> Iterator[Any]:
    """Configurations with less in one respect: without a request or an item, a field as by default, a smaller number.

    Some have not the types of a configuration.
    """
    size = size_of(config)
    for candidate in (*without_one(config), *with_a_default(config), *with_less(config)):
        if size_of(candidate) < size:
            yield candidate


def size_of(config: Any) -> tuple[int, int, int]:
    """How many numbers there are, how many fields are not as by default, and the sum of the numbers."""
    found = [value for _, value in numbers(config)]
    return len(found), len(settings_of(config)), sum(map(abs, found))


def settings_of(config: Any) -> list[str]:
    """The fields that are not as by default."""
    defaults = config._field_defaults
    return [name for name in config._fields if name in defaults and getattr(config, name) != defaults[name]]


def without_one(config: Any) -> Iterator[Any]:
    """Without the same place of all fields of one length: without a request, or a content."""
    for length in lengths(config):
        for place in reversed(range(length)):
            yield without_place(config, length, place)


def with_a_default(config: Any) -> Iterator[Any]:
    """With a field as by default, or with two: some fields are refused without one another."""
    names = settings_of(config)
    for chosen in (*combinations(names, 1), *combinations(names, 2)):
        yield config._replace(**{name: config._field_defaults[name] for name in chosen})


def with_less(config: Any) -> Iterator[Any]:
    """With one entry of a tuple left out, or with one number smaller."""
    for path, value in nodes(tuple(config)):
        if isinstance(value, tuple):
            for place in range(len(value)):
                yield put(config, path, without(value, place))
        else:
            for less in sorted({0, 1, value // 2, value - 1}):
                if 0 <= less < value:
                    yield put(config, path, less)
