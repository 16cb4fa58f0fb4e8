"""What the pages show can be done, and what they point to is there.

A block of python is run, all blocks of a page in one namespace. In a block of console every line that begins with `$`
is run, and its status is looked at. A comment of Markdown in the line before a block says what to make of it:

    <!-- exits 1 -->            the last command ends with this status
    <!-- not run: REASON -->    the block is not run, and why
    <!-- source: NAMES -->      the block is the specification's own source, filled by `cacheproof book`
    <!-- in file: NAME -->      the block is not run but written to this file, for what comes after it
    <!-- prints -->             each line of the block, in this order, is printed by the block that is run before it;
                                blanks and the rules of tables are not compared, and `…` stands for anything

`make TARGET` is not run but asked whether there is such a target.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.docs.commands import ran

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LANGUAGES = {"python", "console", "text", "json", "toml", "yaml", "mermaid", "markdown", "conversation"}
TIMEOUT_SECONDS = 120
FOR_THE_SHELL = "$*?|<>&;`"
"""Marks of which a shell makes something."""
ANYTHING = "…"

FENCE = re.compile(
    r"^(?P<comment><!--[^\n]*-->\n)?```(?P<language>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ +(?P<title>.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block, the line where it begins, and what its comment says."""

    line: int
    language: str
    body: str
    status: int = 0
    not_run: str = ""
    file: str = ""
    printed: bool = False


def blocks(text: str) -> Iterator[Block]:
    for found in FENCE.finditer(text):
        line = text[: found.start("language")].count("\n") + 1
        comment = (found["comment"] or "").strip().removeprefix("<!--").removesuffix("-->").strip()
        status = re.fullmatch(r"exits (\d)", comment)
        mark, _, rest = comment.partition(":")
        reason = rest.strip() if mark in ("not run", "source") else ""
        file = rest.strip() if mark == "in file" else ""
        code = int(status[1]) if status else 0
        yield Block(line, found["language"].strip(), found["body"], code, reason, file, comment == "prints")


@cache
def without_blocks(text: str) -> str:
    return FENCE.sub("", text)


def commands(block: Block) -> list[str]:
    """The commands of a console block; a backslash at the end of a line continues it."""
    joined = block.body.replace("\\\n", " ")
    return [line.removeprefix("$ ").strip() for line in joined.splitlines() if line.startswith("$ ")]


