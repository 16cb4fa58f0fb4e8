"""Runs the specification's own functions on symbolic integers and follows every path.

A test on a symbolic value (`if`, `while`, `and`, `min`, `sorted` …) asks the path for an answer. If both answers are
possible, the path takes one answer and remembers the other; the function later runs again from the start, with the
remembered decisions as a prefix. A path collects *assumptions* and *demands*; a demand that its assumptions do not
entail is a counterexample.

Code that cannot be followed fails loudly: a symbolic key of a dict or member of a set (unhashable), `range`, indexing,
`int()`, `float()`, `abs`, `/`, `**`, shifts, `str()`, f-strings, `isinstance`, and a loop that does not end within the
depth limit. One trap stays silent, because Python gives no hook for it: `is`, which compares identities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.asking import SECOND, limit

Term = Any
"""A z3 expression."""

DEPTH_LIMIT = 40
PATH_LIMIT = 2000
FEASIBILITY = SECOND // 2
"""Steps for one question whether a path can be taken."""
QUANTIFIED = z3.Probe("has-quantifiers")
"""What z3 says of formulas without a question: whether there is a quantifier in them."""

z3.set_param("ctrl_c", False)  # otherwise z3 takes an interruption for itself, and the run goes on


class NotFollowedError(Exception):
    """The executed code does something to a symbolic value that the executor cannot follow."""


class DeadEndError(Exception):
    """The assumptions of this path contradict each other: there is nothing more to see on it."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A condition that must follow from the assumptions that the path had when it was raised."""

    name: str
    formula: Term
    assumptions: tuple[Term, ...]


@dataclass(slots=True)
class Path:
    """One way through the executed code."""

    prefix: tuple[bool, ...] = ()
    trail: list[bool] = field(default_factory=list)
    alternatives: list[tuple[bool, ...]] = field(default_factory=list)
    assumptions: list[Term] = field(default_factory=list)
    known: set[int] = field(default_factory=set)
    """The assumptions by identity: a law is often met again."""
    demands: list[Demand] = field(default_factory=list)
    hints: list[Term] = field(default_factory=list)
    """Assumptions for the search of a small counterexample; a proof never uses them."""
    shown: dict[str, Any] = field(default_factory=dict)
    """The values that a counterexample prints: the inputs and the results, by name."""
    names: int = 0
    solver: Any = field(default_factory=z3.Solver)
    depth: int = DEPTH_LIMIT
    quantified: bool = True
    """Whether formulas may have quantifiers; if not, the path does not look for them."""

    def __post_init__(self) -> None:
        limit(self.solver, FEASIBILITY)

    def fresh(self, name: str, sort: Any) -> Term:
        """A new constant; a replay of the same prefix gives the same names."""
        self.names += 1
        return z3.Const(f"{name}!{self.names}", sort)

    def assume(self, formula: Term) -> None:
        """Only what satisfies the formula is looked at from here on."""
        if formula.get_id() in self.known:
            return
        self.known.add(formula.get_id())
        self.assumptions.append(formula)
        if not (self.quantified and has_quantifier(formula)):
            self.solver.add(formula)

    def demand(self, name: str, formula: Term) -> None:
        """Here the formula must hold."""
        self.demands.append(Demand(name, formula, tuple(self.assumptions)))

    def branch(self, condition: Term) -> bool:
        """Which way this path goes."""
        place = len(self.trail)
        if place >= self.depth:
            raise NotFollowedError(f"more than {self.depth} decisions on one path: a loop that needs to be cut?")
        decision = self.prefix[place] if place < len(self.prefix) else self._decide(condition)
        self.trail.append(decision)
        self.assume(condition if decision else z3.Not(condition))
        return decision

    def _decide(self, condition: Term) -> bool:
        holds, fails = self._possible(condition), self._possible(z3.Not(condition))
        if not holds and not fails:
            raise DeadEndError
        if holds and fails:
            self.alternatives.append((*self.trail, False))
        return holds

    def _possible(self, condition: Term) -> bool:
        """Quantified assumptions are left out and "unknown" counts as possible: a path too many does no harm."""
        simplified = z3.simplify(condition)
        if z3.is_true(simplified) or z3.is_false(simplified):
            return bool(z3.is_true(simplified))
        return bool(self.solver.check(condition) != z3.unsat)


