"""What must hold of the encoder cache: ENC, as far as this component alone can say it.

Not said here, because it needs the scheduler and the workers: that a scheduled chunk finds its entry on the worker
(ENC-8, and the second half of ENC-6), which requests are alive (the second half of ENC-5), and who waits for room in
what order (the fairness of ENC-13). Here, ENC-6 is that nothing held is evicted, ENC-5 that what the manager counts is
what its callers hold, and ENC-13 that only what is held can stand in the way of an input that fits: so when its
holders have finished, it does not wait any longer. The order within a report is said by the transition and by no
property: workers drop a set.
"""

from __future__ import annotations

from collections.abc import Iterable

from cachespec.encoder_cache.configuration import Config, content_of, positions
from cachespec.encoder_cache.operations import (
    Abandon,
    Allocate,
    CachedInputs,
    CanAllocate,
    CheckAndUpdate,
    FreeInput,
    FreeRequest,
    Report,
    Reset,
)
from cachespec.encoder_cache.state import Key, View, holders_of
from cachespec.kernel import Code, Operation, Outcome, Safety, Step


def resident(view: View) -> tuple[Key, ...]:
    """Which entries there are."""
    return tuple(key for key, _ in view.entries)


def order(view: View) -> tuple[Key, ...]:
    """The entries in the order of eviction."""
    return tuple(key for key, _ in view.idle)


def unreported(view: View) -> tuple[Key, ...]:
    """What the workers still keep of what is not resident."""
    there = resident(view)
    return tuple(key for key in view.freed if key not in there)


def keys_of(values: tuple[int, ...], view: View) -> tuple[Key, ...]:
    """The keys that a report consists of: one integer each, or two before inputs were shared."""
    width = 1 if "idle" in view.shown else 2
    return tuple(values[start : start + width] for start in range(0, len(values), width))


def without(keys: Iterable[Key], gone: Iterable[Key]) -> tuple[Key, ...]:
    """The keys that are not gone, in their order."""
    left = set(gone)
    return tuple(key for key in keys if key not in left)


def claim_of(config: Config, request: int, position: int) -> int:
    """The embeddings that the request claims for an input. Transitions have their own function: no bug of it hides."""
    return config.claims[request][position] if config.claims else config.sizes[config.requests[request][position]]


# Of a state ---------------------------------------------------------------------------------------------------------


def counts_are_in_range(config: Config, view: View) -> bool:
    freeable = view.free if view.freeable is None else view.freeable
    return 0 <= view.free <= freeable <= config.capacity


def slots_are_conserved(config: Config, view: View) -> bool:
    return view.free + sum(size for _, size in view.entries) == config.capacity


def freeable_is_conserved(config: Config, view: View) -> bool:
    sizes = dict(view.entries)
    return view.freeable == view.free + sum(sizes.get(key, 0) for key, _ in view.idle)


def idle_is_unreferenced(config: Config, view: View) -> bool:
    referenced = {(content,) for content, _ in view.references}
    return sorted(order(view)) == [key for key in resident(view) if key not in referenced]


def sizes_are_agreed(config: Config, view: View) -> bool:
    sizes = dict(view.entries)
    claims = [((content_of(config, *pair),), claim_of(config, *pair)) for pair in view.held]
    given_back = [size == sizes.get(key, size) for key, size in view.idle]
    return all(sizes.get(key, size) == size for key, size in claims) and all(given_back)


def references_are_holders(config: Config, view: View) -> bool:
    contents = sorted({content_of(config, request, position) for request, position in view.held})
    counted = [content for content, _ in view.references]
    there = {key for key, _ in view.entries}
    return (
        view.holders == holders_of(config, view.held)
        and counted == contents
        and all((content,) in there or pair in there for pair in view.held for content in [content_of(config, *pair)])
    )


def promises_fit(config: Config, view: View) -> bool:
    return view.promised_embeds <= view.free


# Of a step ----------------------------------------------------------------------------------------------------------