def run_python(block: Block, namespace: dict[str, Any], page: str) -> str:
    """What it prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile("\n" * block.line + block.body, page, "exec"), namespace)
    return output.getvalue()


def run_command(command: str, folder: Path) -> tuple[int, str]:
    """The status and the output of a command of this project; any other has to be marked as not run."""
    words = shlex.split(command, comments=True)
    if words[0] == "make":
        asked = subprocess.run(["make", "--dry-run", *words[1:]], cwd=ROOT, capture_output=True, check=False)
        return asked.returncode, ""
    assert words[0] in ("cacheproof", "printf", "python"), f"`{command}` is neither run here nor marked as not run"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "160"}
    if words[0] == "cacheproof" and not set(command) & set(FOR_THE_SHELL):
        done = ran(words[1:], folder, environment, TIMEOUT_SECONDS)
        return done.status, done.out
    ended = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    return ended.returncode, ended.stdout


def not_printed(shown: str, output: str) -> list[str]:
    """Lines of a block that the output does not have, or not in this order."""
    remaining = iter([plain(line) for line in output.splitlines()])
    wanted = [plain(line) for line in shown.splitlines() if line.strip() != ANYTHING]
    return [line for line in wanted if not any(is_like(line, printed) for printed in remaining)]


def is_like(line: str, printed: str) -> bool:
    """Whether a line was printed, `…` aside."""
    return re.fullmatch(".*".join(map(re.escape, line.split(ANYTHING))), printed) is not None


def plain(line: str) -> str:
    """A line without the lines of tables and superfluous blanks."""
    return " ".join(re.sub("[\u2500-\u257f]", " ", line).split())


def run_page(text: str, folder: Path, page: str = "page") -> None:
    namespace: dict[str, Any] = {"__name__": "page"}
    output = ""
    for block in blocks(text):
        where = f"{page}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: a block of '{block.language}' is neither run nor plain text"
        if block.not_run:
            continue
        if block.file:
            assert Path(block.file).name == block.file, f"{where}: a file of the page's own folder has no path"
            (folder / block.file).write_text(block.body)
        elif block.language == "python":
            output = run_python(block, namespace, page)
        if block.language == "console":
            *others, last = commands(block)
            ended = [(command, *run_command(command, folder)) for command in (*others, last)]
            output = "\n".join(text for _, _, text in ended)
            statuses = [(command, status) for command, status, _ in ended]
            assert statuses == [*((command, 0) for command in others), (last, block.status)], where
        if block.printed:
            assert not_printed(block.body, output) == [], f"{where}: it is not what is printed"


@cache
def anchors(text: str) -> set[str]:
    titles = [found["title"] for found in HEADING.finditer(without_blocks(text))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def broken_links(text: str, folder: Path) -> list[str]:
    """Links to a file or a heading that is not there; addresses of the web are not looked at."""
    broken = []
    for found in LINK.finditer(without_blocks(text)):
        path, _, anchor = found["target"].partition("#")
        if re.match(r"[a-z]+:", found["target"]):
            continue
        target = folder / path if path else None
        heading_text = (
            text if target is None else target.read_text() if target.suffix == ".md" and target.is_file() else ""
        )
        if (target is not None and not target.exists()) or (anchor and anchor not in anchors(heading_text)):
            broken.append(found["target"])
    return broken


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that looks like a checkout and keeps what the commands store to itself; pytest has no options there."""
    for entry in ROOT.iterdir():
        if not entry.name.startswith(".") and entry.name != "pyproject.toml":
            (tmp_path / entry.name).symlink_to(entry)
    return tmp_path


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_what_a_page_shows_can_be_done(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    run_page(page.read_text(), folder, named(page))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_what_a_page_points_to_is_there(page: Path) -> None:
    assert broken_links(page.read_text(), page.parent) == []


def links(page: Path) -> set[Path]:
    """The files that a page leads to."""
    targets = [found["target"].partition("#")[0] for found in LINK.finditer(without_blocks(page.read_text()))]
    return {(page.parent / target).resolve() for target in targets if target}


def test_every_page_can_be_found() -> None:
    found, pending = set[Path](), [ROOT / "README.md", ROOT / "docs/architecture.md"]
    while pending:
        page = pending.pop()
        found.add(page)
        pending += [
            target for target in links(page) if target.suffix == ".md" and target.is_file() and target not in found
        ]
    assert {named(page) for page in PAGES} - {named(page) for page in found} <= {"CHANGELOG.md", "CONTRIBUTING.md"}


@pytest.mark.parametrize(
    "text",
    [
        "```python\nassert 1 + 1 == 3\n```",
        "```console\n$ cacheproof no-such-verb\n```",
        "<!-- exits 1 -->\n```console\n$ cacheproof --version\n```",
        "```console\n$ make no-such-target\n```",
        "```console\n$ curl example.org\n```",
        "```shell\ncacheproof list\n```",
        "```python\nprint(1)\n```\n<!-- prints -->\n```text\n2\n```",
        "```console\n$ cacheproof --version\n```\n<!-- prints -->\n```text\ncacheproof 99\n```",
    ],
)
def test_a_page_that_shows_what_cannot_be_done_is_found(text: str, folder: Path) -> None:
    with pytest.raises(AssertionError):
        run_page(text, folder)


def test_marks_are_heeded(folder: Path) -> None:
    run_page("<!-- not run: it needs a network -->\n```console\n$ curl example.org\n```", folder)
    run_page("<!-- exits 2 -->\n```console\n$ cacheproof --version\n$ cacheproof no-such-verb\n```", folder)
    run_page("```python\nx = 1\n```\ntext\n```python\nassert x == 1\n```", folder)
    run_page("<!-- in file: y.py -->\n```python\nassert False\n```", folder)
    assert (folder / "y.py").read_text() == "assert False\n"
    with pytest.raises(AssertionError, match="has no path"):
        run_page("<!-- in file: tests/z.py -->\n```python\nz = 2\n```", folder)


def test_lines_are_printed_in_their_order() -> None:
    output = "┃ a ┃ b  ┃\nsecond\nthird\n"
    assert not_printed("a │ b\n…\nthird\n", output) == []
    assert not_printed("third\nsecond\n", output) == ["second"]
    assert not_printed("a b c\n", output) == ["a b c"]
    assert not_printed("s…d\nth…\n", output) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A Heading, here\n")
    text = (
        "[a](there.md) [b](there.md#a-heading-here) [c](there.md#no) [d](gone.md) [e](https://example.org) [f](#none)"
    )
    assert broken_links(text, tmp_path) == ["there.md#no", "gone.md", "#none"]


def rows_without_headings(text: str) -> list[str]:
    """First rows of what looks like a table and is none: an empty line above has ended the table."""
    lines = ["", *without_blocks(text).splitlines(), ""]
    return [
        line
        for before, line, after in zip(lines, lines[1:], lines[2:], strict=False)
        if line.startswith("|") and not before.startswith("|") and not re.fullmatch(r"\|[ :|-]+\|", after)
    ]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_table_has_headings(page: Path) -> None:
    assert rows_without_headings(page.read_text()) == []


def test_a_table_that_an_empty_line_breaks_is_found() -> None:
    assert rows_without_headings("| a |\n|---|\n| b |\n\n| c |\n") == ["| c |"]
    assert rows_without_headings("| a |\n|---|\n| b |\n| c |\n") == []


MAPPED = ("spec/cachespec", "impl/cacheimpl", "proofs/cacheproof")


def sections(text: str) -> dict[str, set[str]]:
    """The modules and folders that each section of the architecture names in the first cells of its table."""
    found: dict[str, set[str]] = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        cells = [line.split("|")[1] for line in part.splitlines() if line.startswith("|")]
        found[part.splitlines()[0]] = {name for cell in cells for name in re.findall(r"`([\w./]+(?:\.py|/))`", cell)}
    return found


def gone(folder: Path, named: set[str]) -> set[str]:
    return {name for name in named if not (folder / name).exists()}


def not_named(folder: Path, named: set[str]) -> set[str]:
    """Modules and folders at the first level of a package that the map leaves out."""
    there = {f"{path.name}/" if path.is_dir() else path.name for path in folder.iterdir()}
    return {name for name in there if name.endswith((".py", "/"))} - named - {"__init__.py", "__pycache__/"}


@pytest.mark.parametrize("folder", MAPPED)
def test_the_architecture_names_what_is_there_and_all_of_it(folder: str) -> None:
    named = sections((ROOT / "docs/architecture.md").read_text())[folder]
    assert gone(ROOT / folder, named) == set()
    assert not_named(ROOT / folder, named) == set()


def test_a_map_that_is_wrong_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.py").touch()
    (tmp_path / "folder").mkdir()
    named = sections("## a\n| `there.py`, `gone.py` | two modules, `other.py` |\n")["a"]
    assert gone(tmp_path, named) == {"gone.py"}
    assert not_named(tmp_path, named) == {"folder/"}
