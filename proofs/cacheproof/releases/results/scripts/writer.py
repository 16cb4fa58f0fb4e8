"""What a component has to have so that scripts can be written of its violations; found by scanning `writers/`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from cacheproof.releases.results.record import Message
from cacheproof.releases.results.scripts.case import Case, Setting

PRELUDES = Path(__file__).parent / "preludes"

Lines = list[str]


class NotWrittenError(Exception):
    """No script can be written of this violation; the message says why."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Lines of Python that look at the release's objects: those that stand before the last call, and those after it.

    The latter return whether the violation was seen, and what was seen.
    """

    after: Lines
    before: Lines = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Writer:
    """One component's.

    `imports` are the lines that import the release's classes; `preludes` the texts with stand-in objects, by their
    names; `setup` makes the objects; `lines` is one operation as the release's own calls, the first of which answers
    it: `answer` is what its recorded outcome looks like there, None where that does not matter. `observations` are
    those by property. Where there is none, or None of it, what the calls answered and what the objects show is compared
    with what was recorded: `state` is an expression for the latter, and what it was.
    """

    subject: str
    imports: Callable[[Setting], Lines]
    preludes: Callable[[Setting], Sequence[str]]
    setup: Callable[[Setting], Lines]
    lines: Callable[[Case, Message], Lines]
    answer: Callable[[Case, Message, Message], str | None]
    observations: Mapping[str, Callable[[Case], Observation | None]]
    state: Callable[[Case], tuple[str, object]]


@cache
def writer_of(component: str) -> Writer | None:
    """The writer of a component, or None where nobody wrote one."""
    found = {module.name for module in pkgutil.iter_modules([str(Path(__file__).parent / "writers")])}
    if component not in found:
        return None
    writer: Writer = importlib.import_module(f"{__package__}.writers.{component}").WRITER
    return writer


def engine_of(setting: Setting, names: Sequence[str]) -> Lines:
    """What makes the engine of a prelude that has one, of these fields of the configuration."""
    return [
        "setting = {",
        *(f'    "{name}": {setting.config[name]!r},' for name in names),
        "}",
        "engine = Engine(setting)",
    ]


def engine_fails(case: Case) -> Observation:
    """The last call ended in an error, in a script that has such an engine."""
    return Observation(['return "Error" in ANSWERS[-1], f"the last call: {ANSWERS[-1]}; left: {engine.shown()}"'])


@cache
def prelude(name: str) -> str:
    """A text of `preludes/`."""
    return (PRELUDES / f"{name}.txt").read_text(encoding="utf-8").strip("\n")
