"""What a process records of itself: one JSON object a line, in the order in which things happened to it.

A line is written before any other process can see the event, and with one system call: a killed process has recorded
everything that the others may have seen. The log has no clock: the order between two processes follows from the
messages.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cacheimpl.mirror.messages import Item


class Recorder:
    """One file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)

    def note(self, what: str, **fields: Any) -> None:
        """One event: an operation of the specification's vocabulary by its name, or `asked`, `joined`, `ended`."""
        line = json.dumps({"op": what, **fields}, separators=(",", ":")).encode() + b"\n"
        if os.write(self._file, line) != len(line):
            raise OSError("the recording has no room for a whole line")

    def close(self) -> None:
        """Nothing more to note."""
        os.close(self._file)


def keys(order: Iterable[Item]) -> list[str]:
    """An order as it is recorded."""
    return [item.key for item in order]
