"""Exploration: transitions a second on one core, by the reference engine and by the compiled specification.

Both engines explore the whole scope, with symmetry, properties and witnesses, and must find the same states.
"""

from __future__ import annotations

from collections.abc import Mapping

from cacheproof.bench.measure import Benchmark, Contender, InTurns, Work
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.search.engines import ENGINES, engine_module, engine_named
from cacheproof.search.native import TRAINED_FROM
from cacheproof.search.result import Ending
from cacheproof.search.worker import NATIVE, REFERENCE

WHOLE, SMALL = ("mirror", "two-senders"), ("lru", "three-keys")
TURNS = 5


class Exploring(InTurns):
    """One engine; each turn explores the same scope."""

    def __init__(self, engine: str, component: str, scope: str) -> None:
        self.engine, self.explore = engine_module(engine), engine_named(engine)
        self.component = component_named(component)
        self.scope = scope_named(self.component, scope)

    def warm_up(self) -> None:
        """Compile the library as for the largest runs; the reference engine has nothing to warm up."""
        if self.explore is not engine_named(REFERENCE):
            self.engine.prepare(self.component, self.component.normative, TRAINED_FROM)
            self.turn(-1)

    def turn(self, number: int) -> Work:
        """Explore the scope; all turns are alike."""
        del number
        variant = self.component.normative
        found = self.explore(
            self.component, variant, self.scope.config, self.scope.plan, None, crew=None, share=0.0, checkpoint=None
        )
        if found.ending is Ending.INTERRUPTED:
            raise KeyboardInterrupt
        answers = (found.states, found.transitions, found.depth, found.digest, sorted(found.witnessed))
        return Work(found.transitions, answers)


def contenders(*, small: bool) -> Mapping[str, Contender]:
    """The reference engine first."""
    component, scope = SMALL if small else WHOLE
    return {name: Exploring(name, component, scope) for name in ENGINES if name in (REFERENCE, NATIVE)}


BENCHMARKS = (
    Benchmark(
        name="explore",
        about="a scope is explored to its end",
        unit="transitions",
        size="mirror, scope two-senders: 30,497 states",
        contenders=contenders,
        most_repeats=TURNS,
    ),
)
