"""`cacheproof engine`: a whole engine with the release's managers and with ours."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from cacheproof.foundation.console import Report, announce, interruptible, progress
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.releases.engine.campaign import BATCHED, BATCHED_MODES, MODES, RULES, Compared, compare
from cacheproof.releases.engine.installing import needed

PANEL = "Released engines"


def command(
    name: Annotated[str, typer.Argument(metavar="TARGET", help="The release, such as vllm==0.33.0.")],
    *,
    mode: Annotated[
        list[str] | None,
        typer.Option(metavar="MODE", help=f"Modes to run: {', '.join(MODES)}.", show_default="all"),
    ] = None,
    requests: Annotated[int, typer.Option(min=1, help="Requests in each load.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the first load.")] = 0,
    loads: Annotated[int, typer.Option(min=1, help="Loads for each mode, each in an engine of its own.")] = 1,
    rules: Annotated[
        str, typer.Option(metavar="RULES", help=f"Rules of our KV cache manager: {', '.join(RULES)}.")
    ] = RULES[0],
    batched: Annotated[
        bool,
        typer.Option("--batched", help=f"Run our scheduler on tensors instead. Modes: {', '.join(BATCHED_MODES)}."),
    ] = False,
    seconds: Annotated[float, typer.Option(min=1, help="Time limit for one load in one engine, in seconds.")] = 600,
) -> Report:
    """Compare the tokens of a whole engine with the release's cache managers and with ours, or with our scheduler.

    The engine has a tiny model with random weights and runs on a CPU. It is installed by `cacheproof target add
    vllm==X --engine`. A load has random requests that share prefixes; some are aborted, and the caches are too small
    for all, so requests are preempted and entries are evicted.

    Exit status 1: tokens differ, or an engine ended. Exit status 3: a time limit, or an interruption.
    """
    engine = needed(name)
    unknown = [one for one in mode or () if one not in MODES]
    if unknown:
        raise InputError(f"there is no mode {unknown[0]!r}: {', '.join(MODES)}")
    if rules not in RULES:
        raise InputError(f"--rules must be one of {', '.join(RULES)}, not {rules!r}")
    served_modes = BATCHED_MODES if batched else tuple(MODES)
    if unserved := [one for one in mode or () if one not in served_modes]:
        raise InputError(f"--batched has no mode {unserved[0]!r}: {', '.join(BATCHED_MODES)}")
    ours = BATCHED if batched else rules
    announce(f"{engine.name}: {engine.built_from}")
    compared = list[Compared]()
    with progress() as show, interruptible() as stop:
        for number in range(loads):
            for chosen in mode or served_modes:
                compared.append(compare(engine, chosen, ours, requests, seed + number, seconds, show))
                if not compared[-1].same:
                    announce(described(compared[-1]))
    status = ExitStatus.AS_EXPECTED if all(one.same for one in compared) else ExitStatus.FELL_SHORT
    data: dict[str, Any] = {
        "target": engine.name,
        "built_from": engine.built_from,
        "rules": ours,
        "loads": [one.data() for one in compared],
    }
    served = sum(len(one.released.tokens) for one in compared)
    same = sum(one.served_alike for one in compared)
    lines = [
        _table(compared),
        f"{same:,} of {served:,} requests have the same tokens, with {BATCHED if batched else f'the rules {rules}'}",
    ]
    return Report(data, lines, status, interrupted=stop.happened)


def described(one: Compared) -> str:
    """A load that did not end alike."""
    for ran in (one.released, one.ours):
        if ran.error:
            return f"{one.mode}, seed {one.seed}: the engine with {ran.manager} ended: {ran.error}"
    first = one.differing[0]
    return f"{one.mode}, seed {one.seed}: {len(one.differing)} requests differ, request {first} first"


def _table(compared: list[Compared]) -> Table:
    table = Table("mode", "seed", "requests", "same", "tokens", "from cache", "preempted", "evicted images", "seconds")
    for one in compared:
        row = [one.mode, str(one.seed), f"{len(one.released.tokens):,}", f"{one.served_alike:,}"]
        row.append(f"{sum(map(len, one.released.tokens)):,}")
        row += [_both(one, count) for count in ("hits", "preemptions", "evicted", "seconds")]
        table.add_row(*row)
    return table


def _both(one: Compared, count: str) -> str:
    """The release's count and ours."""
    values = (ran.counts.get(count) for ran in (one.released, one.ours))
    return " / ".join("-" if value is None else f"{round(value):,}" for value in values)
