"""The families of released packages: whoever is driven from the package index, found by scanning.

A family is a module `family` in a folder beside this one with a `FAMILY`. `target add|list|remove` and `conform` ask
it, and nothing else names it.

The scan is not `foundation.discover`, because each family is a module in a package of its own.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError


@dataclass(frozen=True, slots=True)
class Added:
    """A release that is in the cache folder, whole, and added for its driver."""

    name: str
    """As in `vllm==0.33.0`."""
    folder: Path
    record: Mapping[str, Any]
    """What was found when it was added: components with what keeps each from being driven, files, stand-ins, bytes."""


class Family(Protocol):
    """Releases of one package."""

    @property
    def package(self) -> str:
        """The package's name on the index."""
        ...

    @property
    def example(self) -> str:
        """A release, as it is written."""
        ...

    @property
    def observed(self) -> str | None:
        """The component of which its releases are held to what they show; None where eras are compared in lockstep."""
        ...

    def canonical(self, text: str) -> str:
        """The name of the release that a text means; raises InputError for what is none."""
        ...

    def add(self, text: str, progress: Show, era: str = "") -> Added:
        """Install it; what is there already is not made again. Raises InputError and InconclusiveError.

        `era` is the version that it counts as, for a family whose releases may come without one.
        """
        ...

    def discard(self, text: str) -> int:
        """Remove it; how many bytes that gave back. Raises InputError where it is not installed."""
        ...

    def all_added(self) -> list[Added]:
        """Every release that is there and whole, by version."""
        ...


@cache
def families() -> tuple[Family, ...]:
    """Every family, by the name of its package; vLLM's, whose releases are lines of a table of eras, comes first."""
    found: list[Family] = [
        importlib.import_module(f"{__package__}.{file.parent.name}.family").FAMILY
        for file in sorted(Path(__file__).parent.glob("*/family.py"))
    ]
    return tuple(sorted(found, key=lambda family: (family.observed is not None, family.package)))


def family_of(text: str) -> Family:
    """The family of a release, by what is before `==` or `@`; raises InputError for a package that is not driven."""
    name = re.split("==|@", text.strip(), maxsplit=1)[0]
    for family in families():
        if family.package == name:
            return family
    examples = " or ".join(family.example for family in families())
    raise InputError(f"'{text}' is not a release: write it as in {examples}")
