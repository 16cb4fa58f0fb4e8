"""`cacheproof record`: what the managers of a running vLLM do, as logs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cacheproof.foundation.console import Report, announce, interruptible, progress
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.logs.judge.verdict import Verdict, judged
from cacheproof.logs.record.engine import run_recorded
from cacheproof.logs.record.logs import Recorded, logs_from

PANEL = "Records and replay"


def command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder for recordings and logs.")],
    engine: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- COMMAND",
            help="The command that starts the engine.",
            show_default="none: write logs from the recordings in FOLDER",
        ),
    ] = None,
    *,
    every: Annotated[
        int | None, typer.Option(min=1, help="Log all blocks once in this many calls.", show_default="never")
    ] = None,
    judge: Annotated[
        bool, typer.Option("--judge", help="Judge each step: was the control plane right in all of them?")
    ] = False,
    variant: Annotated[
        str | None, typer.Option(help="The variant that the logs name.", show_default="the era of the release")
    ] = None,
) -> Report:
    """Record the cache managers of a running vLLM, and write logs for cacheproof validate.

    The recorder is a plugin that vLLM loads at its own entry point. Without a command, writes logs from the recordings
    in the folder. Use this if the engine ran elsewhere or was killed.

    With --judge, says whether the scheduler, the cache managers and the workers were right in all steps, or shows the
    first step that was not, and fails.
    """
    status: int | None = None
    if engine:
        announce(f"recording into {folder}: {shlex.join(engine)}")
        status = run_recorded(engine, folder, every)
        announce(f"it ended with status {status}")
    elif not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    logs: list[Recorded] = []
    with interruptible() as stop:
        logs.extend(logs_from(folder, variant))
    data: dict[str, Any] = {"folder": str(folder), "engine": engine, "engine_status": status, "logs": logs}
    whole = logs and all(each.lines or each.left_out for each in logs)
    ended = ExitStatus.AS_EXPECTED if whole else ExitStatus.INCONCLUSIVE
    shown = _rendered(logs)
    if judge and logs:
        with progress() as show:
            verdict = judged(folder, show)
        data["verdict"] = verdict.data()
        shown += _told(verdict)
        ended = ExitStatus.FELL_SHORT if verdict.wrong is not None else ended
    return Report(data, shown, ended, interrupted=stop.happened)


def _told(verdict: Verdict) -> list[Any]:
    """The verdict, what decided it, and what it does not cover."""
    shown: list[Any] = ["", verdict.says]
    if verdict.wrong is not None:
        wrong = verdict.wrong
        shown += [f"  {wrong.judge}, {wrong.rule}: {wrong.says}", f"  recorded: {wrong.line}"]
    counts = ", ".join(f"{value:,} {name}" for name, value in verdict.said_counts if value)
    shown.append(f"judged: {'; '.join(verdict.judges)}{f' ({counts})' if counts else ''}")
    return [*shown, *(f"not judged: {reason}" for reason in verdict.left_out)]


def _rendered(logs: list[Recorded]) -> list[Any]:
    if not logs:
        return ["nothing was recorded: no manager was made in a process that loads plugins"]
    columns = (Column(name, overflow="fold") for name in ("log", "component", "variant"))
    table = Table(*columns, Column("lines", justify="right"), title="recorded", title_justify="left")
    for each in (each for each in logs if not each.left_out):
        table.add_row(str(each.log), each.component, each.variant, f"{each.lines:,}")
    absent = [f"no log of {each.component}: {each.left_out}" for each in logs if each.left_out]
    logs = [each for each in logs if not each.left_out]
    stopped = [f"{each.log}: recorded up to there: {each.stopped}" for each in logs if each.stopped]
    return [table, *absent, *stopped, *(f"cacheproof validate {shlex.quote(str(each.log))}" for each in logs)]
