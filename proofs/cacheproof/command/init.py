"""`cacheproof init`: a skeleton for a new target, which runs at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cacheproof.foundation.console import Report
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named
from cacheproof.skeleton import gate
from cacheproof.skeleton.files import Language, commands, texts, write
from cacheproof.targets.vllm.release import Release

PANEL = "Your implementation"


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder for the files. It is created if missing.")],
    *,
    component: Annotated[
        str | None,
        typer.Option(
            help="The component to implement: see cacheproof list. Required, unless --gate is given.",
            show_default="none",
        ),
    ] = None,
    language: Annotated[
        Language,
        typer.Option(help="python: a class with pytest tests. exec: a program that speaks the line protocol."),
    ] = Language.PYTHON,
    gate_near: Annotated[
        str | None,
        typer.Option(
            "--gate",
            metavar="VERSION",
            help="Instead, for a checkout of vLLM: create a CI workflow that compares each pull request with its base. "
            "VERSION is the nearest release, such as 0.33.0.",
            show_default="none",
        ),
    ] = None,
) -> Report:
    """Create the files that test your implementation: an adapter and a CI workflow.

    The adapter has a method for each operation. It runs at once: until you call your implementation, the adapter calls
    the specification. Existing files are never overwritten.
    """
    if (component is None) == (gate_near is None):
        raise InputError("name the component to implement (--component), or the release nearest to a checkout (--gate)")
    if gate_near is not None:
        era = Release.parsed(f"vllm=={gate_near}").version
        files = write(folder, {gate.PATH: gate.workflow(era)})
        lines = [f"written: {path}" for path in files]
        lines.append("the workflow installs cacheproof from a wheel in wheels/; its comment says how to build one")
        return Report({"gate": era, "files": files}, ["\n".join(lines)])
    chosen = component_named(str(component))
    written = write(folder, texts(chosen, language))
    following = commands(chosen, language)
    lines = [*(f"written: {path}" for path in written), f"now, in {folder}:", *(f"  {line}" for line in following)]
    lines.append("the workflow installs cacheproof from a wheel in wheels/; its comment says how to build one")
    data = {"component": chosen.name, "language": language.value, "files": written, "next": following}
    return Report(data, ["\n".join(lines)])