_CURRENT: ContextVar[Path] = ContextVar("path")


def path() -> Path:
    """The path that is being followed."""
    try:
        return _CURRENT.get()
    except LookupError:
        raise NotFollowedError("a symbolic value is used outside of an exploration") from None


@contextmanager
def following(one: Path) -> Iterator[Path]:
    """Make this the path that symbolic values talk to."""
    token = _CURRENT.set(one)
    try:
        yield one
    finally:
        _CURRENT.reset(token)


def explore(
    body: Callable[[], None],
    *,
    solver: Callable[[], Any] = z3.Solver,
    depth: int = DEPTH_LIMIT,
    quantified: bool = True,
) -> Iterator[Path]:
    """Every path through the body; paths that end in a contradiction are left out.

    `solver` makes the solver that tells which decisions are possible, `depth` is the most decisions of one path.
    `quantified`: whether formulas may have quantifiers.
    """
    waiting: list[tuple[bool, ...]] = [()]
    for _ in range(PATH_LIMIT):
        if not waiting:
            return
        with following(Path(prefix=waiting.pop(), solver=solver(), depth=depth, quantified=quantified)) as one:
            try:
                body()
                ended = True
            except DeadEndError:
                ended = False
        waiting.extend(one.alternatives)
        if ended or one.demands:
            yield one
    if waiting:
        raise NotFollowedError(f"more than {PATH_LIMIT} paths")


def has_quantifier(formula: Term) -> bool:
    """Whether the formula contains a quantifier."""
    goal = z3.Goal()
    goal.add(formula)
    return bool(QUANTIFIED(goal))


def _refuse(what: str) -> Callable[..., NoReturn]:
    def refused(*_: object) -> NoReturn:
        raise NotFollowedError(f"{what} of a symbolic value cannot be followed")

    return refused


class Symbolic:
    """What symbolic integers and booleans share: a term, and loud refusals."""

    __slots__ = ("term",)

    def __init__(self, term: Term) -> None:
        self.term = term

    def __repr__(self) -> str:
        return f"<{self.term}>"

    __class__ = property(_refuse("isinstance"))  # otherwise a silent False
    __str__ = _refuse("str()")
    __format__ = _refuse("formatting")
    __index__ = _refuse("indexing or range()")
    __int__ = _refuse("int()")
    __float__ = _refuse("float()")
    __abs__ = _refuse("abs()")
    __truediv__ = __rtruediv__ = _refuse("true division")
    __pow__ = __rpow__ = _refuse("a power")
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refuse("a shift")
    __iter__ = _refuse("iteration")
    __len__ = _refuse("len()")
    __contains__ = _refuse("`in`")
    __getitem__ = _refuse("indexing")


