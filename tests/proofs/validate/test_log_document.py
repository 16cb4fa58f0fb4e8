"""The logs in the document are logs, and what is said of them is so."""

import re
from hashlib import sha256
from pathlib import Path

from tests.proofs.validate.logs import validated

from cacheproof.command.validate import rendered
from cacheproof.logs.validate.header import FORMAT, KEYS, MOST_UNLOGGED, PROMISES, VERSION
from cacheproof.logs.validate.possible import CAP
from cacheproof.logs.validate.run import Validation
from cacheproof.logs.validate.source import LONGEST_LINE_BYTES
from cacheproof.logs.validate.verdict import Impossible, Sort

TEXT = (Path(__file__).parents[3] / "docs" / "formats" / "log.md").read_text(encoding="utf-8")
LOGS = re.findall(r"<!-- in file: \w+\.ndjson -->\n```json\n(.*?)```", TEXT, flags=re.DOTALL)


def states_after(log: str) -> list[int]:
    lines = log.splitlines(keepends=True)
    return [validated("".join(lines[:count]).encode()).possible for count in range(2, len(lines) + 1)]


def test_the_first_log_has_as_many_states_as_is_said() -> None:
    assert states_after(LOGS[0]) == [1, 3, 2, 1]
    assert validated(LOGS[0].encode()).sort is Sort.POSSIBLE


def test_the_end_record() -> None:
    before, end = LOGS[2].splitlines(keepends=True)[:2], LOGS[2].splitlines()[2]
    assert sha256("".join(before).encode()).hexdigest() in end
    assert validated(LOGS[2].encode()).sort is Sort.POSSIBLE


def test_the_impossible_line_is_explained_as_is_shown() -> None:
    validation = validated(LOGS[3].encode())
    assert isinstance(validation.found, Impossible)
    assert isinstance(validation, Validation)
    assert validation.header is not None
    (shown,) = re.findall(r"```text\n(.*?)```", TEXT, flags=re.DOTALL)
    assert "\n".join(rendered(validation, validation.header)) + "\n" == shown


def test_figures_and_keys_of_the_document_are_those_of_the_code() -> None:
    assert f"# Logs, version {VERSION}" in TEXT
    assert FORMAT in TEXT
    assert f"`--cap` states are possible ({CAP})" in TEXT
    assert LONGEST_LINE_BYTES == 16 << 20
    assert f"{MOST_UNLOGGED} at most" in TEXT
    table = TEXT.partition("## The header")[2].partition("## ")[0]
    named = [key for row in re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)]
    assert set(named) == set(KEYS)
    assert set(PROMISES) == {"lines", "sha256"}
