"""The command line, and a book of one record in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.proofs.results.making import Ends, charged_again, record

from cacheproof import command
from cacheproof.releases.results.record import save

INDEX = "# The results\n\n<!-- results: matrix -->\n<!-- end -->\n\n<!-- results: new -->\n<!-- end -->\n"


@pytest.fixture
def ends(capsys: pytest.CaptureFixture[str]) -> Ends:
    def run(*arguments: str) -> int:
        with pytest.raises(SystemExit) as ended:
            command.main(list(arguments))
        return int(str(ended.value.code))

    return run


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a book of one record, whose pages are not written yet."""
    folder = tmp_path / "docs" / "results"
    folder.mkdir(parents=True)
    (folder / "index.md").write_text(INDEX)
    monkeypatch.chdir(tmp_path)
    save(record(charged_again()), folder)
    return folder
