"""A question to the solver ends after a number of steps, and what was asked before does not change that number."""

from __future__ import annotations

from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import solvers
from cacheproof.prove.asking import alone, answer_of, question
from cacheproof.prove.session import Part

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


def test_no_steps_at_all_are_refused() -> None:
    """z3 would answer, however long it takes."""
    with pytest.raises(ValueError, match="a limit of 0 steps"):
        answer_of(crowded(z3.Context()), steps=0)


@pytest.mark.parametrize("steps", [1_000, 10_000_000])
def test_the_same_question_takes_as_many_steps_in_each_fresh_context(steps: int) -> None:
    counts = set()
    for _ in range(3):
        solver = crowded(z3.Context())
        answer_of(solver, steps)
        counts.add(steps_of(solver))
    assert len(counts) == 1
    assert counts.pop() > 500


def test_a_question_of_its_own_context_takes_as_many_steps_after_others() -> None:
    """The terms are those of the process's context, where the numbers of terms depend on what came before."""
    counts = set()
    for others in (0, 50, 700):
        kept = [z3.Int(f"other {number} of {others}") + number for number in range(others)]
        solver = question(alone(crowded(z3.main_ctx()).assertions()))
        assert answer_of(solver) == z3.unsat
        counts.add(steps_of(solver))
        del kept
    assert len(counts) == 1


def test_the_obligations_of_an_operation_take_as_many_steps_after_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[tuple[str, int]] = []

    def counted(solver: Any, steps: int) -> Any:
        answer = answer_of(solver, steps)
        taken.append((str(answer), steps_of(solver)))
        return answer

    def of(operation: str) -> list[tuple[str, int]]:
        taken.clear()
        assert list(Part("lru", 0, operation).findings(ask_second=False))
        return list(taken)

    monkeypatch.setattr(solvers, "answer_of", counted)
    first = of("put")
    of("evict")
    of("get")
    assert len(first) > 30
    assert of("put") == first
