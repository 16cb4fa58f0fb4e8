"""No page of the book is cut off: what is wider than its column has a visible way to scroll, at two window widths."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.docs.browser import Measured, chromium, measured

WIDTHS = (1400, 800)

pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no chromium to lay the pages out")


def pages(site: Path) -> list[str]:
    return sorted(f"/{path.relative_to(site)}" for path in site.rglob("index.html"))


def test_every_page_fits_its_column_or_scrolls(site: Path, tmp_path: Path) -> None:
    answers = measured(site, pages(site), WIDTHS, tmp_path)
    assert len(answers) == len(pages(site)) * len(WIDTHS) > 60
    assert all(answer.column > 600 for answer in answers)
    assert {(answer.page, answer.width): answer.wrong for answer in answers if answer.wrong} == {}


WIDE = '<div class="planted" style="width: 2000px">wide</div>'
TABLE = f"<table><tr>{'<td>a cell that is not short</td>' * 30}</tr></table>"
NO_BAR = "<style>.bare::-webkit-scrollbar { display: none }</style>"
FETCHING = '<img src="http://localhost:1/picture.png" alt="">'


@pytest.mark.parametrize(
    ("planted", "wrong"),
    [
        (WIDE, "wider than its column: div.planted"),
        (f'<div style="overflow-x: hidden">{WIDE}</div>', "cut off: div"),
        (f'{NO_BAR}<div class="bare" style="overflow-x: auto">{WIDE}</div>', "wider than its column: div.bare > div"),
        (FETCHING, "fetches http://localhost:1/picture.png"),
        (f'<div style="overflow-x: auto">{WIDE}</div>', None),
        (TABLE, None),
        ("<p>narrow</p>", None),
    ],
    ids=["wide", "hidden", "no-bar", "fetching", "scrolls", "table", "narrow"],
)
def test_what_is_planted_in_a_page_is_found(site: Path, tmp_path: Path, planted: str, wrong: str | None) -> None:
    page = site / f"planted-{tmp_path.name}.html"
    whole = (site / "drivers" / "index.html").read_text()
    assert whole.count("</article>") == 1
    page.write_text(whole.replace("</article>", f"{planted}</article>").replace('"../', '"/').replace('"..', '"/'))
    answers: Sequence[Measured] = measured(site, [f"/{page.name}"], WIDTHS, tmp_path)
    page.unlink()
    for answer in answers:
        assert any(text.startswith(wrong) for text in answer.wrong) if wrong else answer.wrong == (), answer
