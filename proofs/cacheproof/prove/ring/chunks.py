"""Where the chunks of a ring lie, as formulas: in each state, and when chunks are reserved and freed.

The formulas are about `cachespec.ring.chunks`. `any_reserve` and `any_free` stand for its functions in the proofs of
what embeds a ring: any answer for which the laws of this module hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import states
from cacheproof.prove.executor import (
    NotFollowedError,
    Path,
    SymbolicBoolean,
    SymbolicInteger,
    Term,
    assume,
    both,
    demand,
    following,
    integer,
    integer_term,
    path,
)
from cacheproof.prove.lines import Line
from cacheproof.prove.loops import Locals
from cacheproof.prove.proof import Invariant
from cacheproof.prove.sequences import known_number
from cachespec.kernel import REFUSED, Code, Outcome
from cachespec.ring import chunks

Ring = Any

FIRST, SECOND = z3.Int("first"), z3.Int("second")


class Geometry:
    """The arithmetic of one ring, as terms; said anew, so that the transitions' own is checked by it."""

    def __init__(self, config: Any, one: Ring) -> None:
        self.capacity, self.modulus = config.capacity.term, config.modulus.term
        self.live, self.starts, self.sizes = one.starts.members, one.starts.values, one.sizes.values
        self.sized, self.count = one.sizes.members, one.starts.length_term
        self.id_start, self.id_end = integer_term(one.id_start), integer_term(one.id_end)
        self.start, self.end = integer_term(one.start), integer_term(one.end)

    def place(self, address: Term) -> Term:
        """The position in the data of an address of one of the first two laps."""
        return z3.If(address < self.capacity, address, address - self.capacity)

    def age(self, identity: Term) -> Term:
        """The number of chunks that are older than this id."""
        ahead = identity - self.id_start
        return z3.If(ahead >= 0, ahead, ahead + self.modulus)

    def distance(self, identity: Term) -> Term:
        """From the start to the chunk."""
        ahead = self.place(self.starts[identity]) - self.place(self.start)
        return z3.If(ahead >= 0, ahead, ahead + self.capacity)

    def occupied(self) -> Term:
        """From the start to the end."""
        return self.end - self.start

    def aged(self, age: Term) -> Term:
        """The id that this number of ids precede, from the oldest on; at most all of them."""
        ahead = self.id_start + age
        return z3.If(ahead < self.modulus, ahead, ahead - self.modulus)

    def newest(self) -> Term:
        """The id before the next one."""
        return z3.If(self.id_end > 0, self.id_end - 1, self.modulus - 1)


def seen(array: Term, *keys: Term) -> list[Term]:
    """The sight of a value of this array, as a trigger; none for an array that was written to."""
    return [array[key] for key in keys] if z3.is_const(array) and not z3.is_const_array(array) else []


def each(shape: Geometry, formula: Term) -> Term:
    """For every id; the solver tries the ids whose liveness is asked for."""
    return z3.ForAll([FIRST], formula, patterns=[shape.live[FIRST]])


def each_pair(shape: Geometry, formula: Term) -> Term:
    """For every two ids."""
    return z3.ForAll([FIRST, SECOND], formula, patterns=[z3.MultiPattern(shape.live[FIRST], shape.live[SECOND])])


def apart(shape: Geometry) -> Term:
    """SHM-1: live chunks are inside the data, none reaches across its end, no two have a unit in common."""
    one, two = FIRST, SECOND
    first, second = shape.place(shape.starts[one]), shape.place(shape.starts[two])
    within = z3.And(first >= 0, first + shape.sizes[one] <= shape.capacity)
    disjoint = z3.Or(first + shape.sizes[one] <= second, second + shape.sizes[two] <= first)
    pair = z3.And(shape.live[one], shape.live[two], one != two)
    return z3.And(
        each(shape, z3.Implies(shape.live[one], within)),
        each_pair(shape, z3.Implies(pair, disjoint)),
    )


