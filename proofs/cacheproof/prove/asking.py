"""One question to z3, within a number of its own steps: a limit of time would cut off more on a slow or busy machine.

A question about a claim has a context of its own: z3 orders its search by the numbers of the terms in a context, which
depend on what was asked there before. Whether a path can be taken is asked in the process's context.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

SECOND = 4_000_000
"""Steps as z3 counts them (`rlimit`). In a second it takes from one million to ten, by question and machine."""
ANSWER = 60 * SECOND
"""The most for a question that is asked once."""
STUCK_MILLISECONDS = 600_000
"""Not all that z3 does counts as a step: after so long on the clock, too, a question has no answer."""


def alone(formulas: Iterable[Any], context: Any = None) -> Any:
    """The formulas in another context, a new one unless it is given: a vector of z3."""
    every = z3.AstVector()
    for formula in formulas:
        every.push(formula)
    return every.translate(z3.Context() if context is None else context)


def question(formulas: Any, solver: Any = z3.Solver) -> Any:
    """A solver that holds a vector of formulas, in their context."""
    asked, context = solver(ctx=formulas.ctx), formulas.ctx.ref()
    for place in range(len(formulas)):  # `asked.add` makes a Python object of each
        z3.Z3_solver_assert(context, asked.solver, z3.Z3_ast_vector_get(context, formulas.vector, place))
    return asked


def model_of(solver: Any) -> Any:
    """The model that was found, for terms of the process's own context."""
    return solver.model().translate(z3.main_ctx())


def answer_of(solver: Any, steps: int = ANSWER) -> Any:
    """The answer of the solver's `check`. It is `z3.unknown` if `steps` are not enough."""
    limit(solver, steps)
    return solver.check()


def limit(solver: Any, steps: int) -> None:
    """Let each later `check` of this solver end after this number of steps, at least one: z3 takes 0 for no limit."""
    if steps < 1:
        raise ValueError(f"a limit of {steps} steps: z3 would take it for no limit")
    solver.set("rlimit", steps)
    solver.set("timeout", STUCK_MILLISECONDS)


def no_answer() -> str:
    """That the steps were used up, in words."""
    return f"no answer within {ANSWER:,} steps of z3"
