"""One of our interfaces beside a variant of the specification, in every scope that is for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cacheproof.lockstep.campaign import lockstep
from cacheproof.model.finding import Finding
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.scope import Scope, scopes_of


def scopes(component: str) -> list[str]:
    """The names of a component's scopes."""
    return [scope.name for scope in scopes_of(component_named(component))]


def findings(
    component: str,
    variant: str,
    opened: Callable[[str], Any],
    *,
    steps: int,
    only: Callable[[Scope], bool] = lambda scope: True,
    left_out: frozenset[str] = frozenset(),
    seed: int = 1,
) -> Iterator[tuple[str, Finding | None]]:
    """For each scope the first difference in so many steps, shrunk for a second at most, or None."""
    named = component_named(component)
    target = opened(component)
    for scope in filter(only, scopes_of(named)):
        campaign = lockstep(
            named,
            variant_named(named, variant),
            scope.config,
            target,
            steps=steps,
            seed=seed,
            left_out=left_out,
            seconds_to_shrink=1.0,
        )
        assert campaign.finding is not None or campaign.tally.steps >= steps
        yield scope.name, campaign.finding


def differs(*arguments: Any, **named: Any) -> bool:
    """Whether some scope shows a difference."""
    return any(finding is not None for _, finding in findings(*arguments, **named))
