"""A question to the solver ends after a number of steps. In a fresh context, an equal question takes as many."""

from __future__ import annotations

from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.asking import answer_of

HOLES = 6


def crowded(context: Any) -> Any:
    """One pigeon more than there are holes: each has one of its own. The solver has to try much of what is possible."""
    place = [[z3.Bool(f"{pigeon} in {hole}", context) for hole in range(HOLES)] for pigeon in range(HOLES + 1)]
    solver = z3.Solver(ctx=context)
    for here in place:
        solver.add(z3.Or(here))
    for hole in range(HOLES):
        solver.add(z3.AtMost(*(here[hole] for here in place), 1))
    return solver


def steps_of(solver: Any) -> int:
    """What the solver counted in its last answer."""
    statistics = solver.statistics()
    return int(statistics.get_key_value("rlimit count"))


def test_too_few_steps_are_no_answer() -> None:
    assert answer_of(crowded(z3.Context()), steps=1_000) == z3.unknown
    assert answer_of(crowded(z3.Context())) == z3.unsat


@pytest.mark.parametrize("steps", [1_000, 10_000_000])
def test_the_same_question_takes_as_many_steps_in_each_fresh_context(steps: int) -> None:
    counts = set()
    for _ in range(3):
        solver = crowded(z3.Context())
        answer_of(solver, steps)
        counts.add(steps_of(solver))
    assert len(counts) == 1
    assert counts.pop() > 500
