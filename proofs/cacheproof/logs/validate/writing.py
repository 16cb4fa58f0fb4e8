"""Writes a log: the header, a line for each call, and the end record that the header promises."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from cacheproof.logs.validate.header import Header
from cacheproof.model.wire import operation_to_message, outcome_to_message
from cachespec.kernel import Observation, Operation, Outcome


class LogWriter:
    """The lines of one log. A reader does not know outcomes and observables that are left out."""

    def __init__(self, stream: BinaryIO, header: Header) -> None:
        self._stream, self._promises, self.lines = stream, header.promises, 0
        self._digest = sha256()
        self._write(header.as_message())

    def line(
        self,
        operation: Operation | None = None,
        outcome: Outcome | None = None,
        observations: Mapping[str, Observation] | None = None,
        source: str = "",
    ) -> None:
        """One line; without an operation, what could be seen."""
        message: dict[str, Any] = {}
        if operation is not None:
            message["operation"] = operation_to_message(operation)
        if outcome is not None:
            message["outcome"] = outcome_to_message(outcome)
        if observations:
            message["observations"] = observations
        if source:
            message["source"] = source
        self.lines += 1
        self._write(message)

    def end(self) -> None:
        """The end record, if it was promised; nothing may come after it."""
        said = {"lines": self.lines, "sha256": self._digest.hexdigest()}
        if self._promises:
            self._write({"end": {name: said[name] for name in self._promises}})

    def _write(self, message: Mapping[str, Any]) -> None:
        raw = json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
        self._digest.update(raw)
        self._stream.write(raw)


@contextmanager
def log_written(path: Path, header: Header) -> Iterator[LogWriter]:
    """A log in a file, compressed where its name ends with `.gz`; whole when the block ends well."""
    with path.open("wb") as file:
        if path.suffix == ".gz":
            with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as compressed:
                writer = LogWriter(compressed, header)  # type: ignore[arg-type]  # it takes bytes
                yield writer
                writer.end()
        else:
            writer = LogWriter(file, header)
            yield writer
            writer.end()
