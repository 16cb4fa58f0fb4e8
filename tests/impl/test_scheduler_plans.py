"""`Scheduler` beside the specification on random loads, and bugs that are planted in it."""

from __future__ import annotations

import pytest
import torch
from tests.impl.scheduler_engines import Both
from tests.impl.scheduler_runs import bounded, crowded, of_sort
from tests.planting import Change, planted

from cacheimpl.scheduler import (
    burst,
    connector,
    counts,
    items,
    plans,
    readiness,
    requests,
    reserving,
    single,
    transferring,
    transfers,
)
from cacheimpl.scheduler.arrivals import Arrivals
from cacheimpl.scheduler.contents import Contents
from cacheimpl.scheduler.counts import filling
from cacheimpl.scheduler.engine import Scheduler
from cacheimpl.scheduler.items import items_matter
from cachespec.scheduler import Config

torch.set_num_threads(1)

SORTS = ("elsewhere", "conversing", "crossing", "from_a_connector", "pooled")
"""Loads with KV from elsewhere, of sessions, for encoder-decoder models, with an encoder connector, and that pool."""


@pytest.mark.parametrize("seed", range(8))
def test_plans_are_the_specifications(seed: int) -> None:
    config = crowded(40, seed, room=0.1)._replace(external=())
    both = Both(config, rows=16)
    both.play(seed, 300)
    assert both.state.gone.length > both.rows
    assert both.scheduler.rounds_in_all > both.scheduler.rounds_at_once > 20


@pytest.mark.parametrize("seed", range(12))
def test_plans_with_bounds_are_the_specifications(seed: int) -> None:
    """Stop tokens, adapters, grammars, stages of a pipeline, a watermark, resets of running requests."""
    both = Both(bounded(crowded(40, seed, room=0.2)._replace(external=()), seed), rows=16)
    both.play(seed, 300)
    assert both.state.gone.length > both.rows or any(both.config.grammars)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("sort", SORTS)
def test_plans_of_other_sorts_are_the_specifications(sort: str, seed: int) -> None:
    """KV from elsewhere and to it, sessions of several turns, encoder-decoder models, an encoder connector."""
    assert of_this_sort(sort, seed).state.gone.length > 4


def of_this_sort(sort: str, seed: int) -> Both:
    """What is left of a load of the sort, with little room or with much."""
    both = Both(of_sort(sort, crowded(30, seed, room=(0.1, 0.2, 0.5)[seed % 3])._replace(external=()), seed), rows=16)
    both.play(seed, 300)
    return both


BUGS = {
    "an arriving request with an item is not looked at": Change(
        Scheduler._flush, "self._items or ($arrived > 0 and $y)", "$arrived < 0 and $y"
    ),
    "a held item is not given back": Change(items_matter, "$ahead.any() | $state.encoder.held.any()", "$ahead.any()"),
    "an item that is ahead is forgotten": Change(
        items_matter, "$ahead.any() | $state.encoder.held.any()", "$state.encoder.held.any()"
    ),
    "items of those that wait are forgotten": Change(
        items_matter, "queued($state.running) | queued($state.waiting)", "queued($state.running)"
    ),
    "a preempted request is not looked at again": Change(
        Scheduler._extent_further, "self.settings.max_items > 0", "self._items"
    ),
    "too few blocks are looked at": Change(filling, "$x >= $config.block_size", "$x >= 2 * $config.block_size"),
    "an aborted request is not reported": Change(
        Scheduler._flush, "self._leaving, self._void = (True, True)", "self._void = True"
    ),
    "a part in flight of an aborted request counts": Change(
        Scheduler._flush, "self._leaving, self._void = (True, True)", "self._leaving = True"
    ),
    "a part in flight of a preempted request counts": Change(
        Scheduler._extent_further, "self._void = True", "self._void = self._void"
    ),
    "no request is found to wait": Change(Scheduler._read, "self._waiting > 0 or $preempted", "self._waiting > 0"),
}
"""Of what the host remembers from step to step: when items are looked at, who left, how many blocks there are to do."""


HELD = Config(2, 20, 8, 4, 2, 4, 12, (3, 3), (8, 2), (((0, 0, 2),), ((1, 0, 2),)))
"""One has the encoder cache for itself, and the other comes when it is behind its item."""

PREEMPTED = Config(1, 6, 8, 4, 2, 4, 12, (1, 2), (6, 4), ((), ((0, 0, 2),)))
"""The second one is behind its item, loses its blocks to the first one, and begins anew."""


