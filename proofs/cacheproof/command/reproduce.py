"""`cacheproof reproduce`: a recorded violation made again on a released package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from cacheproof.foundation.console import Report, progress
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.foundation.files import file_to_write
from cacheproof.releases.reproduce.archive import write
from cacheproof.releases.reproduce.judge import Ending
from cacheproof.releases.reproduce.running import on_release
from cacheproof.releases.results.cases import case_named, listed

PANEL = "Released engines"

STATUSES = {
    Ending.VIOLATED: ExitStatus.FELL_SHORT,
    Ending.NOT_SHOWN: ExitStatus.AS_EXPECTED,
    Ending.CANNOT_RUN: ExitStatus.INCONCLUSIVE,
}


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="A recorded violation, a finding, or a catalogue entry such as C-MIR-3. With --list: a filter.",
            show_default="none: list all",
        ),
    ] = "",
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="A release, such as vllm==0.33.0. Not for --list.", show_default=False),
    ] = "",
    *,
    listing: Annotated[
        bool, typer.Option("--list", help="List what can be reproduced, and on which releases. Default without ID.")
    ] = False,
    written: Annotated[
        Path | None,
        typer.Option(
            "--write",
            metavar="FILE",
            help="Write a .pyz that needs only the released package, and run nothing.",
            show_default="no file",
        ),
    ] = None,
) -> Report:
    """Make the calls of a recorded violation on a release, and say whether the violation occurs.

    Prints each call with the release's answer, and the specification's answer if that differs. Ends with 1 if the
    violation occurs, 0 if it does not, 3 if it cannot be run. `cacheproof target add TARGET` installs a release.
    """
    if listing or not name:
        if target or written is not None:
            raise InputError("--list takes one text, such as C-MIR-3, and no --write")
        return as_list(name)
    if not target:
        raise InputError(f"on which release: `cacheproof reproduce {name} vllm==0.33.0`")
    case = case_named(name, target)
    if written is not None:
        file_to_write(written, "--write")
        modules = write(case, written)
        runs = f"python {written} reproduces {case.id} where {case.target} is installed"
        data = {"id": case.id, "target": case.target, "file": written, "modules": len(modules)}
        return Report(data, [f"{written}: {len(modules)} modules; {runs}"])
    with progress() as show:
        (made,) = on_release([case], show)
    return Report(made.as_message(), list(made.lines()), STATUSES[made.ending])


def as_list(text: str) -> Report:
    """What is recorded; with a text, what has it as id or part of it, component, property, entry or release."""
    rows = [row for row in listed() if row.has(text)]
    if not rows:
        raise InputError(f"nothing that is recorded has '{text}'" if text else "no records here: go to a checkout")
    shown = Table(*(Column(name, overflow="fold") for name in ("id", "breaks", "known as", "seen on")), box=None)
    for row in rows:
        shown.add_row(row.id, row.property, ", ".join(row.catalogue), ", ".join(row.targets) or "no release")
    return Report({"reproductions": rows}, [shown, "", f"{len(rows)} ids: cacheproof reproduce ID TARGET"])
