"""The loops of a step with shared prefixes: what holds after each of the running, and of the waiting requests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.arithmetic import define_blocks, is_whole, whole_blocks
from cacheproof.prove.executor import SymbolicBoolean, SymbolicInteger, Term, both, implies, integer_term
from cacheproof.prove.lines import Line, Shares, each
from cacheproof.prove.loops import Locals, Loop
from cacheproof.prove.sequences import SymbolicSequence
from cacheproof.prove.states import part_names, unchanged
from cachespec.shared_prefix import transitions
from cachespec.shared_prefix.state import RUNNING, WAITING

Config = Any
State = Any


def is_request(config: Config, request: Term) -> Term:
    """There is such a request."""
    return z3.And(request >= 0, request < config.requests.length)


def prompt_of(config: Config, request: Term) -> Term:
    """The prompt of a request, over terms."""
    return config.requests.items[request]


def tokens_of(config: Config, request: Term) -> Term:
    """The length of its prompt, over terms."""
    return config.prompts.items[prompt_of(config, request)]


def is_prompt(config: Config, prompt: Term) -> Term:
    """There is such a prompt."""
    return z3.And(prompt >= 0, prompt < config.prompts.length)


# What holds of states -----------------------------------------------------------------------------------------------


def computed_is_in_range(config: Config, state: State) -> SymbolicBoolean:
    """SCH-2."""
    computed = state.computed.items

    def right(request: Term) -> Term:
        inside = z3.And(computed[request] >= 0, computed[request] <= tokens_of(config, request))
        return z3.Implies(is_request(config, request), inside)

    return SymbolicBoolean(each(right, lambda request: computed[request]))


def lists(config: Config, state: State, line: Line, status: int) -> Iterable[SymbolicBoolean]:
    """The line has each request of this status, once, and no other."""

    def member(place: Term) -> Term:
        request = line.items[place]
        right = z3.And(is_request(config, request), state.status.items[request] == status)
        return z3.Implies(line.is_in(place), right)

    def listed(request: Term) -> Term:
        has = z3.And(is_request(config, request), state.status.items[request] == status)
        return z3.Implies(has, line.has(request))

    yield line.distinct()
    yield SymbolicBoolean(each(member, lambda place: line.items[place]))
    yield SymbolicBoolean(each(listed, lambda request: line.place_of[request]))


def apart(config: Config, state: State) -> Iterable[Any]:
    """The parts of SCH-6."""

    def begun_runs(request: Term) -> Term:
        begun = z3.And(is_request(config, request), state.computed.items[request] != 0)
        return z3.Implies(begun, state.status.items[request] == RUNNING)

    yield from lists(config, state, state.waiting, WAITING)
    yield from lists(config, state, state.running, RUNNING)
    yield SymbolicBoolean(each(begun_runs, lambda request: state.computed.items[request]))
    yield state.running.symbolic_length() <= config.sequences


def queues_are_apart(config: Config, state: State) -> SymbolicBoolean:
    """SCH-6."""
    return both(*apart(config, state))


def running_are_counted(config: Config, state: State) -> SymbolicBoolean:
    """The number of requests that run."""
    return both(state.status.count(RUNNING) == state.running.symbolic_length())


def has_a_place_for_each(config: Config, state: State) -> SymbolicBoolean:
    """A status and a count for each request, and a reach for each prompt."""
    requests, prompts = config.requests.length, config.prompts.length
    lengths = (state.status.length == requests, state.computed.length == requests, state.reach.length == prompts)
    return SymbolicBoolean(z3.And(*lengths))


def reach_is_of_blocks(config: Config, state: State) -> SymbolicBoolean:
    """The cached tokens of a prompt are whole blocks of it."""
    reach, size = state.reach.items, integer_term(config.block_size)
    define_blocks(size, z3.IntVal(0))

    def right(prompt: Term) -> Term:
        return z3.Implies(is_prompt(config, prompt), reach_is_within(config, prompt, reach[prompt]))

    return SymbolicBoolean(each(right, lambda prompt: reach[prompt]))


def reach_is_within(config: Config, prompt: Term, reach: Term) -> Term:
    """So many tokens are whole blocks of the prompt."""
    return z3.And(reach >= 0, reach <= config.prompts.items[prompt], is_whole(integer_term(config.block_size), reach))


# What holds of a step in the making ---------------------------------------------------------------------------------


def counts_are_positive(shares: Shares) -> SymbolicBoolean:
    """Every count is positive."""
    names = shares.names
    return SymbolicBoolean(
        each(
            lambda place: z3.Implies(names.is_in(place), shares.numbers[place] > 0), lambda place: shares.numbers[place]
        )
    )


def are_requests(config: Config, names: Line) -> SymbolicBoolean:
    """There are such requests."""
    return SymbolicBoolean(
        each(
            lambda place: z3.Implies(names.is_in(place), is_request(config, names.items[place])),
            lambda place: names.items[place],
        )
    )


def follow(names: Line, line: Line, end: Term) -> SymbolicBoolean:
    """The requests are members of the line before position `end`, in its order, each at most once."""
    earlier, later = z3.Ints("earlier later")

    def place(index: Term) -> Term:
        return line.place_of[names.items[index]]

    member = z3.And(line.has(names.items[earlier]), place(earlier) < end)
    ordered = z3.And(names.is_in(earlier), names.is_in(later), earlier < later)
    return both(
        SymbolicBoolean(
            z3.ForAll([earlier], z3.Implies(names.is_in(earlier), member), patterns=[names.items[earlier]])
        ),
        SymbolicBoolean(
            z3.ForAll(
                [earlier, later],
                z3.Implies(ordered, place(earlier) < place(later)),
                patterns=[z3.MultiPattern(names.items[earlier], names.items[later])],
            )
        ),
        names.distinct(),
    )


def admitted_run(before: State, after: State) -> SymbolicBoolean:
    """The first of the waiting requests run now, behind those that ran."""
    waiting, running = before.waiting, before.running
    count = admissions(before, after)

    def right(place: Term) -> Term:
        behind = place - after.running.first + running.first
        new = waiting.items[behind - running.last + waiting.first]
        old = z3.If(behind < running.last, running.items[behind], new)
        return z3.Implies(after.running.is_in(place), after.running.items[place] == old)

    inside = SymbolicBoolean(z3.And(count >= 0, waiting.first + count <= waiting.last))
    return both(inside, SymbolicBoolean(each(right, lambda place: after.running.items[place])))


def admissions(before: State, after: State) -> Term:
    """How many requests run that did not run before."""
    return after.running.last - after.running.first - (before.running.last - before.running.first)


def others_wait(before: State, after: State) -> SymbolicBoolean:
    """The waiting requests behind the admitted ones wait, and no others."""
    waiting = before.waiting
    return both(after.waiting.equals(replace(waiting, first=waiting.first + admissions(before, after))))


def admitted_are_served(before: State, after: State, names: Line) -> SymbolicBoolean:
    """Each request that no longer waits has tokens in this step."""
    waiting = before.waiting
    gone = (waiting.last - waiting.first) - (after.waiting.last - after.waiting.first)

    def right(place: Term) -> Term:
        first = z3.And(place >= waiting.first, place < waiting.first + gone)
        return z3.Implies(first, names.has(waiting.items[place]))

    return SymbolicBoolean(each(right, lambda place: waiting.items[place]))


def computed_as_counted(config: Config, before: State, after: State, shares: Shares) -> SymbolicBoolean:
    """SCH-2/counted: each request goes on where it was, or behind the blocks that were cached."""
    size = integer_term(config.block_size)

    def start(request: Term) -> Term:
        reach, last = before.reach.items[prompt_of(config, request)], whole_blocks(size, tokens_of(config, request) - 1)
        runs = before.status.items[request] == RUNNING
        return z3.If(runs, before.computed.items[request], z3.If(reach < last, reach, last))

    def right(request: Term) -> Term:
        old = before.computed.items[request]
        new = z3.If(shares.served[request], start(request) + shares.given[request], old)
        return z3.Implies(is_request(config, request), after.computed.items[request] == new)

    return SymbolicBoolean(each(right, lambda request: after.computed.items[request]))


def only_these_are_served(shares: Shares, line: Line, end: Term) -> SymbolicBoolean:
    """Each request with tokens is a member of the line, before position `end`."""

    def right(request: Term) -> Term:
        first = z3.And(line.has(request), line.place_of[request] < end)
        return z3.Implies(shares.served[request], first)

    return SymbolicBoolean(each(right, lambda request: shares.served[request]))


def cached_as_computed(
    config: Config, before: State, after: State, names: Line, end: Term
) -> Iterable[SymbolicBoolean]:
    """SCH-2/cached, for the requests before position `end`: the reach is the largest of the old one and of theirs."""
    size, old, new = integer_term(config.block_size), before.reach.items, after.reach.items
    share = z3.Int("share")

    def full(place: Term) -> Term:
        return whole_blocks(size, after.computed.items[names.items[place]])

    def prompt(place: Term) -> Term:
        return prompt_of(config, names.items[place])

    def is_served(place: Term) -> Term:
        return z3.And(place >= names.first, place < end)

    def grows(place: Term) -> Term:
        return z3.Implies(is_prompt(config, place), new[place] >= old[place])

    def is_one(place: Term) -> Term:
        theirs = z3.Exists([share], z3.And(is_served(share), prompt(share) == place, new[place] == full(share)))
        return z3.Implies(is_prompt(config, place), z3.Or(new[place] == old[place], theirs))

    yield SymbolicBoolean(each(grows, lambda place: new[place]))
    yield SymbolicBoolean(
        each(
            lambda place: z3.Implies(is_served(place), new[prompt(place)] >= full(place)),
            lambda place: names.items[place],
        )
    )
    yield SymbolicBoolean(each(is_one, lambda place: new[place]))


def identical_but(before: State, after: State, *changed: str) -> SymbolicBoolean:
    """All other fields are the same terms, at each position that there may be: solvers then need no "for every"."""
    parts = [(getattr(before, part), getattr(after, part)) for part in part_names(before) if part not in changed]
    return both(
        *(one.identical_to(other) if type(one) is SymbolicSequence else unchanged(one, other) for one, other in parts)
    )


# The loops ----------------------------------------------------------------------------------------------------------


def stepping(entry: Locals, now: Locals) -> Iterable[Any]:
    """After some of the running requests, and after some of the waiting ones."""
    config, before, plan, place = now["config"], now["state"], now["plan"], integer_term(now["request_at"])
    state, shares, running = plan.state, plan.scheduled, plan.state.running
    first = now["request_all"] is before.running
    yield SymbolicBoolean(z3.And(place >= 0, place <= now["request_all"].last - now["request_all"].first))
    yield both(plan.tokens >= 0, plan.tokens + SymbolicInteger(shares.total) == config.batch_tokens)
    yield counts_are_positive(shares)
    yield from (holds(config, state) for holds in (computed_is_in_range, running_are_counted, has_a_place_for_each))
    yield from apart(config, state)
    yield are_requests(config, shares.names)
    yield computed_as_counted(config, before, state, shares)
    yield follow(shares.names, running, running.first + place if first else running.last)
    if first:
        yield only_these_are_served(shares, running, running.first + place)
        yield identical_but(before, state, "computed", "encoder")
        yield both(plan.stopped == 0)
        return
    count = running.last - before.running.last
    yield identical_but(before, state, "waiting", "running", "status", "computed", "encoder")
    yield state.waiting.same_as(replace(before.waiting, first=before.waiting.first + count))
    yield SymbolicBoolean(running.first == before.running.first)
    yield admitted_run(before, state)
    yield admitted_are_served(before, state, shares.names)
    yield SymbolicBoolean(count <= place)
    yield implies(plan.stopped == 0, SymbolicBoolean(count == place))


def fitting(entry: Locals, now: Locals) -> Iterable[Any]:
    """The tokens do not grow, and do not become negative; of the state, only the encoder cache changes."""
    yield both(now["tokens"] >= 0, now["tokens"] <= entry["tokens"])
    yield identical_but(entry["state"], now["state"], "encoder")


def executing(entry: Locals, now: Locals) -> Iterable[Any]:
    """Blocks become cached; beside them, only the encoder cache changes."""
    config, before, state = now["config"], entry["state"], now["state"]
    if "position_all" in entry:
        yield both(now["position_at"] >= 0)
        yield identical_but(before, state, "encoder")
        return
    names, place = now["request_all"], integer_term(now["request_at"])
    yield SymbolicBoolean(z3.And(place >= 0, place <= names.last - names.first))
    yield identical_but(before, state, "reach", "encoder")
    yield from cached_as_computed(config, before, state, names, names.first + place)
    yield reach_is_of_blocks(config, state)
    yield has_a_place_for_each(config, state)


ROW = "loops"

LOOPS = (
    Loop(transitions.step_by, ROW, stepping, in_order=True),
    Loop(transitions.window, ROW, fitting),
    Loop(transitions.executed, ROW, executing, in_order=True),
)
