"""Does the formula follow? z3 answers; cvc5 is asked the same text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Any

import cvc5  # type: ignore[import-untyped]  # cvc5 ships no types
import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.asking import SECOND, STUCK_MILLISECONDS, alone, answer_of, question
from cacheproof.prove.executor import Demand, Term

QUICK = SECOND // 2
MATCHING = 2 * SECOND
EXAMPLE = 4 * SECOND
SEEDS = (0, 1, 2, 3)
"""A search that takes long with one seed is often over at once with another."""
PATIENT = 20 * SECOND
SECOND_OPINION = 300_000
"""Steps as cvc5 counts them (`rlimit-per`), some hundred in a millisecond."""


class Answer(Enum):
    """Whether the negated goal can be satisfied."""

    FOLLOWS = "unsat"
    FAILS = "sat"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Goal:
    """One formula without a universal quantifier at its top, and its assumptions."""

    assumptions: tuple[Term, ...]
    formula: Term

    def negated(self) -> Any:
        """What can be satisfied if the goal fails, as a vector in a context of its own.

        The formula is simplified there, because z3 sorts the parts of a sum by their numbers in the context.
        """
        every, last = alone((*self.assumptions, self.formula)), len(self.assumptions)
        every[last] = z3.Not(z3.simplify(every[last]))
        return every


def goal_of(demand: Demand) -> Goal | None:
    """The demand with new constants for the "for every key" on its surface; None if nothing remains to show.

    What is assumed word for word does not remain.
    """
    assumed = {formula.get_id() for formula in demand.assumptions}
    left = [part for part in parts_of(demand.formula) if part.get_id() not in assumed]
    formula = ground(z3.And(left), count())
    return None if z3.is_true(z3.simplify(formula)) else Goal(demand.assumptions, formula)


def is_assumed(demand: Demand) -> bool:
    """Whether the demand says something, and all of it is assumed word for word: no solver has to be asked."""
    assumed = {formula.get_id() for formula in demand.assumptions}
    return not z3.is_true(demand.formula) and all(part.get_id() in assumed for part in parts_of(demand.formula))


def parts_of(formula: Term) -> list[Term]:
    """The formulas that are joined by `And`, one of which may be joined again."""
    if z3.is_and(formula):
        return [part for child in formula.children() for part in parts_of(child)]
    if z3.is_implies(formula) and z3.is_true(formula.arg(0)):
        return parts_of(formula.arg(1))
    return [formula]


def ground(formula: Term, numbers: Iterator[int]) -> Term:
    """Without the universal quantifiers that a refutation would have to name an example for.

    `numbers` tell the examples apart. They count within a goal: a count through the process would name the same goal's
    constants differently each time, and z3 might search in another order.
    """
    if z3.is_quantifier(formula) and formula.is_forall():
        return ground(instantiated(formula, numbers), numbers)
    if z3.is_and(formula):
        return z3.And(*(ground(part, numbers) for part in formula.children()))
    if z3.is_implies(formula):
        premise, conclusion = formula.children()
        return formula if z3.is_false(z3.simplify(premise)) else z3.Implies(premise, ground(conclusion, numbers))
    return formula


def instantiated(formula: Term, numbers: Iterator[int]) -> Term:
    """The body of a universal formula, about constants that nothing is known of. No path names one like this."""
    examples = [
        z3.Const(f"{formula.var_name(place)}?{next(numbers)}", formula.var_sort(place))
        for place in range(formula.num_vars())
    ]
    return z3.substitute_vars(formula.body(), *reversed(examples))


def satisfiable(formulas: tuple[Term, ...]) -> bool:
    """Whether z3 finds a model; "unknown" is no."""
    return _within(question(alone(formulas)), EXAMPLE) is Answer.FAILS


def first_opinion(goal: Goal, hints: Iterable[Term]) -> tuple[Answer, Any]:
    """The answer of z3, and the solver that gave it, with a model if the goal fails.

    Most goals take milliseconds: z3 proves them by matching, without one axiom of arrays. If that is not enough, it may
    also search for models, and use the axiom. Then it is asked by turns for a small counterexample, which is enough,
    and for a proof, each time with more patience.
    """
    negated = goal.negated()
    simple = question(negated, z3.SimpleSolver)
    simple.set("array.extensional", False)
    simple.set("mbqi", False)  # no search for models, which may take all the time
    if _within(simple, QUICK) is Answer.FOLLOWS:
        return Answer.FOLLOWS, simple
    solver = question(negated)
    if (answer := _within(solver, QUICK)) is not Answer.UNKNOWN:
        return answer, solver
    small = alone(hints, negated.ctx)
    if (example := _example(negated, small, SEEDS[0], QUICK)) is not None:
        return Answer.FAILS, example
    for extensional, steps in ((False, EXAMPLE), (True, MATCHING)):
        matching = question(negated)
        matching.set("mbqi", False)
        matching.set("smt.array.extensional", extensional)
        if _within(matching, steps) is Answer.FOLLOWS:
            return Answer.FOLLOWS, matching
    if _follows_without_extensionality(negated, SECOND):
        return Answer.FOLLOWS, solver
    for seed in SEEDS:
        if (example := _example(negated, small, seed, EXAMPLE)) is not None:
            return Answer.FAILS, example
    if _follows_without_extensionality(negated, PATIENT // len(SEEDS)):
        return Answer.FOLLOWS, solver
    again = question(negated)
    again.set("random_seed", 1)
    return _within(again, PATIENT), again


def _example(negated: Any, small: Any, seed: int, steps: int) -> Any:
    """A solver with a small counterexample, or None."""
    solver = question(negated)
    solver.set("random_seed", seed)
    solver.add(small)
    return solver if _within(solver, steps) is Answer.FAILS else None


def _follows_without_extensionality(negated: Any, steps: int) -> bool:
    """Whether the goal follows, too, if different arrays may have the same members: the axiom costs much, if unused."""
    for seed in SEEDS:
        solver = question(negated)
        solver.set("smt.array.extensional", False)
        solver.set("random_seed", seed)
        if _within(solver, steps) is Answer.FOLLOWS:
            return True
    return False


def _within(solver: Any, steps: int) -> Answer:
    return Answer(str(answer_of(solver, steps)))


def second_opinion(solver: Any) -> Answer:
    """What cvc5 says about the same SMT-LIB text; a text that it does not take is no answer."""
    terms = cvc5.TermManager()
    other = cvc5.Solver(terms)
    other.setOption("rlimit-per", str(SECOND_OPINION))
    other.setOption("tlimit-per", str(STUCK_MILLISECONDS))
    other.setOption("arrays-exp", "true")
    other.setLogic("ALL")
    symbols = cvc5.SymbolManager(terms)
    parser = cvc5.InputParser(other, symbols)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, _text(solver), "obligation")
    answer = Answer.UNKNOWN
    try:
        while not (command := parser.nextCommand()).isNull():
            said = command.invoke(other, symbols).strip()
            answer = Answer(said) if said in ("sat", "unsat") else answer
    except RuntimeError:
        return Answer.UNKNOWN
    return answer


def _text(solver: Any) -> str:
    lines = solver.to_smt2().splitlines()
    return "\n".join(line for line in lines if not line.startswith(("(set-info", "(set-logic")))