def extended(shape: Geometry) -> Term:
    """Every live chunk has an address of the first two laps, a size, and its place between start and end."""
    one = FIRST
    addressed = z3.And(shape.starts[one] >= 0, shape.starts[one] < 2 * shape.capacity)
    fits = z3.And(shape.sizes[one] > 0, shape.distance(one) + shape.sizes[one] <= shape.occupied())
    return each(shape, z3.Implies(shape.live[one], z3.And(addressed, fits)))


def in_order(shape: Geometry) -> Term:
    """An older chunk ends before a younger one begins, going ahead from the start."""
    one, two = FIRST, SECOND
    premise = z3.And(shape.live[one], shape.live[two], shape.age(one) < shape.age(two))
    behind = shape.distance(one) + shape.sizes[one] <= shape.distance(two)
    return each_pair(shape, z3.Implies(premise, behind))


def contiguous(shape: Geometry) -> Term:
    """SHM-4, SHM-6: the live ids follow one another, from the oldest on."""
    one = FIRST
    known = z3.And(one >= 0, one < shape.modulus, shape.age(one) < shape.count)
    tables = z3.And(shape.live[one] == known, shape.sized[one] == shape.live[one])
    counts = z3.And(shape.count >= 0, shape.count <= shape.modulus, shape.id_start >= 0, shape.id_start < shape.modulus)
    return z3.And(counts, shape.id_end == shape.aged(shape.count), z3.ForAll([one], tables))


def window(shape: Geometry, laps: int) -> Term:
    """What is occupied is at most one lap, from the oldest chunk to the newest, and nothing where there is none."""
    start = z3.And(shape.start >= 0, shape.start < laps * shape.capacity)
    extent = z3.And(shape.occupied() >= 0, shape.occupied() <= shape.capacity)
    oldest = z3.Implies(shape.count > 0, shape.distance(shape.id_start) == 0)
    newest = shape.newest()
    last = z3.Implies(shape.count > 0, shape.distance(newest) + shape.sizes[newest] == shape.occupied())
    empty = z3.Implies(shape.count == 0, z3.And(shape.start == 0, shape.end == 0))
    return z3.And(start, extent, oldest, last, empty)


def of_ring(formula: Callable[[Geometry], Term]) -> Callable[[Any, Any], SymbolicBoolean]:
    """A formula about a ring, or about that in a segment."""
    return lambda config, state: SymbolicBoolean(formula(Geometry(config, getattr(state, "ring", state))))


INVARIANTS = (
    Invariant(
        "SHM-1", "live chunks lie inside the data area, none wraps around its end, and no two overlap", of_ring(apart)
    ),
    Invariant(
        "SHM-1/extent",
        "each live chunk lies between start and end, with its address in the first two laps",
        of_ring(extended),
    ),
    Invariant(
        "SHM-1/window",
        "the occupied range starts at the oldest chunk, ends behind the newest, and is at most one lap long",
        of_ring(lambda shape: window(shape, 1)),
    ),
    Invariant("SHM-4/ids", "live ids are consecutive from the oldest to the next, in both tables", of_ring(contiguous)),
    Invariant("SHM-6/order", "chunks lie in the order of their ids", of_ring(in_order)),
)


# Of a step ----------------------------------------------------------------------------------------------------------

UNITS_BEFORE = z3.Function("units_before", z3.IntSort(), z3.IntSort())
"""How many units the oldest chunks have, by their number: of the ring before the step."""


def define_units(old: Geometry, *numbers: Term) -> None:
    """The definition of `UNITS_BEFORE`, from these numbers of chunks to the next."""
    path().assume(UNITS_BEFORE(0) == 0)
    for number in numbers:
        path().assume(UNITS_BEFORE(number + 1) == UNITS_BEFORE(number) + old.sizes[old.aged(number)])


def oldest_went(config: Any, before: Ring, after: Ring) -> Term:
    """The chunks that are missing are the oldest ones; the others are as they were."""
    old, new, one = Geometry(config, before), Geometry(config, after), FIRST
    gone = old.count - new.count
    stays = new.live[one] == z3.And(old.live[one], old.age(one) >= gone)
    alike = z3.And(new.starts[one] == old.starts[one], new.sizes[one] == old.sizes[one])
    triggers = seen(new.live, one) + seen(old.live, one)
    kept = z3.ForAll([one], z3.And(stays, z3.Implies(new.live[one], alike)), patterns=triggers)
    return z3.And(gone >= 0, gone <= old.count, new.id_start == old.aged(gone), new.id_end == old.id_end, kept)


