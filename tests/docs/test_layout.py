"""No page of the book is cut off: what is wider than its column has a visible way to scroll, at two window widths."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.browser import chromium, measured

WIDTHS = (1400, 800)

pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no chromium to lay the pages out")


def pages(site: Path) -> list[str]:
    return sorted(f"/{path.relative_to(site)}" for path in site.rglob("index.html"))


def test_every_page_fits_its_column_or_scrolls(site: Path, tmp_path: Path) -> None:
    all_fit(site, pages(site), tmp_path)


def test_every_fifth_page_fits_its_column_or_scrolls(site: Path, tmp_path: Path) -> None:
    all_fit(site, pages(site)[::5], tmp_path)


def all_fit(site: Path, chosen: list[str], tmp_path: Path) -> None:
    answers = measured(site, chosen, WIDTHS, tmp_path)
    assert len(answers) == len(chosen) * len(WIDTHS) > 20
    assert all(answer.column > 600 for answer in answers)
    assert {(answer.page, answer.width): answer.wrong for answer in answers if answer.wrong} == {}


WIDE = '<div class="planted" style="width: 2000px">wide</div>'
TABLE = f"<table><tr>{'<td>a cell that is not short</td>' * 30}</tr></table>"
NO_BAR = "<style>.bare::-webkit-scrollbar { display: none }</style>"
FETCHING = '<img src="http://localhost:1/picture.png" alt="">'


PLANTED = {
    "wide": (WIDE, "wider than its column: div.planted"),
    "hidden": (f'<div style="overflow-x: hidden">{WIDE}</div>', "cut off: div"),
    "no-bar": (
        f'{NO_BAR}<div class="bare" style="overflow-x: auto">{WIDE}</div>',
        "wider than its column: div.bare > div",
    ),
    "fetching": (FETCHING, "fetches http://localhost:1/picture.png"),
    "scrolls": (f'<div style="overflow-x: auto">{WIDE}</div>', None),
    "table": (TABLE, None),
    "narrow": ("<p>narrow</p>", None),
}
"""What is put into a page, and how the complaint about it begins."""


def test_what_is_planted_in_a_page_is_found(site: Path, tmp_path: Path) -> None:
    whole = (site / "drivers" / "index.html").read_text().replace('"../', '"/').replace('"..', '"/')
    assert whole.count("</article>") == 1
    pages = {name: site / f"planted-{tmp_path.name}-{name}.html" for name in PLANTED}
    for name, page in pages.items():
        page.write_text(whole.replace("</article>", f"{PLANTED[name][0]}</article>"))
    answers = measured(site, [f"/{page.name}" for page in pages.values()], WIDTHS, tmp_path)
    assert len(answers) == len(PLANTED) * len(WIDTHS)
    for name, page in pages.items():
        page.unlink()
        for answer in (answer for answer in answers if answer.page == f"/{page.name}"):
            wrong = PLANTED[name][1]
            assert any(text.startswith(wrong) for text in answer.wrong) if wrong else answer.wrong == (), (name, answer)
