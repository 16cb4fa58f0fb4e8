"""Bugs planted in the tensor code: each obligation fails, and the counterexample was run on both sides."""

from __future__ import annotations

import pytest
from tests.planting import Change, planted
from tests.proofs.prove.implementation import layer_groups_bugs, round_bugs, scheduler_bugs
from tests.proofs.prove.implementation.bug import Bug

from cacheimpl import recency, table
from cacheimpl.encoder_cache import accounting, operations, state
from cacheimpl.kv_blocks import admission, decoding, execution, forgetting, groups, prefix, releasing, slots
from cacheimpl.lru import operations as lru
from cacheimpl.mirror.tensors import line, protocol, walk
from cacheimpl.ring import operations as ring
from cacheproof.prove.finding import Verdict
from cacheproof.prove.implementation.prover import prove_place
from cacheproof.prove.session import CORRESPONDENCES
from cacheproof.tensor_models import ring_environment

LRU, ENCODER, KV, RING, MIRROR = "lru", "encoder_cache", "kv_blocks", "ring", "mirror"
GROUPS = "equal/allocate_groups"
BUGS = (
    Bug(decoding.decode, "up_to <= $least", "up_to < $least", KV, "equal/decode", 4),
    Bug(decoding.decode, "unwritten > config.block_size", "unwritten > 2 * config.block_size", KV, "equal/decode", 4),
    Bug(decoding.decode, "pool.clock + unit + rank", "pool.clock + unit + 0 * rank", KV, "form/decode", 4),
    Bug(
        releasing.is_last,
        "-turns[:, None].expand_as(blocks).flatten()",
        "turns[:, None].expand_as(blocks).flatten()",
        KV,
        "equal/burst_withdraw",
        4,
    ),
    Bug(groups.allocate_groups, "pool.scheduled.index_select(0, tables)", "torch.zeros_like(end)", KV, GROUPS, 5),
    Bug(groups.allocate_groups, "ask.up_to[1] + idle.sum() <= $free", "ask.up_to[1] <= $free", KV, GROUPS, 5),
    Bug(groups.one_after_the_other, "lengths[0] + row", "row", KV, GROUPS, 5),
    Bug(admission.are_cached, "(carried == contents) & $real", "$real", KV, GROUPS, 5),
    Bug(admission.where_within, "is_within(hits) & turns[:, None]", "is_within(hits)", KV, GROUPS, 5),
    Bug(admission.adopt, "hits.lengths * done", "hits.lengths", KV, GROUPS, 5),
    Bug(slots.with_slots, "pieces.rank + pool.head", "pieces.rank + pool.head + 1", KV, "equal/allocate_slots", 1),
    Bug(slots.with_slots, "wrapped(pool, pool.head + total)", "pool.head", KV, "form/allocate_slots", 1),
    Bug(slots.with_slots, "torch.where(there, behind, spare)", "behind", KV, "equal/allocate_slots", 2),
    Bug(slots.with_slots, "write.put(pool.carried, taken, nothing)", "pool.carried", KV, "form/allocate_slots", 1),
    Bug(slots.allocate_slots, "$asked > pool.free", "$asked >= pool.free", KV, "equal/allocate_slots", 1),
    Bug(slots.allocate_slots, "end > config.limit", "end >= config.limit", KV, "equal/allocate_slots", 1),
    Bug(releasing.release, "pool.head - front.cumsum(0)", "pool.head - front.cumsum(0) + 1", KV, "form/withdraw"),
    Bug(releasing.release, "$x + back.cumsum(0) - 1", "$x + back.cumsum(0)", KV, "form/withdraw"),
    Bug(releasing.release, "(freed & cached).flip(1)", "(freed & cached)", KV, "form/withdraw"),
    Bug(releasing.release, "freed & ~cached", "freed", KV, "form/withdraw"),
    Bug(releasing.landed, "torch.minimum(planned, lengths)", "planned", KV, "equal/free_request", 1),
    Bug(
        prefix.get_computed_blocks, "ends >= tokens[:, None]", "ends > tokens[:, None]", KV, "equal/get_computed_blocks"
    ),
    Bug(prefix.first_copies, "'amin'", "'sum'", KV, "equal/get_computed_blocks"),
    Bug(prefix.common_prefix, "shared.long().cumprod(0)", "shared.long()", KV, "equal/common_prefix", 3),
    Bug(execution.commit, "pool.clock + 1 + pieces.rank", "pool.clock + 1 + 0 * pieces.rank", KV, "form/commit"),
    Bug(execution.commit, "torch.where(pieces.of($x), null, now.blocks)", "now.blocks", KV, "equal/commit"),
    Bug(execution.commit, "pool.clock + pieces.total", "pool.clock", KV, "form/commit"),
    Bug(execution.roll_back, "computed <= written", "computed < written", KV, "equal/roll_back", 1),
    Bug(forgetting.evict_blocks, "severed(after)", "severed(pool)", KV, "form/evict_block", 1),
    Bug(
        forgetting.reset_prefix_cache, "pool.free == null_block(pool)", "pool.free >= 0", KV, "equal/reset_prefix_cache"
    ),
    Bug(recency.total_of_older, "$sums - by_age", "$sums", LRU, "equal/put"),
    Bug(recency.total_of_older, "torch.where(queued(ranks), ranks, keys)", "ranks.clamp(min=0)", LRU, "equal/put"),
    Bug(
        recency.total_of_older,
        "$sums.gather(0, age)",
        "$sums.gather(0, (age - 1).clamp(min=0))",
        LRU,
        "equal/put",
    ),
    Bug(recency.oldest_until, "gained_before < need", "gained_before <= need", LRU, "equal/put"),
    Bug(recency.oldest_until, "candidates & queued(ranks)", "queued(ranks)", LRU, "equal/put"),
    Bug(recency.without, "ranks - $gone", "ranks", LRU, "form/pop"),
    Bug(recency.without, "queued(ranks) & ~leaving", "queued(ranks)", LRU, "equal/pop"),
    Bug(recency.with_newest, "length(rest)", "length(ranks)", LRU, "form/touch"),
    Bug(table.row, "index.clamp(min=0)", "index + 1", LRU, "inside/pin"),
    Bug(lru.put, "$total + size <= config.capacity", "$total + size < config.capacity", LRU, "equal/put"),
    Bug(lru.put, "cache.pinned & ~is_row(cache.pinned, key)", "cache.pinned", LRU, "equal/put"),
    Bug(lru.put, "size > config.capacity", "size >= config.capacity", LRU, "equal/put"),
    Bug(lru.stored, "cache.used - row(cache.sizes, key) + size", "cache.used + size", LRU, "form/put"),
    Bug(lru.with_room, "torch.where(is_row(cache.sizes, key), 0, cache.sizes)", "cache.sizes", LRU, "equal/put"),
    Bug(lru.removed, "cache.pinned & ~leaving", "cache.pinned", LRU, "form/pop"),
    Bug(lru.lookup, "cache.hits + 1", "cache.hits", LRU, "equal/lookup"),
    Bug(lru.stat, "(cache.hits - cache.reported_hits, $x)", "(cache.hits, $x)", LRU, "equal/stat"),
    Bug(lru.stat, "reported_total=cache.total", "reported_total=cache.hits", LRU, "equal/stat"),
    Bug(lru.lookup, "cache.total + 1", "cache.total + (2**63 - 1)", LRU, "widths/lookup"),
    Bug(accounting.hold, "entry & queued(cache.idle)", "queued(cache.idle)", ENCODER, "equal/check_and_update"),
    Bug(accounting.hold, "cache.references + entry", "cache.references", ENCODER, "form/check_and_update"),
    Bug(accounting.place, "without(cache.freed, entry)", "cache.freed", ENCODER, "form/allocate"),
    Bug(accounting.place, "cache.freeable - wanted.claim", "cache.freeable", ENCODER, "equal/allocate"),
    Bug(accounting.release, "letting_go & row(cache.held, request)", "letting_go", ENCODER, "equal/free_request"),
    Bug(accounting.release, "(released > 0) & (references == 0)", "references == 0", ENCODER, "equal/free_input"),
    Bug(
        accounting.turns_to_rest,
        "rests_here.cumsum(0) - rests_here.long()",
        "rests_here.cumsum(0)",
        ENCODER,
        "form/free_request",
    ),
    Bug(accounting.turns_to_rest, "'amax'", "'amin'", ENCODER, "form/free_request"),
    Bug(accounting.turns_to_rest, "(last.gather(0, rows) == positions)", "letting_go", ENCODER, "form/free_request"),
    Bug(accounting.with_room, "needed - cache.free", "needed", ENCODER, "equal/can_allocate", 1),
    Bug(
        accounting.with_room,
        "cache.idle.long()",
        "torch.zeros_like(cache.idle.long())",
        ENCODER,
        "form/can_allocate",
        1,
    ),
    Bug(accounting.promise, "pending >= outstanding", "pending > outstanding", ENCODER, "equal/can_allocate", 1),
    Bug(accounting.redeem, "removed(cache.attempted, mine)", "cache.attempted", ENCODER, "equal/allocate"),
    Bug(accounting.withdraw, "removed(cache.promised, mine)", "cache.promised", ENCODER, "equal/free_request"),
    Bug(
        operations.can_allocate, "$needed <= cache.freeable", "$needed <= cache.free", ENCODER, "equal/can_allocate", 1
    ),
    Bug(
        operations.check_and_update,
        "resident & agreed & ~is_held(cache, wanted)",
        "resident & agreed",
        ENCODER,
        "equal/check_and_update",
    ),
    Bug(operations.allocate, "$claim <= cache.free", "$claim < cache.free", ENCODER, "equal/allocate"),
    Bug(operations.cached_inputs, "held.cumsum(0) - 1", "held.cumsum(0)", ENCODER, "equal/cached_inputs", 1),
    Bug(
        operations.indices_of,
        "torch.where(chosen, turns, count)",
        "torch.where(chosen, turns, 0)",
        ENCODER,
        "equal/report",
        1,
    ),
    Bug(accounting.end_pass, "torch.where(cache.resident, cache.sizes, 0)", "cache.sizes", ENCODER, "form/report", 1),
    Bug(ring.reserve, "addresses + totals - ring.start <= $all", "totals <= $all", RING, "equal/allocate"),
    Bug(ring.reserve, "live(ring).sum() + turns < $rows", "live(ring).sum() + turns <= $rows", RING, "equal/allocate"),
    Bug(ring.with_chunks, "(ring.id_end + count) % config.modulus", "ring.id_end + count", RING, "equal/allocate"),
    Bug(ring.addresses_of, "at + before + totals > $end", "at + before + totals >= $end", RING, "equal/allocate"),
    Bug(
        ring.with_chunks,
        "torch.where(reserved.placed, reserved.ids % rows, rows)",
        "reserved.ids % rows",
        RING,
        "equal/allocate",
    ),
    Bug(ring.by_age, "ring.id_start + $ages", "$ages", RING, "equal/free"),
    Bug(ring.going, "freed_before < want", "freed_before <= want", RING, "equal/free"),
    Bug(ring.going, "totals.cumsum(0) - totals", "totals.cumsum(0)", RING, "equal/free"),
    Bug(ring.going, "live(ring) & may_go", "live(ring)", RING, "equal/clear"),
    Bug(ring.without_oldest, "start >= config.capacity", "start > config.capacity", RING, "equal/free"),
    Bug(ring.without_oldest, "ring.end - back", "ring.end", RING, "form/free"),
    Bug(ring.without_oldest, "(oldest - ring.start) % config.capacity", "oldest - ring.start", RING, "equal/free"),
    Bug(ring.clear, "torch.zeros_like(answered.length)", "answered.length", RING, "equal/clear"),
    Bug(ring_environment.without_handle, "~out.any(2)", "out.any(2)", RING, "equal/revoke", 1),
    Bug(ring_environment.restart, "segment.number + 1", "segment.number", RING, "equal/restart", 1),
    Bug(walk.walk, "config.sizes <= config.capacity", "config.sizes < config.capacity", MIRROR, "equal/submit"),
    Bug(walk.walk, "torch.maximum(ranks.long(), touches)", "ranks.long()", MIRROR, "equal/submit", 3),
    Bug(walk.walk, "used_before >= held_before[:, None]", "used_before >= 0", MIRROR, "equal/submit", 2),
    Bug(walk._held_from, "from_here_on > config.capacity", "from_here_on >= config.capacity", MIRROR, "equal/submit"),
    Bug(walk.absent, "(~there).long()", "there.long()", MIRROR, "equal/look_up"),
    Bug(
        protocol.answered,
        "reply.expected == first_of(after)",
        "reply.expected <= first_of(after)",
        MIRROR,
        "equal/receive",
    ),
    Bug(protocol.answered, "reply.generation == $its", "reply.generation <= $its", MIRROR, "equal/receive"),
    Bug(protocol.receive, "message.generation < $its", "message.generation <= $its", MIRROR, "equal/deliver"),
    Bug(protocol.receive, "needed > message.payloads", "needed >= message.payloads", MIRROR, "equal/deliver"),
    Bug(protocol.receive, "stale | gap", "stale", MIRROR, "equal/deliver"),
    Bug(protocol.transmit, "first_of(sender) + sender.sent", "first_of(sender)", MIRROR, "equal/transmit", 4),
    Bug(protocol.join, "place < unanswered.rows", "place <= unanswered.rows", MIRROR, "equal/join"),
    Bug(line.without, "places >= which", "places > which", MIRROR, "equal/drop"),
    Bug(line.rearranged, "place < count", "place <= count", MIRROR, "form/drop"),
    Bug(line.appended, "is_row($first, count)", "is_row($first, count - 1)", MIRROR, "equal/expire"),
    Bug(
        state.inputs_per_content,
        "torch.where(chosen, contents, count)",
        "torch.where(chosen, contents, 0)",
        ENCODER,
        "equal/free_input",
    ),
    *layer_groups_bugs.BUGS,
    *scheduler_bugs.BUGS,
    *round_bugs.BUGS,
)


