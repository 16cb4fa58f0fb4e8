"""WEKA: sessions of coding agents. Each prompt is given by the names of its full blocks of 64 tokens.

One JSON object a line: `s` and `k` (session, position in it), `t` (seconds since the session began), `in` and `out`
(tokens), `runs` (names, `[[a, n], ...]` for a, a+1, ..., a+n-1), and `api_time` (seconds until the answer was there)
where it was recorded. Names belong to their session. There is no common clock: the sessions are merged here, a new one
beginning every `gap` seconds, in the order of their numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from cacheproof.replay.lines import LARGEST, Record, records
from cacheproof.replay.options import choice, integer, number
from cacheproof.replay.prompts import COUNTING, NEXT_PROMPT, NONE, TIMING, UNIQUE, Prompt, workload
from cacheproof.replay.readers import Reader
from cacheproof.replay.workload import Workload

BLOCK = 64

Names = defaultdict[int, int]
"""From the names of a session to contents, numbered as they occur."""


class _Request(NamedTuple):
    """One line."""

    session: int
    position: int
    seconds: float
    length: int
    output: int
    runs: tuple[tuple[int, int], ...]
    lasted: float | None
    path: Path
    line: int

    def blocks(self, names: Names) -> tuple[int, ...]:
        """The content of each full block."""
        return tuple(names[name] for first, length in self.runs for name in range(first, first + length))


def _seconds(record: Record, name: str) -> float:
    value = record.fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
        record.fail(f"the field '{name}' must be a number of seconds from 0 to 2^53")
    return float(value)


def _runs(record: Record, length: int) -> tuple[tuple[int, int], ...]:
    runs = record.array("runs")
    for run in runs:
        if not (isinstance(run, list) and len(run) == 2 and all(type(part) is int and part >= 0 for part in run)):
            record.fail("the field 'runs' must be an array of pairs: the first name, and how many there are")
    if sum(run[1] for run in runs) != length // BLOCK:
        record.fail(f"{length} tokens fill {length // BLOCK} blocks of {BLOCK}, and the runs name another number")
    return tuple((first, many) for first, many in runs)


def _request(record: Record) -> _Request:
    length, output = record.tokens("in"), record.tokens("out")
    if length <= 0 or output < 0:
        record.fail("a prompt has at least one token, and an output is not negative")
    return _Request(
        session=record.integer("s"),
        position=record.integer("k"),
        seconds=_seconds(record, "t"),
        length=length,
        output=output,
        runs=_runs(record, length),
        lasted=_seconds(record, "api_time") if record.fields.get("api_time") is not None else None,
        path=record.path,
        line=record.line,
    )


def _sessions(paths: Sequence[Path], most: int) -> list[list[_Request]]:
    """The sessions by their numbers, each by time; at most so many, if not 0."""
    sessions: defaultdict[int, list[_Request]] = defaultdict(list)
    for path in paths:
        for record in records(path):
            request = _request(record)
            sessions[request.session].append(request)
    chosen = islice(sorted(sessions), most or None)
    return [sorted(sessions[number], key=attrgetter("seconds", "position")) for number in chosen]


def _prompts(sessions: list[list[_Request]], gap: float, numbers: Iterator[int]) -> list[Prompt]:
    """All requests on one clock; among equals the lower session comes first."""
    prompts: list[tuple[float, int, int, Prompt]] = []
    for place, session in enumerate(sessions):
        names: Names = defaultdict(numbers.__next__)
        blocks = [request.blocks(names) for request in session]
        for turn, request in enumerate(session):
            after = blocks[turn + 1] if turn + 1 < len(blocks) else ()
            start = place * gap + request.seconds
            prompt = Prompt(
                blocks=blocks[turn],
                length=request.length,
                output=request.output,
                seconds=start,
                path=request.path,
                line=request.line,
                lasted=request.lasted,
                following=after if after[: len(blocks[turn])] == blocks[turn] else (),
            )
            prompts.append((start, place, turn, prompt))
    return [prompt for *_, prompt in sorted(prompts, key=lambda entry: entry[:3])]


def _read(paths: Sequence[Path], options: Mapping[str, Any]) -> Workload:
    """The sessions of all files, merged."""
    sessions = _sessions(paths, options["sessions"])
    numbers = count()
    prompts = islice(_prompts(sessions, options["gap"], numbers), options["requests"] or None)
    title = f"WEKA, {len(sessions)} sessions, one every {options['gap']:g} s"
    return workload(title, BLOCK, prompts, next(numbers), options)


def _recognises(head: str) -> bool:
    return head.startswith("{") and all(f'"{field}"' in head for field in ("s", "k", "t", "in", "out", "runs"))


READER = Reader(
    name="weka",
    title="WEKA requests of coding sessions with the names of their blocks, JSON lines",
    options=(
        *COUNTING,
        choice(
            "decode", (UNIQUE, NEXT_PROMPT, NONE), "the output fills blocks of its own, those of the next prompt, none"
        ),
        *TIMING,
        number("gap", 60, "seconds between the beginnings of two sessions; the source has no common clock"),
        integer("sessions", 0, "how many, from the lowest number on; 0 for all"),
        integer("requests", 0, "how many, from the first on; 0 for all"),
    ),
    recognises=_recognises,
    read=_read,
)
