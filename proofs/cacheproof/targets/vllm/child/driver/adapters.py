"""What the driver has to be told of a range of releases: the file `adapters.toml`."""

from __future__ import annotations

import pkgutil
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any

Version = tuple[int, ...]


@cache
def table() -> Mapping[str, Any]:
    """The file, which may be in an archive."""
    content = pkgutil.get_data(__name__, "adapters.toml")
    return tomllib.loads((content or b"").decode())


def applies(line: Mapping[str, str], version: Version) -> bool:
    """Whether a line is about this version. If the version is not known, a line without limits is."""
    first, behind = _parts(line.get("from", "")), _parts(line.get("before", ""))
    if not version:
        return not first and not behind
    known = _parts(".".join(map(str, version)))
    return first <= known and (not behind or known < behind)


def _parts(text: str) -> Version:
    """The numbers of a version without zeros at its end."""
    parts = list(map(int, re.findall("[0-9]+", text)))
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def has_trait(name: str, version: Version) -> bool:
    """Whether the releases of this version have a trait; raises KeyError for one that the file does not have."""
    lines = [line for line in table()["trait"] if line["name"] == name]
    if not lines:
        raise KeyError(name)
    return any(applies(line, version) for line in lines)


def values(kind: str, version: Version) -> dict[str, Any]:
    """Attributes of a configuration class that the driver gives in this version."""
    lines = (line for line in table()["value"] if line["class"] == kind and applies(line, version))
    return {line["attribute"]: line["value"] for line in lines}