IN_STEP = Config(4, 20, 16, 4, 4, 4, 16, (4, 4, 4), (8, 8, 8))
"""All fill a block in the same step, and need one in the next."""


AHEAD = Config(1, 7, 8, 4, 2, 4, 12, (1, 2), (6, 4), ((), ()), ahead=2)
"""One is preempted while a part of it is in flight."""

STOPPED = Config(1, 12, 8, 4, 2, 4, 12, (1, 2), (6, 4), ((), ()), ahead=2, stops=(1, 2))
"""Both end at a stop token while a later part of them is in flight."""

BRIEF = Config(1, 7, 8, 4, 2, 4, 12, (1, 2), (1, 1), ((), ()))
"""Each is finished by its first plan."""


def play_ahead(config: Config) -> None:
    """As many plans are in flight as may be."""
    both = Both(config, rows=4)
    for request in range(len(config.prompts)):
        assert both.add(request)
    for _ in range(60):
        before = len(both.state.plans)
        if before < config.ahead:
            both.schedule()
        if both.state.plans and len(both.state.plans) in (before, config.ahead):
            both.update(0)
    assert both.state.gone.length == len(config.prompts)


def play_aborted(config: Config) -> None:
    """The first one is aborted while its only part is in flight: it is not among those that are finished."""
    both = Both(config, rows=4)
    assert both.add(0)
    assert both.add(1)
    both.schedule()
    both.abort([0])
    both.update(0)
    both.schedule()
    assert both.state.gone.length == 2


def play_quietly(config: Config, later: int) -> None:
    """Each step is executed. The second request comes after `later` steps, the third after twice as many."""
    both = Both(config, rows=4)
    for step in range(16):
        for request in range(len(config.prompts)):
            if step == later * request:
                assert both.add(request)
        both.schedule()
        if both.state.plans:
            both.update(0)
    assert both.state.gone.length == len(config.prompts)


def test_quiet_engines() -> None:
    play_quietly(HELD, 4)
    play_quietly(PREEMPTED, 0)
    play_quietly(IN_STEP, 0)
    play_ahead(AHEAD)
    play_ahead(STOPPED)
    play_ahead(STOPPED._replace(min_tokens=(2, 0)))
    play_aborted(BRIEF)


def differs() -> bool:
    """Whether on some load plans, or what can be found, are not those of the specification."""
    try:
        test_quiet_engines()
        for seed in range(3):
            Both(crowded(40, seed, room=0.1)._replace(external=()), rows=16).play(seed, 300)
    except (AssertionError, KeyError):
        return True
    return False


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_seen_beside_the_specification(bug: str) -> None:
    with planted(BUGS[bug]):
        assert differs()


BOUND_BUGS = {
    "a stop token ends nothing": Change(
        requests.update, "$plan.reached >= $config.ends", "$plan.reached >= $config.finals"
    ),
    "a stop token ends a request later": Change(
        Scheduler._stop, "$ends[$row] = $prompt + $counts[$row]", "$ends[$row] = $prompt + $counts[$row] + 1"
    ),
    "a stop token before min_tokens ends a request": Change(
        Scheduler._stop, "$x >= self._arrivals.least.get($row, 0)", "$x >= 0"
    ),
    "what is ahead of a stop token counts": Change(requests.update, "$state.turns.shape[0] > 1", "False"),
    "adapters share blocks": Change(Contents.of_prompt, "if apart: $body", "pass"),
    "one adapter too many": Change(
        readiness.adapter_fits, "$different < $config.most_adapters", "$different <= $config.most_adapters"
    ),
    "an adapter that runs does not count as there": Change(
        readiness.has_adapter_there, "($x == $adapters[:, None]) & $there", "($x != $x)[None]"
    ),
    "a grammar is not awaited": Change(requests.arrived, "$joining & $config.grammars", "$joining & False"),
    "an aborted request still waits for its grammar": Change(
        requests.departed, "$state.compiling & ~$x", "$state.compiling"
    ),
    "the second admission leaves no watermark": Change(
        burst.admit_first, "torch.where($run > 0, $config.watermark, 0)", "torch.where($run > 1, $config.watermark, 0)"
    ),
    "a request that is taken alone leaves no watermark": Change(single.with_slots, "$config.watermark > 0", "False"),
    "a prefix is found without caching": Change(burst.admit_first, "$known if $config.caching else $x", "$known"),
    "the next token is planned before it is known": Change(
        counts.wanted, "$state.samples if $config.pipelined else $x", "$x"
    ),
    "no request waits after a reset": Change(
        Scheduler.reset_prefix_cache, "self._arrivals.live, self.settings.max_items > 0", "0, False"
    ),
}
"""Of what bounds a step, and of what ends a request."""


