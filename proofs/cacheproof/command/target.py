"""`cacheproof target add|list|remove`: released engines as targets."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from cacheproof.command.console import Progress, Report, progress
from cacheproof.errors import InputError
from cacheproof.targets.sglang.release import PREFIX, Package
from cacheproof.targets.sglang.release import add as add_sglang
from cacheproof.targets.sglang.release import all_installed as all_sglang
from cacheproof.targets.sglang.release import discard as discard_sglang
from cacheproof.targets.vllm.folders import targets_folder
from cacheproof.targets.vllm.release import Installed, Release, add, all_installed, discard

MEGABYTE = 1_000_000


class Action(Enum):
    """What is to be done."""

    ADD = "add"
    LIST = "list"
    REMOVE = "remove"


def command(
    action: Annotated[Action, typer.Argument(help="What is to be done.", show_default=False)],
    name: Annotated[str, typer.Argument(help="A release, as in vllm==0.33.0; not for list.", show_default=False)] = "",
) -> Report:
    """Add a released vLLM from the package index as a target, list those there are, or remove one.

    `add` fetches the release with pip, which reads its own environment variables, keeps the Python modules that its
    cache classes need, and puts them in an environment of their own in the user's cache folder; TORCH_SPEC says which
    torch is installed there. What is finished is not done again. CACHEPROOF_CACHE chooses another cache folder.
    """
    if action is Action.LIST:
        if name:
            raise InputError("target list takes no name")
        return listed(all_installed(), targets_folder())
    if not name:
        raise InputError(f"target {action.value} needs a release, as in vllm==0.33.0")
    if name.startswith(PREFIX):
        return of_sglang(action, Package.parsed(name))
    release = Release.parsed(name)
    if action is Action.REMOVE:
        freed = discard(release)
        return Report({"removed": release.name, "bytes": freed}, [f"{release.name} is removed: {megabytes(freed)}"])
    with progress() as show:
        added = add(release, told_at_once(show))
    return Report({"added": row(added)}, [f"{release.name} is ready: {described(added)}"])


def of_sglang(action: Action, package: Package) -> Report:
    """Add or remove a release of SGLang."""
    if action is Action.REMOVE:
        freed = discard_sglang(package)
        return Report({"removed": package.name, "bytes": freed}, [f"{package.name} is removed: {megabytes(freed)}"])
    with progress() as show:
        record = add_sglang(package, told_at_once(show))
    return Report({"added": sglang_row(package, record)}, [f"{package.name} is ready: {sglang_described(record)}"])


def sglang_row(package: Package, record: Mapping[str, Any]) -> dict[str, Any]:
    """A release of SGLang for a machine, with the keys of any other."""
    kept = {"modules": len(record["files"]), "bytes": record["bytes"], "stand_ins": record["stand_ins"]}
    return {"name": package.name, "folder": package.folder, "components": record["components"], **kept}


def sglang_described(record: Mapping[str, Any]) -> str:
    """A release of SGLang for a person."""
    kept = f"{len(record['files'])} of its modules, {len(record['stand_ins'])} stand-ins, {megabytes(record['bytes'])}"
    return f"radix cache and page allocators; {kept}"


def told_at_once(show: Progress) -> Progress:
    """The first line of long work comes at once, not after a few seconds."""
    show.written = float("-inf")
    return show


def listed(releases: list[Installed], folder: Path) -> Report:
    """What is installed, and where."""
    others = [(package, record) for package in all_sglang() if (record := package.record()) is not None]
    lines = [f"{one.release.name}: {described(one)}" for one in releases]
    lines += [f"{package.name}: {sglang_described(record)}" for package, record in others]
    rows = [*(row(one) for one in releases), *(sglang_row(*one) for one in others)]
    return Report({"targets": rows, "folder": folder}, [*(lines or ["no release is installed"]), f"in {folder}"])


def row(one: Installed) -> dict[str, Any]:
    """A release for a machine."""
    return {
        "name": one.release.name,
        "folder": one.folder,
        "components": one.record["components"],
        "modules": len(one.record["files"]),
        "bytes": one.record["bytes"],
        "stand_ins": one.record["stand_ins"],
    }


def described(one: Installed) -> str:
    """A release for a person."""
    record = one.record
    driven = ", ".join(name for name, obstacle in record["components"].items() if not obstacle)
    kept = f"{len(record['files'])} of its modules, {len(record['stand_ins'])} stand-ins, {megabytes(record['bytes'])}"
    return f"{driven}; {kept}"


def megabytes(count: int) -> str:
    """Bytes as people read them."""
    return f"{count / MEGABYTE:,.1f} MB"
