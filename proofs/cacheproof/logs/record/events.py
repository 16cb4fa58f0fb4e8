"""The events that the recorder has written inside of an engine: one file for each manager, in the engine's words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import json_of

FORMAT, VERSION = "cacheproof-recorded-events", "0.1"
SUFFIX = ".events"

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Recording:
    """The events of one manager; `settings` are those of the manager, and the release it is of."""

    path: Path
    component: str
    settings: Event

    @property
    def release(self) -> str:
        """The version of the engine; empty where it did not say."""
        return str(self.settings.get("release", ""))

    def events(self) -> Iterator[Event]:
        """All events, in their order. An unfinished line after the last newline is left out."""
        lines = _lines(self.path)
        next(lines)
        yield from lines

    @property
    def has_calls(self) -> bool:
        """Whether the manager was asked for anything."""
        return any("op" in event for event in self.events())

    @property
    def stopped(self) -> str:
        """Why the recorder has stopped before the engine did; empty where it has not."""
        return next((str(event["stopped"]) for event in self.events() if "stopped" in event), "")


def source_of(event: Event) -> Event:
    """The step in which an event was written, as a line of a log has it; nothing if it is not known."""
    return {"source": f"step {event['step']}"} if "step" in event else {}


def recordings_in(folder: Path) -> list[Recording]:
    """The recordings in a folder, by name."""
    found = [recording_at(path) for path in sorted(folder.glob(f"*{SUFFIX}"))]
    return [recording for recording in found if recording is not None]


def recording_at(path: Path) -> Recording | None:
    """The recording in a file; None where its process ended before it wrote a line."""
    settings = next(_lines(path), None)
    if settings is None:
        return None
    if (settings.get("format"), settings.get("version")) != (FORMAT, VERSION):
        raise InputError(f"{path}:1: not events of format {FORMAT} {VERSION}")
    return Recording(path, str(settings.get("component")), settings)


def _lines(path: Path) -> Iterator[Event]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                event = json_of(line)
            except ValueError as error:
                raise InputError(f"{path}:{number}: not an event: {error}") from None
            if not isinstance(event, dict):
                raise InputError(f"{path}:{number}: not an event: no object")
            yield event
