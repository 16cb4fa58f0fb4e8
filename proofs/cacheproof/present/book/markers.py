"""Generated parts of a page of Markdown.

A part begins with a comment that says what it holds, alone on its line, and ends with another:

    <!-- properties: lru -->
    ... what is generated ...
    <!-- end -->

The author writes the first comment; filling writes the rest. Inside fenced blocks nothing is a marker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cacheproof.foundation.errors import InputError

MARKER = re.compile(r"<!-- (?P<word>[a-z]+): (?P<words>.*) -->")
END = "<!-- end -->"
FENCE = re.compile(r" *(```+|~~~+)")

Part = Callable[[Sequence[str]], str]
"""From the words after the colon to lines of Markdown; raises InputError where they mean nothing."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A comment that begins a generated part; `line` counts from 1."""

    line: int
    word: str
    words: tuple[str, ...]


def filled(text: str, parts: Mapping[str, Part], page: str) -> str:
    """The page with every generated part made anew; InputError says which line cannot be filled."""
    lines, kept, place, fence = text.splitlines(), [], 0, ""
    while place < len(lines):
        line = lines[place]
        place += 1
        kept.append(line)
        fence = _fence_after(fence, line)
        found = MARKER.fullmatch(line) if not fence else None
        if found is None:
            continue
        marker = Marker(place, found["word"], tuple(found["words"].split()))
        kept += [*_made(marker, parts, page), END]
        place = _after(lines, place)
    return "\n".join(kept) + "\n"


def _fence_after(fence: str, line: str) -> str:
    """The fence that is open after this line: a block ends with what it began with."""
    found = FENCE.match(line)
    if found is None:
        return fence
    if not fence:
        return found[1]
    return "" if found[1].startswith(fence) and line.strip() == found[1] else fence


def _made(marker: Marker, parts: Mapping[str, Part], page: str) -> list[str]:
    """The lines of a part. A block of code stands directly below its marker, anything else between empty lines."""
    where = f"{page}:{marker.line}"
    if marker.word not in parts:
        raise InputError(f"{where}: nothing is called '{marker.word}': there are {', '.join(parts)}")
    try:
        lines = parts[marker.word](marker.words).strip("\n").splitlines()
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return lines if FENCE.match(lines[0]) else ["", *lines, ""]


def _after(lines: Sequence[str], place: int) -> int:
    """The position at which the author's text continues: after the end of the part, or here if it was never filled."""
    fence = ""
    for number in range(place, len(lines)):
        fence = _fence_after(fence, lines[number])
        if not fence and lines[number] == END:
            return number + 1
        if not fence and MARKER.fullmatch(lines[number]):
            return place
    return place
