"""The form of a bug planted in the scheduler, and those in what keeps a request waiting or ends it early."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.planting import Change

from cachespec.kv_blocks import transitions as kv
from cachespec.scheduler import (
    Config,
    configuration,
    counts,
    loading,
    normative,
    readiness,
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
    bug("SCH-12", "adapters-apart", (readiness.may_join, "$compiled and $ready and $fits", "$compiled and $ready")),
    bug("SCH-12", "adapters", (readiness.adapters_of, "$adapter > 0 and $new", "$adapter > 1 and $new")),
    bug("SCH-13/awaited", "grammars", (configuration.has_grammar, "$there and $value == 1", "$there")),
    bug("SCH-13", "grammars", (readiness.may_join, "$compiled and $ready and $fits", "$ready and $fits")),
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
