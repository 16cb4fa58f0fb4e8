"""LRU-1 to LRU-8: what must hold of every state, of every step, and in the end."""

from __future__ import annotations

from cachespec.kernel import Code, Operation, Outcome, Progress, Safety, Step
from cachespec.lru.configuration import NOBODY, Config
from cachespec.lru.operations import Clear, Contains, Evict, Get, Lookup, Pin, Pop, Put, Stat, Touch
from cachespec.lru.state import View

# Of a state ---------------------------------------------------------------------------------------------------------


def order_is_entries(config: Config, view: View) -> bool:
    return sorted(view.order) == [key for key, _ in view.entries]


def bytes_are_counted(config: Config, view: View) -> bool:
    return view.used == sum(size for _, size in view.entries) <= config.capacity


def pinned_is_present(config: Config, view: View) -> bool:
    return set(view.pinned) <= {key for key, _ in view.entries}


def counters_agree(config: Config, view: View) -> bool:
    return view.hits <= view.total and view.reported_hits <= view.hits and view.reported_total <= view.total


SAFETY: tuple[Safety[Config, View], ...] = (
    Safety(
        "LRU-1",
        "the recency order contains exactly the cached entries",
        order_is_entries,
        lambda c, v: len(v.order) > 1,
    ),
    Safety(
        "LRU-2",
        "the byte count equals the sum of the entry sizes and is at most the capacity",
        bytes_are_counted,
        lambda c, v: v.used == c.capacity,
    ),
    Safety("LRU-3", "every pinned key is in the cache", pinned_is_present, lambda c, v: bool(v.pinned)),
    Safety(
        "LRU-4",
        "hits never exceed look-ups, and reported counts never exceed counted ones",
        counters_agree,
        lambda c, v: v.hits > v.reported_hits > 0,
    ),
)

# Of a step ----------------------------------------------------------------------------------------------------------


