"""Azure: requests of a production code service. When each came and how long it is; nothing says what is in it.

Comma-separated: `TIMESTAMP` (to 100 ns), `ContextTokens`, `GeneratedTokens`. It is served in rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from cacheproof.foundation.errors import InputError
from cacheproof.replay.lines import MOST_TOKENS, lines
from cacheproof.replay.options import integer, number
from cacheproof.replay.readers import Reader
from cacheproof.replay.workload import Arrival, Pace, Workload
from cachespec.kernel import Engine, Tokens

HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens"
TICKS = 10_000_000
"""In a second: a time has seven decimals."""


class _Row(NamedTuple):
    ticks: int
    prompt: int
    output: int
    path: Path
    line: int


def _ticks(text: str) -> int:
    """`2023-11-16 18:17:03.9799600`, counted in ticks from a fixed day; exactly."""
    whole, _, decimals = text.partition(".")
    since = datetime.strptime(whole, "%Y-%m-%d %H:%M:%S") - datetime(2000, 1, 1)  # noqa: DTZ001, DTZ007  # all of one zone
    return (since.days * 86_400 + since.seconds) * TICKS + int(decimals[:7].ljust(7, "0"))


def _rows(path: Path) -> Iterator[_Row]:
    for line, text in lines(path):
        fields = text.split(",")
        if line == 1 and text == HEAD:
            continue
        if len(fields) != 3:
            _fail(path, line, f"there must be three fields, as in {HEAD}")
        try:
            row = _Row(_ticks(fields[0]), int(fields[1]), int(fields[2]), path, line)
        except ValueError:
            _fail(path, line, "there must be a time and two integers")
        if row.prompt <= 0 or row.output <= 0:
            _fail(path, line, "a request has at least one token, and generates one")
        if max(row.prompt, row.output) > MOST_TOKENS:
            _fail(path, line, f"a request has at most {MOST_TOKENS:,} tokens, and generates as many")
        yield row


def _fail(path: Path, line: int, problem: str) -> NoReturn:
    raise InputError(f"{path}, line {line}: {problem}")


def _read(paths: Sequence[Path], options: Mapping[str, Any]) -> Workload:
    """The requests of all files by their time, the first one at zero."""
    rows = sorted((row for path in paths for row in _rows(path)), key=lambda row: row.ticks)
    rows = list(islice(rows, options["requests"] or None))
    block = options["block"]
    arrivals = tuple(Arrival((), row.path, row.line, (row.ticks - rows[0].ticks) / TICKS, _tokens(row)) for row in rows)
    engine = Engine(options["budget"], options["running"])
    return Workload(
        title=f"Azure code, {engine.token_budget:,} tokens a round, {engine.max_running} running",
        unit="blocks",
        sizes=(),
        arrivals=arrivals,
        block_size=block,
        beside=sum(-(-(row.prompt + row.output) // block) for row in rows),
        engine=engine,
        pace=Pace(options["round-seconds"], options["token-seconds"]),
    )


def _tokens(row: _Row) -> Tokens:
    return Tokens(row.prompt, row.prompt + row.output - 1, row.output)


READER = Reader(
    name="azure",
    title="Azure code requests, comma-separated times and lengths",
    options=(
        integer("budget", 8192, "tokens of a round", least=1),
        integer("running", 256, "requests that may run at once", least=1),
        integer("block", 16, "tokens in a KV block", least=1),
        number("round-seconds", 0.02, "how long a round takes; assumed"),
        number("token-seconds", 0.00005, "and for each token that is scheduled in it; assumed"),
        integer("requests", 0, "how many, from the first on; 0 for all"),
    ),
    recognises=lambda head: head == HEAD,
    read=_read,
)
