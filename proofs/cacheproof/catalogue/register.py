"""The register: every entry of the catalogue, with what is known of it from outside.

One file for each family, `entries/C-MIR.toml`. Where an entry is shown is not written here: the scope files say it. An
entry that no scope shows is outside the model, and says why, or nobody has come to it yet.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import toml_of
from cacheproof.model.declaration import NUMBER

FOLDER = Path(__file__).parent / "entries"
THREAD = re.compile(r"(?P<repository>[A-Za-z][\w.-]*)?#(?P<number>\d+)")

REPOSITORIES = MappingProxyType(
    {
        "AReaL": "inclusionAI/AReaL",
        "LMCache": "LMCache/LMCache",
        "UCM": "ModelEngine-Group/unified-cache-management",
        "QwenVL": "QwenLM/Qwen3-VL",
        "aibrix": "vllm-project/aibrix",
        "dynamo": "ai-dynamo/dynamo",
        "llm-d-kv-cache": "llm-d/llm-d-kv-cache",
        "llm-d-router": "llm-d/llm-d-router",
        "ms-swift": "modelscope/ms-swift",
        "smg": "smg-project/smg",
        "tt-inference-server": "tenstorrent/tt-inference-server",
        "verl": "volcengine/verl",
        "vllm": "vllm-project/vllm",
        "vllm-ascend": "vllm-project/vllm-ascend",
        "vllm-gaudi": "vllm-project/vllm-gaudi",
        "vllm-metal": "vllm-project/vllm-metal",
        "vllm-omni": "vllm-project/vllm-omni",
    }
)
"""Where the repositories that public numbers name are on GitHub."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One known violation.

    `what` says in our own words what happens, `instead` what the normative rule does. `properties` are those that it
    breaks, the one that shows it best first. `threads` has public reports and changes (`#31404`, or `vllm-omni#7788`
    for another repository than vllm's), each with its state when it was last read. `releases` says where it was there.
    `outside` says why the model does not have it.
    """

    id: str
    title: str
    what: str
    properties: tuple[str, ...]
    instead: str = ""
    releases: str = ""
    threads: dict[str, str] = {}  # msgspec copies it
    outside: str = ""


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entries of one part of the system."""

    name: str
    title: str
    entry: tuple[Entry, ...]


@cache
def families() -> tuple[Family, ...]:
    """All families, by name."""
    return tuple(read(path) for path in sorted(FOLDER.glob("*.toml")))


def entries() -> Iterator[Entry]:
    """All entries, in the order of the families and of their numbers."""
    for family in families():
        yield from family.entry


def entry_named(number: str) -> Entry | None:
    """The entry, or None where nobody has registered it: a component from elsewhere has numbers of its own."""
    return next((entry for entry in entries() if entry.id == number), None)


def address(thread: str) -> str:
    """The web address of a public number: `#31404` is one of vLLM's, `vllm-omni#7788` one of vllm-omni's.

    GitHub leads from an issue's address to a pull request of that number. Raises InputError for an unknown repository.
    """
    found = THREAD.fullmatch(thread)
    repository = None if found is None else REPOSITORIES.get(found["repository"] or "vllm")
    if found is None or repository is None:
        raise InputError(f"'{thread}' names no repository that is known: {', '.join(REPOSITORIES)}")
    return f"https://github.com/{repository}/issues/{found['number']}"


def sorting(number: str) -> tuple[str, int, str]:
    """By family and then by number: C-MIR-9 comes before C-MIR-10."""
    found = NUMBER.fullmatch(number)
    return (found["family"], int(found["number"]), "") if found else (number, 0, number)


def read(path: Path) -> Family:
    """The family in a file, every entry checked."""
    try:
        tables: Any = toml_of(path.read_text(encoding="utf-8"))
        family = msgspec.convert({"name": path.stem, **tables}, Family)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(f"{path}: {error}") from None
    numbers = [entry.id for entry in family.entry]
    if numbers != sorted(set(numbers), key=sorting):
        raise InputError(f"{path}: entries must be sorted by number, each number once")
    for entry in family.entry:
        wrong = _wrong(family, entry)
        if wrong is not None:
            raise InputError(f"{path}: {entry.id}: {wrong}")
    return family


def _wrong(family: Family, entry: Entry) -> str | None:
    found = NUMBER.fullmatch(entry.id)
    if found is None or found["family"] != family.name:
        return f"the number of an entry of {family.name} is {family.name}-1 and so on"
    if not entry.title.strip() or not entry.what.strip():
        return "say what it is called, and what happens"
    if not entry.properties:
        return "name the properties that it breaks"
    if not all(number and state for number, state in entry.threads.items()):
        return "each thread needs a number and its state"
    return None
