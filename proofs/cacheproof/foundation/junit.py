"""JUnit XML: what a run found, in the form that services for continuous integration read.

There is no standard; this is what Jenkins, GitLab and the usual actions of GitHub have in common: suites of cases, each
passed, failed, in error or skipped. A verb takes `--junit FILE` by a parameter annotated `JunitOption`, calls
`file_to_write` before its work and `write` after it.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from cacheproof.foundation import files
from cacheproof.foundation.errors import ExitStatus, InputError

JunitOption = Annotated[
    Path | None,
    typer.Option(
        "--junit", metavar="FILE", help="Also write the results to this file as JUnit XML.", show_default="no file"
    ),
]

NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not have, escaped or not."""


class CaseStatus(Enum):
    """What became of a case."""

    PASSED = "passed"
    FAILED = "failure"
    """Something fell short: a property, a difference, a count."""
    ERROR = "error"
    """There is no answer; not to be read as green."""
    SKIPPED = "skipped"


STATUSES = {
    ExitStatus.AS_EXPECTED: CaseStatus.PASSED,
    ExitStatus.FELL_SHORT: CaseStatus.FAILED,
    ExitStatus.WRONG_INPUT: CaseStatus.ERROR,
    ExitStatus.INCONCLUSIVE: CaseStatus.ERROR,
}


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that was checked. `group` is shown before the name, its parts separated by dots.

    `message` is one line; `text` is everything, a finding as a table, say. Both are for what did not pass.
    """

    group: str
    name: str
    status: CaseStatus
    message: str = ""
    text: str = ""
    seconds: float = 0.0
    properties: Mapping[str, object] = field(default_factory=dict)


def file_to_write(path: Path | None) -> None:
    """Before long work: the file gets an error in place of what an earlier run left there. None is no file.

    The error stays if the run is killed, or ends before it has a result. Raises InputError where the file cannot be
    written, or holds something else: it may be an input that was named by mistake.
    """
    files.file_to_write(path, "--junit")
    if path is None or files.is_stream(path):
        return
    if _holds_something_else(path):
        raise InputError(f"--junit {path}: is there, and is not JUnit XML: name another file, or remove it")
    write(path, "run", [Case("run", "the result", CaseStatus.ERROR, "the run has not ended")])


def _holds_something_else(path: Path) -> bool:
    """Whether there is a file that has something in it, and not the results of an earlier run, of ours or of others."""
    try:
        with path.open("rb") as file:
            beginning = file.read(FARTHEST)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise InputError(f"--junit {path}: cannot be read: {error.strerror}") from None
    return bool(beginning) and b"<testsuite" not in beginning


FARTHEST = 4096
"""Bytes before the first element: a declaration of XML, and perhaps a comment."""


def write(
    path: Path | None,
    suite: str,
    cases: Iterable[Case],
    *,
    interrupted: bool = False,
    properties: Mapping[str, object] | None = None,
) -> None:
    """The cases as one suite, in place of the file; None is no file.

    A run that was interrupted has an error at its end, so that what is missing is not read as green. Raises InputError
    where the file cannot be written.
    """
    if path is None:
        return
    known = [*cases, *([Case(suite, "the rest", CaseStatus.ERROR, "the run was interrupted")] if interrupted else [])]
    try:
        files.replace_file(path, document(suite, known, properties or {}))
    except OSError as error:
        raise InputError(f"--junit {path}: cannot be written: {error.strerror}") from None


def document(suite: str, cases: Sequence[Case], properties: Mapping[str, object]) -> str:
    """The whole XML document."""
    counts = {
        "tests": str(len(cases)),
        "failures": _count(cases, CaseStatus.FAILED),
        "errors": _count(cases, CaseStatus.ERROR),
        "skipped": _count(cases, CaseStatus.SKIPPED),
        "time": _seconds(sum(case.seconds for case in cases)),
    }
    root = ET.Element("testsuites", {"name": "cacheproof", **counts})
    inside = ET.SubElement(root, "testsuite", {"name": clean(f"cacheproof {suite}"), **counts})
    _add_properties(inside, properties)
    for case in cases:
        named = {"classname": clean(f"cacheproof.{case.group}"), "name": clean(case.name)}
        element = ET.SubElement(inside, "testcase", {**named, "time": _seconds(case.seconds)})
        _add_properties(element, case.properties)
        if case.status is CaseStatus.PASSED:
            continue
        told = {"message": clean(" ".join(case.message.split()))}
        kind = {} if case.status is CaseStatus.SKIPPED else {"type": case.status.value}
        ET.SubElement(element, case.status.value, {**told, **kind}).text = clean(case.text) or None
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def clean(text: str) -> str:
    """The text without what XML cannot hold; a question mark stands for each character that is gone."""
    return NOT_IN_XML.sub("?", text)


def _add_properties(element: ET.Element, properties: Mapping[str, object]) -> None:
    if not properties:
        return
    inside = ET.SubElement(element, "properties")
    for name, value in properties.items():
        ET.SubElement(inside, "property", {"name": clean(name), "value": clean(str(value))})


def _count(cases: Sequence[Case], status: CaseStatus) -> str:
    return str(sum(case.status is status for case in cases))


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"