def line_of(values: Any) -> Line:
    """Ids that were returned, listed or not."""
    return values if type(values) is Line else Line.of(values)


def gone_are_listed(config: Any, before: Ring, after: Ring, values: Any) -> Term:
    """The ids of those that went, from the oldest on."""
    old, gone, place = Geometry(config, before), line_of(values), z3.Int("place")
    named = z3.Implies(gone.is_in(place), gone.items[place] == old.aged(place - gone.first))
    listed = z3.ForAll([place], named, patterns=[gone.items[place]])
    return z3.And(gone.last - gone.first == old.count - integer_term(after.starts.length), listed)


def as_wanted(config: Any, before: Ring, after: Ring, want: Any, may_go: Callable[[Term], Term]) -> Term:
    """One chunk fewer would not have been enough; and if it is not enough, the next one may not go."""
    old, new, wanted = Geometry(config, before), Geometry(config, after), integer_term(want)
    gone = old.count - new.count
    define_units(old, gone - 1)
    enough = z3.Or(UNITS_BEFORE(gone) >= wanted, new.count == 0, z3.Not(may_go(new.id_start)))
    return z3.And(enough, z3.Implies(gone > 0, UNITS_BEFORE(gone - 1) < wanted))


def all_went(config: Any, after: Ring, want: Any, may_go: Callable[[Term], Term]) -> Term:
    """If as many units are wanted as there are, all chunks go, up to the first that may not."""
    new = Geometry(config, after)
    return z3.Implies(integer_term(want) >= new.capacity, z3.Or(new.count == 0, z3.Not(may_go(new.id_start))))


def first_went(config: Any, before: Ring, after: Ring, want: Any, may_go: Callable[[Term], Term]) -> Term:
    """If anything is wanted, the oldest chunk goes, unless it may not."""
    old, new = Geometry(config, before), Geometry(config, after)
    goes = z3.And(integer_term(want) > 0, old.count > 0, may_go(old.id_start))
    return z3.Implies(goes, z3.And(z3.Not(new.live[old.id_start]), new.count < old.count))


def only_those_went(before: Ring, after: Ring, may_go: Callable[[Term], Term]) -> Term:
    """No chunk went that may not go."""
    kept = z3.And(before.starts.members[FIRST], z3.Not(may_go(FIRST)))
    triggers = seen(before.starts.members, FIRST) + seen(after.starts.members, FIRST)
    return z3.ForAll([FIRST], z3.Implies(kept, after.starts.members[FIRST]), patterns=triggers)


def reserved(before: Ring, after: Ring, values: Any, size: Any) -> SymbolicBoolean:
    """One chunk more, of this size, with the next id and the address that is returned; the others are as they were."""
    address, identity = values
    one, named = FIRST, integer_term(identity)
    alike = z3.And(
        after.starts.values[one] == before.starts.values[one], after.sizes.values[one] == before.sizes.values[one]
    )
    others = z3.And(
        after.starts.members[one] == z3.Or(before.starts.members[one], one == named),
        z3.Implies(z3.And(before.starts.members[one], one != named), alike),
    )
    there = both(after.starts.get(identity, -1) == address, after.sizes.get(identity, -1) == size)
    there = there & both(identity == before.id_end, after.id_start == before.id_start)
    there = there & SymbolicBoolean(after.starts.length_term == before.starts.length_term + 1)
    triggers = seen(before.starts.members, one) + seen(after.starts.members, one)
    return there & ~both(before.starts.has(identity)) & SymbolicBoolean(z3.ForAll([one], others, patterns=triggers))


def has_room(shape: Geometry, total: Term) -> Term:
    """Behind the newest chunk, or before the oldest at the beginning of the data; or anywhere, if nothing is there."""
    newest = shape.newest()
    first, last = shape.place(shape.starts[shape.id_start]), shape.place(shape.starts[newest])
    behind = last + shape.sizes[newest]
    ahead = z3.If(last < first, behind + total <= first, z3.Or(behind + total <= shape.capacity, total <= first))
    return z3.If(shape.count == 0, total <= shape.capacity, ahead)


