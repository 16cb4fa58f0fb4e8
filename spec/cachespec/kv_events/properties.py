"""What must hold of events: a subscriber knows what can be found, and is told nothing else."""

from __future__ import annotations

from cachespec import kv_blocks
from cachespec.kernel import Operation, Outcome, Progress, Safety, Step, lifted_steps
from cachespec.kv_blocks.configuration import NOTHING, hash_of
from cachespec.kv_blocks.properties import promised
from cachespec.kv_events.configuration import Config, pool_config
from cachespec.kv_events.operations import TakeEvents
from cachespec.kv_events.state import CLEARED, REMOVED, STORED, Event, View


def found(view: View) -> set[int]:
    """The hashes by which a block can be found."""
    return {told for told, _ in view.pool.prefix_map}


def expects(view: View) -> set[int]:
    """The hashes that the subscriber knows once it has applied the queue."""
    return {told for told, _ in view.expected}


def nothing_gone_is_known(config: Config, view: View) -> bool:
    return expects(view) <= found(view)


def all_found_is_known(config: Config, view: View) -> bool:
    return found(view) <= expects(view)


def parents_are_known(config: Config, view: View) -> bool:
    """Goes through the queue as a subscriber does."""
    known = {told for told, _ in view.known}
    for event in view.queue:
        if event.kind == STORED and event.parent != NOTHING and event.parent not in known:
            return False
        known = after_event(known, event)
    return True


def removals_are_joined(config: Config, view: View) -> bool:
    for first, second in zip(view.queue, view.queue[1:], strict=False):
        if first.kind == second.kind == REMOVED:
            return False
    removals = [event.hashes for event in view.queue if event.kind == REMOVED]
    return all(hashes == tuple(sorted(hashes)) for hashes in removals)


def something_is_named(config: Config, view: View) -> bool:
    return all((len(event.hashes) > 0) == (event.kind != CLEARED) for event in view.queue)


def after_event(known: set[int], event: Event) -> set[int]:
    """The hashes that a subscriber knows after an event."""
    if event.kind == CLEARED:
        return set()
    return known | set(event.hashes) if event.kind == STORED else known - set(event.hashes)


def follow_one_another(config: Config, view: View) -> bool:
    """Read from the requests, and not from the way in which events are made."""
    pool = pool_config(config)
    pairs = {
        (hash_of(pool, content), hash_of(pool, parent))
        for chain in config.chains
        for parent, content in zip((NOTHING, *chain), chain, strict=False)
    }
    return set(view.expected) <= pairs


def told_once(config: Config, view: View) -> bool:
    known = {told for told, _ in view.known}
    for event in view.queue:
        told = set(event.hashes)
        if event.kind == STORED and told & known:
            return False
        if event.kind == REMOVED and not told <= known:
            return False
        known = after_event(known, event)
    return True


def known_is_written(config: Config, view: View) -> bool:
    return known_and_found(view) <= hashes_of(config, view, set(view.pool.bytes))


def known_is_promised(config: Config, view: View) -> bool:
    return known_and_found(view) <= hashes_of(config, view, promised(pool_config(config), view.pool))


def known_and_found(view: View) -> set[int]:
    """What the subscriber knows now, as far as it can still be found: a removal may wait."""
    return {told for told, _ in view.known} & found(view)


def hashes_of(config: Config, view: View, whole: set[tuple[int, int]]) -> set[int]:
    """The hashes of registered blocks that are among these pairs of block and content."""
    return {hash_of(pool_config(config), content) for _, content in set(view.pool.registered) & whole}


def all_are_taken(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, TakeEvents):
        return only_grows(before, after) or joins(before, after)
    return events_of(outcome.values) == before.queue and after.queue == () and after.known == before.expected


def events_of(values: tuple[int, ...]) -> tuple[Event, ...]:
    """The events that a call has returned."""
    events: tuple[Event, ...] = ()
    while len(values) > 2:
        end = 3 + values[2]
        events, values = (*events, Event(values[0], values[1], values[3:end])), values[end:]
    return events


def only_grows(before: View, after: View) -> bool:
    """Events have come behind those that wait, and the subscriber was told nothing."""
    return after.known == before.known and before.queue == after.queue[: len(before.queue)]


def joins(before: View, after: View) -> bool:
    """A removal has joined the one before it."""
    if len(before.queue) == 0 or len(after.queue) < len(before.queue):
        return False
    last, joined = before.queue[-1], after.queue[len(before.queue) - 1]
    rest = before.queue[:-1] == after.queue[: len(before.queue) - 1] and after.known == before.known
    return rest and last.kind == joined.kind == REMOVED and set(last.hashes) <= set(joined.hashes)


def in_flight(view: View) -> bool:
    """A step is scheduled and not executed."""
    return any(holding.scheduled > holding.computed for _, holding in view.pool.holdings)


def something_waits(config: Config, view: View) -> bool:
    return len(view.queue) > 0


SAFETY: tuple[Safety[Config, View], ...] = (
    Safety(
        "KVE-1",
        "a subscriber that has applied all events knows no hash by which no block can be found",
        nothing_gone_is_known,
        lambda c, v: any(event.kind == REMOVED for event in v.queue),
    ),
    Safety(
        "KVE-1/all",
        "a subscriber that has applied all events knows every hash by which a block can be found",
        all_found_is_known,
        lambda c, v: any(len(blocks) > 1 for _, blocks in v.pool.prefix_map),
    ),
    Safety(
        "KVE-2",
        "when blocks are stored, the subscriber knows the block before the first of them",
        parents_are_known,
        lambda c, v: any(event.kind == STORED and event.parent != NOTHING for event in v.queue),
    ),
    Safety(
        "KVE-2/chain",
        "the parent that an event names is the block before it in a request",
        follow_one_another,
        lambda c, v: len(v.expected) > 1,
    ),
    Safety(
        "KVE-4",
        "no event stores a hash that the subscriber knows, or removes one that it does not know",
        told_once,
        lambda c, v: any(event.kind == STORED for event in v.queue) and len(v.known) > 0,
    ),
    Safety(
        "KVE-4/joined",
        "removals that follow one another are one event, with its hashes in ascending order",
        removals_are_joined,
        lambda c, v: any(event.kind == REMOVED and len(event.hashes) > 1 for event in v.queue),
    ),
    Safety(
        "KVE-4/named",
        "an event of stored or removed blocks names a hash, and one of a reset names none",
        something_is_named,
        lambda c, v: len(v.queue) > 1,
    ),
    Safety(
        "KVE-6",
        "a hash that a subscriber knows and that can be found has a block with its KV, or a step in flight writes it",
        known_is_promised,
        lambda c, v: len(known_and_found(v)) > 0,
    ),
    Safety(
        "KVE-6/executed",
        "a hash that a subscriber knows and that can be found has a block with its KV",
        known_is_written,
        lambda c, v: len(known_and_found(v)) > 0 and in_flight(v),
    ),
)

STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "KVE-3",
        "taking events returns all that waited, in their order, and other calls only add to the queue",
        all_are_taken,
        lambda c, b, op, o, a: isinstance(op, TakeEvents) and len(b.queue) > 1,
    ),
    *lifted_steps(
        (rule for rule in kv_blocks.COMPONENT.steps if rule.name == "KV-10/counted"),
        pool_config,
        lambda v: v.pool,
    ),
)

PROGRESS: tuple[Progress[Config, View], ...] = (
    Progress("KVE-5", "events are taken eventually, even if no request follows", something_waits),
)
