"""Runs a component's proof: one row for each claim and operation."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from cacheproof.prove.asking import model_of
from cacheproof.prove.counterexample import described
from cacheproof.prove.executor import Demand, NotFollowedError, Path, both, explore, following
from cacheproof.prove.finding import SMT, Finding, Verdict
from cacheproof.prove.loops import followed
from cacheproof.prove.proof import DEFINED, INITIAL, Proof, demand_claims, initially, one_step
from cacheproof.prove.solvers import (
    Answer,
    Goal,
    first_opinion,
    goal_of,
    is_assumed,
    satisfiable,
    second_opinion,
)
from cacheproof.prove.witness import Example, Examples, examples
from cachespec.kernel import Operation

DEFINED_STATEMENT = "every position read is there, divisors are positive, counted values are not negative"


def prove(
    proof: Proof, *, ask_second: bool = True, only: str | None = None, reachable: Examples | None = None
) -> Generator[Finding, None, None]:
    """Every obligation of the proof, one after the other; or the one of this name.

    `reachable` holds the steps for the search of witnesses, if they are known already.
    """
    wanted = proof.places() if only is None else (only.rpartition("/")[2],)
    known = examples(proof) if reachable is None and wanted != (INITIAL,) else reachable
    for place in wanted:
        yield from prove_at(proof, place, known or {}, ask_second=ask_second, only=only)


def prove_at(
    proof: Proof, place: str, reachable: Examples, *, ask_second: bool = True, only: str | None = None
) -> Iterator[Finding]:
    """The obligations of the initial state, or of one operation by its name; or the obligation of this name."""
    obligations = _Obligations(proof, place, ask_second=ask_second, only=only)
    if place == INITIAL:
        yield from obligations.initial()
    for operation in proof.operations():
        if operation.wire_name() == place:
            yield from obligations.of(operation, reachable.get(operation, []))


@dataclass(frozen=True, slots=True)
class ProofJudgement:
    """The result of one row."""

    verdict: Verdict
    detail: str
    checks: int = 0
    agreed: int = 0


class _Obligations:
    """The obligations of one operation, which share its paths."""

    def __init__(self, proof: Proof, place: str, *, ask_second: bool, only: str | None) -> None:
        self.proof = proof
        self.place = place
        self.ask_second = ask_second and proof.second_opinion
        self.only = only

    def initial(self) -> Iterator[Finding]:
        claims = {one.name: one.statement for one in self.proof.invariants}
        reached: set[str] = set()
        with followed(self.proof.modules, (), self.proof.replaced):
            for config in self.proof.witnesses:
                for path in explore(lambda config=config: initially(self.proof, config)):  # type: ignore[misc]  # mypy: lambda with a default
                    reached |= set(claims) if satisfiable(tuple(path.assumptions)) else set()
        with followed(self.proof.modules, self.proof.loops, self.proof.replaced):
            yield from self._findings(claims, lambda: initially(self.proof, None), reached)

    def of(self, operation: type[Operation], some: list[Example]) -> Iterator[Finding]:
        claims = self.proof.claims(operation)
        with followed(self.proof.modules, (), self.proof.replaced):
            reached = witnessed(self.proof, operation, some)
        with followed(self.proof.modules, self.proof.loops, self.proof.replaced):
            yield from self._findings(
                claims, lambda: demand_claims(self.proof, one_step(self.proof, operation, None)), reached
            )

    def _findings(self, claims: dict[str, str], body: Callable[[], None], reached: set[str]) -> Iterator[Finding]:
        started = perf_counter()
        paths, failure = self._explored(body)
        demands = different(paths)
        exploring = (perf_counter() - started) / max(len(claims), 1)
        for name, statement in self._rows(claims, paths).items():
            if self.only not in (None, f"{name}/{self.place}"):
                continue
            started = perf_counter()
            witness = name in reached or (name not in claims and bool(reached))
            judged = failure or self._judge(name, demands, witness=witness)
            yield Finding(
                component=self.proof.component,
                name=f"{name}/{self.place}",
                statement=statement,
                method=SMT,
                verdict=judged.verdict,
                bound=self.proof.bound,
                seconds=exploring + perf_counter() - started,
                detail=judged.detail,
                checks=judged.checks,
                agreed=judged.agreed if self.ask_second else None,
            )

    @staticmethod
    def _explored(body: Callable[[], None]) -> tuple[list[Path], ProofJudgement | None]:
        """All paths, or why there are none to speak of."""
        try:
            return list(explore(body)), None
        except NotFollowedError as error:
            return [], ProofJudgement(Verdict.UNKNOWN, f"cannot be followed: {error}")
        except Exception as error:  # noqa: BLE001  # a transition is total: whatever it raises is a finding
            return [], ProofJudgement(Verdict.CRASHED, f"{type(error).__name__}: {error}")

    def _rows(self, claims: dict[str, str], paths: list[Path]) -> dict[str, str]:
        loops = {loop.property: "the loop keeps its invariant and shrinks its measure" for loop in self.proof.loops}
        raised = {self._row(demand.name, claims, loops) for path in paths for demand in path.demands}
        extra = {name: loops.get(name, DEFINED_STATEMENT) for name in sorted(raised - set(claims))}
        return {**claims, **extra}

    @staticmethod
    def _row(name: str, claims: dict[str, str], loops: dict[str, str]) -> str:
        return name if name in claims or name in loops else DEFINED

    def _judge(self, row: str, everything: list[tuple[Path, Demand]], *, witness: bool) -> ProofJudgement:
        loops = {loop.property: "" for loop in self.proof.loops}
        known = {one.name: "" for one in self.proof.invariants} | {one.name: "" for one in self.proof.laws}
        demands = [(path, one) for path, one in everything if self._row(one.name, known, loops) == row]
        if not demands:
            return ProofJudgement(Verdict.VACUOUS, "no path gets there")
        if not witness:
            return ProofJudgement(Verdict.VACUOUS, "no reachable step satisfies the premise")
        checks = agreed = 0
        for path, demand in demands:
            goal = goal_of(demand)
            if goal is None:
                settled = int(is_assumed(demand))
                checks, agreed = checks + settled, agreed + settled
                continue
            judged = self._check(path, goal)
            if judged.verdict is not Verdict.PROVED:
                return judged
            checks, agreed = checks + 1, agreed + judged.agreed
        return ProofJudgement(Verdict.PROVED, "", checks, agreed)

    def _check(self, path: Path, goal: Goal) -> ProofJudgement:
        answer, solver = first_opinion(goal, path.hints)
        if answer is Answer.UNKNOWN:
            return ProofJudgement(Verdict.UNKNOWN, "z3 gave no answer in time")
        if answer is Answer.FAILS:
            with following(path):
                return ProofJudgement(Verdict.REFUTED, described(model_of(solver), path.shown))
        other = second_opinion(solver) if self.ask_second else Answer.UNKNOWN
        if other is Answer.FAILS:
            return ProofJudgement(Verdict.UNKNOWN, "z3 and cvc5 contradict each other")
        return ProofJudgement(Verdict.PROVED, "", 1, int(other is Answer.FOLLOWS))


def different(paths: list[Path]) -> list[tuple[Path, Demand]]:
    """The demands of all paths; one raised before a fork comes back on every branch, and is listed once."""
    found: dict[tuple[Any, ...], tuple[Path, Demand]] = {}
    for path in paths:
        for demand in path.demands:
            terms = (demand.formula, *demand.assumptions)
            found.setdefault((demand.name, *(term.get_id() for term in terms)), (path, demand))
    return list(found.values())


def witnessed(proof: Proof, operation: type[Operation], some: list[Example]) -> set[str]:
    """Which claims about the operation have a reachable step that satisfies all that the claim assumes."""
    wanted = set(proof.claims(operation))
    reached: set[str] = set()
    for example in some:
        if reached == wanted:
            break
        reached |= _witnessed_by(proof, operation, example, wanted - reached)
    return reached


def _witnessed_by(proof: Proof, operation: type[Operation], example: Example, wanted: set[str]) -> set[str]:
    premises: dict[str, Any] = {}
    reached: set[str] = set()

    def body() -> None:
        premises.clear()
        move = one_step(proof, operation, example)
        premises.update({one.name: both(True) for one in proof.invariants if one.name in wanted})
        premises.update({law.name: both(law.when(move)) for law in proof.laws if law.name in wanted})

    try:
        for path in explore(body):
            known = tuple(path.assumptions)
            small = (*known, *path.hints) if satisfiable((*known, *path.hints)) else known
            left = {name: premise for name, premise in premises.items() if name not in reached}
            reached |= {name for name, premise in left.items() if satisfiable((*small, premise.term))}
            if reached == wanted:
                break
    except Exception:  # noqa: BLE001  # no witness; the proof of the same step says what is wrong
        return reached
    return reached
