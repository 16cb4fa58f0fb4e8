"""Mooncake: an hour of a production chat service. Each prompt is given by the names of its blocks of 512 tokens.

One JSON object a line, by `timestamp` (milliseconds, in steps of three seconds; the order of the file decides among
equals), with `input_length`, `output_length` and `hash_ids`. A name stands for the whole prefix up to the end of its
block; where the prompt does not end with a block, the last name is that of a block which is not full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from cacheproof.replay.lines import Record, records
from cacheproof.replay.options import choice, integer
from cacheproof.replay.prompts import COUNTING, NONE, TIMING, UNIQUE, Prompt, workload
from cacheproof.replay.readers import Reader
from cacheproof.replay.workload import Workload

BLOCK = 512
ALL, FULL = "all", "full"


def _names(record: Record, length: int) -> list[int]:
    names = record.array("hash_ids")
    if not all(isinstance(name, int) and not isinstance(name, bool) and name >= 0 for name in names):
        record.fail("the field 'hash_ids' must be an array of names, which are integers from 0 up")
    if len(names) != -(-length // BLOCK):
        record.fail(f"{length} tokens are {-(-length // BLOCK)} blocks of {BLOCK}, and there are {len(names)} names")
    return names


def _prompt(record: Record, offset: float, contents: dict[int, int], ids: str) -> Prompt:
    length, output = record.tokens("input_length"), record.tokens("output_length")
    if length <= 0 or output < 0:
        record.fail("a prompt has at least one token, and an output is not negative")
    names = _names(record, length)
    if ids == FULL:
        names = names[: length // BLOCK]
    return Prompt(
        blocks=tuple(contents.setdefault(name, len(contents)) for name in names),
        length=length if ids == FULL else len(names) * BLOCK,
        output=output,
        seconds=offset + record.integer("timestamp") / 1000,
        path=record.path,
        line=record.line,
    )


def _read(paths: Sequence[Path], options: Mapping[str, Any]) -> Workload:
    """One file after the other: the clock of each begins when that of the one before has ended."""
    contents: dict[int, int] = {}
    prompts: list[Prompt] = []
    for path in paths:
        offset = prompts[-1].seconds if prompts else 0.0
        prompts += [_prompt(record, offset, contents, options["ids"]) for record in records(path)]
    chosen = islice(prompts, options["requests"] or None)
    files = ", ".join(dict.fromkeys(path.name.partition(".")[0] for path in paths))
    named = f"Mooncake trace {files}" + ("" if options["ids"] == FULL else ", all names as full blocks")
    return workload(named, BLOCK, chosen, len(contents), options)


def _recognises(head: str) -> bool:
    return head.startswith("{") and all(f'"{field}"' in head for field in ("timestamp", "input_length", "hash_ids"))


READER = Reader(
    name="mooncake",
    title="Mooncake requests with the names of their blocks, JSON lines",
    options=(
        *COUNTING,
        choice("decode", (UNIQUE, NONE), "the output fills blocks that no other request has, or none"),
        choice("ids", (FULL, ALL), "all: the block at the end of a prompt counts as full"),
        *TIMING,
        integer("requests", 0, "how many, from the first on; 0 for all"),
    ),
    recognises=_recognises,
    read=_read,
)
