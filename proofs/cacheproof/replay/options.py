"""Options of a trace: declared by its reader, given as KEY=VALUE, listed by `replay --help TRACE`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cacheproof.foundation.errors import InputError


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its default as a user would type it, its values, and the function that reads the text."""

    name: str
    default: str
    takes: str
    help: str
    read: Callable[[str], Any]


def choice(name: str, choices: tuple[str, ...], help_: str) -> Option:
    """One of several words; the first is the default."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError
        return text

    return Option(name, choices[0], "one of " + ", ".join(choices), help_, read)


def flag(name: str, help_: str) -> Option:
    """Yes or no, and no where nothing is said; the name alone is yes."""

    def read(text: str) -> bool:
        return ("no", "yes").index(text) == 1

    return Option(name, "no", "nothing, or yes or no", help_, read)


def integer(name: str, default: int, help_: str, *, least: int = 0) -> Option:
    """An integer that is not below `least`."""

    def read(text: str) -> int:
        if int(text) < least:
            raise ValueError
        return int(text)

    return Option(name, str(default), f"an integer from {least} up", help_, read)


def number(name: str, default: float, help_: str) -> Option:
    """A number that is not negative."""

    def read(text: str) -> float:
        value = float(text)
        if not 0 <= value < math.inf:
            raise ValueError
        return value

    return Option(name, f"{default:g}", "a number, not negative", help_, read)


def read_options(owner: str, options: Iterable[Option], given: Mapping[str, str]) -> dict[str, Any]:
    """Every option's value, given or by default.

    Raises:
        InputError: an option that the owner does not have, or a value that it does not take.
    """
    by_name = {option.name: option for option in options}
    for name in given:
        if name not in by_name:
            raise InputError(f"{owner} has no option '{name}': there are {', '.join(by_name) or 'none'}")
    return {name: _value(option, given.get(name, option.default)) for name, option in by_name.items()}


def _value(option: Option, text: str) -> Any:
    try:
        return option.read(text)
    except ValueError:
        raise InputError(f"the option {option.name} takes {option.takes}, not '{text}'") from None


def pairs(texts: Iterable[str]) -> dict[str, str]:
    """`["order=file", "as-table"]` is `{"order": "file", "as-table": "yes"}`."""
    split = [text.partition("=") for text in texts]
    for key, _, _ in split:
        if not key:
            raise InputError("an option is written KEY=VALUE, or KEY alone for yes")
    return {key: value if equals else "yes" for key, equals, value in split}
