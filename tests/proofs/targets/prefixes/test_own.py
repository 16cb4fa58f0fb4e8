"""A prefix cache of a user is judged by `conform`, in this process and as a child; planted bugs are found."""

from __future__ import annotations

import importlib
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Run, ran

from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.targets.prefixes.configurations import CONFIGURATIONS
from cacheproof.targets.prefixes.episodes import Walked
from cacheproof.targets.prefixes.own import InProcessPeer, OwnCache, Requests, tokens_of
from cacheproof.targets.prefixes.walk import walk

EXAMPLES = Path(__file__).parents[3] / "examples" / "prefix_cache"
CHILD = f"exec:{sys.executable} {EXAMPLES / 'page_tree_child.py'}"

BUGS = {
    "reuses a page that a request uses": "KV-4",
    "leaks the page that was there already": "KV-2",
    "frees the pages of a running request": "KV-4",
    "finds a page that is full of other tokens": "KV-7/longest",
    "stops one page early": "KV-7/found",
    "forgets that a hit is a use": "KV-11",
    "evicts the newest leaf": "KV-11",
    "evicts though there is room": "KV-3/kept",
    "does not evict": "KV-8/reasons",
}
"""Bugs of the example, and the property that shows each first."""


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("page_tree_adapter").Adapter


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], adapter: Any) -> Run:
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path / "home"))
    return partial(ran, capsys)


def judged(factory: Any, steps: int = 800) -> Walked:
    """The first configuration that shows something, or else the last one."""
    walked = Walked()
    for name in ("pages of 2, scarce", "prompts apart, scarce"):
        walked = walk(InProcessPeer(factory), CONFIGURATIONS[name], steps=steps, seed=1)
        if walked.found is not None:
            break
    return walked


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_what_is_right_agrees(adapter: Any, name: str) -> None:
    walked = walk(InProcessPeer(adapter), CONFIGURATIONS[name], steps=200, seed=1)
    assert (walked.found, walked.broke_down) == (None, "")
    assert walked.steps == 200


@pytest.mark.parametrize(("bug", "rule"), BUGS.items())
def test_each_bug_is_found(adapter: Any, bug: str, rule: str) -> None:
    found = judged(type("Wrong", (adapter,), {"bug": bug})).found
    assert found is not None
    assert found.rule == rule, found


def test_the_order_is_free_unless_it_is_claimed(adapter: Any) -> None:
    for bug in ("forgets that a hit is a use", "evicts the newest leaf"):
        assert judged(type("Silent", (adapter,), {"bug": bug, "claims": ()}), 300).found is None


def test_tokens_say_which_pages_are_equal() -> None:
    tokens = tokens_of({"block_size": 2, "chains": [[0, 1], [0, 2]], "lengths": [5, 3]})
    assert tokens[0][:2] == tokens[1][:2]
    assert tokens[0][2:4] != tokens[1][2:]
    assert tokens[0][4] != tokens[1][2]
    assert [len(each) for each in tokens] == [5, 3]


@pytest.mark.parametrize("target", ["python:page_tree_adapter:Adapter", CHILD])
def test_it_is_a_target_of_conform(run: Run, target: str) -> None:
    done = run("conform", target, "--steps", "120", "--seed", "1", "--json")
    assert done.status == ExitStatus.AS_EXPECTED, done.out
    assert {one["configuration"] for one in done.json["results"]} == set(CONFIGURATIONS)
    assert all(one["steps"] for one in done.json["results"])


def test_a_bug_in_a_child_falls_short(run: Run) -> None:
    done = run("conform", f"{CHILD} 'does not evict'", "--steps", "600", "--seed", "1")
    assert done.status == ExitStatus.FELL_SHORT
    assert "KV-8/reasons" in done.out


class Half:
    """It lacks the calls."""

    free: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7)
    cached: tuple[int, ...] = ()

    def __init__(self, requests: Requests) -> None:
        self.requests = requests


def test_what_it_lacks_is_said() -> None:
    walked = walk(InProcessPeer(Half), CONFIGURATIONS["slots, scarce"], steps=20, seed=1)
    assert walked.broke_down == "what the factory made (Half) has no method 'lookup'" or "admit" in walked.broke_down
    small = walk(InProcessPeer(Half), CONFIGURATIONS["slots, ample"], steps=20, seed=1).found
    assert small is not None
    assert small.said == "there are 7 pages at the start, and there should be 40"


def test_wrong_input_is_one_line(run: Run) -> None:
    for arguments, text in (
        (("python:page_tree_adapter:None_",), "no callable"),
        (("python:page_tree_adapter:Adapter", "--component", "lru"), "held to what it shows of kv_blocks"),
        (("python:page_tree_adapter:Adapter", "--all"), "compared with eras"),
    ):
        done = run("conform", *arguments)
        assert done.status == ExitStatus.WRONG_INPUT
        assert text in done.err
    with pytest.raises(InputError, match="nothing is claimed by 'recency'"):
        InProcessPeer(type("Strange", (Half,), {"claims": ["recency"]}))
    assert OwnCache("python:a:b").name == "python:a:b"
