"""The book of results as files: the pages of all records, and the pages that are not current."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import replace_file
from cacheproof.present.book.markers import filled
from cacheproof.present.book.pages import PARTS
from cacheproof.present.book.results_pages import new_page, page_path
from cacheproof.releases.results.record import FOLDER, Record, load_all

CONSECUTIVE = "consecutive.md"
"""The page of consecutive releases, if there is one."""


def wanted() -> Mapping[Path, str]:
    """Every generated file with the text that it should have."""
    records = load_all(FOLDER)
    found: dict[Path, str] = {}
    index = FOLDER / "index.md"
    order = FOLDER / CONSECUTIVE
    pages = {index: _read(index), **({order: _read(order)} if order.is_file() else {})}
    pages |= {page_path(one, FOLDER): _page(one, page_path(one, FOLDER)) for one in records}
    for path, text in pages.items():
        found[path] = filled(text, PARTS, str(path))
    return found


def stale(files: Mapping[Path, str]) -> dict[Path, str]:
    """Those that are not as they should be, with what they should be."""
    return {path: text for path, text in files.items() if not path.is_file() or path.read_text("utf-8") != text}


def write(changed: Mapping[Path, str]) -> None:
    """Bring the files up to date; raises InputError where one cannot be written."""
    try:
        for path, text in changed.items():
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
