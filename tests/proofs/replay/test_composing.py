"""Composed loads: the same by the same seed, distributed as the source says, and reused as the rule says."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from cacheproof.replay.composing.distribution import Distribution, Window, distribution, window
from cacheproof.replay.composing.reuse import Never, WithinConversation, Zipf
from cacheproof.replay.readers import read
from cacheproof.replay.shipped import DATA
from cacheproof.replay.workload import Workload

CLIENTS = DATA / "servegen_clients_slice.jsonl.gz"
AFTERNOON = "43200"


def load(**options: Any) -> Workload:
    return read(
        [CLIENTS], {"start": AFTERNOON, "requests": "400", **{key: str(value) for key, value in options.items()}}
    )


@pytest.mark.parametrize("reuse", ["none", "conversation", "zipf"])
def test_the_same_seed_gives_the_same_load_and_another_seed_another(reuse: str) -> None:
    assert load(reuse=reuse, seed=3) == load(reuse=reuse, seed=3)
    assert load(reuse=reuse, seed=3).arrivals != load(reuse=reuse, seed=4).arrivals


def test_a_load_says_that_it_is_composed_and_how() -> None:
    composed = load(reuse="zipf", pool=50, exponent=0.8, seed=9)
    assert composed.composed
    assert composed.seed == 9
    assert composed.title == "composed from ServeGen image clients, reuse zipf, pool 50, exponent 0.8"


def test_requests_come_in_the_order_of_their_time_and_not_before_the_start() -> None:
    seconds = [arrival.seconds or 0.0 for arrival in load().arrivals]
    assert len(seconds) == 400
    assert seconds == sorted(seconds)
    assert seconds[0] >= float(AFTERNOON)


def test_without_reuse_every_reference_is_to_a_new_image() -> None:
    referenced = [content for arrival in load(reuse="none").arrivals for content in arrival.contents]
    assert referenced == list(range(len(referenced)))


def test_the_first_conversation_of_a_client_sends_its_images_as_often_as_it_has_turns() -> None:
    """With one conversation at a time, a client's requests come in groups that share all images, and only those."""
    arrivals = load(reuse="conversation", turns=3, conversations=1).arrivals
    for line in {arrival.line for arrival in arrivals}:
        mine = [arrival.contents for arrival in arrivals if arrival.line == line]
        groups = [mine[start : start + 3] for start in range(0, len(mine), 3)]
        assert all(len(set(group)) == 1 for group in groups)
        distinct = [content for group in groups for content in group[0]]
        assert len(distinct) == len(set(distinct))


def test_a_conversation_of_one_turn_is_no_reuse() -> None:
    referenced = [c for arrival in load(reuse="conversation", turns=1).arrivals for c in arrival.contents]
    assert len(set(referenced)) == len(referenced)


def test_open_conversations_take_turns() -> None:
    rule, random = WithinConversation(turns=2, conversations=3), Random(0)
    seen = [rule.images(lambda: 1, random) for _ in range(300)]
    assert set(Counter(seen).values()) <= {1, 2}
    assert any(seen[place] != seen[place + 1] and seen[place] in seen[place + 2 :] for place in range(290))


def test_a_pool_has_so_many_images_and_the_first_ranks_most_often() -> None:
    rule, random = Zipf(pool=20, exponent=1.0), Random(0)
    drawn = Counter(image for _ in range(4000) for image in rule.images(lambda: 2, random))
    assert set(drawn) == set(range(20))
    harmonic = sum(1 / rank for rank in range(1, 21))
    for image in range(5):
        assert drawn[image] / 8000 == pytest.approx(1 / (image + 1) / harmonic, rel=0.1)


def test_an_exponent_of_zero_is_an_even_draw() -> None:
    rule, random = Zipf(pool=4, exponent=0.0), Random(0)
    drawn = Counter(image for _ in range(4000) for image in rule.images(lambda: 1, random))
    assert all(count == pytest.approx(1000, rel=0.1) for count in drawn.values())


def test_fresh_images_never_come_again() -> None:
    rule, random = Never(), Random(0)
    assert [rule.images(lambda: 2, random) for _ in range(3)] == [(0, 1), (2, 3), (4, 5)]


def test_the_tokens_of_an_image_do_not_depend_on_the_other_clients_or_on_how_much_is_drawn() -> None:
    """A longer load begins with the shorter one, sizes included."""
    short, long = load(reuse="zipf", requests=100), load(reuse="zipf", requests=400)
    assert long.arrivals[:100] == short.arrivals
    assert long.sizes[: len(short.sizes)] == short.sizes


def test_clients_share_no_images() -> None:
    arrivals = load(reuse="zipf", pool=3).arrivals
    owners: dict[int, set[int]] = {}
    for arrival in arrivals:
        for content in arrival.contents:
            owners.setdefault(content, set()).add(arrival.line)
    assert all(len(lines) == 1 for lines in owners.values())
    assert len(owners) <= 3 * 4


def test_requests_without_an_image_are_requests() -> None:
    counts = Counter(len(arrival.contents) for arrival in load(requests=1500).arrivals)
    assert counts[0] > 0
    assert max(counts) > 2


# Distributions ------------------------------------------------------------------------------------------------------


def test_values_are_drawn_as_often_as_they_are_probable() -> None:
    given = distribution("{3: 0.25, 1: 0.75, 9: 0.0}")
    assert given == Distribution((1, 3, 9), (0.75, 1.0, 1.0))
    random = Random(0)
    drawn = Counter(given.draw(random) for _ in range(4000))
    assert set(drawn) == {1, 3}
    assert drawn[3] / 4000 == pytest.approx(0.25, rel=0.1)


def test_an_empty_distribution_is_none() -> None:
    assert distribution("{}") is None


@pytest.mark.parametrize("family", ["Gamma", "Weibull"])
def test_arrivals_have_the_stated_rate_whatever_the_mean_of_the_family(family: str) -> None:
    given = window(f"600,0.5,1.0,{family},1.7,9.0", 60_000.0)
    times = list(given.arrivals(Random(0)))
    assert all(600 <= time < 60_600 for time in times)
    assert times == sorted(times)
    assert len(times) == pytest.approx(30_000, rel=0.03)


def test_a_quiet_window_has_no_arrivals() -> None:
    assert window("600,0.0,0,,0,0", 600.0) == Window(600.0, 600.0, 0.0, "", 0.0, 0.0)
    assert list(window("600,0.0,0,,0,0", 600.0).arrivals(Random(0))) == []
