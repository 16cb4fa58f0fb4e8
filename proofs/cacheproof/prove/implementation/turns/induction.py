"""The obligations of a burst with any number of turns.

A burst is what its calls for one turn do, one after the other, until a turn is refused or not answered. Between two
turns, only numbers of the pool and written columns change. The induction is over the turns: what the graph carries from
turn to turn, and the pool that a call alone would find, are related by an invariant that each turn keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, NamedTuple

import torch
import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.asking import alone, answer_of, model_of, no_answer, question
from cacheproof.prove.executor import NotFollowedError
from cacheproof.prove.finding import IMPLEMENTATION_TURNS, Finding, Verdict
from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.cells import Cell, term
from cacheproof.prove.implementation.tensors import CellTensor
from cacheproof.prove.implementation.turns.tracing import Function, Inputs, Traced, traced_burst
from cacheproof.prove.implementation.turns.turn import (
    PADDED,
    PLACES,
    ROW_SIZE,
    ROWS,
    RUNNING,
    TOTAL,
    TURNS,
    WRAPPED,
    Column,
    Shared,
    Turn,
    Value,
    Write,
    Written,
    added,
)

STATEMENTS = {
    "first": "before the first turn, the carried numbers satisfy the invariant, and the pool is that of the burst",
    "kept": "each turn keeps the invariant of the carried numbers",
    "answers": "a turn that is reached is answered, and gets and writes, what a call alone does",
    "waits": "a turn behind one that was refused or not answered is not answered, and writes nothing",
    "totals": "the numbers of the pool after the burst are those after the calls",
    "apart": "no turn reads or writes what another turn has changed, but for references that both count down",
}


class Carried(NamedTuple):
    """What comes from the turns before: of each sort, in the order of the graph."""

    running: tuple[Cell, ...]
    """Of each running sum its value before this turn."""
    totals: tuple[Cell, ...]
    """Of each sum over all turns, the sum over those before this one."""
    moved: tuple[Cell, ...]
    """Of each tensor that is moved on by one turn, its element of the turn before."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many there are of each sort."""
        return len(self.running), len(self.totals), len(self.moved)


@dataclass(frozen=True, slots=True)
class Situation:
    """One turn of many, for declarations: the arguments of the burst and what is carried over."""

    inputs: Mapping[str, Cell]
    """Numbers of the pool and operands of this turn, by name."""
    carried: Carried
    position: Cell
    """How many turns are before this one."""
    finished: Carried
    """What the last turn of the burst hands on."""


QUEUE = "order"
"""The column that is the queue."""


class Queue(NamedTuple):
    """Some places of the queue, one after the other, before they are wrapped; no element is in two of them."""

    first: Cell
    behind: Cell
    """The place behind the last one."""
    cells: Cell
    """How many cells the buffer has."""


@dataclass(frozen=True, slots=True)
class ManyTurns:
    """A burst, and what is to be shown of it."""

    name: str
    function: Function
    pool: Callable[[], tuple[Inputs, Inputs]]
    """The arguments in a pool, and in a larger one in which every size is another."""
    row: str
    """The operand that names the row of a turn. Rows are distinct, except for the row that stands for no request."""
    answers: tuple[str, ...]
    """Results of each turn."""
    waiting: Mapping[str, Cell]
    """Of a turn that is not reached: the elements of these results."""
    columns: tuple[str, ...]
    """Results that are columns of the pool."""
    numbers: Mapping[str, Callable[[Situation], Cell]]
    """Numbers of the pool that turns change: what a call alone finds there, as long as turns are reached."""
    carries: tuple[int, int, int]
    """How much the graph carries over, of each sort of `Carried`."""
    is_reached: Callable[[Situation], Cell]
    """Whether this turn comes before the first one that is refused or not answered."""
    invariant: Callable[[Situation], Iterable[Cell]]
    premises: Callable[[Situation], Iterable[Cell]] = lambda _: ()
    """What is promised of the operands and of the pool."""
    totals: tuple[str, ...] = ()
    """Those of the numbers that the graph of many turns computes by sums over the turns."""
    spare: Callable[[str, Cell], Cell] = lambda _, __: False
    """`(column, place) -> condition`: whether the place means nothing."""
    ends: bool = True
    """Whether a turn that is refused or not answered ends the burst."""
    shared: Mapping[str, int] = field(default_factory=dict)
    """Columns from which a turn takes at least one for each place that it names, with the least number that is left:
    several turns may name a place."""
    queue: Callable[[Situation], Queue] | None = None
    """The places that the burst writes to."""
    apart: Callable[[Situation, Situation], Iterable[Cell]] = lambda _, __: ()
    """What is promised of two turns with different rows."""
    says: str = ""
    """A sentence that says what the induction does not claim."""

    @property
    def bound(self) -> str:
        """For what it is proved, in words."""
        return "any number of turns, any sizes" + (f"; {self.says}" if self.says else "")