def lookups_are_counted(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """`get` counts hits and misses, `[]` hits only; clearing starts again; nothing else counts."""
    if type(op) is Clear or before.clearing:
        return after.clearing or (after.hits, after.total) == (0, 0)
    hit = type(op) in (Get, Lookup) and outcome.code is Code.HIT
    counted = hit or type(op) is Get
    return (after.hits, after.total) == (before.hits + hit, before.total + counted)


def report_is_the_difference(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    reported = (after.reported_hits, after.reported_total)
    if type(op) is Stat:
        counted = (before.hits - before.reported_hits, before.total - before.reported_total)
        return outcome.values == counted and reported == (after.hits, after.total)
    return reported in ((before.reported_hits, before.reported_total), (0, 0))


def membership_stays(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Touching may change the order of what is there, and asking may change nothing."""
    if type(op) is Touch:
        return sorted(before.order) == sorted(after.order) and before == after._replace(order=before.order)
    return type(op) is not Contains or before == after


def answers_are_so(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Clearing is never refused; that it returns is LRU-6."""
    if type(op) is Clear:
        return outcome.code in (Code.DONE, Code.DIVERGED)
    if not isinstance(op, Contains | Get | Lookup | Pin | Pop):
        return True
    present = op.key in {key for key, _ in before.entries}
    return present == (outcome.code in (Code.HIT, Code.DONE))


def only_what_is_asked_leaves(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """What a put stores and evicts is LRU-7's and LRU-8's."""
    if (type(op) is Clear or before.clearing) and not after.in_progress:
        return after.entries == ()
    if type(op) in (Put, Evict, Clear):
        return True
    return after.entries == tuple(entry for entry in before.entries if not (isinstance(op, Pop) and entry[0] == op.key))


def pins_stay(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    pinned = {*before.pinned, op.key} if isinstance(op, Pin) else set(before.pinned)
    return set(after.pinned) == pinned & {key for key, _ in after.entries}


def newest(op: Operation, outcome: Outcome, after: View) -> tuple[int, ...]:
    """The key that this step has to make the newest; where the end of a loop stores one, whichever it is."""
    if type(op) is Evict:
        return after.order[-1:]
    used = isinstance(op, (Touch, Get, Lookup, Put)) and outcome.code in (Code.DONE, Code.HIT) and not after.in_progress
    return (op.key,) if used and isinstance(op, (Touch, Get, Lookup, Put)) else ()


def used_is_newest(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """No other key moves."""
    last = newest(op, outcome, after)
    others = {key for key in after.order if key not in last}
    return after.order == (*(key for key in before.order if key in others), *last)


def evicted(before: View, op: Operation, after: View) -> list[int]:
    """What left to make room, oldest first; the key that is put is no victim, even where it left and came back."""
    kept = {key for key, _ in after.entries}
    return [key for key in candidates(before, op) if key not in kept]


def candidates(before: View, op: Operation) -> list[int]:
    """All entries but the one that is put, oldest first."""
    newcomer = op.key if isinstance(op, Put) else NOBODY
    present = {key for key, _ in before.entries}
    return [key for key in before.order if key in present and key != newcomer]


def evicted_are_oldest(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """What left is where the unpinned order began. A clearing loop evicts everything, pinned or not."""
    if type(op) not in (Put, Evict) or before.clearing:
        return True
    by_age = [key for key in candidates(before, op) if key not in before.pinned]
    left = evicted(before, op, after)
    return left == by_age[: len(left)]


def evictions_are_needed(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """With the last victim still there, what is stored would not have fitted."""
    left = evicted(before, op, after)
    if (
        type(op) not in (Put, Evict)
        or outcome.code is not Code.DONE
        or after.in_progress
        or before.clearing
        or not left
    ):
        return True
    return after.used + dict(before.entries).get(left[-1], 0) > config.capacity


def contents(view: View) -> tuple[object, ...]:
    """All but the counters and the call in progress."""
    return view.entries, view.order, view.used, view.pinned


def failure_changes_nothing(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    failed = type(op) in (Put, Evict) and outcome.code in (Code.TOO_LARGE, Code.REFUSED, Code.FAILED)
    return not failed or contents(before) == contents(after)


def what_fits_is_stored(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A put is turned down exactly if it can never fit, or the pinned entries leave too little room."""
    if not isinstance(op, Put):
        return True
    beside = sum(size for key, size in before.entries if key in before.pinned and key != op.key)
    if op.size > config.capacity:
        return outcome.code is Code.TOO_LARGE
    if after.in_progress:
        return True
    if beside + op.size > config.capacity:
        return outcome.code in (Code.REFUSED, Code.FAILED)
    return outcome.code is Code.DONE and (op.key, op.size) in after.entries


STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "LRU-1/answered",
        "an answer says correctly whether the key is in the cache",
        answers_are_so,
        lambda c, b, op, o, a: type(op) is Pop and o.code is not Code.DONE and bool(b.entries),
    ),
    Step(
        "LRU-1/leaving",
        "removing a key removes no other key, and clearing removes all",
        only_what_is_asked_leaves,
        lambda c, b, op, o, a: type(op) is Pop and o.code is Code.DONE and bool(a.entries),
    ),
    Step(
        "LRU-3/kept",
        "a pinned key stays pinned while it is in the cache",
        pins_stay,
        lambda c, b, op, o, a: (
            type(op) is Put and bool(b.pinned) and bool(a.pinned) and len(a.entries) < len(b.entries)
        ),
    ),
    Step(
        "LRU-4/count",
        "each look-up is counted once, as a hit or a miss, and nothing else is counted",
        lookups_are_counted,
        lambda c, b, op, o, a: type(op) is Get and o.code is Code.MISS,
    ),
    Step(
        "LRU-4/report",
        "a report covers exactly the look-ups since the previous report",
        report_is_the_difference,
        lambda c, b, op, o, a: type(op) is Stat and o.values[:1] > (0,) and b.reported_total > 0,
    ),
    Step(
        "LRU-5",
        "touching and querying never change the content of the cache",
        membership_stays,
        lambda c, b, op, o, a: type(op) is Touch and b.order != a.order,
    ),
    Step(
        "LRU-7",
        "the evicted key is the least recently used one that is not pinned",
        evicted_are_oldest,
        lambda c, b, op, o, a: type(op) in (Put, Evict) and bool(evicted(b, op, a)) and b.order[:1] == b.pinned[:1],
    ),
    Step(
        "LRU-7/needed",
        "no key is evicted that could have stayed",
        evictions_are_needed,
        lambda c, b, op, o, a: type(op) in (Put, Evict) and bool(evicted(b, op, a)) and bool(a.entries[1:]),
    ),
    Step(
        "LRU-7/recency",
        "a used key becomes the most recent, and the other keys keep their order",
        used_is_newest,
        lambda c, b, op, o, a: type(op) is Get and b.order[:1] == newest(op, o, a) and b.order != a.order,
    ),
    Step(
        "LRU-8",
        "a failed put changes nothing",
        failure_changes_nothing,
        lambda c, b, op, o, a: o.code is Code.REFUSED and len(b.entries) > 1,
    ),
    Step(
        "LRU-8/stored",
        "a put fails if and only if its value can never fit beside the pinned keys",
        what_fits_is_stored,
        lambda c, b, op, o, a: o.code is Code.TOO_LARGE and bool(b.entries),
    ),
)

# In the end ---------------------------------------------------------------------------------------------------------

PROGRESS: tuple[Progress[Config, View], ...] = (
    Progress("LRU-6", "every call that evicts returns", lambda c, v: v.in_progress),
)
