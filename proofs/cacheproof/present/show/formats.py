"""The formats in which a finding can be shown, by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.model.finding import Finding
from cacheproof.model.trace_json import to_json
from cacheproof.present.show.itf import to_itf
from cacheproof.present.show.mermaid import to_mermaid
from cacheproof.present.show.page import to_page
from cacheproof.present.show.pytest_file import test_name, to_pytest
from cacheproof.present.show.svg import to_svg
from cacheproof.present.show.table import to_table

FORMATS: Mapping[str, Callable[[Finding], Any]] = MappingProxyType(
    {
        "table": to_table,
        "mermaid": to_mermaid,
        "svg": to_svg,
        "itf": lambda finding: to_itf(finding.trace),
        "json": lambda finding: to_json(finding.trace),
        "pytest": to_pytest,
        "html": to_page,
    }
)
"""Text in every format but `table`, which is a rich renderable."""

FILES: Mapping[str, str] = MappingProxyType(
    {"mermaid": ".mmd", "svg": ".svg", "itf": ".itf.json", "json": ".json", "pytest": ".py", "html": ".html"}
)
"""How the name of a file in each format ends."""


def shown_as(finding: Finding, name: str) -> Any:
    """The finding in the named format."""
    if name not in FORMATS:
        raise InputError(f"unknown format '{name}': there are {', '.join(FORMATS)}")
    return FORMATS[name](finding)


def folder_to_write(folder: Path) -> None:
    """Make the folder that findings will be written to: before a long run, and not after it, is it found missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise InputError(f"{folder}: cannot be written: no permission")


def write_files(finding: Finding, folder: Path) -> list[Path]:
    """The finding in every format that is a file, named after its test; the paths."""
    paths = []
    folder_to_write(folder)
    try:
        for name, ending in FILES.items():
            path = folder / (test_name(finding) + ending)
            path.write_text(FORMATS[name](finding), encoding="utf-8")
            paths.append(path)
    except OSError as error:
        raise InputError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    return paths
