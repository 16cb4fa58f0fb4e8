"""The generated parts of the pages are current, and a part that cannot be made is found with its line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # its types are another distribution
from tests.proofs.results.making import charged_again, record

from cacheproof import command
from cacheproof.foundation.errors import InputError
from cacheproof.present.book.markers import filled
from cacheproof.present.book.pages import PARTS, made
from cacheproof.present.book.trace_pages import SENTENCE
from cacheproof.releases.results.record import save

ROOT = Path(__file__).parents[2]
SITE = "proofs/cacheproof/present/book/site.py"
PAGES = sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_generated_parts_are_current(page: Path) -> None:
    ((_, text, wanted),) = made([page])
    assert text == wanted, f"run `cacheproof book docs/{page.name}`"


def upper(words: object) -> str:
    return " ".join(words).upper() if isinstance(words, tuple) else ""


TWO = "a\n<!-- upper: b c -->\n<!-- upper: d -->\ne\n"
FILLED = "a\n<!-- upper: b c -->\n\nB C\n\n<!-- end -->\n<!-- upper: d -->\n\nD\n\n<!-- end -->\ne\n"


def test_a_part_is_filled_and_filled_again() -> None:
    assert filled(TWO, {"upper": upper}, "page") == FILLED
    assert filled(FILLED, {"upper": upper}, "page") == FILLED
    assert filled(FILLED.replace("B C", "old\nlines"), {"upper": upper}, "page") == FILLED


def test_code_stands_directly_below_its_marker() -> None:
    block = "```text\n<!-- end -->\n<!-- upper: z -->\n```"
    once = filled("<!-- code: x -->\n", {"code": lambda words: block, "upper": upper}, "page")
    assert once == f"<!-- code: x -->\n{block}\n<!-- end -->\n"
    assert filled(once, {"code": lambda words: block, "upper": upper}, "page") == once


def test_nothing_inside_a_block_is_a_marker() -> None:
    text = "```markdown\n<!-- upper: b -->\n```\n````text\n```\n<!-- upper: b -->\n````\n"
    assert filled(text, {"upper": upper}, "page") == text


@pytest.mark.parametrize(
    "marker",
    [
        "nonsense: lru",
        "source: cachespec.lru.transitions",
        "source: cachespec.lru.transitions:no_such_function",
        "source: cachespec.no_such_module:put",
        "source: os:path",
        "properties: lru LRU-99",
        "properties: no_such_component",
        "eras: lru M2",
        "era: lru",
        "era: lru M99",
        "scopes: lru turns",
        "counterexample: C-LRU-99",
        "counterexample: C-LRU-1 lru M2",
        "trace: ",
        "catalogue: C-NONE",
        "summary: some",
    ],
)
def test_a_part_that_means_nothing_is_found_with_its_line(marker: str) -> None:
    with pytest.raises(InputError, match=r"^page\.md:3: "):
        filled(f"# A page\n\n<!-- {marker} -->\n", PARTS, "page.md")


def test_the_table_of_an_era_says_how_it_begins() -> None:
    first = "| operation | in kv-2026-11 (K2) |\n| --- | --- |\n| at first | one block is reserved as the null block"
    assert first in filled("<!-- era: kv_blocks K2 -->\n", PARTS, "page")
    assert "at first" not in filled("<!-- era: kv_blocks K0 -->\n", PARTS, "page")


def test_methods_classes_and_constants_are_source_too() -> None:
    text = filled("<!-- source: cachespec.lru.eras:GHOST -->\n", PARTS, "page")
    assert 'GHOST = RELEASED.era(\n    "M2",' in text
    text = filled("<!-- source: cachespec.kernel.component:Variant.call -->\n", PARTS, "page")
    assert "```python\ndef call(self" in text
    text = filled("<!-- source: cachespec.lru.operations:Put -->\n", PARTS, "page")
    assert "@dataclass(frozen=True, slots=True)\nclass Put(Operation):" in text


def test_a_stale_page_is_said_and_then_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- properties: lru LRU-6 -->\n")
    assert ended("book", "--check", str(page)) == 1
    assert page.read_text() == "<!-- properties: lru LRU-6 -->\n"
    assert "is not current" in capsys.readouterr().out
    assert ended("book", str(page)) == 0
    assert "every call that evicts returns" in page.read_text()
    assert ended("book", "--check", str(page)) == 0


def ended(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        command.main(words)
    return int(str(end.value.code))


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder / "site")]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


def test_the_site_is_built_and_needs_no_network(site: Path) -> None:
    html = (site / "catalogue" / "index.html").read_text()
    assert "<svg" in html
    assert "sequenceDiagram" not in html
    assert not re.findall(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="https?:', html)
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.findall(r"url\(['\"]?https?:|@import", styles)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A book of two pages, with the settings of ours."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump({**settings, "nav": ["index.md", "one.md"], "extra_css": []}))
    (tmp_path / "proofs").symlink_to(ROOT / "proofs")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# The book\n\n[One](one.md)\n")
    (tmp_path / "docs" / "one.md").write_text(
        "# One\n\n## A heading\n\n[code](../proofs/cacheproof/present/book/site.py)\n"
    )
    return tmp_path


def test_a_link_out_of_the_book_becomes_the_name_of_a_file(small: Path) -> None:
    assert build(small).returncode == 0
    assert (
        "code (<code>proofs/cacheproof/present/book/site.py</code>)"
        in (small / "site" / "one" / "index.html").read_text()
    )


@pytest.mark.parametrize("link", ["[a](gone.md)", "[a](one.md#no-such-heading)"])
def test_a_broken_link_fails_the_build(small: Path, link: str) -> None:
    page = small / "docs" / "one.md"
    page.write_text(page.read_text() + f"\n{link}\n")
    ended = build(small)
    assert ended.returncode != 0
    assert "WARNING" in ended.stdout + ended.stderr


def test_public_numbers_become_links_and_code_stays(small: Path) -> None:
    page = small / "docs" / "one.md"
    page.write_text("# One\n\n#31404, vllm-omni#7788; `#11111` and [#22222](index.md).\n\n```text\n#33333\n```\n")
    assert build(small).returncode == 0
    html = (small / "site" / "one" / "index.html").read_text()
    addresses = re.findall(r'href="(https://github.com[^"]*)"', html)
    assert addresses == [
        "https://github.com/vllm-project/vllm/issues/31404",
        "https://github.com/vllm-project/vllm-omni/issues/7788",
    ]


def test_a_number_of_an_unknown_repository_fails_the_build(small: Path) -> None:
    (small / "docs" / "one.md").write_text("# One\n\nno-such-engine#12345\n")
    ended = build(small)
    assert ended.returncode != 0
    assert "one.md: 'no-such-engine#12345' names no repository that is known" in ended.stdout + ended.stderr


def test_a_folder_in_the_contents_stands_for_its_pages(small: Path) -> None:
    settings = yaml.safe_load((small / "mkdocs.yml").read_text())
    settings["nav"].append({"More": "more/"})
    (small / "mkdocs.yml").write_text(yaml.safe_dump(settings))
    (small / "docs" / "more").mkdir()
    for name in ("beta", "alpha", "index"):
        (small / "docs" / "more" / f"{name}.md").write_text(f"# Page {name}\n")
    assert build(small).returncode == 0
    html = (small / "site" / "index.html").read_text()
    assert html.index("Page alpha") < html.index("Page beta")


def test_a_page_that_the_contents_leave_out_fails_the_build(small: Path) -> None:
    (small / "docs" / "forgotten.md").write_text("# Forgotten\n")
    assert build(small).returncode != 0


def planted_finding(small: Path, *recorded: str) -> str:
    """The page `one` is about one violation; these are recorded. The id of the violation."""
    known = charged_again()
    save(record(*(charged_again(id=name) for name in recorded)), small / "docs" / "results")
    (small / "docs" / "one.md").write_text(f"# One\n\n{SENTENCE.format(known.id)}\n")
    return known.id


def test_a_finding_links_to_a_page_that_is_built(small: Path) -> None:
    name = planted_finding(small, charged_again().id)
    ended = build(small)
    assert ended.returncode == 0, ended.stderr
    html = (small / "site" / "one" / "index.html").read_text()
    (address,) = re.findall(r'<a href="([^"]*)">As a page</a>', html)
    page = (small / "site" / "one" / address).resolve()
    assert page == (small / "site" / "traces" / f"{name}.html").resolve()
    assert "ENC-2" in page.read_text()
    assert "allocate(request=0, input=0)" in page.read_text()
    assert f"cacheproof show {name} --format html" in html


def test_a_finding_without_a_record_fails_the_build(small: Path) -> None:
    name = planted_finding(small, "another-one")
    ended = build(small)
    assert ended.returncode != 0
    assert f"one.md: no record has a violation '{name}'" in ended.stdout + ended.stderr


def test_a_missing_page_of_a_finding_fails_the_build(small: Path) -> None:
    planted_finding(small, charged_again().id)
    page = small / "docs" / "one.md"
    page.write_text(page.read_text() + "\n[As a page](traces/another-one.html)\n")
    ended = build(small)
    assert ended.returncode != 0
    assert "traces/another-one.html" in ended.stdout + ended.stderr


def test_a_diagram_links_to_its_run(small: Path) -> None:
    text = filled("# One\n\n<!-- counterexample: C-LRU-1 -->\n", PARTS, "page")
    (small / "docs" / "one.md").write_text(text.replace("(catalogue.md#c-lru-1)", "(index.md)"))
    ended = build(small)
    assert ended.returncode == 0, ended.stderr
    (address,) = re.findall(
        r'<a href="([^"]*)">This run as a page</a>', (small / "site" / "one" / "index.html").read_text()
    )
    assert "LRU-8" in (small / "site" / "one" / address).read_text()
