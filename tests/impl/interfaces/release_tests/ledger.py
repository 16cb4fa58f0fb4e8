"""The ledger of a release's tests that do not pass with our classes: each with its kind and its reason.

A ledger is right if it lists exactly the tests that pass with the release's own classes and fail with ours.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cacheproof.foundation.errors import InputError

KINDS: Mapping[str, str] = {
    "groups": "needs kinds of layers, or groups of different block sizes, that the manager refuses",
    "sparse": "needs caches in the host's memory (HiSparse)",
    "private": "reads or writes private state of the release's classes",
    "hashes": "expects the release's own hash values",
    "missing": "calls something that ours does not have",
    "differs": "expects a behaviour of the release that ours does not have on purpose",
    "release": "fails with the release's own classes, too",
}
"""What a test may lack."""


KEYS = ("id", "kind", "reason")


class Entry(NamedTuple):
    """A test that does not pass with our classes."""

    test: str
    kind: str
    reason: str


class Outcome(NamedTuple):
    """How a test ended."""

    outcome: str
    """`passed`, `failed` or `skipped`."""
    reason: str = ""
    used: tuple[str, ...] = ()
    """The classes of ours that it made objects of."""


Outcomes = Mapping[str, Outcome]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with a ledger."""

    unlisted: tuple[str, ...]
    """Tests that fail with ours and are not listed."""
    passing: tuple[str, ...]
    """Listed tests that pass."""
    unknown: tuple[str, ...]
    """Listed tests that there are none of."""
    misjudged: tuple[str, ...]
    """Tests whose kind says that the release fails them, though it passes them; or the other way round."""

    @property
    def right(self) -> bool:
        """Whether the ledger lists just the tests that do not pass, and those that the release itself fails as such."""
        return not (self.unlisted or self.passing or self.unknown or self.misjudged)

    def lines(self) -> list[str]:
        """What is wrong, a line for each test."""
        named = (
            ("fails and is not listed", self.unlisted),
            ("is listed and passes", self.passing),
            ("is listed and does not exist", self.unknown),
            ("is listed with a wrong kind: 'release' is for tests that the release itself fails", self.misjudged),
        )
        return [f"{test} {what}" for what, tests in named for test in tests]


def judged(entries: Sequence[Entry], released: Outcomes, ours: Outcomes) -> Verdict:
    """Compare a ledger with what the tests came to, with the release's own classes and with ours."""
    listed = {entry.test: entry for entry in entries}
    failing = {test for test, end in ours.items() if end.outcome == "failed"}
    fails_alone = {test for test, end in released.items() if end.outcome == "failed"}
    return Verdict(
        unlisted=tuple(sorted(failing - listed.keys())),
        passing=tuple(sorted((listed.keys() & ours.keys()) - failing)),
        unknown=tuple(sorted(listed.keys() - ours.keys())),
        misjudged=tuple(
            sorted(
                test for test in listed.keys() & failing if (listed[test].kind == "release") != (test in fails_alone)
            )
        ),
    )


def read(path: Path) -> list[Entry]:
    """The entries of a ledger; none if there is no file. Raises InputError for a wrong one."""
    if not path.exists():
        return []
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))["test"]
        entries = [Entry(str(table["id"]), str(table["kind"]), str(table["reason"])) for table in tables]
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise InputError(f"{path}: every [[test]] has an id, a kind and a reason: {error}") from None
    for entry in entries:
        if entry.kind not in KINDS:
            raise InputError(f"{path}: the kind of {entry.test} is '{entry.kind}'; the kinds are {', '.join(KINDS)}")
        if not entry.reason.strip():
            raise InputError(f"{path}: {entry.test} has no reason")
    if len({entry.test for entry in entries}) < len(entries):
        raise InputError(f"{path}: a test is listed twice")
    return entries


def write(path: Path, entries: Sequence[Entry]) -> None:
    """Write a ledger, sorted by test."""
    lines = [
        f"# Tests of vLLM {path.stem} that do not pass with our classes: python -m tests.impl.interfaces.release_tests"
    ]
    for entry in sorted(entries):
        lines += ["", "[[test]]", *(f"{key} = {quoted(value)}" for key, value in zip(KEYS, entry, strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def quoted(text: str) -> str:
    """As a TOML string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{"".join(character if character.isprintable() else " " for character in escaped)}"'


def accepted(before: Sequence[Entry], ran: Sequence[Entry], released: Outcomes, ours: Outcomes) -> list[Entry]:
    """What the ledger should list: entries that still hold, and those of files that did not run, stay as they are.

    A new entry has the failure as its reason; a person replaces it by a sentence.
    """
    kept = {entry.test: entry for entry in before if entry not in ran}
    listed = {entry.test: entry for entry in ran}
    for test, end in ours.items():
        if end.outcome != "failed":
            continue
        alone = released.get(test, end).outcome == "failed"
        entry = listed.get(test)
        if entry is None or (entry.kind == "release") != alone:
            entry = Entry(test, "release" if alone else "missing", end.reason or "fails without a reason")
        kept[test] = entry
    return list(kept.values())
