"""`cacheproof bench`: how fast, side by side in one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cacheproof.bench import benchmarks, benchmarks_named
from cacheproof.bench.growth import growth_curves
from cacheproof.bench.measure import Benchmark, Notes, Open, Peers, Row, Spread, machine, measured
from cacheproof.bench.peers.spin import spin_is_missing
from cacheproof.bench.peers.tlc import tlc_is_missing
from cacheproof.bench.released import ReleasedProcesses
from cacheproof.foundation.console import Report, Show, interruptible, progress
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.foundation.files import file_to_write, replace_named_file

PANEL = "Maintaining the project"
SPIN, TLC = "spin", "tlc="

Results = Sequence[tuple[Benchmark, list[Row]]]


def command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Benchmarks to run.", show_default="all")
    ] = None,
    *,
    repeats: Annotated[int, typer.Option(min=1, help="How often each contender is measured.")] = 5,
    small: Annotated[bool, typer.Option("--small", help="Run at a fraction of the size, without goals.")] = False,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="vllm==X|spin|tlc=JAR",
            help="Also measure this release, or this model checker, at the same work; may be repeated.",
            show_default="none",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write growth curves to this SVG file.", show_default="no file")
    ] = None,
) -> Report:
    """Measure the speed of several contenders at the same work.

    Contenders take turns. Each ratio compares a contender with the first one in the same repeat.
    """
    file_to_write(plot, "--plot")
    named, peers = _beside(beside or ())
    chosen = _chosen(names, released_only=named is not None, peers=peers)
    results: list[tuple[Benchmark, list[Row]]] = []
    notes: list[str] = []
    before = machine()
    with opened(named) as release, progress() as show, interruptible() as stop:
        results.extend(
            (benchmark, measured(benchmark, repeats, show, small=small, release=release, peers=peers))
            for benchmark in chosen
        )
        notes += [line for find in _notes(results) for line in _shown(find, show, small=small)]
    if plot is not None:
        replace_named_file(plot, growth_curves(results))
    missed = any(row.met is False for _, rows in results for row in rows)
    data = {
        "with": beside or None,
        "machine": before,
        "repeats": repeats,
        "small": small,
        "rows": list(_messages(results)),
        "notes": notes,
    }
    shown = [*(_table(benchmark, rows, small=small) for benchmark, rows in results), *notes, _machine_line(before)]
    status = ExitStatus.FELL_SHORT if missed else ExitStatus.AS_EXPECTED
    return Report(data, shown, status, interrupted=stop.happened)


def _beside(asked: Sequence[str]) -> tuple[str | None, Peers]:
    """The release and the model checkers that `--with` names. Raises `InputError`, which says what is missing."""
    releases = [name for name in asked if name != SPIN and not name.startswith(TLC)]
    jars = [Path(name.removeprefix(TLC)) for name in asked if name.startswith(TLC)]
    if len(releases) > 1 or len(jars) > 1:
        raise InputError("--with takes one release and one jar of TLC at most")
    peers = Peers(SPIN in asked, jars[0] if jars else None)
    missing = [spin_is_missing() if peers.spin else None, tlc_is_missing(jars[0]) if jars else None]
    if (first := next(filter(None, missing), None)) is not None:
        raise InputError(first)
    return releases[0] if releases else None, peers


def _chosen(names: Sequence[str] | None, *, released_only: bool, peers: Peers) -> list[Benchmark]:
    """Those that are named, each once; without a name all that need no release, or all that a release can do.

    With model checkers these are the benchmarks that they can do. A family without them leaves such benchmarks out.
    """
    if names:
        found = dict.fromkeys(one for name in names for one in benchmarks_named(name) if _taken(one, name, peers))
        if not found:
            raise InputError(f"no model checker can do {', '.join(names)}: there are {', '.join(_peered())}")
        return list(found)
    if peers:
        return [one for one in benchmarks().values() if one.peers is not None]
    plain = [one for one in benchmarks().values() if one.peers is None]
    return [one for one in plain if (one.released is not None if released_only else not one.inside)]


def _taken(benchmark: Benchmark, name: str, peers: Peers) -> bool:
    return benchmark.peers is not None if peers else benchmark.peers is None or benchmark.name == name


def _peered() -> list[str]:
    return [one.name for one in benchmarks().values() if one.peers is not None]


def _notes(results: Results) -> list[Notes]:
    """Each once."""
    return list(dict.fromkeys(one.beside for one, _ in results if one.beside is not None))


def _shown(find: Notes, show: Show, *, small: bool) -> Sequence[str]:
    show("what has to be known beside the figures")
    return find(small=small)


@contextmanager
def opened(name: str | None) -> Iterator[tuple[str, Open] | None]:
    """The release that does the same work beside; raises `InputError` that says how to install it."""
    if name is None:
        yield None
        return
    processes = ReleasedProcesses(name)
    try:
        yield processes.release.name, processes
    finally:
        processes.close()


def _messages(results: Results) -> Sequence[dict[str, Any]]:
    return [
        {
            "benchmark": benchmark.name,
            "size": benchmark.size,
            "unit": benchmark.unit,
            "contender": row.contender,
            "repeats": row.repeats,
            "units": row.units,
            "per_second": row.rate._asdict(),
            "ratio": row.ratio._asdict(),
            "goal": row.goal,
            "goal_ratio": row.goal_ratio,
            "met": row.met,
            "also": {name: spread._asdict() for name, spread in row.also.items()},
        }
        for benchmark, rows in results
        for row in rows
    ]


def _table(benchmark: Benchmark, rows: Sequence[Row], *, small: bool) -> Table:
    size = "a small run" if small else benchmark.size
    unit = f"one of the {benchmark.unit}" if benchmark.timed else f"{benchmark.unit}/s"
    numbers = (unit, "least to most", f"ratio to {rows[0].contender}", *rows[0].also, "goal")
    title = f"{benchmark.name}: {benchmark.about} ({size})"
    table = Table("contender", *(Column(name, justify="right") for name in numbers), title=title, title_justify="left")
    for row in rows:
        also = [f"{spread.median:,.0f}" for spread in row.also.values()]
        table.add_row(row.contender, *_measured(benchmark, row.rate), _ratio(row.ratio), *also, _goal(row))
    return table


def _measured(benchmark: Benchmark, rate: Spread) -> tuple[str, str]:
    """The median, and the extremes."""
    if benchmark.timed:
        return duration(1 / rate.median), f"{duration(1 / rate.most)} to {duration(1 / rate.least)}"
    return f"{rate.median:,.0f}", f"{rate.least:,.0f} to {rate.most:,.0f}"


def duration(seconds: float) -> str:
    """In three digits and a unit in which there is something before the point."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _ratio(ratio: Spread) -> str:
    return f"{ratio.median:.3g} ({ratio.least:.3g} to {ratio.most:.3g})"


def _goal(row: Row) -> str:
    if row.goal_ratio is not None:
        return f"{row.goal_ratio:g} times: {'met' if row.met else 'MISSED'}"
    if row.goal is None:
        return ""
    return f"{row.goal:,.0f}: {'met' if row.met else 'MISSED'}"


def _machine_line(found: Mapping[str, Any]) -> str:
    load = "" if found["load"] is None else f", load {found['load']} at the beginning"
    return (
        f"{found['processor']}, {found['cores']} cores, {found['python']}, {found['system']}{load}; seconds of one core"
    )
