"""Readers of recorded workloads: one module each, found by scanning this package for `READER`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cacheproof.foundation.discover import discover
from cacheproof.foundation.errors import InputError
from cacheproof.replay.lines import lines
from cacheproof.replay.options import Option, read_options
from cacheproof.replay.workload import Workload


@dataclass(frozen=True, slots=True)
class Reader:
    """One format of traces.

    `recognises` looks at the first line of a file; where that fails, a file whose name contains `name` is taken for
    this format as well, so that what is wrong with it can be said. `read` takes the files in the order given.
    """

    name: str
    title: str
    options: tuple[Option, ...]
    recognises: Callable[[str], bool]
    read: Callable[[Sequence[Path], Mapping[str, Any]], Workload]


@cache
def readers() -> dict[str, Reader]:
    """All readers by name."""
    return {reader.name: reader for reader in discover(__name__, "READER", Reader).values()}


def reader_for(path: Path) -> Reader:
    """The reader of a file, by its content or else by its name.

    Raises:
        InputError: the file cannot be read, is empty, or no reader knows it.
    """
    head = next((text for _, text in lines(path)), None)
    if head is None:
        raise InputError(f"{path}: the file is empty")
    by_content = [reader for reader in readers().values() if reader.recognises(head)]
    by_name = [reader for reader in readers().values() if reader.name in path.name]
    if not by_content and not by_name:
        known = "; ".join(f"{reader.name} ({reader.title})" for reader in readers().values())
        raise InputError(f"{path}, line 1: not a known sort of trace: there are {known}")
    return (by_content or by_name)[0]


def read(paths: Sequence[Path], given: Mapping[str, str]) -> Workload:
    """The workload of one or more files of one format, with the options given as text.

    Raises:
        InputError: a file, or an option, is wrong; or there is no request in the files.
    """
    reader = reader_for(paths[0])
    for path in paths[1:]:
        if reader_for(path) is not reader:
            raise InputError(f"{path} is no {reader.name} trace, but {paths[0]} is: replay one sort at a time")
    workload = reader.read(paths, read_options(f"a {reader.name} trace", reader.options, given))
    if not workload.arrivals:
        raise InputError(f"{paths[0]}: there is no request in it under these options")
    return workload
