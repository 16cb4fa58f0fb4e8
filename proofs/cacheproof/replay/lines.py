"""The lines of a trace file, gzipped or not, with their numbers; an error in a line is reported in one line."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, NoReturn

from cacheproof.foundation.errors import InputError, shortened

GZIP_MAGIC = b"\x1f\x8b"
LONGEST_LINE_BYTES = 16 << 20
"""After decompression: a small compressed file may hold a line of gigabytes."""
MOST_TOKENS = 100_000_000
"""Of one request: ten times the longest context that a model takes, and no more memory than a machine has."""
LARGEST = 1 << 53
"""Of the integers in a trace: up to here they are exact as floats too."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a JSON-lines file: an object whose fields are read with their types checked."""

    path: Path
    line: int
    fields: dict[str, Any]

    def text(self, name: str) -> str:
        """A field that is a string."""
        value = self._field(name)
        return value if isinstance(value, str) else self._wrong(name, value, "a string")

    def integer(self, name: str) -> int:
        """A field that is an integer."""
        value = self._field(name)
        if not isinstance(value, int) or isinstance(value, bool):
            self._wrong(name, value, "an integer")
        if abs(value) > LARGEST:
            self.fail(f"the field '{name}' must be an integer from -2^53 to 2^53")
        return value

    def tokens(self, name: str) -> int:
        """A field that counts the tokens of a request."""
        count = self.integer(name)
        if count > MOST_TOKENS:
            self.fail(f"the field '{name}' must be at most {MOST_TOKENS:,} tokens, not {count:,}")
        return count

    def array(self, name: str) -> list[Any]:
        """A field that is an array."""
        value = self._field(name)
        return value if isinstance(value, list) else self._wrong(name, value, "an array")

    def object(self, name: str) -> dict[str, Any]:
        """A field that is an object."""
        value = self._field(name)
        return value if isinstance(value, dict) else self._wrong(name, value, "an object")

    def fail(self, problem: str) -> NoReturn:
        """This line is wrong, and why."""
        raise InputError(f"{self.path}, line {self.line}: {problem}")

    def _field(self, name: str) -> Any:
        if name not in self.fields:
            self.fail(f"the field '{name}' is missing")
        return self.fields[name]

    def _wrong(self, name: str, value: Any, wanted: str) -> NoReturn:
        shown = json.dumps(value)
        self.fail(f"the field '{name}' must be {wanted}, not {shown if len(shown) <= 40 else shown[:37] + '...'}")


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, without their ends, numbered from one.

    Raises:
        InputError: the file cannot be opened, is cut short, or is not text.
    """
    number = 0
    try:
        with _opened(path) as file:
            while raw := file.readline(LONGEST_LINE_BYTES + 1):
                number += 1  # an error is reported with the line it stopped at
                if len(raw) > LONGEST_LINE_BYTES:
                    raise InputError(f"{path}, line {number}: longer than {LONGEST_LINE_BYTES:,} bytes")
                text = raw.decode("utf-8").rstrip("\r\n")
                if text.strip():
                    yield number, text
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}, line {number}: this is not UTF-8 text") from None
    except EOFError:
        raise InputError(f"{path}, line {number + 1}: the compressed file ends too early") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}, line {number + 1}: the compressed file is damaged: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def records(path: Path) -> Iterator[Record]:
    """The lines of a JSON-lines file.

    Raises:
        InputError: as for `lines`, or a line is not a JSON object.
    """
    for number, text in lines(path):
        yield record(path, number, text)


def record(path: Path, number: int, text: str) -> Record:
    """One line of a JSON-lines file."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path}, line {number}: this is not JSON: {shortened(str(error))}") from None
    except RecursionError:
        raise InputError(f"{path}, line {number}: this JSON is nested too deeply") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}, line {number}: this is not a JSON object")
    return Record(path, number, value)


def _opened(path: Path) -> gzip.GzipFile | BufferedReader:
    with path.open("rb") as file:
        magic = file.read(len(GZIP_MAGIC))
    return gzip.GzipFile(path, "rb") if magic == GZIP_MAGIC else path.open("rb")
