"""That each property of the scheduler can fail: one planted bug for each, and more.

A bug is a piece of the text of one function of the specification, or one of its caches', that is replaced.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.planting import planted
from tests.spec.scheduler_bugs import (
    ELSEWHERE,
    ENCODER_DECODER,
    POOLING,
    SESSIONS,
    TRANSFERS,
    TWO_INPUTS,
    WAITING,
    Planted,
    bug,
)

from cacheproof.model.plan import Plan
from cacheproof.model.scope import scope_named
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending
from cachespec.encoder_cache import transitions as encoder
from cachespec.kv_blocks import transitions as kv
from cachespec.scheduler import (
    COMPONENT,
    NORMATIVE_SCHEDULER,
    Config,
    configuration,
    counts,
    feasibility,
    items,
    lines,
    normative,
    parts,
    requests,
    rounds,
    work,
)

ALONE_WITH_DRAFTS = Config(
    block_size=2,
    kv_blocks=4,
    token_budget=4,
    encoder_compute=2,
    encoder_capacity=4,
    max_running=2,
    max_model_len=5,
    prompts=(3,),
    outputs=(2,),
    drafts=1,
)
TWO_ITEMS = ALONE_WITH_DRAFTS._replace(max_model_len=8, prompts=(4,), items=(((0, 0, 2), (1, 2, 2)),), drafts=0)

ADMITTED_AGAIN = ALONE_WITH_DRAFTS._replace(
    kv_blocks=3,
    token_budget=3,
    max_model_len=9,
    prompts=(5, 2),
    outputs=(1, 3),
    items=(((0, 2, 2),), ()),
    drafts=0,
    ahead=2,
)
OVERTAKEN = ALONE_WITH_DRAFTS._replace(
    encoder_capacity=2,
    max_running=3,
    max_model_len=9,
    prompts=(5, 3, 3),
    outputs=(1, 3, 3),
    items=(((0, 2, 1),), ((1, 0, 2),), ((2, 1, 1),)),
    drafts=0,
    ahead=2,
)
OUTRUN = OVERTAKEN._replace(
    kv_blocks=5,
    token_budget=2,
    encoder_capacity=3,
    prompts=(5, 6, 6),
    outputs=(1, 1, 2),
    items=(((0, 2, 1),), ((1, 1, 2), (2, 3, 2)), ()),
)
SPECIAL = {
    "drafts": ALONE_WITH_DRAFTS,
    "items": TWO_ITEMS,
    "admitted-again": ADMITTED_AGAIN,
    "overtaken": OVERTAKEN,
    "outrun": OUTRUN,
    "two-inputs": TWO_INPUTS,
}


def of(name: str) -> Config:
    """The configuration of a scope."""
    config: Config = scope_named(COMPONENT, name).config
    return config


PLANTED = [
    bug(
        "SCH-1",
        "blocked-item",
        (items.up_to, "max(0, min($fit.tokens, $item[START] - $start))", "$item[START] - $start"),
        (normative.is_positive, "$tokens > 0", "$tokens != 0"),
        (kv.allocate_slots, "$op.tokens <= 0 or $lacking", "$lacking"),
    ),
    bug("SCH-1/budget", "shared-item", (counts.offered, "min(limited($config, $tokens), $budget)", "$tokens")),
    bug(
        "SCH-2",
        ALONE_WITH_DRAFTS,
        (counts.wanted, "min($end, final_length($config, $request) - 1)", "$end"),
        (requests.sampled, "min($config.drafts, $whole - 1 - $length)", "$config.drafts"),
    ),
    bug("SCH-2/finished", "shared-item", (requests.sampled, "$length == $whole", "$length > $whole")),
    bug(
        "SCH-2/known",
        "line",
        (counts.wanted, "length_in_sight($config, $state, $request)", "1 + length_in_sight($config, $state, $request)"),
    ),
    bug("SCH-2/drafts", "line", (rounds.scheduled, "max(0, $end - $length)", "1 + max(0, $end - $length)")),
    bug("SCH-2/once", "drafts-in-turn", (rounds.scheduled, "$state.proposed.remove($request)", "$state.proposed")),
    bug("SCH-2/next", "line", (rounds.scheduled, "start=$start", "start=$start + 1")),
    bug(
        "SCH-2/output",
        "line",
        (
            requests.sampled,
            "known_length($config, $state, $one.request) + 1",
            "known_length($config, $state, $one.request) + 2",
        ),
    ),
    bug("SCH-6", "asynchronous", (rounds.lose_everything, "voided($state, $request)", "$state")),
    bug(
        "SCH-3",
        "shared-item",
        (items.is_apart, "$item[START] >= $start + $tokens", "$item[START] + 1 >= $start + $tokens"),
    ),
    bug("SCH-3/whole", "whole-items", (items.cuts, "$start <= $item[START]", "$start < $item[START]")),
    bug(
        "SCH-4",
        TWO_ITEMS,
        (
            items.with_room,
            "ask_for_room($rules, $config, $fit.encoder, $request, $place, $fit.embeds, $fit.granted)",
            "ask_for_room($rules, $config, $fit.encoder, $request, $place, $config.encoder_capacity, $fit.granted)",
        ),
        (items.with_room, "not $asked.yes or $item[LENGTH] > $fit.embeds", "not $asked.yes"),
    ),
    bug("SCH-5", ADMITTED_AGAIN, (rounds.preempt, "ended=1", "ended=0")),
    bug(
        "SCH-5/blocks",
        "line",
        (rounds.lose_everything, "without_blocks($rules, $config, voided($state, $request), $request)", "$state"),
    ),
    bug(
        "SCH-5/items",
        "circular-wait",
        (rounds.turned_down, "give_up($rules, $config, $x, $request, $cause)", "$x"),
    ),
    bug(
        "SCH-5/items",
        "aborted",
        (requests.withdrawn, "without_items($rules, $config, $x, $request)", "$x"),
    ),
    bug("SCH-6", "shared-item", (rounds.admit, "left_out($state.waiting, $request)", "$state.waiting")),
    bug("SCH-7", "line", (rounds.serve_running, "len($running)", "len($running) - 1")),
    bug(
        "SCH-8/place",
        "line",
        (lines.in_front, "priority_of($config, $other) < $mine", "priority_of($config, $other) <= $mine"),
        (lines.in_front, "priority_of($config, $other) >= $mine", "priority_of($config, $other) > $mine"),
    ),
    bug("SCH-9", "infeasible-item", (requests.add, "not $rules.accepts($config, $request)", "False")),
    bug("SCH-9/queued", "line", (requests.add, "placed($config, $state.waiting, $request)", "$state.waiting")),
    bug(
        "SCH-8",
        "circular-wait",
        (
            rounds.lose_everything,
            "without_items($rules, $config, $x, $request)",
            "$x",
        ),
    ),
    bug(
        "SCH-8",
        "infeasible-blocks",
        (feasibility.fits_blocks, "final_length($config, $request) - 1", "final_length($config, $request) - 9"),
    ),
    bug(
        "SCH-10",
        "circular-wait",
        (
            rounds.lose_everything,
            "without_items($rules, $config, $x, $request)",
            "$x",
        ),
    ),
    bug("ENC-6", "read-in-flight", (rounds.nothing_more, "return $state", "return early(rules, config, $state, part)")),
    bug(
        "ENC-6/held",
        "read-in-flight",
        (rounds.nothing_more, "return $state", "return early(rules, config, $state, part)"),
    ),
    bug("ENC-7", "evicted-and-back", (encoder.place, "$cache.freed.remove($content)", "$cache.freed")),
    bug("ENC-13/first", OVERTAKEN, (rounds.turned_down, "ended=1", "ended=0")),
    bug("ENC-13/room", OUTRUN, (rounds.closing, "max($current.closed, $fit.refused)", "0")),
    bug("ENC-13/room", "evicted-and-back", (rounds.scheduled, "max($current.closed, $fit.refused)", "$current.closed")),
    bug(
        "KV-10/computed",
        "line",
        (rounds.scheduled, "$state.computed.set($request, $end)", "$state.computed.set($request, $end + 2)"),
    ),
    bug("X-2", "blocked-item", (items.is_apart, "$item[START] + $item[LENGTH] <= $start", "$item[START] < $start")),
    bug("X-1", "line", (rounds.planned, "emptied($config, $state.leaving)", "$state.leaving")),
    bug("X-1", "line", (requests.gone, "$state.leaving.set($request, 1)", "$state.leaving")),
    bug("X-3", "asynchronous", (requests.abort, "voided($state, $request)", "$state")),
    bug("X-4", "shared-item", (requests.reset_items, "$state._replace(encoder=$encoder)", "$state")),
    bug("ENC-1", "shared-item", (encoder.place, "$cache.free - $size", "$cache.free - $size - 9")),
    bug("ENC-2", "shared-item", (encoder.place, "$cache.free - $size", "$cache.free")),
    bug("ENC-2/freeable", "shared-item", (encoder.place, "$cache.freeable - $size", "$cache.freeable")),
    bug("ENC-3", "shared-item", (encoder.hold, "$cache if $count > 0 else wake($cache, $content)", "$cache")),
    bug(
        "ENC-4",
        "shared-item",
        (encoder.rest, "$cache.idle.push($content, $size)", "$cache.idle.push($content, $size + 1)"),
    ),
    bug("ENC-5", "shared-item", (encoder.release, "$cache.held.remove(($request, $position))", "$cache.held")),
    bug(
        "KV-1", "shared-item", (kv.touch, "$pool.references.get($block, 0) + 1", "$pool.references.get($block, 0) + 2")
    ),
    bug("KV-2", "shared-item", (kv.touch, "$pool.free.remove($block)", "$pool.free")),
    bug("KV-3", "shared-item", (kv.forget, "$pool.registered.remove($block)", "$pool.registered")),
    bug("KV-4", "shared-item", (kv.touch, "$pool.free.remove($block)", "$pool.free")),
    bug(
        "KV-4/immutable",
        "shared-item",
        (kv.take, "forget($config, $pool, $block)", "$pool"),
        (kv.take, "$x(bytes=$pool.bytes.remove($block))", "touch($pool, $block)"),
    ),
    bug(
        "KV-6",
        "shared-item",
        (
            kv.register_next,
            "$position > 0 and $x",
            "$position == 0",
        ),
    ),
    bug(
        "KV-6/chain",
        "shared-item",
        (
            kv.register_next,
            "content_of($config, $request, $position)",
            "content_of($config, 1 - $request, $position)",
        ),
    ),
    bug(
        "KV-7",
        "shared-item",
        (
            kv.write_block,
            "$pool._replace(bytes=$pool.bytes.set($block, content_of(*$rest)))",
            "(lambda *_: $pool)(($block, content_of(*$rest)))",
        ),
    ),
    bug("KV-10", "repeated-item", (kv.allocate_slots, "blocks_for($config, $end)", "blocks_for($config, $end) + 1")),
    bug(
        "KV-10/covers", "shared-item", (kv.allocate_slots, "blocks_for($config, $end)", "blocks_for($config, $end) - 1")
    ),
    bug("SCH-1/running", "limits", (rounds.is_full, "$current.tokens <= 0 or $x", "$current.tokens <= 0")),
    bug("SCH-1/answered", "line", (rounds.planned, "Outcome(Code.DONE, shown($plan))", "Outcome(Code.DONE)")),
    bug("SCH-2/samples", "line", (rounds.scheduled, "$end >= $length", "$end > $length")),
    bug(
        "SCH-2/proposed",
        "drafts-given-up",
        (requests.sampled, "min($config.drafts, $whole - 1 - $length)", "$config.drafts"),
    ),
    bug(
        "SCH-2/offered",
        "drafts-given-up",
        (requests.sampled, "$whole - 1", "$whole - 2"),
    ),
    bug("SCH-3/named", "shared-item", (items.fit_item, "(*$fit.relies, $place)", "$fit.relies")),
    bug("SCH-4/once", "repeated-item", (items.fit_item, "$found.yes or $x", "$found.yes")),
    bug("SCH-5/named", "line", (rounds.preempt, "(*$current.preempted, $victim)", "$current.preempted")),
    bug(
        "SCH-6/kept",
        "line",
        (lines.in_front, "priority_of($config, $other) >= $mine", "priority_of($config, $other) > $mine"),
    ),
    bug("SCH-6/named", "line", (requests.update, "Outcome(Code.DONE, $ended)", "Outcome(Code.DONE)")),
    bug("SCH-6/forgotten", "drafts-given-up", (requests.gone, "$state.proposed.remove($request)", "$state.proposed")),
    bug("SCH-7/order", "line", (rounds.scheduled, "(*$current.scheduled, $one)", "($one, *$current.scheduled)")),
    bug("SCH-7/last", "line", (rounds.last_running, "$state.running[-1]", "$state.running[0]")),
    bug(
        "SCH-7/needed",
        "line",
        (rounds.must_preempt, "not $search.found", "not $search.found or not $search.round.preempted"),
    ),
    bug("SCH-8/aligned", "aligned-again", (counts.aligned, "$end >= $prefill", "True")),
    bug("SCH-8/reach", "aligned-again", (counts.aligned, "$end >= $prefill", "False")),
    bug(
        "SCH-8/far",
        "three-requests",
        (counts.offered, "min(limited($config, $tokens), $budget)", "min(limited($config, $tokens), $budget - 1)"),
    ),
    bug("SCH-8/line", "three-requests", (rounds.admit, "left_out($state.waiting, $request)", "$state.waiting[:0:-1]")),
    bug("SCH-2/taken", "line", (requests.update, "Code.DONE", "Code.FAILED")),
    bug(
        "SCH-9/queued",
        "limits",
        (feasibility.fits_blocks, "final_length($config, $request) - 1", "final_length($config, $request)"),
    ),
    bug("SCH-9/answered", "limits", (requests.add, "($state, TOO_LARGE)", "($state, DONE)")),
    bug("ENC-6/released", "shared-item", (configuration.is_behind, "$x <= $end", "$x < $end")),
    bug(
        "ENC-7/told",
        "overtaken",
        (
            rounds.planned,
            "$plan.scheduled or $plan.dropped or $plan.finished or $plan.preempted",
            "$plan.scheduled or $plan.finished or $plan.preempted",
        ),
    ),
    bug("KV-7/computed", "line", (requests.executed, "$state.computed.get($one.request, 0) - $rejected", "1")),
    bug(
        "KV-7/registered",
        "drafts-in-turn",
        (requests.executed, "$one.start + $one.tokens - $rejected", "$one.start + $one.tokens + $rejected"),
    ),
    bug(
        "X-1",
        "line",
        (
            rounds.planned,
            "$plan.scheduled or $plan.dropped or $plan.finished or $plan.preempted",
            "$plan.scheduled or $plan.dropped or $plan.preempted",
        ),
    ),
    bug("SCH-4", "compute-budget", (rounds.scheduled, "$fit.embeds", "current.embeds")),
    bug("ENC-8", "shared-item", (rounds.scheduled, "encode=$fit.encode", "encode=()")),
    bug(
        "SCH-11",
        "watermark",
        (rounds.takes_watermark, "$answer.kv.free_count() < $config.watermark", "$answer.kv.free_count() < 0"),
    ),
    bug(
        "KV-6/off",
        "without-prefix-caching",
        (parts.cached_prefix, "$config.prefix_caching == 0", "$config.prefix_caching == 2"),
    ),
    bug(
        "SCH-1/uncut", "uncut-beside", (normative.offered_whole, "limited($config, $tokens) > $budget", "$budget <= 0")
    ),
    bug(
        "SCH-1/threshold",
        "threshold-of-one",
        (feasibility.limited, "min($tokens, $config.long_prefill_threshold)", "$tokens"),
    ),
    bug(
        "SCH-9",
        "uncut-beside",
        (feasibility.fits_one_step, "final_length($config, $request) - 1", "final_length($config, $request) - 2"),
    ),
    bug(
        "X-1/agreement",
        "three-requests",
        (
            rounds.planned,
            "Plan($parts, $dropped, $finished, $preempted, $brought)",
            "Plan($parts, (), $finished, $preempted, $brought)",
        ),
    ),
    bug(
        "X-1/dropped",
        "three-requests",
        (
            rounds.planned,
            "Plan($parts, $dropped, $finished, $preempted, $brought)",
            "Plan($parts, $dropped + $dropped, $finished, $preempted, $brought)",
        ),
    ),
    bug(
        "KV-7/read",
        "shared-item",
        (
            normative.prefix_in_cache,
            "max(len($hits) * $config.block_size, $beyond)",
            "len($hits) * $config.block_size + 1",
        ),
    ),
    bug(
        "KV-7/written",
        "shared-item",
        (rounds.scheduled, "$state.computed.set($request, $end)", "$state.computed.set($request, $end + 1)"),
    ),
    bug(
        "KV-7/found",
        "drafts-given-up",
        (requests.executed, "$one.start + $one.tokens - $rejected", "$one.start + $one.tokens"),
    ),
    bug(
        "KV-7/rejected",
        "drafts-given-up",
        (work.with_rejected, "truncated($config, $state.worker, $kv, $request, $tokens)", "$state.worker"),
    ),
    *WAITING,
    *TRANSFERS,
    *SESSIONS,
    *ENCODER_DECODER,
    *ELSEWHERE,
    *POOLING,
]


def early(rules: Any, config: Config, state: Any, one: Any) -> Any:
    """Releases what the plan that was made just now has read when it is executed."""
    return requests.with_items_released(rules, config, state, one.request, one.start + one.tokens)


def plan(*until: str) -> Plan:
    lasting = bool(set(until) & {rule.name for rule in COMPONENT.progress})
    return Plan(limit_states=5_000, until=frozenset(until), liveness=lasting, symmetry=not lasting)


@pytest.mark.parametrize("planting", PLANTED, ids=lambda one: f"{one.breaks}-{one.changes[0].function.__name__}")
def test_a_planted_bug_is_found(planting: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "early", early, raising=False)
    where = of(planting.where) if isinstance(planting.where, str) else planting.where
    with planted(*planting.changes):
        found = explore(COMPONENT, NORMATIVE_SCHEDULER, where, plan(planting.breaks))
    assert planting.breaks in {violation.property for violation in found.violations}


@pytest.mark.parametrize("where", SPECIAL.values(), ids=SPECIAL)
def test_the_normative_variant_holds_where_the_bugs_are_planted(where: Config) -> None:
    """The other places are scopes, where it is explored with every check."""
    found = explore(COMPONENT, NORMATIVE_SCHEDULER, where, plan())
    assert (found.ending, found.violations) == (Ending.EXHAUSTED, ())


def test_every_property_has_a_planted_bug() -> None:
    assert {rule.name for rule in COMPONENT.properties()} == {planting.breaks for planting in PLANTED}
