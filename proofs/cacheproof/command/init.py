"""`cacheproof init`: a skeleton for a new target, which runs at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cacheproof.foundation.console import Report
from cacheproof.model.registry import component_named
from cacheproof.skeleton.files import Language, commands, texts, write

PANEL = "Your implementation"


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder for the files. It is created if missing.")],
    *,
    component: Annotated[str, typer.Option(help="The component to implement: see cacheproof list.")],
    language: Annotated[
        Language,
        typer.Option(help="python: a class with pytest tests. exec: a program that speaks the line protocol."),
    ] = Language.PYTHON,
) -> Report:
    """Create the files that test your implementation: an adapter and a CI workflow.

    The adapter has a method for each operation. It runs at once: until you call your implementation, the adapter calls
    the specification. Existing files are never overwritten.
    """
    chosen = component_named(component)
    written = write(folder, texts(chosen, language))
    following = commands(chosen, language)
    lines = [*(f"written: {path}" for path in written), f"now, in {folder}:", *(f"  {line}" for line in following)]
    lines.append("the workflow installs cacheproof from a wheel in wheels/; its comment says how to build one")
    data = {"component": chosen.name, "language": language.value, "files": written, "next": following}
    return Report(data, ["\n".join(lines)])