def refused_for_a_reason(config: Any, before: Ring, total: Any) -> SymbolicBoolean:
    """There is no room, or the next id is taken."""
    shape = Geometry(config, before)
    return SymbolicBoolean(z3.Or(shape.live[shape.id_end], z3.Not(has_room(shape, integer_term(total)))))


# Loops --------------------------------------------------------------------------------------------------------------


def oldest_go(entry: Locals, now: Locals) -> Iterable[Any]:
    """This number of the oldest chunks is gone; the start may have come into the second lap."""
    config, before, one, units = now["config"], entry["ring"], now["ring"], integer_term(now["units"])
    shape, old = Geometry(config, one), Geometry(config, before)
    gone = old.count - shape.count
    define_units(old, gone, gone - 1)
    yield from map(SymbolicBoolean, (window(shape, 2), contiguous(shape), extended(shape)))
    yield from map(SymbolicBoolean, (in_order(shape), *apart(shape).children()))
    yield SymbolicBoolean(oldest_went(config, before, one))
    moved = old.start + old.distance(shape.id_start)
    yield SymbolicBoolean(z3.Implies(shape.count > 0, z3.And(shape.end == old.end, shape.start == moved)))
    yield SymbolicBoolean(z3.And(old.start < old.capacity, shape.modulus == old.modulus))
    yield SymbolicBoolean(gone_are_listed(config, before, one, now["gone"]))
    wanted = z3.Implies(gone > 0, UNITS_BEFORE(gone - 1) < integer_term(now["want"]))
    passed = z3.Implies(shape.count > 0, units <= shape.start - old.start)
    yield SymbolicBoolean(z3.And(units == UNITS_BEFORE(gone), wanted, passed))


def a_line(name: str, value: Any) -> Any:
    """Of the ids that have gone, any."""
    return Line.fresh(name) if name == "gone" else None


# Stand-ins ----------------------------------------------------------------------------------------------------------


def is_known(config: Any) -> bool:
    """Whether a witness is looked for."""
    return known_number(integer_term(config.capacity)) is not None


INTEGERS, MEMBERS = z3.ArraySort(z3.IntSort(), z3.IntSort()), z3.ArraySort(z3.IntSort(), z3.BoolSort())
LAID_OUT = z3.Function("laid_out", MEMBERS, INTEGERS, INTEGERS, *[z3.IntSort()] * 5, z3.BoolSort())
"""Stands for `extended` and `in_order` of a ring: what embeds it needs to know no more than that they hold."""


def laid_out(shape: Geometry) -> Term:
    """No chunk is live, which has both at once; or what stands for both."""
    arrays = (shape.live, shape.starts, shape.sizes)
    known = LAID_OUT(*arrays, shape.start, shape.end, shape.id_start, shape.capacity, shape.modulus)
    return z3.Or(z3.ForAll([FIRST], z3.Not(shape.live[FIRST])), known)


EMBEDDED = (
    *(one for one in INVARIANTS if one.name not in ("SHM-1/extent", "SHM-6/order")),
    Invariant("laid out", "each live chunk lies between start and end, in the order of ids", of_ring(laid_out)),
)
"""The invariants of a ring, for a component that embeds it."""


def of_its_ring(ring_config: Callable[[Any], Any] = lambda config: config) -> tuple[Invariant, ...]:
    """The same, of a component whose state has the ring as `ring`; `ring_config` makes the ring's configuration."""

    def embedded(one: Invariant) -> Invariant:
        return Invariant(one.name, one.statement, lambda config, state: one.holds(ring_config(config), state.ring))

    return tuple(map(embedded, EMBEDDED))


REFUSES = z3.Function("refuses", MEMBERS, INTEGERS, INTEGERS, *[z3.IntSort()] * 7, z3.BoolSort())
"""Whether `reserve` refuses: any function of what it is given, so that it answers twice alike."""