def size_is_constant(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    sizes = dict(before.entries)
    return all(sizes.get(key, size) == size for key, size in after.entries)


def held_is_not_evicted(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if type(op) is Reset:
        return True
    evicted = without(resident(before), resident(after))
    still = {(content_of(config, *pair),) for pair in after.held if pair in before.held}
    return not any(key in still for key in evicted)


def held_embeds(config: Config, view: View) -> int:
    """The slots of the entries that some input holds."""
    contents = {(content_of(config, *pair),) for pair in view.held}
    return sum(size for key, size in view.entries if key in contents or key in view.held)


def only_holders_stand_in_the_way(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, CanAllocate) or outcome.code is Code.DONE:
        return True
    size = claim_of(config, op.request, op.input)
    return size > op.budget or size + op.pending > config.capacity - held_embeds(config, before)


def reported_is_absent(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if type(op) is not Report:
        return True
    there = resident(after)
    return not any(key in there for key in keys_of(outcome.values, before))


def evictions_are_reported_once(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if type(op) is Report:
        return sorted(keys_of(outcome.values, before)) == sorted(set(unreported(before))) and after.freed == ()
    if type(op) is Reset and outcome.code is Code.DONE:
        return after.freed == ()
    evicted = without(resident(before), resident(after))
    expected = without((*unreported(before), *evicted), resident(after))
    return sorted(set(unreported(after))) == sorted(set(expected))


def promise_is_kept(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Allocate) or (op.request, op.input) not in before.promised:
        return True
    return outcome.code in (Code.DONE, Code.PRESENT)


def release_is_idempotent(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if isinstance(op, FreeInput):
        return (op.request, op.input) in before.held or before == after
    if isinstance(op, FreeRequest):
        granted = any(request == op.request for request, _ in (*before.held, *before.promised))
        return granted or any(request == op.request for _, request in before.holders) or before == after
    return True


def finished_holds_nothing(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, FreeRequest):
        return True
    return not any(request == op.request for _, request in after.holders)


def holds_follow_answers(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """What an abandoned admission lets go of is ENC-11's."""
    return isinstance(op, Abandon) or set(after.held) == held_as_told(before, op, outcome)


def held_as_told(before: View, op: Operation, outcome: Outcome) -> set[tuple[int, int]]:
    """What callers hold after this answer, if what they are told is so."""
    held = set(before.held)
    if isinstance(op, CheckAndUpdate | Allocate):
        return held | {(op.request, op.input)} if outcome.code in (Code.HIT, Code.DONE) else held
    if isinstance(op, FreeInput):
        return held - {(op.request, op.input)}
    if isinstance(op, FreeRequest):
        return {pair for pair in held if pair[0] != op.request}
    return set() if type(op) is Reset and outcome.code is Code.DONE else held


def what_is_held_is_listed(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, CachedInputs):
        return True
    mine = (position for position in positions(config, op.request) if (op.request, position) in before.held)
    return outcome.values == tuple(mine)


def answers_have_reasons(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A call that fails gives no reason: that is for other properties to judge."""
    if not isinstance(op, CheckAndUpdate | Allocate | FreeInput):
        return True
    sizes, claim, mine = dict(before.entries), claim_of(config, op.request, op.input), (op.request, op.input)
    stored = sizes.get((content_of(config, *mine),), sizes.get(mine))
    another = stored != claim if isinstance(op, CheckAndUpdate) else claim > before.free
    reasons = {
        Code.HIT: stored is not None,
        Code.PRESENT: stored is not None,
        Code.MISS: stored is None,
        Code.REFUSED: another,
        Code.ABSENT: mine not in before.held,
    }
    return reasons.get(outcome.code, True)


def reset_empties(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if type(op) is not Reset or outcome.code is not Code.DONE:
        return True
    return (after.entries, after.idle, after.freed, after.free) == ((), (), (), config.capacity)


def failure_keeps_references(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Abandon):
        return True
    undone = {pair for pair in before.attempted if pair[0] == op.request}
    expected = tuple(pair for pair in before.held if pair not in undone)
    return after.holders == holders_of(config, expected) and resident(before) == resident(after)


def grants_are_as_told(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if isinstance(op, CanAllocate):
        granted = (op.request, op.input) in after.promised
        return granted if outcome.code is Code.DONE else after.promised == before.promised
    if isinstance(op, Report | Reset) and outcome.code is Code.DONE:
        return (after.promised, after.attempted) == ((), ())
    if not isinstance(op, Abandon | FreeRequest) or outcome.code is Code.UNSUPPORTED:
        return True
    left = (*after.promised, *after.attempted)
    return outcome.code is not Code.REFUSED and all(request != op.request for request, _ in left)


def admitted_once_allocated(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Allocate) or outcome.code is not Code.DONE:
        return True
    return (op.request, op.input) not in after.promised and all(request != op.request for request, _ in after.attempted)


def budget_is_kept(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, CanAllocate) or outcome.code is not Code.DONE:
        return True
    return claim_of(config, op.request, op.input) <= op.budget


def eviction_is_in_order(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """What was idle and is resident no longer is where the order began; the others keep theirs; new ones come last."""
    if type(op) is Reset:
        return True
    there, idle = set(resident(after)), set(order(after))
    evicted = tuple(key for key in order(before) if key not in there)
    stayed = tuple(key for key in order(before) if key in idle)
    return order(before)[: len(evicted)] == evicted and order(after)[: len(stayed)] == stayed


def eviction_is_needed(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Only a granted question for room evicts, and one entry fewer would not have been enough."""
    gone = without(resident(before), resident(after))
    if not gone or type(op) is Reset:
        return True
    evicted = without(order(before), resident(after))
    if not isinstance(op, CanAllocate) or outcome.code is not Code.DONE or not evicted:
        return False
    sizes = dict(before.entries)
    return after.free - sizes.get(evicted[-1], 0) < claim_of(config, op.request, op.input) + op.pending


SAFETY: tuple[Safety[Config, View], ...] = (
    Safety(
        "ENC-1",
        "free slots are part of the freeable slots, and both counts lie between 0 and the capacity",
        counts_are_in_range,
        lambda c, v: v.free == 0,
    ),
    Safety(
        "ENC-2",
        "the free slots and the sizes of the resident entries sum to the capacity",
        slots_are_conserved,
        lambda c, v: len(v.entries) > 1,
    ),
    Safety(
        "ENC-2/freeable",
        "the freeable slots are the free slots plus the sizes of the unreferenced entries",
        freeable_is_conserved,
        lambda c, v: bool(v.idle) and v.freeable != c.capacity,
    ),
    Safety(
        "ENC-3",
        "the eviction order contains exactly the resident entries without references",
        idle_is_unreferenced,
        lambda c, v: bool(v.idle) and len(v.entries) > len(v.idle),
    ),
    Safety(
        "ENC-4",
        "an entry has the size that each of its holders will release",
        sizes_are_agreed,
        lambda c, v: len(v.held) > len({content for content, _ in v.holders}),
    ),
    Safety(
        "ENC-5",
        "the references of an entry are exactly the requests that hold an input with its content",
        references_are_holders,
        lambda c, v: len(v.held) > len(v.holders),
    ),
    Safety(
        "ENC-9",
        "all grants of one pass fit the free slots together",
        promises_fit,
        lambda c, v: len(v.promised) > 1 and v.promised_embeds == v.free,
    ),
)

STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "ENC-4/constant",
        "the size of a resident entry never changes",
        size_is_constant,
        lambda c, b, op, o, a: bool(set(b.entries) & set(a.entries)),
    ),
    Step(
        "ENC-2/reset",
        "a reset leaves no resident entry, no pending report, and every slot free",
        reset_empties,
        lambda c, b, op, o, a: type(op) is Reset and o.code is Code.DONE and bool(b.held) and bool(b.idle),
    ),
    Step(
        "ENC-5/answered",
        "a request holds an input from its reported hit or allocation until it releases the input",
        holds_follow_answers,
        lambda c, b, op, o, a: type(op) is CheckAndUpdate and o.code is Code.HIT and len(a.held) > len(b.held),
    ),
    Step(
        "ENC-5/listed",
        "the inputs listed for a request are exactly those that it holds",
        what_is_held_is_listed,
        lambda c, b, op, o, a: type(op) is CachedInputs and 0 < len(o.values) < len(b.held),
    ),
    Step(
        "ENC-5/finished",
        "no entry has a reference from a finished request",
        finished_holds_nothing,
        lambda c, b, op, o, a: isinstance(op, FreeRequest) and len(a.holders) < len(b.holders),
    ),
    Step(
        "ENC-6",
        "an entry is not evicted while a request holds it",
        held_is_not_evicted,
        lambda c, b, op, o, a: bool(b.held) and bool(without(resident(b), resident(a))),
    ),
    Step(
        "ENC-7",
        "no entry reported as dropped is resident",
        reported_is_absent,
        lambda c, b, op, o, a: type(op) is Report and bool(o.values) and bool(a.entries),
    ),
    Step(
        "ENC-7/once",
        "a report names each eviction that was not undone exactly once, and nothing else",
        evictions_are_reported_once,
        lambda c, b, op, o, a: type(op) is Report and len(o.values) > 1,
    ),
    Step(
        "ENC-9/kept",
        "an allocation that was granted is never refused for lack of room",
        promise_is_kept,
        lambda c, b, op, o, a: isinstance(op, Allocate) and (op.request, op.input) in b.promised and a.free == 0,
    ),
    Step(
        "ENC-9/ended",
        "a positive answer is a grant, which ends with its request, its admission attempt or the pass",
        grants_are_as_told,
        lambda c, b, op, o, a: isinstance(op, Abandon) and len(a.promised) < len(b.promised),
    ),
    Step(
        "ENC-9/used",
        "an allocation uses its grant and ends the admission attempt of its request",
        admitted_once_allocated,
        lambda c, b, op, o, a: isinstance(op, Allocate) and len(a.attempted) < len(b.attempted),
    ),
    Step(
        "ENC-9/budget",
        "no room is granted to an input larger than the compute budget",
        budget_is_kept,
        lambda c, b, op, o, a: (
            isinstance(op, CanAllocate)
            and op.budget < claim_of(c, op.request, op.input)
            and claim_of(c, op.request, op.input) + op.pending <= b.free
        ),
    ),
    Step(
        "ENC-10",
        "releasing an input that is not held changes nothing",
        release_is_idempotent,
        lambda c, b, op, o, a: isinstance(op, FreeInput) and (op.request, op.input) not in b.held and bool(b.entries),
    ),
    Step(
        "ENC-11",
        "an abandoned admission attempt restores the references from before it",
        failure_keeps_references,
        lambda c, b, op, o, a: isinstance(op, Abandon) and bool(b.attempted),
    ),
    Step(
        "ENC-12",
        "the entry that has been unreferenced longest is evicted first",
        eviction_is_in_order,
        lambda c, b, op, o, a: len(b.idle) > 1 and bool(without(order(b), resident(a))) and type(op) is not Reset,
    ),
    Step(
        "ENC-12/needed",
        "only a request for room evicts, and it evicts no more entries than it needs",
        eviction_is_needed,
        lambda c, b, op, o, a: isinstance(op, CanAllocate) and bool(a.idle) and len(a.idle) < len(b.idle),
    ),
    Step(
        "ENC-13/granted",
        "room is refused only if held entries, pending grants or the compute budget leave too little",
        only_holders_stand_in_the_way,
        lambda c, b, op, o, a: isinstance(op, CanAllocate) and bool(b.held) and len(a.entries) < len(b.entries),
    ),
    Step(
        "ENC-13/reasons",
        "no resident entry is reported as a miss, and every refusal gives its true reason",
        answers_have_reasons,
        lambda c, b, op, o, a: type(op) is CheckAndUpdate and o.code is Code.HIT and bool(b.idle),
    ),
)
