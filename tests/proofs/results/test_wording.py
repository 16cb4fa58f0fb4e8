"""Pages say of a violation what was seen of it, and no more."""

from __future__ import annotations

import pytest
from tests.proofs.results.making import charged_again, record

from cacheproof.lockstep.stalls import Sort
from cacheproof.present.book.results_matrix import broken, what_is_new
from cacheproof.present.book.results_pages import ENDINGS, page_of
from cacheproof.releases.results.record import Row, Search


def test_what_a_look_denied_is_told_apart() -> None:
    seen, unseen = charged_again(), charged_again(verdict="", unshown="NOT SHOWN: all are served")
    assert list(broken(record(seen), "encoder_cache")) == ["properties broken, misuse: 1"]
    assert list(broken(record(unseen), "encoder_cache")) == ["broken in its era, not seen on the release: 1"]
    assert list(broken(record(seen, unseen), "encoder_cache")) == ["properties broken, misuse: 1"]
    assert list(broken(record(seen), "lru")) == []
    assert "*: this does not hold." in page_of(record(seen))
    assert "*: this does not hold in the era, with which the release agreed" in page_of(record(unseen))


def test_a_property_is_counted_once() -> None:
    others = charged_again(catalogue=["C-ENC-6"]), charged_again(property="ENC-1"), charged_again(reach="class")
    assert list(broken(record(charged_again(), *others), "encoder_cache")) == [
        "properties broken, its classes alone: 1",
        "properties broken, misuse: 2",
    ]


@pytest.mark.parametrize(
    ("found", "steps", "says"),
    [
        ("search", 0, "Found in the states nearest to the start."),
        ("search", 12, "Found by random calls, seed 5."),
        ("catalogue", None, "The catalogue's shortest trace, made on the release."),
    ],
)
def test_how_it_was_found(found: str, steps: int | None, says: str) -> None:
    assert says in page_of(record(charged_again(found=found, steps=steps, seed=5)))


@pytest.mark.parametrize("ending", ["stuck", "lasso", *(sort.name.lower() for sort in Sort)])
def test_how_it_ends(ending: str) -> None:
    assert f"{ENDINGS[ending]}. " in page_of(record(charged_again(ending=ending)))


def test_nothing_is_said_to_be_found_only_where_nothing_was() -> None:
    walked = [Row("kv_blocks", label, 10, "a violation", agrees=False, beside=5) for label in ("fifo", "paged")]
    assert "Nothing was found in the rows; nothing more was searched for." in page_of(record(rows=walked[:0]))
    walked[0].difference = ["KV-7/longest: 7 blocks, and 6 of them can be found"]
    page = page_of(record(rows=walked))
    assert "In 1 of 2 rows above something is wrong; nothing more was searched for." in page
    assert "100 calls for each driver, shared by its configurations, were asked for" in page
    assert "100 calls for each row were asked for" in page_of(record())
    searched = record(searched=[Search("encoder_cache", "E2", 1234)])
    assert "Nothing was found in the rows; 1,234 calls were made to search for more." in page_of(searched)


def test_what_no_entry_explains_is_listed() -> None:
    unknown = charged_again(catalogue=[], certainty="new")
    (line,) = what_is_new([record(unknown, charged_again())])
    assert "[ENC-2](vllm-0.33.0.md#encoder_cache-e2-enc-2-c-enc-2) in `allocate`" in line
    assert "**in no entry of the catalogue**" in page_of(record(unknown))
