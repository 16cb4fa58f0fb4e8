"""What is seen of prefixes in pages: a right one walks on, and each way of being wrong is found and shortened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.proofs.targets.prefixes.plain_radix import BUGS, PlainRadix

from cacheproof.foundation.errors import ExitStatus
from cacheproof.model.target import TargetError
from cacheproof.targets.prefixes import walk as walking
from cacheproof.targets.prefixes.configurations import CONFIGURATIONS
from cacheproof.targets.prefixes.conformance import Held
from cacheproof.targets.prefixes.episodes import Walked
from cacheproof.targets.prefixes.ledger import Ledger, Wrong
from cacheproof.targets.prefixes.peer import Answer, Call, Shown
from cacheproof.targets.prefixes.recency import MOMENTS, Recency
from cacheproof.targets.prefixes.walk import replayed, walk

named = pytest.mark.parametrize("name", CONFIGURATIONS)


@named
def test_what_is_right_walks_on(name: str) -> None:
    walked = walk(PlainRadix(), CONFIGURATIONS[name], steps=400, seed=1)
    assert (walked.found, walked.broke_down) == (None, "")
    assert walked.steps == 400
    assert walked.beside > 30
    assert (walked.evictions > 0) == ("scarce" in name)


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_found_by_its_property_and_shortened(bug: str) -> None:
    ordered = BUGS[bug] == "KV-11"
    config = CONFIGURATIONS["prompts apart, scarce" if ordered else "pages of 2, scarce"]
    found = walk(PlainRadix(bug), config, steps=3_000, seed=1).found
    assert found is not None
    assert found.rule == BUGS[bug]
    again = replayed(PlainRadix(bug), config, found.calls)
    assert again is not None
    assert (again.rule, again.calls) == (found.rule, found.calls)
    assert len(found.calls) <= 11
    fewer = (
        replayed(PlainRadix(bug), config, found.calls[:at] + found.calls[at + 1 :]) for at in range(len(found.calls))
    )
    assert all(one is None or one.rule != found.rule or len(one.calls) >= len(found.calls) for one in fewer)
    assert replayed(PlainRadix(), config, found.calls) is None


@pytest.mark.parametrize("bug", [bug for bug, rule in BUGS.items() if rule == "KV-11"])
def test_the_order_of_eviction_is_a_choice_unless_it_is_claimed(bug: str) -> None:
    class Silent(PlainRadix):
        claims = ()

    assert walk(Silent(bug), CONFIGURATIONS["prompts apart, scarce"], steps=400, seed=1).found is None


@pytest.mark.parametrize("moments", [("lookup", "admit"), ("commit",), ("finish",), ("lookup", "refused", "finish")])
def test_a_use_is_what_the_cache_takes_for_one(moments: tuple[str, ...]) -> None:
    """The older of two contents is used at these moments: either may go, until it is used at all moments."""
    recency = Recency([(0,), (1,)])
    for content in (1, 0):
        recency.use("commit", [content])
    for moment in moments:
        recency.use(moment, [1])
    assert recency.evict({10: 0, 11: 1}, [10], []) is None
    for moment in (*MOMENTS, "commit"):
        recency.use(moment, [0] if moment == "commit" else [1])
    for moment in MOMENTS:
        recency.use(moment, [1])
    assert recency.evict({10: 0, 11: 1}, [11], [10]) is None
    assert recency.evict({12: 0}, [], []) is None


def test_a_use_may_count_for_the_pages_behind_it() -> None:
    """As in a radix tree, whose nodes hold several pages: a match that ends inside of one is a use of all of it."""
    for used, wrong in (([0], None), ([2], (12, 11))):
        recency = Recency([(0, 1), (2,)])
        for content in ([0, 1], [2]):
            for moment in MOMENTS:
                recency.use(moment, content)
        for moment in MOMENTS:
            recency.use(moment, used)
        assert recency.evict({10: 0, 11: 1, 12: 2}, [12], [10]) == wrong


def test_an_eviction_that_no_meaning_explains_is_wrong() -> None:
    recency = Recency([(0,), (1,)])
    for content in (0, 1):
        for moment in MOMENTS:
            recency.use(moment, [content])
    assert recency.evict({10: 0, 11: 1}, [11], [10]) is None
    recency.use("commit", [1])
    assert recency.evict({10: 0, 11: 1}, [11], []) == (11, 10)


class Blind(Ledger):
    """A ledger that goes on without a word, so that only the specification is left."""

    def take(self, call: Call, answer: Answer) -> Wrong | None:
        super().take(call, answer)
        return None


@pytest.mark.parametrize(
    ("bug", "rule"),
    [
        ("keeps the page that was there already", "KV-2"),
        ("gives pages back twice", "KV-2"),
        ("forgets the last page of a request", "KV-2"),
        ("counts the locked wrongly", "KV-2"),
        ("finds one page too few", "KV-7/longest"),
    ],
)
def test_the_specification_alone_finds_what_can_be_counted(
    bug: str, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "Ledger", Blind)
    found = walk(PlainRadix(bug), CONFIGURATIONS["pages of 2, scarce"], steps=2_000, seed=1).found
    assert found is not None
    assert found.rule == rule
    assert "by the specification" in found.said


def test_the_same_seed_makes_the_same_calls() -> None:
    class Noting(PlainRadix):
        def ask(self, call: Call) -> Answer:
            calls.append(call)
            return super().ask(call)

    runs = []
    for seed in (1, 1, 2):
        calls: list[Call] = []
        walk(Noting(), CONFIGURATIONS["slots, scarce"], steps=100, seed=seed)
        runs.append(calls)
    assert runs[0] == runs[1] != runs[2]


class Failing(PlainRadix):
    """Its driver fails at some call."""

    def ask(self, call: Call) -> Answer:
        raise TargetError("it is not there")


class Interrupted(PlainRadix):
    """Somebody presses Ctrl-C."""

    def reset(self, config: Mapping[str, Any]) -> Shown:
        raise KeyboardInterrupt


def test_a_driver_that_fails_is_no_verdict() -> None:
    walked = walk(Failing(), CONFIGURATIONS["slots, ample"], steps=10, seed=1)
    assert walked.broke_down == "it is not there"
    assert Held("", "", walked).status is ExitStatus.INCONCLUSIVE


def test_an_interrupted_walk_is_not_green() -> None:
    walked = walk(Interrupted(), CONFIGURATIONS["slots, ample"], steps=10, seed=1)
    assert walked.interrupted
    assert Held("", "", walked).status is ExitStatus.INCONCLUSIVE
    assert Held("", "", Walked()).status is ExitStatus.INCONCLUSIVE


def test_what_was_walked_before_an_interruption_is_counted() -> None:
    class InterruptedLater(PlainRadix):
        count = 0

        def ask(self, call: Call) -> Answer:
            self.count += 1
            if self.count > 100:
                raise KeyboardInterrupt
            return super().ask(call)

    walked = walk(InterruptedLater(), CONFIGURATIONS["slots, ample"], steps=1_000, seed=1)
    assert walked.interrupted
    assert walked.steps == 100
    assert walked.beside > 60  # of the episode that was interrupted too


def test_progress_says_nothing_wrong_only_where_nothing_is() -> None:
    said: list[str] = []
    bug = "keeps the page that was there already"
    found = walk(PlainRadix(bug), CONFIGURATIONS["pages of 2, scarce"], steps=3_000, seed=1, progress=said.append).found
    assert found is not None
    assert ["nothing wrong" in line for line in said] == [True] * (len(said) - 1) + [False]
