"""The text of a unit for a device: the same functions as for a CPU, marked for nvcc, and without extensions of GNU."""

from __future__ import annotations

import re

HOST, DEVICE = '#include "levels.hpp"', '#include "driver.hpp"'
FUNCTION = re.compile(r"^((?:\[\[maybe_unused\]\] )?)static (?=[^=\n]*\()", re.MULTILINE)
TAKEN = re.compile(r"^template <> (?=\S[^\n]* take<)", re.MULTILINE)
LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"')
CLOSING = {")": "(", "}": "{", "]": "["}


def for_device(text: str) -> str:
    """A unit whose functions are for a device.

    Functions are called and not copied into their callers: that makes the compilation ten times faster. A statement
    expression becomes a lambda that is called at once, because nvcc 13.0 fails on some of them.
    """
    text = text.replace(HOST, DEVICE)
    text = FUNCTION.sub(r"\1static CP_DEVICE CP_APART ", text)
    text = TAKEN.sub("template <> CP_DEVICE CP_APART ", text)
    lines = [with_lambdas(line) if "({" in line else line for line in text.splitlines()]
    return "\n".join(["#define CP_ON_DEVICE", *lines, ""])


def with_lambdas(line: str) -> str:
    """Each `({ statements; value; })` as `[&] { statements; return value; }()`."""
    code = LITERAL.sub(lambda found: "_" * len(found[0]), line)
    pairs = _pairs(code)
    changes: dict[int, str] = {}
    for opening, closing in pairs.items():
        if not code.startswith("({", opening) or re.match(r"[\w>]", code[opening - 1 : opening]):
            continue
        changes[opening] = "[&] "
        changes[closing] = "()"
        value = _value(code, opening + 1, pairs)
        changes[value] = f"return {changes.get(value, line[value])}"
    return "".join(changes.get(place, letter) for place, letter in enumerate(line))


def _pairs(code: str) -> dict[int, int]:
    """The places of opening brackets, each with that of its end; the inner ones first."""
    found, still_open = {}, []
    for place, letter in enumerate(code):
        if letter in "({[":
            still_open.append(place)
        elif letter in CLOSING:
            found[still_open.pop()] = place
    return found


def _value(code: str, brace: int, pairs: dict[int, int]) -> int:
    """Where the last statement of a block begins, which gives its value."""
    end, begin, place = pairs[brace], brace + 1, brace + 1
    while place < end:
        if code[place] in "({[":
            is_block = code[place] == "{" and not re.match(r"[\w>]", code[place - 1])
            place = pairs[place]
            if is_block and code[place + 1 : end].strip():
                begin = place + 1
        elif code[place] == ";" and code[place + 1 : end].strip():
            begin = place + 1
        place += 1
    return begin + len(code[begin:end]) - len(code[begin:end].lstrip())
