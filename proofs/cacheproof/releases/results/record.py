"""What was seen of one release: a file of `docs/results/records`, written by runs and never by hand.

A record holds the rows of agreement and the violations as `cacheproof conform --json` says them, the catalogued ones
that the release was seen to show, what was not driven, and on which machine, when, and with which seed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import msgspec

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import replace_file
from cacheproof.releases.reach import Reach

FORMAT, VERSION = "cacheproof-results", "0.2"
FOLDER = Path("docs/results")
FINDINGS = Path("docs/findings")
"""Scripts of the findings, written by hand."""
RECORDS = "records"

Message = dict[str, Any]


class Violation(msgspec.Struct, omit_defaults=True):
    """One property that the release breaks, with the shortest calls that were found to show it.

    `found` says how: by search alone, or by making the trace of the catalogue on the release. `id` is its name for
    `cacheproof reproduce`, and `verdict` the last line that this printed on the release. If that did not show it,
    `verdict` is empty and the line is in `unshown`. `also` are other calls and faults with which the same property was
    broken, and that are like the same entries of the catalogue.
    """

    component: str
    variant: str
    target: str
    property: str
    statement: str
    config: Message
    operations: list[Message]
    outcomes: list[Message]
    reach: Reach
    operation: str = ""
    kind: str = ""
    first: str = ""
    faults: list[str] = []
    ending: str = ""
    cycle: list[Message] | None = None
    idle: int = 0
    catalogue: list[str] = []
    certainty: str = ""
    issues: list[str] = []
    seed: int | None = None
    steps: int | None = None
    found: Literal["search", "catalogue"] = "search"
    also: list[str] = []
    id: str = ""
    verdict: str = ""
    unshown: str = ""


def is_new(violation: Violation) -> bool:
    """Whether no entry of the catalogue explains it; of public threads, those are known that an entry names."""
    return not violation.catalogue


class Row(msgspec.Struct, omit_defaults=True):
    """One row of agreement: an era of a component beside the release, or a configuration in which it was walked.

    `difference` is what was seen where they part, `breakdown` why nothing is known.
    """

    component: str
    label: str
    calls: int
    verdict: str
    agrees: bool
    states: int | None = None
    """How many states were seen, as far as observables tell them apart; None where they were not counted."""
    beside: int | None = None
    """Of the calls, those whose answer was compared with the specification's, where that was not all of them."""
    difference: list[str] = []
    breakdown: str = ""
    known: list[str] = []
    """Differences that are listed, each with its reason."""


class Search(msgspec.Struct, omit_defaults=True):
    """How long violations were searched for in one row."""

    component: str
    variant: str
    calls: int
    episodes: int = 0
    violations: int = 0
    interrupted: bool = False
    failure: str = ""


class Machine(msgspec.Struct):
    """Where it ran."""

    processor: str
    cores: int
    system: str
    python: str
    dependencies: list[str] = []


class Undriven(msgspec.Struct):
    """What could not be driven, and why."""

    component: str
    reason: str


class Beside(msgspec.Struct, omit_defaults=True):
    """One component of a release beside the same one of another release, the base.

    A difference is at the last of the operations, or in the initial state if there are none. `failure` says why a
    driver failed; `where` is empty if nothing differs.
    """

    component: str
    label: str
    """With the variant whose environment offers the calls."""
    calls: int
    seconds: float
    unchanged: bool = False
    """No call was made, because no file that its driver reads differs."""
    failure: str = ""
    where: str = ""
    """The call at which the two part, and what differs there."""
    config: Message = {}
    operations: list[Message] = []
    answers: list[tuple[str, str]] = []
    """For each operation, of the base and of the release."""
    differing: list[tuple[str, str, str]] = []
    """After the last one: a name, what the base has, and what the release has."""
    breaks: list[tuple[str, str]] = []
    """The properties, with their statements, that the release breaks here and the base does not."""
    base_breaks: list[tuple[str, str]] = []
    """The other way round."""
    came_again: bool = True
    """False if the same calls did not show it a second time."""


class Record(msgspec.Struct, omit_defaults=True):
    """Everything that was seen of one release in one run."""

    target: str
    date: str
    """The day, as in 2026-01-31."""
    seed: int
    steps: int
    """Calls that were asked for, for each row."""
    specification: str
    """The digest of the specification's source."""
    version: str
    """Of cacheproof."""
    machine: Machine
    rows: list[Row]
    searched: list[Search]
    violations: list[Violation]
    undriven: list[Undriven]
    base: str = ""
    """The release before it, if it was run beside that one."""
    beside: list[Beside] = []
    """What came of that."""
    changed: list[str] = []
    """The files that differ between the two and that a driver reads."""

    @property
    def name(self) -> str:
        """What its files are called: `vllm-0.33.0`."""
        return self.target.replace("==", "-")


def load(path: Path) -> Record:
    """The record in a file; InputError says what is wrong with it."""
    try:
        message = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        head = (message.pop("format", None), message.pop("version_of_format", None))
        if head != (FORMAT, VERSION):
            raise InputError(f"{path}: not of format {FORMAT} {VERSION}: `cacheproof results run` writes it anew")
        return msgspec.convert(message, Record)
    except FileNotFoundError:
        raise InputError(f"there is no {path}: `cacheproof results run` writes it") from None
    except (OSError, AttributeError, msgspec.DecodeError) as error:
        raise InputError(f"{path}: {error}") from None


def load_all(folder: Path) -> list[Record]:
    """Every record of a book, by name of the package and version; InputError where there is none."""
    paths = list((folder / RECORDS).glob("*.json"))
    if not paths:
        raise InputError(f"there is no record in {folder / RECORDS}: `cacheproof results run TARGET` makes one")
    return sorted((load(path) for path in paths), key=_place)


def save(record: Record, folder: Path) -> Path:
    """Write the record into the book."""
    path = folder / RECORDS / f"{record.name}.json"
    message = {"format": FORMAT, "version_of_format": VERSION, **msgspec.to_builtins(record)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, _written(message))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    return path


def _written(message: Message) -> str:
    """One line for each entry of a list, so that a change is seen where it is."""
    lines = []
    for name, value in message.items():
        if isinstance(value, list) and value:
            entries = ",\n".join(f"  {json.dumps(entry, ensure_ascii=False)}" for entry in value)
            lines.append(f" {json.dumps(name)}: [\n{entries}\n ]")
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _place(record: Record) -> tuple[bool, str, tuple[int, ...]]:
    """VLLM first, as the specification is of it; then by name and version."""
    package, _, version = record.target.partition("==")
    return package != "vllm", package, tuple(int(part) for part in version.split(".") if part.isdigit())
