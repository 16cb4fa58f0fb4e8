"""`cacheproof engine`: a whole engine with the release's managers and with ours, or judged step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from cacheproof.foundation.console import Report, announce, interruptible, progress
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.releases.engine import blame, kept
from cacheproof.releases.engine.campaign import BATCHED, BATCHED_MODES, MODES, RULES, Compared, compare
from cacheproof.releases.engine.installing import Engine, needed

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
    planted: Annotated[
        bool, typer.Option("--planted", help="Plant bugs in the engine instead, and judge each recorded run.")
    ] = False,
    clean: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="STEPS", help="Judge this number of steps without a bug instead.", show_default="none"
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="With --planted: only this bug.", show_default="all")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="With --planted: list the bugs and plant none.")] = False,
    anew: Annotated[
        bool, typer.Option("--anew", help="With --planted or --clean: ignore the results of earlier runs.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="With --planted or --clean: store the table that the documentation shows.")
    ] = False,
) -> Report:
    """Compare the tokens of a whole engine with the release's cache managers and with ours, or with our scheduler.

    The engine has a tiny model with random weights and runs on a CPU. It is installed by `cacheproof target add
    vllm==X --engine`. A load has random requests that share prefixes; some are aborted, and the caches are too small
    for all, so requests are preempted and entries are evicted.

    --planted and --clean record the engine and judge each step. --planted fails if a bug is not blamed on the first
    step that differs from the same load without it, or on a later one for a listed reason. --clean fails at the first
    alarm. Both go on from the results of earlier runs.

    Exit status 1: tokens differ, or an engine ended. Exit status 3: a time limit, or an interruption.
    """
    if listing:
        return listed()
    engine = needed(name)
    if planted and clean is not None:
        raise InputError("--planted and --clean are two runs: choose one")
    if planted:
        return of_planted(engine, only or [], seed, anew=anew, keep=keep)
    if clean is not None:
        return of_clean(engine, clean, seed, anew=anew, keep=keep)
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


def listed() -> Report:
    """The bugs, in words."""
    table, data = Table("bug", "setting", "in", "how it is broken"), []
    for one in blame.listed():
        where, says, fixed = blame.about(one.name)
        table.add_row(one.name, one.setting, where, f"{says} {fixed}".rstrip())
        data.append({"name": one.name, "setting": one.setting, "in": where, "says": says, "fixed": fixed})
    return Report({"bugs": data}, [table])


def of_planted(engine: Engine, only: Sequence[str], seed: int, *, anew: bool, keep: bool) -> Report:
    """Each bug of the list; what is known is stored at once, so that an interrupted run can go on."""
    bugs = blame.chosen(only)
    if keep and only:
        raise InputError("--keep is for a whole table: leave out --only")
    known = {} if anew else blame.kept_rows(engine, seed)
    announce(f"{engine.name}: {engine.built_from}; seed {seed}")
    rows, alarms = list[blame.Row](), list[blame.Clean]()
    with progress() as show, interruptible() as stop:
        for row in blame.blame(engine, bugs, seed, known, show):
            if isinstance(row, blame.Clean):
                alarms += [row] if row.alarm else []
                continue
            rows.append(row)
            blame.keep(engine, row, seed)
    rows.sort(key=_place_in(bugs))
    if keep and not stop.happened:
        announce(f"kept in {kept.write(engine.name, planted=rows)}")
    table = Table("bug", "setting", "step", "blamed by", "what decided it")
    for row in rows:
        mark = "" if row.right else "[not right] "
        table.add_row(row.name, row.setting, f"{mark}{row.outcome}", f"{row.judge}: {row.rule}", row.decided)
    right = sum(row.right for row in rows)
    lines: list[Any] = [table, f"{right} of {len(rows)} planted bugs are blamed on the right step"]
    lines += [f"{one.setting}, seed {one.seed}: an alarm without a bug: {one.alarm}" for one in alarms]
    data = {
        "target": engine.name,
        "built_from": engine.built_from,
        "seed": seed,
        "right": right,
        "results": [{**msgspec.to_builtins(row), "right": row.right} for row in rows],
        "alarms": [msgspec.to_builtins(one) for one in alarms],
    }
    status = ExitStatus.AS_EXPECTED if right == len(rows) and not alarms else ExitStatus.FELL_SHORT
    return Report(data, lines, status, interrupted=stop.happened)


def _place_in(bugs: Sequence[blame.Listed]) -> Callable[[blame.Row], int]:
    places = {one.name: place for place, one in enumerate(bugs)}
    return lambda row: places[row.name]


def of_clean(engine: Engine, steps: int, seed: int, *, anew: bool, keep: bool) -> Report:
    """Loads without a bug, in each setting in turn, up to the first alarm."""
    known = {} if anew else blame.kept_clean(engine)
    announce(f"{engine.name}: {engine.built_from}; seed {seed}")
    rows = list[blame.Clean]()
    with progress() as show, interruptible() as stop:
        for row in blame.clean(engine, blame.judged_settings(), steps, seed, known, show):
            rows.append(row)
            blame.keep(engine, row, seed)
            if row.alarm:
                break
    if keep and not stop.happened:
        announce(f"kept in {kept.write(engine.name, clean=rows)}")
    alarms = [row for row in rows if row.alarm]
    done = sum(row.steps for row in rows)
    headings = (
        "setting",
        "loads",
        "steps",
        "slots written",
        "slots read",
        "images encoded",
        "preempted",
        "known faults",
    )
    table = Table(*headings, "alarms")
    for setting in dict.fromkeys(row.setting for row in rows):
        of_one = [row for row in rows if row.setting == setting]
        counts = [sum(getattr(row, name) for row in of_one) for name in ("steps", "written", "read", "computed")]
        counts += [sum(row.preemptions for row in of_one), sum(bool(row.known) for row in of_one)]
        counts.append(sum(bool(row.alarm) for row in of_one))
        table.add_row(setting, str(len(of_one)), *(f"{value:,}" for value in counts))
    lines: list[Any] = [table, f"{done:,} steps without a bug, {len(alarms)} alarms"]
    lines += [f"{row.setting}, seed {row.seed}: {row.known}: {row.found}" for row in rows if row.known]
    lines += [f"{one.setting}, seed {one.seed}: {one.alarm}" for one in alarms]
    data = {
        "target": engine.name,
        "built_from": engine.built_from,
        "steps": done,
        "alarms": len(alarms),
        "loads": [msgspec.to_builtins(row) for row in rows],
    }
    status = ExitStatus.FELL_SHORT if alarms else ExitStatus.AS_EXPECTED
    return Report(data, lines, status, interrupted=stop.happened)