def prove_turns(component: str, burst: ManyTurns) -> Iterator[Finding]:
    """One row for each statement."""
    started = perf_counter()
    try:
        induction = _Induction(burst)
    except NotFollowedError as error:
        yield _finding(component, burst, "first", Verdict.UNKNOWN, f"cannot be followed: {error}", 0, started)
        return
    rows = {
        "first": induction.first,
        "kept": induction.kept,
        "answers": induction.answers,
        **({"waits": induction.waits} if burst.ends else {}),
        **({"totals": induction.totals} if burst.totals else {}),
        "apart": induction.apart,
    }
    for name, claims in rows.items():
        started, checks, verdict, detail = perf_counter(), 0, Verdict.PROVED, ""
        try:
            for what, premises, claim in claims():
                checks += 1
                verdict, detail = _asked(what, premises, claim)
                if verdict is not Verdict.PROVED:
                    break
            if not checks or not induction.possible():
                verdict, detail = Verdict.VACUOUS, "nothing is asked, or no turn satisfies the premises"
        except NotFollowedError as error:
            verdict, detail = Verdict.UNKNOWN, f"cannot be followed: {error}"
        yield _finding(component, burst, name, verdict, detail, checks, started)


def _finding(
    component: str, burst: ManyTurns, name: str, verdict: Verdict, detail: str, checks: int, started: float
) -> Finding:
    return Finding(
        component=component,
        name=f"turns/{name}/{burst.name}",
        statement=STATEMENTS[name],
        method=IMPLEMENTATION_TURNS,
        verdict=verdict,
        bound=burst.bound,
        seconds=perf_counter() - started,
        detail=detail,
        checks=checks,
    )


Claim = tuple[str, list[Cell], Cell]
"""In words, premises, and what follows from them."""


def _asked(what: str, premises: Sequence[Cell], claim: Cell) -> tuple[Verdict, str]:
    solver = question(alone((*map(term, premises), z3.Not(term(claim)))))
    answer = answer_of(solver)
    if answer == z3.unsat:
        return Verdict.PROVED, ""
    if answer == z3.sat:
        numbers = model_of(solver)
        shown = sorted(f"{one.name()} = {numbers[one]}" for one in numbers.decls() if one.arity() == 0)
        return Verdict.REFUTED, f"{what} differs for {', '.join(shown)}"
    return Verdict.GAVE_UP, f"{what}: {no_answer()}"


def _check(conditions: Sequence[Cell]) -> Any:
    return answer_of(question(alone(map(term, conditions))))


