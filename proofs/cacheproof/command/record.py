"""`cacheproof record`: what the managers of a running vLLM do, as logs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from cacheproof.foundation.console import Report, announce, interruptible
from cacheproof.foundation.errors import ExitStatus, InputError
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
    variant: Annotated[
        str | None, typer.Option(help="The variant that the logs name.", show_default="the era of the release")
    ] = None,
) -> Report:
    """Record the cache managers of a running vLLM, and write logs for cacheproof validate.

    The recorder is a plugin that vLLM loads at its own entry point. Without a command, writes logs from the recordings
    in the folder. Use this if the engine ran elsewhere or was killed.
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
    data = {"folder": str(folder), "engine": engine, "engine_status": status, "logs": logs}
    ended = ExitStatus.AS_EXPECTED if logs and all(each.lines for each in logs) else ExitStatus.INCONCLUSIVE
    return Report(data, _rendered(logs), ended, interrupted=stop.happened)


def _rendered(logs: list[Recorded]) -> list[Any]:
    if not logs:
        return ["nothing was recorded: no manager was made in a process that loads plugins"]
    table = Table(title="recorded", title_justify="left")
    for heading in ("log", "component", "variant"):
        table.add_column(heading, overflow="fold")
    table.add_column("lines", justify="right")
    for each in logs:
        table.add_row(str(each.log), each.component, each.variant, f"{each.lines:,}")
    stopped = [f"{each.log}: recorded up to there: {each.stopped}" for each in logs if each.stopped]
    return [table, *stopped, *(f"cacheproof validate {shlex.quote(str(each.log))}" for each in logs)]
