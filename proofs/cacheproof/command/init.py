"""`cacheproof init`: a skeleton for a new target, which runs at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cacheproof.foundation.console import Report
from cacheproof.model.registry import component_named
from cacheproof.skeleton.files import Language, commands, texts, write


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write it; made if it is not there.")],
    *,
    component: Annotated[str, typer.Option(help="What the implementation is held to: see `cacheproof list`.")],
    language: Annotated[
        Language,
        typer.Option(help="python: a class and tests for pytest. exec: a script that speaks the line protocol."),
    ] = Language.PYTHON,
) -> Report:
    """Write a skeleton for a new target: the adapter with a method for each operation, and a workflow for CI.

    It runs at once, because the specification stands in for the implementation until yours takes its place. Nothing
    that is there is overwritten.
    """
    chosen = component_named(component)
    written = write(folder, texts(chosen, language))
    following = commands(chosen, language)
    lines = [*(f"written: {path}" for path in written), f"now, in {folder}:", *(f"  {line}" for line in following)]
    lines.append("the workflow installs cacheproof from a wheel in wheels/; its comment says how to build one")
    data = {"component": chosen.name, "language": language.value, "files": written, "next": following}
    return Report(data, ["\n".join(lines)])