class SymbolicBoolean(Symbolic):
    """A condition. Using it as a truth value forks the path; `&`, `|`, `~`, `both` and `implies` do not."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly

    def __bool__(self) -> bool:
        return path().branch(self.term)

    def never(self) -> bool:
        """Whether it is false without any assumption."""
        return bool(z3.is_false(z3.simplify(self.term)))

    def always(self) -> bool:
        """Whether it is true without any assumption."""
        return bool(z3.is_true(z3.simplify(self.term)))

    def __and__(self, other: Any) -> SymbolicBoolean:
        return SymbolicBoolean(z3.And(self.term, boolean_term(other)))

    def __or__(self, other: Any) -> SymbolicBoolean:
        return SymbolicBoolean(z3.Or(self.term, boolean_term(other)))

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> SymbolicBoolean:
        return SymbolicBoolean(z3.Not(self.term))

    def __eq__(self, other: object) -> SymbolicBoolean:  # type: ignore[override]  # a condition, not an answer
        return SymbolicBoolean(self.term == boolean_term(other))

    def __ne__(self, other: object) -> SymbolicBoolean:  # type: ignore[override]  # likewise
        return SymbolicBoolean(self.term != boolean_term(other))


class SymbolicInteger(Symbolic):
    """An integer of any size."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly

    def __bool__(self) -> bool:
        return path().branch(self.term != 0)

    def __add__(self, other: Any) -> SymbolicInteger:
        return SymbolicInteger(self.term + integer_term(other))

    def __radd__(self, other: Any) -> SymbolicInteger:
        return SymbolicInteger(integer_term(other) + self.term)

    def __sub__(self, other: Any) -> SymbolicInteger:
        return SymbolicInteger(self.term - integer_term(other))

    def __rsub__(self, other: Any) -> SymbolicInteger:
        return SymbolicInteger(integer_term(other) - self.term)

    def __mul__(self, other: Any) -> SymbolicInteger:
        return SymbolicInteger(self.term * integer_term(other))

    __rmul__ = __mul__

    def __neg__(self) -> SymbolicInteger:
        return SymbolicInteger(-self.term)

    def __pos__(self) -> SymbolicInteger:
        return self

    def __floordiv__(self, other: Any) -> SymbolicInteger:
        return SymbolicInteger(self.term / _positive(integer_term(other)))

    def __rfloordiv__(self, other: Any) -> SymbolicInteger:
        return SymbolicInteger(integer_term(other) / _positive(self.term))

    def __mod__(self, other: Any) -> SymbolicInteger:
        return SymbolicInteger(self.term % _positive(integer_term(other)))

    def __rmod__(self, other: Any) -> SymbolicInteger:
        return SymbolicInteger(integer_term(other) % _positive(self.term))

    def __eq__(self, other: object) -> SymbolicBoolean:  # type: ignore[override]  # a condition, not an answer
        return SymbolicBoolean(self.term == integer_term(other))

    def __ne__(self, other: object) -> SymbolicBoolean:  # type: ignore[override]  # likewise
        return SymbolicBoolean(self.term != integer_term(other))

    def __lt__(self, other: Any) -> SymbolicBoolean:
        return SymbolicBoolean(self.term < integer_term(other))

    def __le__(self, other: Any) -> SymbolicBoolean:
        return SymbolicBoolean(self.term <= integer_term(other))

    def __gt__(self, other: Any) -> SymbolicBoolean:
        return SymbolicBoolean(self.term > integer_term(other))

    def __ge__(self, other: Any) -> SymbolicBoolean:
        return SymbolicBoolean(self.term >= integer_term(other))


def _positive(divisor: Term) -> Term:
    """Python and the logic agree on `//` and `%` for a positive divisor only, so that is demanded."""
    path().demand("the divisor is positive", divisor > 0)
    path().assume(divisor > 0)
    return divisor


def integer_term(value: object) -> Term:
    """The term of an integer, symbolic or not."""
    if type(value) is SymbolicInteger:
        return value.term
    if type(value) is int:
        return z3.IntVal(value)
    raise NotFollowedError(f"an integer was expected, not a {type(value).__name__}")


def boolean_term(value: object) -> Term:
    """The term of a condition, symbolic or not."""
    if type(value) is SymbolicBoolean:
        return value.term
    if type(value) is bool:
        return z3.BoolVal(value)
    raise NotFollowedError(f"a condition was expected, not a {type(value).__name__}")


def both(*conditions: Any) -> SymbolicBoolean:
    """All of the conditions, without forking."""
    return SymbolicBoolean(z3.And(*(boolean_term(condition) for condition in conditions)))


def implies(premise: Any, conclusion: Any) -> SymbolicBoolean:
    """The implication from the premise to the conclusion, without forking."""
    return SymbolicBoolean(z3.Implies(boolean_term(premise), boolean_term(conclusion)))


def integer(name: str) -> SymbolicInteger:
    """A new integer of which nothing is known."""
    return SymbolicInteger(path().fresh(name, z3.IntSort()))


def assume(condition: Any) -> None:
    """Only what satisfies the condition is looked at from here on."""
    path().assume(boolean_term(condition))


def demand(name: str, condition: Any) -> None:
    """Here the condition must hold."""
    path().demand(name, boolean_term(condition))
