"""One question to z3 within a number of its steps, so that the speed of a machine does not decide what is proved."""

from __future__ import annotations

from typing import Any

SECOND = 4_000_000
"""Steps as z3 counts them (`rlimit`). In a second it takes from one million to ten, by question and machine."""
ANSWER = 60 * SECOND
"""The most for a question that is asked once."""
STUCK_MILLISECONDS = 600_000
"""Not all that z3 does counts as a step: after so long on the clock, too, a question has no answer."""


def answer_of(solver: Any, steps: int = ANSWER) -> Any:
    """The answer of `check`: `z3.unknown` where so many steps are not enough."""
    limit(solver, steps)
    return solver.check()


def limit(solver: Any, steps: int) -> None:
    """Each `check` of this solver takes at most so many steps."""
    solver.set("rlimit", steps)
    solver.set("timeout", STUCK_MILLISECONDS)


def no_answer() -> str:
    """That the steps were used up, in words."""
    return f"no answer within {ANSWER:,} steps of z3"