def identified(bug: Bug) -> str:
    return f"{bug.function.__name__}: {bug.wrong}"


TAKE_LONG = {
    "allocate_groups: ask.up_to[1] <= $free",
    "are_cached: $real",
    "where_within: is_within(hits)",
    "walk: ranks.long()",
}
"""Four to nine seconds each. Of the others, `tests/sampling.py` says which are refuted in the tests of a change."""

AT_NIGHT = TAKE_LONG | set(
    map(identified, (*layer_groups_bugs.BUGS[2:], *scheduler_bugs.BUGS[2:], *round_bugs.BUGS[1:]))
)
"""Those that come first stand for the others of these components."""


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=[pytest.mark.nightly] if identified(bug) in AT_NIGHT else []) for bug in BUGS],
    ids=identified,
)
def test_a_bug_is_refuted_by_a_counterexample_that_was_run(bug: Bug) -> None:
    claim, _, place = bug.refuted.partition("/")
    with planted(Change(bug.function, bug.right, bug.wrong)):
        findings = {one.name: one for one in prove_place(CORRESPONDENCES[bug.component][bug.shape], place, only=claim)}
    refuted = {name: one.detail for name, one in findings.items() if one.verdict is Verdict.REFUTED}
    assert bug.refuted in refuted, {name: one.verdict.value for name, one in findings.items()}
    lines = refuted[bug.refuted].splitlines()
    (specified,) = (line.partition(": ")[2] for line in lines if line.startswith("specification: "))
    (computed,) = (line.partition(": ")[2] for line in lines if line.startswith("tensors: "))
    assert claim != "equal" or specified != computed or any("chose otherwise" in line for line in lines)


def test_those_that_take_long_are_among_them() -> None:
    assert {identified(bug) for bug in BUGS} > AT_NIGHT


def test_each_bug_has_a_name_of_its_own() -> None:
    assert len({identified(bug) for bug in BUGS}) == len(BUGS)
