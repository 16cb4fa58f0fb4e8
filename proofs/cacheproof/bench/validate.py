"""Validation of logs: lines a second on one core, of a log that the specification wrote on a pool of 100,000 blocks.

A request has 6 blocks; four consecutive requests share half of their prompt. A request is looked up, gets its slots and
is executed; it is freed after 64 more have come. Each call has a line with its fields and its outcome, so the log
determines the state. A line has a little less than 4 block operations, counted as in `kv_blocks`. The contents exceed
the pool, so allocated blocks are evictions. The log has a million lines, and an end record with a digest. Each turn
reads the next fifth of it.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from cacheproof.bench.kv_blocks import TOGETHER, configuration
from cacheproof.bench.kv_blocks import Size as Load
from cacheproof.bench.measure import Benchmark, Contender, Goal, Work
from cacheproof.bench.plain import PlainPool
from cacheproof.foundation.limits import MEGABYTES, SECONDS
from cacheproof.logs.validate.header import Header
from cacheproof.logs.validate.run import Validation
from cacheproof.logs.validate.source import CHUNK_BYTES, Source, open_source
from cacheproof.logs.validate.writing import log_written
from cacheproof.search.native.build import compiler_of_this_machine
from cacheproof.search.worker import NATIVE, REFERENCE
from cachespec.kernel import REROOTING, Code, Operation, Outcome
from cachespec.kv_blocks import COMPONENT
from cachespec.kv_blocks.configuration import Config
from cachespec.kv_blocks.operations import AllocateSlots, Commit, FreeRequest, GetComputedBlocks

PLAIN = "plain dictionaries"
VALIDATED = "validation"
COMPILED = "validation, compiled"
TURNS = 5
SEED = 11
KINDS = {kind.wire_name(): kind for kind in COMPONENT.operations}


class Size(NamedTuple):
    """The size of the log."""

    blocks: int
    """Blocks in the pool."""
    length: int
    """Blocks of a request."""
    requests: int
    """The number of different requests."""
    alive: int
    """Requests that run at once."""
    lines: int
    chunk_bytes: int
    """Lines that are read at once."""


WHOLE = Size(blocks=100_000, length=6, requests=40_000, alive=64, lines=1_000_000, chunk_bytes=CHUNK_BYTES)
SMALL = Size(blocks=600, length=6, requests=240, alive=8, lines=4_000, chunk_bytes=4_096)


def header_of(size: Size) -> Header:
    """The work for a log of this size."""
    config = configuration(Load(size.blocks, size.length, size.requests, 0))
    promises = ("lines", "sha256")
    return Header(COMPONENT, COMPONENT.normative, config, {}, promises=promises, source="the specification")


def calls(config: Config, size: Size, seed: int) -> Iterator[tuple[Operation, Outcome]]:
    """The specification serves requests without end: groups with a common prefix come in a random order."""
    chosen = random.Random(seed)  # noqa: S311  # a workload, nothing secret
    state, call, tokens = COMPONENT.normative.start(config, REROOTING), COMPONENT.normative.call, config.lengths[0]
    running: list[int] = []
    while True:
        first = TOGETHER * chosen.randrange(size.requests // TOGETHER)
        for request in range(first, first + TOGETHER):
            if request in running:
                continue
            asked = GetComputedBlocks(request, tokens)
            state, found = call(config, state, asked)
            yield asked, found
            behind = tokens - len(found.values) * config.block_size
            asked_for = AllocateSlots(request, 0, behind, found.values)
            state, outcome = call(config, state, asked_for)
            assert outcome.code is Code.DONE, outcome
            yield asked_for, outcome
            executed = Commit(request, tokens)
            state, outcome = call(config, state, executed)
            yield executed, outcome
            running.append(request)
            if len(running) > size.alive:
                freed = FreeRequest(running.pop(0))
                state, outcome = call(config, state, freed)
                yield freed, outcome


def write_log(path: Path, size: Size, seed: int = SEED) -> None:
    """Write the log of the first calls, as many as the size has lines."""
    header = header_of(size)
    with log_written(path, header) as log:
        for operation, outcome in islice(calls(header.config, size, seed), size.lines):
            log.line(operation, outcome)


class _Log:
    """A log in a temporary folder; its first reader makes it, and all contenders read it."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def opened(self) -> Source:
        """The log from its beginning; the folder is removed with this object."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="cacheproof-")
            write_log(self._path, self.size)
        return open_source(self._path, self.size.chunk_bytes)

    @property
    def _path(self) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / "kv_blocks.ndjson"


class Validating:
    """The log, validated by one engine."""

    def __init__(self, log: _Log, engine: str) -> None:
        self._log, self._engine = log, engine
        self._validation: Validation | None = None

    def warm_up(self) -> None:
        """Read the header, and the calls of the first batch after it."""
        self._validation = Validation(self._log.opened(), engine=self._engine, seconds=SECONDS, megabytes=MEGABYTES)
        self._validation.run(until=1)

    def turn(self, number: int) -> Work:  # noqa: ARG002  # as the turns of others are called
        """Validate a fifth of the lines, in whole batches."""
        assert self._validation is not None
        before = self._validation.consumed
        self._validation.run(until=before + self._log.size.lines // TURNS)
        return Work(self._validation.consumed - before, self._validation.found is None)


class Comparing:
    """The same log through a plain pool, whose answers are compared with those of the log."""

    def __init__(self, log: _Log) -> None:
        self._log = log
        self._pool = PlainPool(header_of(log.size).config, lambda _apply, _number: 0)
        self._batches: Iterator[list[bytes]] = iter(())
        self.consumed = 0

    def warm_up(self) -> None:
        """Read the header, as `Validating` does."""
        self._batches = self._log.opened().batches()
        self._take(next(self._batches)[1:])

    def turn(self, number: int) -> Work:  # noqa: ARG002  # as the turns of others are called
        """Replay a fifth of the lines, in whole batches."""
        before, same = self.consumed, True
        for batch in self._batches:
            same = self._take(batch) and same
            if self.consumed >= before + self._log.size.lines // TURNS:
                break
        return Work(self.consumed - before, same)

    def _take(self, batch: list[bytes]) -> bool:
        same = True
        for raw in batch:
            message: dict[str, Any] = msgspec.json.decode(raw)
            if "end" in message:
                break
            said = message["outcome"]
            outcome = self._pool.apply(_called(message["operation"]))
            same = same and (outcome.code.value, list(outcome.values)) == (said["code"], said.get("values", []))
            self.consumed += 1
        self._pool.outcomes.clear()
        return same


def _called(message: dict[str, Any]) -> Operation:
    """Perform the call as it is written, without a check."""
    kind = KINDS[message.pop("op")]
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in message.items()})


def contenders(*, small: bool) -> Mapping[str, Contender]:
    """All read the same file; compiled code does if there is a compiler."""
    log = _Log(SMALL if small else WHOLE)
    made: dict[str, Contender] = {PLAIN: Comparing(log), VALIDATED: Validating(log, REFERENCE)}
    if compiler_of_this_machine() is not None:
        made[COMPILED] = Validating(log, NATIVE)
    return made


BENCHMARKS = (
    Benchmark(
        name="validate",
        about="a log is validated: look up, allocate, execute, free",
        unit="lines",
        size="a million lines, 100,000 blocks",
        contenders=contenders,
        goal=Goal((VALIDATED,), 20_000),
        further_goals=(Goal((COMPILED,), 300_000),),
        most_repeats=TURNS,
    ),
)
