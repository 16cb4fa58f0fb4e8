"""The form of a bug planted in the scheduler, and those in what keeps a request waiting or ends it early."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.planting import Change

from cachespec.scheduler import Config, configuration, counts, readiness, requests, rounds


class Planted(NamedTuple):
    """A bug, the property that it breaks, and where."""

    breaks: str
    where: str | Config
    changes: tuple[Change, ...]


def bug(breaks: str, where: str | Config, *changes: tuple[Any, str, str]) -> Planted:
    """Function, piece, and what stands there instead."""
    return Planted(breaks, where, tuple(Change(*change) for change in changes))


WAITING = [
    bug("SCH-12", "adapters-apart", (readiness.may_join, "$compiled and $fits", "$compiled")),
    bug("SCH-12", "adapters", (readiness.adapters_of, "$adapter > 0 and $new", "$adapter > 1 and $new")),
    bug("SCH-13/awaited", "grammars", (configuration.has_grammar, "$there and $value == 1", "$there")),
    bug("SCH-13", "grammars", (readiness.may_join, "$compiled and $fits", "$fits")),
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
