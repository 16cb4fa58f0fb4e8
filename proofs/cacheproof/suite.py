"""The tests that an implementation in Python gets in its own project, by one line of a test file.

    test_my_cache = cacheproof.tests_for("lru", MyCache)

or, above the factory,

    @cacheproof.implements("lru")
    def test_my_cache(config):
        return MyCache(config.capacity)

The plugin for pytest (`cacheproof.pytest_plugin`) makes tests of it. This module imports nothing of the specification:
it is on the way of every run of pytest in whose environment the package is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cacheproof.implementation import Factory


@dataclass(frozen=True, slots=True)
class Suite:
    """What is to be tested. Calling it calls the factory, so that `python:MODULE:NAME` names it as a target too."""

    component: str
    factory: Factory
    variant: str = "normative"
    scopes: tuple[str, ...] = ()
    """Only these scopes; all of the component's that the profile has, where there is none."""
    without: tuple[str, ...] = ()
    """Operations that the implementation does not have; they are never asked for."""
    deviations: tuple[str, ...] = ()
    """Rules, or entries of the catalogue, that the implementation follows instead of those of the variant."""
    traces: bool = True
    """Whether the shortest traces of the catalogue are tests too."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Values in place of those of every scope's configuration."""
    unit: str = ""
    """`entries` if the implementation counts entries and not bytes."""

    def __call__(self, config: Any) -> object:
        """An implementation in this configuration."""
        return self.factory(config)


def tests_for(
    component: str,
    factory: Factory,
    *,
    variant: str = "normative",  # noqa: PT028  # no test: its name only sounds so
    scopes: Sequence[str] = (),  # noqa: PT028  # likewise
    without: Sequence[str] = (),  # noqa: PT028  # likewise
    deviations: Sequence[str] = (),  # noqa: PT028  # likewise
    traces: bool = True,  # noqa: PT028  # likewise
    config: Mapping[str, Any] | None = None,  # noqa: PT028  # likewise
    unit: str = "",  # noqa: PT028  # likewise
) -> Suite:
    """The tests of one implementation, to be assigned to any name of a test file.

    For each scope of the component there is a stateful test in lockstep with the variant of the specification, and one
    for each shortest trace of the catalogue. What is named wrong is an error when the tests are collected.

    `config` replaces values in the configuration of every scope, as `--config` of `cacheproof fuzz` does. With the unit
    `entries`, every entry has the size 1 and the capacity is a number of entries. A trace whose configuration would be
    another one is left out.
    """
    chosen: dict[str, Any] = {"scopes": tuple(scopes), "without": tuple(without), "deviations": tuple(deviations)}
    return Suite(component, factory, variant, traces=traces, config=dict(config or {}), unit=unit, **chosen)


def implements(
    component: str,
    *,
    variant: str = "normative",
    scopes: Sequence[str] = (),
    without: Sequence[str] = (),
    deviations: Sequence[str] = (),
    traces: bool = True,
    config: Mapping[str, Any] | None = None,
    unit: str = "",
) -> Callable[[Factory], Suite]:
    """The same as a decorator of the factory, which becomes the tests; calling it still makes an implementation."""
    chosen: dict[str, Any] = {"scopes": scopes, "without": without, "deviations": deviations}

    def suite(factory: Factory) -> Suite:
        return tests_for(component, factory, variant=variant, traces=traces, config=config, unit=unit, **chosen)

    return suite
