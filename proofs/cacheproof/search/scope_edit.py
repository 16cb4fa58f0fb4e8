"""Accepting what was found: the golden counts of a scope file, written into it so that the change can be reviewed.

Everything else in the file stays as it is, comments included. A violation of the normative variant is never accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cacheproof.foundation.errors import MissingExtraError
from cacheproof.foundation.files import replace_named_file
from cacheproof.model.scope import Scope
from cacheproof.search.result import Ending, Exploration
from cachespec.kernel import NORMATIVE

TABLE = re.compile(r"\[+[A-Za-z]")
COUNTS = ("states", "transitions", "depth", "digest")


def accept(path: Path, found: Iterable[tuple[Scope, Exploration]]) -> int:
    """Write the counts of these runs into the file; returns how many runs had something to write.

    New violations of an era are added without a catalogue number, with `exhaust` where the run went to the end; lengths
    are set for all. Inconclusive runs are left out. The file is either the old one or the new one.
    """
    tomlkit = _tomlkit()
    document = tomlkit.parse(path.read_text(encoding="utf-8"))
    tables = {str(table["name"]): table for table in document["scope"]}
    changed = 0
    for scope, exploration in found:
        if exploration.ending.conclusive and (exploration.variant != NORMATIVE or not exploration.violations):
            changed += _accept_run(tomlkit, tables[scope.name], scope, exploration)
    if changed:
        replace_named_file(path, _spaced(tomlkit.dumps(document)))
    return changed


def accept_numbers(path: Path, found: Mapping[str, Mapping[str, Any]]) -> int:
    """Write what was counted for any numbers into the tables `numbers` of these scopes; how many of them changed."""
    tomlkit = _tomlkit()
    document = tomlkit.parse(path.read_text(encoding="utf-8"))
    changed = 0
    for table in document["scope"]:
        if str(table["name"]) in found:
            before = tomlkit.dumps(table)
            table["numbers"].update(found[str(table["name"])])
            changed += tomlkit.dumps(table) != before
    if changed:
        replace_named_file(path, _spaced(tomlkit.dumps(document)))
    return changed


def _tomlkit() -> Any:
    try:
        import tomlkit  # noqa: PLC0415  # an extra
    except ImportError:
        raise MissingExtraError("development", "accepting counts") from None
    return tomlkit


def _accept_run(tomlkit: Any, table: Any, scope: Scope, exploration: Exploration) -> bool:
    before = tomlkit.dumps(table)
    expect = table.setdefault("expect", tomlkit.table(is_super_table=True))
    entry = expect.setdefault(exploration.variant, tomlkit.table())
    for name in COUNTS:
        entry[name] = getattr(exploration, name)
    known = scope.expectation(exploration.variant).violated
    for violation in exploration.violations:
        length = len(violation.trace.steps)
        if violation.property in known:
            listed = next(item for item in entry["violations"] if item["property"] == violation.property)
            listed["length"] = length
            continue
        if exploration.ending is Ending.EXHAUSTED:
            entry["exhaust"] = True
        fresh = tomlkit.table()
        fresh.update({"property": violation.property, "length": length})
        entry.setdefault("violations", tomlkit.aot()).append(fresh)
    return bool(tomlkit.dumps(table) != before)


def _spaced(text: str) -> str:
    """An empty line before every table, except where a comment stands before it."""
    lines: list[str] = []
    for line in text.split("\n"):
        if TABLE.match(line) and lines and lines[-1] and not lines[-1].startswith("#"):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)
