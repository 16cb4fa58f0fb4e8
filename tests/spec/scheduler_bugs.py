"""The form of a bug planted in the scheduler, and those in what keeps a request waiting or ends it early."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.planting import Change

from cachespec.kv_blocks import transitions as kv
from cachespec.scheduler import (
    Config,
    configuration,
    counts,
    feasibility,
    items,
    loading,
    normative,
    parts,
    readiness,
    remote,
    requests,
    rounds,
    transfers,
    work,
)


class Planted(NamedTuple):
    """A bug, the property that it breaks, and where."""

    breaks: str
    where: str | Config
    changes: tuple[Change, ...]


def bug(breaks: str, where: str | Config, *changes: tuple[Any, str, str]) -> Planted:
    """Function, piece, and what stands there instead."""
    return Planted(breaks, where, tuple(Change(*change) for change in changes))


WAITING = [
    bug(
        "SCH-12",
        "adapters-apart",
        (readiness.may_join, "$compiled and $ready and $fits and $come", "$compiled and $ready and $come"),
    ),
    bug("SCH-12", "adapters", (readiness.adapters_of, "$adapter > 0 and $new", "$adapter > 1 and $new")),
    bug("SCH-13/awaited", "grammars", (configuration.has_grammar, "$there and $value == 1", "$there")),
    bug(
        "SCH-13",
        "grammars",
        (readiness.may_join, "$compiled and $ready and $fits and $come", "$ready and $fits and $come"),
    ),
    bug(
        "SCH-8/last",
        "grammars",
        (requests.add, "placed($config, $state.waiting, $request)", "(request, *$state.waiting)"),
    ),
    bug("SCH-2/awaited", "pipelined", (counts.awaits_output, "$sync and $flying > 0", "$flying < 0")),
    bug("SCH-2/least", "stops", (requests.sampled, "$length == $whole", "$length >= $whole - 2")),
    bug("X-4/running", "running-resets", (requests.reset_running, "range(len($running))", "range(len($running) - 1)")),
    bug("X-4/running", "running-resets", (rounds.lose_everything, "voided($state, $request)", "$state")),
    bug("SCH-6/forgotten", "stops-ahead", (requests.sampled, "voided($state, $request)", "$state")),
    bug("ENC-13/first", "adapters-apart", (readiness.adapter_fits, "len($there) < $most", "len($there) + 1 < $most")),
]

TRANSFERS = [
    bug("SCH-14", "loads-of-both", (requests.withdrawn, "$transfer._replace(phase=ABANDONED)", "$transfer")),
    bug(
        "SCH-14/blocks",
        "loads",
        (transfers.ended_transfer, "$state._replace(transfers=$left)", "$state"),
    ),
    bug("SCH-14/room", "loads", (loading.lacks_reserve, "$needed > $free", "$needed > $free + 1")),
    bug("SCH-14/fence", "loads", (loading.may_be_overwritten, "$part.void", "False")),
    bug("SCH-14", "loads", (transfers.set_back_to, "$state.transfers.remove($request)", "$state.transfers")),
    bug("SCH-14/awaited", "loads", (configuration.loads_later, "$there and $value == 1", "False")),
    bug("SCH-14/arrived", "loads", (transfers.arrived, "Transfer(LOADED, $tokens)", "Transfer(LOADED, $tokens - 1)")),
    bug("SCH-14/back", "loads", (transfers.whole_tokens, "max($hits, $rest)", "$hits")),
    bug("SCH-14/back", "loads", (transfers.fail_step, "voided($state, $request)", "$state")),
    bug(
        "SCH-15/once",
        "loads",
        (transfers.ended_transfer, "without_blocks($rules, $config, $freed, $request)", "$freed"),
    ),
    bug(
        "SCH-15",
        "loads-of-both",
        (requests.withdrawn, "$transfer.phase == LOADING", "$transfer.phase == ABANDONED"),
    ),
    bug("SCH-15/finished", "loads", (configuration.is_sent, "$there and $value == 1", "$there")),
    bug(
        "KV-7/loading",
        "loads",
        (
            kv.allocate_slots,
            "return $pool, Outcome(Code.DONE, $blocks)",
            "return register_full(config, $pool, op.request, end), Outcome(Code.DONE, $blocks)",
        ),
    ),
    bug("KV-7/failed", "loads", (work.load_lost, "$memory.remove($block)", "$memory")),
    bug("SCH-8", "loads", (rounds.loaded_first, "not has_loaded($state, $request)", "False")),
]

SESSIONS = [
    bug("SCH-16", "sessions", (requests.add, "$turn and not $state.gone.has($request - 1)", "False")),
    bug("SCH-16/between", "sessions", (requests.leave, "withdrawn($rules, $config, $state, $request)", "$state")),
    bug("SCH-16/next", "sessions", (requests.next_turn, "$state.queued.remove($request + 1)", "$state.queued")),
    bug("SCH-16/aborted", "sessions", (requests.abort, "later_turns($config, $request)", "()")),
    bug(
        "SCH-16/found",
        "sessions",
        (normative.prefix_in_cache, "cached_prefix($rules, $config, $kv, $request, $known)", "()"),
    ),
]

TWO_INPUTS = Config(
    block_size=1,
    kv_blocks=4,
    token_budget=4,
    encoder_compute=3,
    encoder_capacity=3,
    max_running=1,
    max_model_len=4,
    prompts=(1, 1),
    outputs=(1, 1),
    items=(((0, 0, 2), (1, 0, 2)), ((0, 0, 2),)),
    chunked_prefill=0,
    prefix_caching=0,
    encoder_decoder=1,
)
"""An encoder-decoder model, and a request whose inputs are together too large for its first step."""

ENCODER_DECODER = [
    bug("SCH-3/first", "encoder-decoder", (items.is_apart, "$start > 0", "$start >= 0")),
    bug("SCH-3/first", "encoder-decoder", (items.is_apart, "$start > 0", "$start < 0")),
    bug("KV-7/crossed", "encoder-decoder", (items.is_apart, "$start > 0", "$start >= 0")),
    bug("ENC-8", "encoder-decoder", (rounds.scheduled, "encode=$fit.encode", "encode=()")),
    bug(
        "ENC-8",
        "encoder-decoder",
        (parts.cached_prefix, "$config.prefix_caching == 0", "$config.prefix_caching == 2"),
    ),
    bug(
        "KV-7/crossed",
        "encoder-decoder",
        (parts.cached_prefix, "$config.prefix_caching == 0", "$config.prefix_caching == 2"),
    ),
    bug("SCH-8", TWO_INPUTS, (feasibility.fits_first_step, "$together <= min($compute, $capacity)", "$together >= 0")),
    bug(
        "SCH-9/queued",
        "encoder-decoder-ahead",
        (feasibility.fits_first_step, "$together <= min($compute, $capacity)", "$together < min($compute, $capacity)"),
    ),
    bug("ENC-6/released", "encoder-decoder", (configuration.is_behind, "$end > 0", "$end < 0")),
]

ELSEWHERE = [
    bug(
        "SCH-17",
        "outputs-elsewhere",
        (readiness.may_join, "$compiled and $ready and $fits and $come", "$compiled and $ready and $fits"),
    ),
    bug("SCH-17", "outputs-elsewhere-and-room", (remote.is_expected, "$phase == EXPECTED", "$phase > EXPECTED")),
    bug("SCH-17/loaded", "outputs-elsewhere", (items.with_room, "is_stored($remote, $item)", "False")),
    bug("SCH-17/loaded", "outputs-elsewhere", (remote.is_stored, "$phase == STORED", "$phase == EXPECTED")),
    bug("SCH-17/loaded", "outputs-elsewhere", (remote.ascending, "$other == $content", "$other > $content")),
    bug("ENC-8", "outputs-elsewhere", (remote.ascending, "$other == $content", "False")),
    bug("ENC-8", "outputs-elsewhere", (rounds.scheduled, "with_contents($config, $brought, $request, $bring)", "()")),
    bug("X-1/agreement", "outputs-elsewhere", (remote.ascending, "$other == $content", "False")),
    bug(
        "SCH-17/room",
        "outputs-elsewhere-ahead",
        (
            items.loaded,
            "ask_for_room($rules, $config, $encoder, $request, $index, $length, $granted)",
            "ask_for_room($rules, $config, $encoder, $request, $index, fit.embeds, $granted)",
        ),
    ),
    bug("SCH-17/arrived", "outputs-elsewhere", (remote.bring, "$state.remote.get($content, 0) == STORED", "False")),
    bug("SCH-17/arrived", "outputs-elsewhere", (remote.lose, "$state.remote.remove($content)", "$state.remote")),
    bug("SCH-8", "outputs-elsewhere", (remote.bring, "$state.remote.set($content, STORED)", "$state.remote")),
]

POOLING = [
    bug("SCH-18", "pooling", (requests.sampled, "$length == $whole", "$length > $whole")),
    bug("SCH-8", "pooling", (counts.wanted, "final_length($config, $request) - 1", "config.max_model_len - 1")),
    bug("SCH-9/queued", "pooling", (configuration.longest_prompt, "$config.pooling == 1", "False")),
    bug(
        "SCH-2",
        "limits-of-length",
        (configuration.longest_prompt, "$config.max_model_len - 1", "$config.max_model_len"),
    ),
]
