"""The declared types refuse wrong calls: mypy finds an error on each marked line under `refused/`, and on no other.

A line is marked by `# refused: CODE`, with the codes of all errors that mypy finds there. Each file is about one part;
a further part is a further file.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
REFUSED = Path(__file__).parent / "refused"
MARK = re.compile(r"# refused: ([a-z -]+)$")
ERROR = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: .*\[(?P<code>[a-z-]+)\]$", re.MULTILINE)

Lines = dict[tuple[str, int], set[str]]


def marked(files: list[Path]) -> Lines:
    """The codes that each marked line expects, by file and line."""
    marks: Lines = {}
    for file in files:
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if match := MARK.search(line):
                marks[file.name, number] = set(match[1].split())
    return marks


def refused(files: list[Path]) -> Lines:
    """The codes of the errors that mypy finds, by file and line; one run for all files."""
    call = [sys.executable, "-m", "mypy", "--hide-error-context", "--no-error-summary", "--no-pretty", *map(str, files)]
    result = subprocess.run(call, check=False, capture_output=True, text=True, cwd=ROOT)
    assert result.returncode in (0, 1), result.stdout + result.stderr
    errors: Lines = {}
    for match in ERROR.finditer(result.stdout):
        errors.setdefault((Path(match["file"]).name, int(match["line"])), set()).add(match["code"])
    return errors


def test_every_wrong_call_is_refused_and_no_right_one() -> None:
    files = sorted(REFUSED.glob("*.py"))
    marks = marked(files)
    assert {name for name, _ in marks} == {file.name for file in files}
    assert refused(files) == marks


def test_an_error_without_a_mark_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "unmarked.py"
    file.write_text('count: int = "4"\ntext: str = "right"  # refused: assignment\n')
    assert refused([file]) == {("unmarked.py", 1): {"assignment"}}
    assert marked([file]) == {("unmarked.py", 2): {"assignment"}}
