"""Whether canonical states may stand for the states themselves: looked at, state by state, in a scope.

The map from a state to its canonical form has to be a bisimulation: both offer the same kinds of operations, with the
same outcomes, to states of the same canonical forms, and every property holds for both or for neither. (A witness may
be missed where it asks for a name: then it is looked for in vain, which shows.) Names that are declared
interchangeable but are not ("the lowest number wins"), and ranks of which more than order and adjacency matters, show
here as disagreements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.search.canonical import canonical
from cacheproof.search.path import Graph


def disagreements(
    component: AnyComponent, variant: AnyVariant, config: Any, plan: Plan | None = None, *, limit_states: int
) -> Iterator[str]:
    """One line for each reachable state, of the first so many, that differs from its canonical form."""
    plan = plan or Plan()
    graph = Graph(component, variant, config, plan, canonical(component, variant, config, symmetry=plan.symmetry))
    for state in _reachable(graph, limit_states):
        form = graph.canonical(state)
        if graph.canonical(form) != form:
            yield f"{form!r} is canonical, and its canonical form is another one: {graph.canonical(form)!r}"
        if form == state:
            continue
        if _said_of(graph, form) != _said_of(graph, state):
            yield f"the properties do not say the same of {state!r} and {form!r}"
        ours, theirs = _offered(graph, state), _offered(graph, form)
        if ours != theirs:
            yield f"{state!r} and {form!r} do not go on alike: {_first_difference(ours, theirs)}"


def _reachable(graph: Graph, limit_states: int) -> Iterator[Any]:
    """States as they are, breadth first."""
    start = graph.variant.start(graph.config)
    seen, level = {start}, [start]
    while level:
        following = []
        for state in level:
            yield state
            for _, after, _ in graph.moves(state):
                if after not in seen and len(seen) < limit_states:
                    seen.add(after)
                    following.append(after)
        level = following


def _said_of(graph: Graph, state: Any) -> tuple[bool, ...]:
    """What the properties say of a state."""
    view, component, config = graph.view(state), graph.component, graph.config
    holds = (rule.holds(config, view) for rule in graph.variant.held_to(component.safety))
    return (*holds, *(rule.pending(config, view) for rule in graph.variant.held_to(component.progress)))


def _offered(graph: Graph, state: Any) -> Counter[tuple[Any, ...]]:
    """Every move: the kind of operation, how it ends, where it leads, and what the step properties say of it."""
    before, config = graph.view(state), graph.config
    moves: Counter[tuple[Any, ...]] = Counter()
    for operation, after, outcome in graph.moves(state):
        view = graph.view(after)
        seen = (config, before, operation, outcome, view)
        said = tuple(rule.holds(*seen) for rule in graph.variant.held_to(graph.component.steps))
        moves[operation.wire_name(), outcome.code, graph.canonical(after), said] += 1
    return moves


def _first_difference(ours: Counter[tuple[Any, ...]], theirs: Counter[tuple[Any, ...]]) -> str:
    only = [*(ours - theirs), *(theirs - ours)]
    name, code, after, _ = only[0]
    return f"{name} ends with {code.value} in {after!r} for one of them only"