def differs_with_bounds() -> bool:
    """The same on loads with bounds."""
    try:
        play_ahead(STOPPED)
        play_ahead(STOPPED._replace(min_tokens=(2, 0)))
        for seed in range(8):
            config = bounded(crowded(24, seed, room=0.2)._replace(external=()), seed)
            watermark = config.kv_blocks - 14 if seed % 2 else config.watermark
            Both(config._replace(watermark=watermark), rows=16).play(seed, 200)
    except (AssertionError, KeyError):
        return True
    return False


@pytest.mark.parametrize("bug", BOUND_BUGS)
def test_a_bug_of_bounds_is_seen_beside_the_specification(bug: str) -> None:
    with planted(BOUND_BUGS[bug]):
        assert differs_with_bounds()


SORT_BUGS = {
    "a load is admitted at once": Change(single.loading_first, "turn.admits & ~loads", "turn.admits"),
    "a load begins beside a void step": Change(
        single.loading_first, "$loads & may_be_overwritten($state)", "$loads & False"
    ),
    "nothing is reserved for those that hold blocks": Change(
        transferring.reserve, "return torch.where($applies, $needed, 0)", "return 0 * $needed"
    ),
    "loaded requests wait in their turn": Change(readiness.candidates, "$rest + length($first)", "$rest"),
    "blocks that are loaded are freed": Change(
        requests.aborted, "$leaving & ($state.transfer == LOADING)", "$leaving & False"
    ),
    "blocks are freed before they are sent": Change(requests.release, "config.sends", "False"),
    "what was loaded is not found": Change(
        transfers.finish_load, "written($config, $after, $loading, $x, $y, $z)", "$after"
    ),
    "a failed load brings all blocks": Change(transfers.whole_tokens, "torch.minimum($x, $y)", "$y"),
    "what a failed step has computed counts": Change(transfers.failed_step, "voided($state, $mine)", "$state"),
    "few blocks are filled by a load": Change(Scheduler._extent, "self._external", "False"),
    "a turn waits for ever": Change(requests.release, "$config.sessions", "False"),
    "a turn does not wait for the one before": Change(Arrivals._awaits, "-1 if $x else row", "-1 if $x else -1"),
    "a turn has nothing in common with the one before": Change(
        Arrivals._chain, "self._of_row[$x][:$kept]", "self._of_row[$x][:0]"
    ),
    "a later turn survives an abort": Change(Arrivals.abort, "self._turns.get(row)", "None"),
    "who came first waits behind turns": Change(
        Scheduler._update_on_tensors, "$x or ($self._config.sessions and $y)", "$x"
    ),
    "items of an encoder-decoder model are looked up": Change(items._with_item, "not $config.encoder_decoder", "True"),
    "items of an encoder-decoder model are kept": Change(items.are_behind, "$config.encoder_decoder", "False"),
    "what no step can encode is accepted": Change(Arrivals._is_feasible, "$x > $limits.item", "False"),
    "an output that is on its way is not awaited": Change(readiness.candidates, "$out | awaits_output($x, $y)", "$out"),
    "an output that is there is encoded": Change(reserving.reserved, "$config.connected", "False"),
    "one output that is there is encoded": Change(items.alone, "$remote is None", "True"),
    "an output that is loaded needs no room": Change(burst.with_items, "$encode | ($x & $y)", "$encode"),
    "what is loaded is not told": Change(plans.with_parts, "$state.fetched | $x", "$state.fetched"),
    "an output that arrives is not noticed": Change(connector.with_phase, "$x.masked_fill($y, $z)", "$x"),
    "a prompt as long as a pooling model is refused": Change(Arrivals._checked, "$x + self.settings.pooling", "$x"),
    "what arrived before its request is not known": Change(Arrivals.flushed, "self.config.connected", "False"),
}
"""Of KV from elsewhere, sessions, encoder-decoder models and encoder connectors."""


def differs_in_sorts() -> bool:
    """The same on these loads."""
    try:
        for seed in range(8):
            for sort in SORTS:
                of_this_sort(sort, seed)
    except (AssertionError, KeyError, IndexError):
        return True
    return False


@pytest.mark.parametrize("bug", SORT_BUGS)
def test_a_bug_of_other_sorts_is_seen_beside_the_specification(bug: str) -> None:
    with planted(SORT_BUGS[bug]):
        assert differs_in_sorts()
