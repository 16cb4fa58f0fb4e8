"""The whole book of results as files: pages and scripts of the records and the findings, and what is not current."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import replace_file
from cacheproof.present.book.markers import filled
from cacheproof.present.book.pages import PARTS
from cacheproof.present.book.results_pages import new_page, page_path
from cacheproof.releases.results.findings.finding import findings
from cacheproof.releases.results.record import FINDINGS, FOLDER, SCRIPTS, Record, load_all
from cacheproof.releases.results.scripts.composing import script_of


def wanted() -> Mapping[Path, str]:
    """Every generated file with the text that it should have."""
    records = load_all(FOLDER)
    found: dict[Path, str] = {}
    index = FOLDER / "index.md"
    pages = {index: _read(index), **{page_path(one, FOLDER): _page(one, page_path(one, FOLDER)) for one in records}}
    for path, text in pages.items():
        found[path] = filled(text, PARTS, str(path))
    for record in records:
        for violation in record.violations:
            if violation.verdict:
                found[FOLDER / SCRIPTS / record.name / violation.script] = script_of(violation)
    return found | {FINDINGS / f"{finding.name}.py": finding.script for finding in findings()}


def stale(files: Mapping[Path, str]) -> dict[Path, str | None]:
    """Those that are not as they should be, with what they should be; None for a script that nothing has."""
    changed: dict[Path, str | None] = {
        path: text for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text
    }
    there = [*(FOLDER / SCRIPTS).rglob("*.py"), *FINDINGS.glob("*.py")]
    return changed | dict.fromkeys(path for path in sorted(there) if path not in files)


def write(changed: Mapping[Path, str | None]) -> None:
    """Bring the files up to date; raises InputError where one cannot be written."""
    try:
        for path, text in changed.items():
            if text is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, text)
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be written: {error.strerror}") from None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        raise InputError(f"there is no {path}: go to a checkout") from None


def _page(record: Record, path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else new_page(record)