def is_refused(config: Any, one: Ring, total: Any) -> SymbolicBoolean:
    """Whether there is no chunk of this size to be had."""
    shape = Geometry(config, one)
    ends = (shape.start, shape.end, shape.id_start, shape.id_end)
    given = (*ends, shape.capacity, shape.modulus, integer_term(total))
    return SymbolicBoolean(REFUSES(shape.live, shape.starts, shape.sizes, *given))


def any_ring(config: Any, like: Ring) -> Ring:
    """Any ring that has the invariants."""
    one = states.fresh_like(like, "ring")
    for invariant in EMBEDDED:
        assume(invariant.holds(config, one))
    return one


def demand_order(config: Any, one: Ring) -> None:
    """What stands for a function of the ring is asked about rings that have the invariants."""
    for invariant in EMBEDDED:
        demand("the ring has its invariants", invariant.holds(config, one))


def any_reserve(config: Any, one: Ring, payload: Any) -> tuple[Ring, Outcome]:
    """Stands for `reserve`: refused for a reason, or a new chunk."""
    if is_known(config):
        return chunks.reserve(config, one, payload)
    demand_order(config, one)
    demand("a chunk has a payload", both(payload >= 1))
    total = payload + config.header
    if is_refused(config, one, total):
        assume(refused_for_a_reason(config, one, total))
        return one, REFUSED
    after, values = any_ring(config, one), (integer("address"), integer("id"))
    assume(reserved(one, after, values, total))
    return after, Outcome(Code.DONE, values)  # type: ignore[arg-type]  # terms stand for integers


@dataclass(slots=True)
class Decided(Path):
    """A path that keeps its decisions apart from what is assumed."""

    decisions: list[Term] = field(default_factory=list)

    def branch(self, condition: Term) -> bool:
        decision = Path.branch(self, condition)
        self.decisions.append(condition if decision else z3.Not(condition))
        return decision


def rule_of(may_go: Callable[[Any], Any], identity: Term) -> Term:
    """The answer of a rule as one formula: the decisions of its paths that end with yes."""
    waiting: list[tuple[bool, ...]] = [()]
    taken = []
    while waiting:
        one = Decided(prefix=waiting.pop())
        with following(one):
            answer = bool(may_go(SymbolicInteger(identity)))
        if one.names or one.demands:
            raise NotFollowedError("a rule with a loop or a demand is not a formula")
        waiting.extend(one.alternatives)
        taken += [z3.And(*one.decisions)] if answer else []
    return z3.simplify(z3.Or(*taken))


def any_free(config: Any, one: Ring, may_go: Callable[[Any], Any], want: Any) -> tuple[Ring, Outcome]:
    """Stands for `free_chunks`: the oldest go, as `as_wanted` and `all_went` say."""
    if is_known(config):
        return chunks.free_chunks(config, one, may_go, want)
    demand_order(config, one)

    def may(identity: Term) -> Term:
        return rule_of(may_go, identity)

    after, gone, old = any_ring(config, one), Line.fresh("gone"), Geometry(config, one)
    assume(SymbolicBoolean(oldest_went(config, one, after)))
    assume(SymbolicBoolean(gone_are_listed(config, one, after, gone)))
    known = z3.Implies(
        z3.And(old.live[FIRST], z3.Not(after.starts.members[FIRST])),
        z3.And(gone.has(FIRST), gone.place_of[FIRST] == gone.first + old.age(FIRST)),
    )
    assume(SymbolicBoolean(z3.ForAll([FIRST], known, patterns=[old.live[FIRST]])))
    assume(SymbolicBoolean(only_those_went(one, after, may)))
    assume(SymbolicBoolean(as_wanted(config, one, after, want, may)))
    assume(SymbolicBoolean(all_went(config, after, want, may)))
    assume(SymbolicBoolean(first_went(config, one, after, want, may)))
    return after, Outcome(Code.DONE, gone)  # type: ignore[arg-type]  # a line stands for a tuple


def any_clear(config: Any, one: Ring, may_go: Callable[[Any], Any]) -> tuple[Ring, Outcome]:
    """Stands for `clear_chunks`."""
    return any_free(config, one, may_go, config.capacity)
