"""`cacheproof book`: the generated parts of the pages, filled or checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cacheproof.foundation.console import Report
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.foundation.files import replace_file
from cacheproof.present.book.answers import keep
from cacheproof.present.book.pages import made

PANEL = "Maintaining the project"


def command(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PAGE", help="Pages to fill.", show_default="all pages of docs")
    ] = None,
    *,
    check: Annotated[bool, typer.Option("--check", help="Change nothing. Fail if a page is out of date.")] = False,
    answers: Annotated[
        bool, typer.Option("--answers", help="First explore all scopes for the codes that each operation returns.")
    ] = False,
) -> Report:
    """Write the generated parts of the documentation pages."""
    if answers:
        if check:
            raise InputError("--check changes nothing, and --answers writes a file: give one of them")
        keep()
    found = list(made(paths or []))
    stale = [path for path, text, wanted in found if text != wanted]
    if check:
        lines = [f"{path} is not current: run `cacheproof book {path}`" for path in stale]
        status = ExitStatus.FELL_SHORT if stale else ExitStatus.AS_EXPECTED
        return Report(
            {"pages": len(found), "stale": stale}, [*lines, f"{len(found)} pages, {len(stale)} stale"], status
        )
    for path, text, wanted in found:
        if text != wanted:
            replace_file(path, wanted)
    lines = [f"written: {path}" for path in stale]
    return Report({"pages": len(found), "written": stale}, [*lines, f"{len(found)} pages, {len(stale)} written"])
