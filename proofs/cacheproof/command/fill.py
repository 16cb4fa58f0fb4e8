"""`cacheproof fill`: runs of the specification as files of vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cacheproof.command.options import SeedOption
from cacheproof.foundation.console import Interruption, Report, announce, interruptible, progress
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.model.registry import component_named, components, variant_named
from cacheproof.present.show.formats import folder_to_write
from cacheproof.vectors.files import RELEASED, inside, missing, write
from cacheproof.vectors.filling import SEED, filled
from cacheproof.vectors.vector import VectorSet
from cachespec.kernel import NORMATIVE

PANEL = "Maintaining the project"


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMPONENT", help="Components to write vectors for.", show_default="all"),
    ] = None,
    *,
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the files.", show_default="none; with --check, the released set"),
    ] = None,
    variant: Annotated[str, typer.Option(help="The variant that gives the expected answers.")] = NORMATIVE,
    scope: Annotated[
        str | None, typer.Option(help="Write every edge of this scope, and nothing else.", show_default="all scopes")
    ] = None,
    seed: SeedOption = SEED,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing. Fail if a file is missing, different or left over.")
    ] = False,
) -> Report:
    """Write test vectors for implementations in any language.

    The vectors hold every edge of small scopes, random runs of large scopes, and refused calls. The same call writes
    the same files. It removes older vectors of these components from the folder.
    """
    chosen = [component_named(name) for name in names] if names else list(components().values())
    if scope is not None and len(chosen) != 1:
        raise InputError("--scope needs one component: a scope belongs to one")
    folder = output or (RELEASED if check else None)
    if folder is None:
        raise InputError("fill needs --output DIR, or --check to look at what was released")
    if check and not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    for component in chosen:
        variant_named(component, variant)
    if not check:
        folder_to_write(folder)
    announce(f"seed {seed}")
    sets: list[VectorSet] = []
    stale: list[str] = []
    files: list[tuple[Path, VectorSet]] = []
    with progress() as show, interruptible() as stop:
        for component in chosen:
            for one in filled(component, variant_named(component, variant), scope, seed, show):
                if check:
                    stale += missing(folder, [one])
                else:
                    files += [(path, one) for path in write(folder, [one])]
                sets.append(one)
    whole = scope is None and not stop.happened
    left = _left_over(folder, [component.name for component in chosen], sets) if whole else []
    if check:
        return _checked(folder, len(sets), stale, left, stop)
    for name in left:
        (folder / name).unlink()
    total = sum(path.stat().st_size for path, _ in files)
    lines = [f"{path.name}: {_told(one)}" for path, one in files]
    data = {"seed": seed, "folder": folder, "files": [_data(path, one) for path, one in files]}
    lines += [f"{name}: would not be written any more, and is removed" for name in left]
    return Report(
        {**data, "bytes": total, "removed": left},
        [*lines, f"{len(files)} files, {total / 1e6:.2f} MB, in {folder}"],
        interrupted=stop.happened,
    )


def _left_over(folder: Path, names: list[str], sets: list[VectorSet]) -> list[str]:
    """Files of these components that would not be written."""
    stems = {one.stem for one in sets}
    return [
        path.name
        for path in inside(folder)
        if path.name.partition(".")[0] in names and not any(path.name.startswith(f"{stem}.") for stem in stems)
    ]


def _checked(folder: Path, sets: int, stale: list[str], left: list[str], stop: Interruption) -> Report:
    data = {"folder": folder, "sets": sets, "stale": stale, "left_over": left}
    lines = [
        *(f"not there as it would be written: {name}" for name in stale),
        *(f"would not be written any more: {name}" for name in left),
        *([] if stale or left else [f"{sets} sets in {folder} are current"]),
    ]
    status = ExitStatus.FELL_SHORT if stale or left else ExitStatus.AS_EXPECTED
    return Report(data, lines, status, interrupted=stop.happened)


def _told(one: VectorSet) -> str:
    return f"{len(one.cases)} cases, {sum(map(len, one.cases))} steps"


def _data(path: Path, one: VectorSet) -> dict[str, Any]:
    return {
        "file": path.name,
        "component": one.component.name,
        "variant": one.variant,
        "scope": one.scope,
        "origin": one.origin,
        "cases": len(one.cases),
        "steps": sum(map(len, one.cases)),
        "bytes": path.stat().st_size,
    }
