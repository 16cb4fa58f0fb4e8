"""One question to z3, within a number of its steps: a limit of time would cut off more on a slow or busy machine."""

from __future__ import annotations

from typing import Any

SECOND = 4_000_000
"""Steps as z3 counts them (`rlimit`). In a second it takes from one million to ten, by question and machine."""
ANSWER = 60 * SECOND
"""The most for a question that is asked once."""
STUCK_MILLISECONDS = 600_000
"""Not all that z3 does counts as a step: after so long on the clock, too, a question has no answer."""


def answer_of(solver: Any, steps: int = ANSWER) -> Any:
    """The answer of the solver's `check`. It is `z3.unknown` if `steps` are not enough."""
    limit(solver, steps)
    return solver.check()


def limit(solver: Any, steps: int) -> None:
    """Let each later `check` of this solver end after this number of steps."""
    solver.set("rlimit", steps)
    solver.set("timeout", STUCK_MILLISECONDS)


def no_answer() -> str:
    """That the steps were used up, in words."""
    return f"no answer within {ANSWER:,} steps of z3"
