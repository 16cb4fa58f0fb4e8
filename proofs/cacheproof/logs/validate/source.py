"""Reads a log, plain or compressed, in chunks: what is held is a chunk and one line, however long the log is."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from cacheproof.foundation.errors import InputError

CHUNK_BYTES = 1 << 18
LONGEST_LINE_BYTES = 16 << 20
"""With the newline. The observables of a large pool are long; a longer line is refused before it is read whole."""
STANDARD_INPUT = "-"
COMPRESSED = b"\x1f\x8b"


class TruncatedError(InputError):
    """The log ends before its end."""


class Source:
    """The lines of a log, in batches, each line without its newline."""

    def __init__(self, name: str, stream: BinaryIO, size: int | None = None, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.name = name
        self._file, self._size, self._chunk_bytes = stream, size, chunk_bytes
        self._stream: Any = stream
        self._digest = sha256()
        self.unfinished = b""
        """What follows the last newline."""
        self.broken = ""
        """Why what is compressed could not be read to its end."""

    @property
    def fraction(self) -> float | None:
        """How much of the file has been read, where that is known."""
        if not self._size:
            return None
        return min(1.0, self._file.tell() / self._size)

    def batches(self) -> Iterator[list[bytes]]:
        """All lines that end with a newline; then `unfinished` has what is left.

        Raises InputError where a line is too long, with the number of lines before it unknown to the source.
        """
        rest: list[bytes] = []
        held = 0
        while chunk := self._chunk():
            head, newline, tail = chunk.rpartition(b"\n")
            if not newline:
                rest.append(chunk)
                held += len(chunk)
                _check_length(held)
                continue
            lines = b"".join((*rest, head)).split(b"\n")
            if len(head) + held >= LONGEST_LINE_BYTES:
                _check_length(max(map(len, lines)) + 1)
            rest, held = [tail], len(tail)
            yield lines
        self.unfinished = b"".join(rest)

    def passed(self, lines: list[bytes]) -> None:
        """These lines belong to what the digest of the end record is of."""
        if lines:
            self._digest.update(b"\n".join(lines))
            self._digest.update(b"\n")

    @property
    def sha256(self) -> str:
        """Of all that was passed, in hexadecimal."""
        return self._digest.hexdigest()

    def close(self) -> None:
        """Close the file, if it is one."""
        if self._file is not sys.stdin.buffer:
            self._file.close()

    def decompress(self) -> Source:
        """Read what the file has compressed; itself where it has not."""
        raw: Any = self._file
        buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)
        is_compressed = buffered.peek(2)[:2] == COMPRESSED
        self._stream = gzip.GzipFile(fileobj=buffered, mode="rb") if is_compressed else buffered
        return self

    def _chunk(self) -> bytes:
        try:
            chunk: bytes = self._stream.read1(self._chunk_bytes)  # what is there: a log may still be written
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self.broken = str(error)
            return b""
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror or error}") from None
        return chunk


def open_source(path: Path, chunk_bytes: int = CHUNK_BYTES) -> Source:
    """The file, plain or compressed by gzip, whatever it is called; `-` is standard input."""
    if str(path) == STANDARD_INPUT:
        return Source("standard input", sys.stdin.buffer, None, chunk_bytes).decompress()
    try:
        stream = path.open("rb")
        size = path.stat().st_size
        return Source(str(path), stream, size, chunk_bytes).decompress()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def _check_length(length: int) -> None:
    if length > LONGEST_LINE_BYTES:
        raise InputError(f"a line has at most {LONGEST_LINE_BYTES:,} bytes, and this one is longer")
