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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
) -> Suite:
    """The tests of one implementation, to be assigned to any name of a test file.

    For each scope of the component there is a stateful test in lockstep with the variant of the specification, and one
    for each shortest trace of the catalogue. What is named wrong is an error when the tests are collected.
    """
    return Suite(component, factory, variant, tuple(scopes), tuple(without), tuple(deviations), traces)


def implements(
    component: str,
    *,
    variant: str = "normative",
    scopes: Sequence[str] = (),
    without: Sequence[str] = (),
    deviations: Sequence[str] = (),
    traces: bool = True,
) -> Callable[[Factory], Suite]:
    """The same as a decorator of the factory, which becomes the tests; calling it still makes an implementation."""

    def suite(factory: Factory) -> Suite:
        return tests_for(
            component, factory, variant=variant, scopes=scopes, without=without, deviations=deviations, traces=traces
        )

    return suite