class _Induction:
    """Two turns of a burst, each as one of many and as a call alone."""

    def __init__(self, burst: ManyTurns) -> None:
        self.burst = burst
        results = list(dict.fromkeys((*burst.answers, *burst.waiting, *burst.columns, *burst.totals)))
        many = traced_burst(burst.function, *burst.pool(), results)
        alone = traced_burst(burst.function, *burst.pool(), many=())
        self.one, self.other = (_OneOfMany(burst, many, alone, name) for name in ("turn", "other"))

    def possible(self) -> bool:
        """Whether there is a turn that is reached, one that is not, and two turns that do not contradict each other."""
        for reached in (True, False) if self.burst.ends else (True,):
            if _check([*self.one.premises, cells.equal(self.one.reached, reached)]) != z3.sat:
                return False
        return bool(_check(self._two_turns()) != z3.unsat)

    def first(self) -> Iterator[Claim]:
        """Nothing is carried over to the first turn."""
        start = self.one.at_first()
        known = [TURNS >= 1, *self.one.promised]
        for number, condition in enumerate(self.burst.invariant(start)):
            yield f"part {number} of the invariant", known, condition
        yield "that it is reached", known, self.burst.is_reached(start)
        for name, finds in self.burst.numbers.items():
            yield name, known, cells.equal(finds(start), start.inputs[name])

    def kept(self) -> Iterator[Claim]:
        """From turn to turn."""
        after = self.one.afterwards
        for one in self.one.many.shared:
            known = [*self.one.premises, cells.inverse(self.burst.spare(one.column.name, one.place))]
            yield f"what the turn takes from {one.column.name}", known, cells.at_most(one.own, -1)
        for number, condition in enumerate(self.burst.invariant(after)):
            yield f"part {number} of the invariant", self.one.premises, condition
        for name, finds in self.burst.numbers.items():
            alone = self.one.alone.cells(name)[0]
            known = [*self.one.premises, self.one.reached, self.burst.is_reached(after)]
            yield f"{name} after the turn", known, cells.equal(finds(after), alone)
        yield "that no turn is reached behind one that is not", self.one.premises, cells.some((
            cells.inverse(self.burst.is_reached(after)), self.one.reached,
        ))  # fmt: skip

    def answers(self) -> Iterator[Claim]:
        """As a call alone."""
        known = [*self.one.premises, self.one.reached]
        for name in self.burst.answers:
            for mine, its in zip(self.one.many.cells(name), self.one.alone.cells(name), strict=True):
                yield name, known, cells.equal(mine, its)
        for name in self.burst.columns:
            mine_all, its_all = self.one.many.writes(name), self.one.alone.writes(name)
            if len(mine_all.writes) != len(its_all.writes):
                raise NotFollowedError(f"{name} is written in another number of calls")
            for mine, its in zip(mine_all.writes, its_all.writes, strict=True):
                yield name, known, self._same(mine_all, mine, its)

    def waits(self) -> Iterator[Claim]:
        """Behind a turn that was refused, or not answered."""
        known = [*self.one.premises, cells.inverse(self.one.reached)]
        for name, value in self.burst.waiting.items():
            for cell in self.one.many.cells(name):
                yield name, known, cells.equal(cell, value)
        for name in self.burst.columns:
            written = self.one.many.writes(name)
            for write in written.writes:
                yield name, known, self._changes_nothing(written, write)

    def totals(self) -> Iterator[Claim]:
        """After the last turn."""
        for name in self.burst.totals:
            after = self.one.afterwards
            known = [*self.one.premises, self.one.reached, self.burst.is_reached(after)]
            yield name, known, cells.equal(self.one.many.cells(name)[0], self.burst.numbers[name](after))
            known = [*self.one.premises, self.one.reached]
            yield f"{name} of the turn", known, cells.equal(self.one.many.cells(name)[0], self.one.alone.cells(name)[0])
            if not self.burst.ends:
                continue
            known = [*self.one.premises, cells.inverse(self.one.reached)]
            yield f"{name} behind", known, cells.equal(self.one.many.cells(name)[0], self.one.before.cells(name)[0])

    def apart(self) -> Iterator[Claim]:
        """Two turns with different rows."""
        known = self._two_turns()
        for name in self.burst.columns:
            written, others = self.one.many.writes(name), self.other.many.writes(name)
            for write in written.writes:
                for place in [place for column, place in self.other.reads if column.name == written.column.name]:
                    elsewhere = cells.inverse(cells.equal(write.place, place))
                    yield f"{name} is read", known, cells.some((elsewhere, self._changes_nothing(written, write)))
                for other in others.writes:
                    yield f"{name} is written", known, self._agree(written, write, other)
                    if self.burst.queue is not None and name == QUEUE:
                        yield f"{name} gets an element twice", known, self._differ(write, other)

    def _two_turns(self) -> list[Cell]:
        """What is known of two turns with different rows."""
        mine, its = (one.situation.inputs[self.burst.row] for one in (self.one, self.other))
        return [
            *self.one.premises,
            *self.other.premises,
            cells.inverse(cells.equal(mine, its)),
            *_rows_apart(mine, its),
            *self._in_order(),
            *self.one.places,
            *self.other.places,
            *self.burst.apart(self.one.situation, self.other.situation),
        ]

    def _in_order(self) -> Iterator[Cell]:
        """One of both turns comes first; a running sum of truth values has not fallen until the other one."""
        one, other = self.one, self.other
        yield cells.inverse(cells.equal(one.situation.position, other.situation.position))
        for first, then in ((one, other), (other, one)):
            is_first = cells.less(first.situation.position, then.situation.position)
            for name in sorted(first.many.counts):
                yield z3.Implies(is_first, first.many.next[name] <= then.carried[name])

    def _same(self, written: Written, mine: Write, its: Write) -> Cell:
        same = cells.every((cells.equal(mine.place, its.place), cells.equal(mine.value, its.value)))
        return cells.some((same, cells.every(self._changes_nothing(written, one) for one in (mine, its))))

    def _changes_nothing(self, written: Written, write: Write) -> Cell:
        there: Cell = 0 if write.adds else written.column.at(write.place)
        return cells.some((cells.equal(write.value, there), self.burst.spare(written.column.name, write.place)))

    def _agree(self, written: Written, one: Write, other: Write) -> Cell:
        """Two writes of different turns: in different places, alike, sums, or one of them changes nothing."""
        return cells.some((
            one.adds and other.adds,
            cells.inverse(cells.equal(one.place, other.place)),
            cells.equal(one.value, other.value) if not one.adds else False,
            self._changes_nothing(written, one),
            self._changes_nothing(written, other),
        ))  # fmt: skip

    def _differ(self, one: Write, other: Write) -> Cell:
        """Two different elements are put into the queue; or one of both is not put there."""
        outside = (self.burst.spare(QUEUE, write.place) for write in (one, other))
        return cells.some((*outside, cells.inverse(cells.equal(one.value, other.value))))


