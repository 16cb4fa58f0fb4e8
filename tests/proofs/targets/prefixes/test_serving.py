"""What is seen of an engine that serves: a right one is walked on, and each planted bug is found and shortened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.proofs.targets.prefixes.plain_server import BUGS, PlainServer

from cacheproof.model.target import TargetError
from cacheproof.targets.prefixes.configurations import SERVED
from cacheproof.targets.prefixes.peer import Call
from cacheproof.targets.prefixes.serving import Book, Reply, Served, replayed, serve


@pytest.mark.parametrize("name", SERVED)
def test_what_is_right_walks_on(name: str) -> None:
    walked = serve(PlainServer(), SERVED[name], steps=1_500, seed=1)
    assert (walked.found, walked.broke_down) == (None, "")
    assert walked.steps >= 1_500


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_found_by_its_property_and_shortened(bug: str) -> None:
    config = SERVED["ample" if BUGS[bug] == "KV-7/longest" else "cancellations"]
    found = serve(PlainServer(bug), config, steps=20_000, seed=1).found
    assert found is not None
    assert found.rule == BUGS[bug], found
    again = replayed(PlainServer(bug), config, found.calls)
    assert again is not None
    assert (again.rule, again.calls) == (found.rule, found.calls)
    fewer = (
        replayed(PlainServer(bug), config, found.calls[:at] + found.calls[at + 1 :]) for at in range(len(found.calls))
    )
    assert all(one is None or one.rule != found.rule or len(one.calls) >= len(found.calls) for one in fewer)
    assert replayed(PlainServer(), config, found.calls) is None


def test_a_configuration_asks_for_what_its_name_says() -> None:
    assert {name for name, config in SERVED.items() if config["cancellations"]} == {
        name for name in SERVED if "cancellations" in name
    }
    assert {name for name, config in SERVED.items() if any(config["children"])} == {"several outputs"}
    assert {name for name, config in SERVED.items() if config["ahead"]} == {name for name in SERVED if "ahead" in name}


def test_the_same_seed_makes_the_same_calls() -> None:
    class Noting(PlainServer):
        def ask(self, call: Call) -> Reply:
            calls.append(call)
            return super().ask(call)

    runs = []
    for seed in (1, 1, 2):
        calls: list[Call] = []
        serve(Noting(), SERVED["cancellations"], steps=200, seed=seed)
        runs.append(calls)
    assert runs[0] == runs[1] != runs[2]


def test_a_request_is_cancelled_only_while_it_is_not_served() -> None:
    book = Book(SERVED["cancellations"])
    shown = PlainServer().reset(SERVED["cancellations"])
    assert book.begin(shown) is None
    assert Call("cancel", 0) not in book.offered()
    book.take(Call("arrive", 0), Reply("done", None, shown))
    assert Call("cancel", 0) in book.offered()
    served = Served(shown.free, (), (), (), (), (), (0,), (0,), ())
    book.take(Call("step", -1), Reply("done", None, served))
    assert Call("cancel", 0) not in book.offered()


def test_a_driver_that_fails_and_an_interruption_are_no_verdict() -> None:
    class Failing(PlainServer):
        def ask(self, call: Call) -> Reply:
            raise TargetError("it is not there")

    class Interrupted(PlainServer):
        def reset(self, config: Mapping[str, Any]) -> Served:
            raise KeyboardInterrupt

    assert serve(Failing(), SERVED["cancellations"], steps=10, seed=1).broke_down == "it is not there"
    assert serve(Interrupted(), SERVED["cancellations"], steps=10, seed=1).interrupted
