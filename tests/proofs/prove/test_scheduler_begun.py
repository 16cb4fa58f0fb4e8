"""What is proved of computed tokens says what plain Python says. Its bugs are in `test_scheduler_items`."""

from __future__ import annotations

from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types
from tests.proofs.prove.test_formulas import says
from tests.proofs.prove.test_scheduler_life import number, reached

from cacheproof.prove.executor import Path, following
from cacheproof.prove.scheduler.begun import BEGUN, CROSS, OFF, promised, verifying
from cacheproof.prove.scheduler.flight import CountedFlight
from cacheproof.prove.scheduler.values import SMALL
from cacheproof.prove.solvers import satisfiable
from cachespec.scheduler import configuration, counts, rounds
from cachespec.scheduler.state import State

AHEAD = SMALL._replace(
    prompts=(1, 1), outputs=(4, 1), items=(((0, 0, 1),), ()), grammars=(), aborts=0, resets=0, prefix_caching=0,
    encoder_decoder=1, drafts=1, ahead=2,
)  # fmt: skip
STATES = list(dict.fromkeys(after for _, _, _, after in reached(AHEAD, 60)))


def in_flight(state: State, request: int) -> list[Any]:
    """The parts of the request that count."""
    parts = (part for plan in state.plans for part in plan.scheduled)
    return [part for part in parts if part.request == request and not part.void]


def has_begun(config: Any, state: State) -> bool:
    """SCH-3/begun, in plain Python."""
    return all(
        computed > sum(part.drafts for part in in_flight(state, request))
        for request, computed in state.computed.items()
    )


def is_in_sight(config: Any, state: State) -> bool:
    """SCH-2/computed, in plain Python."""
    return all(
        computed
        <= counts.known_length(config, state, request)
        + sum(part.samples + part.drafts for part in in_flight(state, request))
        for request, computed in state.computed.items()
    )


@pytest.mark.parametrize(("name", "plain"), [("SCH-3/begun", has_begun), ("SCH-2/computed", is_in_sight)])
def test_the_formula_is_the_claim(name: str, plain: Any) -> None:
    answers = set()
    for state in (one for one in STATES if one.running and one.plans):
        computed = state.computed.get(state.running[0], 0)
        for tokens in (computed, computed - 1, computed + 2):
            changed = state._replace(computed=state.computed.set(state.running[0], tokens))
            expected = plain(AHEAD, changed)
            assert says(BEGUN, name, AHEAD, changed) == expected, changed
            answers.add(expected)
    assert answers == {True, False}


def test_sums_of_plans_are_those_of_the_specification() -> None:
    """Also behind the oldest plan, and of void parts."""
    seen = set()
    for state in STATES:
        for other in (state, rounds.voided(state, 0), state._replace(plans=state.plans[1:])):
            with following(Path()):
                config, lifted = BEGUN.lift(BEGUN.config, AHEAD), state._replace(plans=flight(state, other))
                for request in (0, 1):
                    assert number(promised(config, lifted, request)) == counts.promised(AHEAD, other, request)
                    drafts = counts.verifying(other, request)
                    assert z3.is_true(z3.simplify(verifying(lifted, request).term)) == drafts
                    seen.add((drafts, len(other.plans)))
    assert {(True, 1), (True, 2), (False, 2)} <= seen, seen


def flight(state: State, other: State) -> Any:
    """The plans of the state, changed as those of the other one."""
    plans = CountedFlight.of(state.plans)
    if other.plans == state.plans:
        return plans
    return plans[1:] if len(other.plans) < len(state.plans) else plans.without(0)


def test_plans_in_flight_obey_their_laws() -> None:
    for plans in {state.plans for state in STATES}:
        with following(Path()) as path:
            counted = CountedFlight.of(plans)
            assert not satisfiable((*path.assumptions, z3.Not(counted.law())))
            for request in (0, 1):
                parts = [part for part in plans[0].scheduled if part.request == request] if plans else []
                for name in ("samples", "drafts"):
                    expected = sum(getattr(part, name) for part in parts if not part.void)
                    assert not satisfiable((*path.assumptions, counted.of_oldest(z3.IntVal(request), name) != expected))


def test_what_the_proof_assumes_is_refused_beside_an_encoder_decoder() -> None:
    """So it leaves out no configuration of such a model."""
    assert not is_refused(CROSS)
    for name in (*OFF, "load_failures"):
        on: dict[str, Any] = {name: 1 if name == "load_failures" else (0, 1)}
        assert is_refused(CROSS._replace(**on)), name


def is_refused(config: Any) -> bool:
    """Whether a scheduler cannot have the configuration, or has no rules for it."""
    return bool(configuration.malformed(config)) or any(one.holds(config) for one in configuration.UNSPECIFIED)