class _OneOfMany:
    """One turn: as one of many, as the end of a shorter burst, and as a call alone in the pool that it finds."""

    def __init__(self, burst: ManyTurns, traced: Traced, single: Traced, name: str) -> None:
        self.burst, self.traced = burst, traced
        fixed = {key: _fixed(key, like, traced.widths.get(key)) for key, like in traced.inputs.fixed.items()}
        turns = {key: CellTensor((1,), torch.int64, (z3.Int(f"{name}.{key}"),)) for key in traced.inputs.turns}
        probe = Turn(traced, {**fixed, **turns}, None)
        self._ask_all(probe)
        self.carried = carried = {key: _unknown(f"{name}.{key}", value) for key, value in probe.next.items()}
        if self._sorted(carried).counts != burst.carries:
            raise NotFollowedError(f"the graph carries over {self._sorted(carried).counts}, and not {burst.carries}")
        finished = {key: _unknown(f"finished.{key}", value) for key, value in probe.next.items()}
        inputs: dict[str, Value] = {**fixed, **turns}
        plain = {key: value.cells[0] for key, value in inputs.items() if isinstance(value, CellTensor)}
        position = z3.Int(f"{name}.position")
        self.situation = Situation(plain, self._sorted(carried), position, self._sorted(finished))
        self.many = Turn(traced, inputs, carried, name=name, position=position)
        self._ask_all(self.many)
        self.counted = [self.many.next[key] <= finished[key] for key in sorted(self.many.counts)]
        self.before = Turn(traced, inputs, carried, total=True, name=name, position=position)
        self.afterwards = replace(self.situation, carried=self._sorted(self.many.next), position=position + 1)
        found: dict[str, Value] = {
            key: CellTensor((), torch.int64, (finds(self.situation),)) for key, finds in burst.numbers.items()
        }
        found |= {key: self._as_found(key, fixed[key]) for key in burst.shared}
        self.alone = Turn(single, {**inputs, **found}, None)
        self.reads = self.many.reads
        self.reached = burst.is_reached(self.situation)

    def _sorted(self, carried: Mapping[str, Cell]) -> Carried:
        """By sort, in the order of the graph."""
        kinds = {node.name: str(node.target) for node in self.traced.module.graph.nodes if node.name in carried}
        found = (tuple(carried[key] for key, of in kinds.items() if of == kind) for kind in (RUNNING, TOTAL, PADDED))
        return Carried(*found)

    def _ask_all(self, turn: Turn) -> None:
        for name in self.burst.answers:
            turn.cells(name)
        for name in self.burst.columns:
            turn.writes(name)
        for name in self.burst.totals:
            turn.cells(name)

    @property
    def places(self) -> Iterator[Cell]:
        """No more places than cells, one after the other, are in different cells."""
        if self.burst.queue is None:
            return
        queue = self.burst.queue(self.situation)
        yield queue.behind - queue.first <= queue.cells
        for place in self.many.wrapped:
            yield z3.And(WRAPPED(place) >= 0, WRAPPED(place) < queue.cells)
            yield z3.Implies(z3.And(queue.first <= place, place < queue.behind), PLACES(WRAPPED(place)) == place)

    def _as_found(self, name: str, column: Value) -> Value:
        """A shared column as the call alone finds it: with what the turns before have taken."""
        if not isinstance(column, Column):
            raise NotFollowedError(f"{name} is no column")
        return replace(column, added=lambda place: added(name, self.many.name, "before")(term(place)))

    @property
    def premises(self) -> list[Cell]:
        """The invariant, what is promised, and what is known of sums over other turns."""
        return [
            z3.And(self.situation.position >= 0, self.situation.position < TURNS),
            *self.burst.invariant(self.situation),
            *self.promised,
            *self.counted,
            *(self._of_others(one) for one in self.many.shared),
        ]

    def _of_others(self, one: Shared) -> Cell:
        """Each turn takes something from each element that it names: so do those behind it that name the element."""
        position = self.situation.position
        if one.column.name not in self.burst.shared or not self._is_named(one):
            raise NotFollowedError(f"what several turns add to {one.column.name} is not followed")
        known = z3.And(
            one.last >= position,
            one.last < TURNS,
            one.before <= 0,
            z3.If(one.last == position, one.behind == 0, one.behind < 0),
            one.after >= self.burst.shared[one.column.name],
        )
        return cells.some((self.burst.spare(one.column.name, one.place), known))

    def _is_named(self, one: Shared) -> bool:
        """The turn adds to the element; the elements of which the last turn is asked for are those that it adds to."""
        if not any(cells.same(one.place, place) for place in one.named):
            return False
        pairs = (zip(one.named, named, strict=True) for named in self.many.named if len(named) == len(one.named))
        alike = [all(cells.same(*pair) for pair in both) for both in pairs]
        return all(alike) and len(alike) == len(self.many.named)

    @property
    def promised(self) -> list[Cell]:
        """Of the pool and the operands, whatever the turn."""
        return [*self.burst.premises(self.situation), *(self.wrapped(name) for name in self.burst.numbers)]

    def wrapped(self, name: str) -> Cell:
        """A place of the queue that the pool keeps is wrapped: a number is at its own place in the buffer."""
        number = self.situation.inputs[name]
        return WRAPPED(number) == number if name == "head" else True

    def at_first(self) -> Situation:
        """What is carried over to the first turn."""
        return replace(self.situation, carried=self._sorted(self.many.start), position=0)


def _fixed(name: str, like: Any, width: int | None) -> Value:
    if like.shape:
        return Column(name, like.dtype, width)
    return CellTensor((), like.dtype, (z3.Int(name),))


def _unknown(name: str, like: Cell) -> Cell:
    return z3.Bool(name) if cells.is_truth(like) else z3.Int(name)


def _rows_apart(one: Cell, other: Cell) -> Iterator[Cell]:
    """The rows of a table do not overlap: a fact of arithmetic about places that are a row times the size of rows."""
    size = ROW_SIZE
    yield size >= 1
    yield z3.Implies(one > other, ROWS(one) >= ROWS(other) + size)
    yield z3.Implies(other > one, ROWS(other) >= ROWS(one) + size)
