"""`cacheproof show`: one counterexample, as a person or a tool wants it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cacheproof.foundation.console import Report, announce
from cacheproof.foundation.errors import InputError
from cacheproof.model.finding_json import finding_to_message
from cacheproof.present.show.formats import FORMATS, shown_as
from cacheproof.present.show.lookup import find
from cacheproof.present.show.reading import Reading

PANEL = "Check and prove"


def command(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN|ID", help="A catalogue entry, a property, a stored run, a recorded violation or a file."
        ),
    ],
    *,
    form: Annotated[str, typer.Option("--format", help=f"The output format: {', '.join(FORMATS)}.")] = "table",
    only: Annotated[
        str | None,
        typer.Option(
            "--property",
            help="The property to show if a run violates several.",
            show_default="the one with the shortest trace",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write the output to this file.", show_default="standard output")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> Report:
    """Show a counterexample. If there are several, show the shortest.

    The format html is one page that works without a server and a network: steps, states, the normative run beside the
    trace, and calls to try. Its address holds the position, so a link to it is a trace.
    """
    (name, finding), others = find(what, only)
    if others:
        announce(f"{name}; {len(others)} more: " + ", ".join(dict.fromkeys(other for other, _ in others)))
    shown = shown_as(finding, form)
    data = {"run": name, "finding": {**finding_to_message(finding), "reading": Reading(finding).message()}}
    if output is None:
        rendered = [shown.removesuffix("\n") if isinstance(shown, str) else shown]
        return Report(data, rendered)
    if not isinstance(shown, str):
        raise InputError(f"a {form} is not a file: choose another format")
    if output.exists() and not force:
        raise InputError(f"{output}: exists already: choose another file, or replace it with --force")
    try:
        output.write_text(shown, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror}") from None
    return Report({**data, "file": output}, [f"written: {output}"])
