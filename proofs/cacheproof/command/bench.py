"""`cacheproof bench`: how fast, side by side in one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.table import Table

from cacheproof.bench import benchmark_named, benchmarks
from cacheproof.bench.measure import Benchmark, Row, Spread, machine, measured
from cacheproof.command.console import Report, interruptible, progress
from cacheproof.errors import ExitStatus

Results = Sequence[tuple[Benchmark, list[Row]]]


def command(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]…", help="All benchmarks without one.")] = None,
    *,
    repeats: Annotated[int, typer.Option(min=1, help="Turns of each contender.")] = 5,
    small: Annotated[bool, typer.Option("--small", help="A fraction of the size, to try it out; no goals.")] = False,
) -> Report:
    """Measure contenders at the same work, in turns; ratios are to the first one, repeat by repeat."""
    chosen = [benchmark_named(name) for name in dict.fromkeys(names)] if names else list(benchmarks().values())
    results: list[tuple[Benchmark, list[Row]]] = []
    before = machine()
    with progress() as show, interruptible() as stop:
        results.extend((benchmark, measured(benchmark, repeats, show, small=small)) for benchmark in chosen)
    missed = any(row.met is False for _, rows in results for row in rows)
    data = {"machine": before, "repeats": repeats, "small": small, "rows": list(_messages(results))}
    shown = [*(_table(benchmark, rows, small=small) for benchmark, rows in results), _machine_line(before)]
    status = ExitStatus.FELL_SHORT if missed else ExitStatus.AS_EXPECTED
    return Report(data, shown, status, interrupted=stop.happened)


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
            "met": row.met,
        }
        for benchmark, rows in results
        for row in rows
    ]


def _table(benchmark: Benchmark, rows: Sequence[Row], *, small: bool) -> Table:
    size = "a small run" if small else benchmark.size
    table = Table(title=f"{benchmark.name}: {benchmark.about} ({size})", title_justify="left")
    table.add_column("contender")
    table.add_column(f"{benchmark.unit}/s", justify="right")
    table.add_column("least to most", justify="right")
    table.add_column(f"ratio to {rows[0].contender}", justify="right")
    table.add_column("goal", justify="right")
    for row in rows:
        rate, spread = f"{row.rate.median:,.0f}", f"{row.rate.least:,.0f} to {row.rate.most:,.0f}"
        table.add_row(row.contender, rate, spread, _ratio(row.ratio), _goal(row))
    return table


def _ratio(ratio: Spread) -> str:
    return f"{ratio.median:.3g} ({ratio.least:.3g} to {ratio.most:.3g})"


def _goal(row: Row) -> str:
    if row.goal is None:
        return ""
    return f"{row.goal:,.0f}: {'met' if row.met else 'MISSED'}"


def _machine_line(found: Mapping[str, Any]) -> str:
    load = "" if found["load"] is None else f", load {found['load']} at the beginning"
    return (
        f"{found['processor']}, {found['cores']} cores, {found['python']}, {found['system']}{load}; seconds of one core"
    )
