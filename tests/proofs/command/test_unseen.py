"""A verdict says what it did not see: calls, answers, and fields of the configuration that were never read."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.command_line import Run, beside

from cacheproof.lockstep.ignored import fields_read
from cacheproof.model.finding import Subject
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.present.book.answers import kept
from cacheproof.present.unseen import unseen
from cacheproof.vectors.files import RELEASED

LRU, KV_BLOCKS = component_named("lru"), component_named("kv_blocks")
EVERY = {(operation, code) for operation, codes in kept()["lru"].items() for code in codes}
GROWTH = next(RELEASED.glob("lru.growth.exploration.*"))

ADAPTER = '''
from collections import OrderedDict


class Fixed:
    """A cache of three bytes, whatever its configuration says."""

    def __init__(self, config):
        self._capacity, self._sizes = 3, OrderedDict()

    def put(self, key, size):
        if size > self._capacity:
            return "too_large"
        self._sizes.pop(key, None)
        while sum(self._sizes.values()) + size > self._capacity:
            self._sizes.popitem(last=False)
        self._sizes[key] = size

    def contains(self, key):
        return key in self._sizes


class Configured(Fixed):
    def __init__(self, config):
        super().__init__(config)
        self._capacity = config.capacity
'''


@pytest.fixture
def cacheproof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return beside(tmp_path, {"unseen_adapter.py": ADAPTER}, monkeypatch, capsys)


def test_all_was_seen_and_there_is_no_line() -> None:
    found = unseen(LRU, LRU.normative, EVERY)
    assert (found.lines, found.data) == ([], {"operations": [], "answers": {}})


def test_one_line_names_calls_and_answers() -> None:
    seen = {(operation, code) for operation, code in EVERY if operation != "pin"} - {("get", "hit")}
    assert unseen(LRU, LRU.normative, seen).lines == ["never called: pin; never answered: get hit"]
    assert unseen(LRU, LRU.variants["M2"], seen).operations == ("pin",)
    assert unseen(LRU, LRU.variants["M2"], seen).answers == {}, "answers are known of the normative variant only"
    many = unseen(component_named("scheduler"), component_named("scheduler").normative, [])
    assert many.lines[0].startswith("never called: ")


FUZZ = ("fuzz", "lru", "--scope", "three-keys", "--driver", "lockstep", "--steps", "300", "--seed", "1", "--target")


def test_fuzz_says_what_was_not_tried(cacheproof: Run) -> None:
    ended = cacheproof(*FUZZ, "python:unseen_adapter:Fixed")
    assert ended.status == 0, ended.out
    assert "never called: lookup, get, touch, pop, pin, clear, stat; never answered: put refused" in ended.out
    assert "never read of the configuration, though the specification reads it: capacity" in ended.out
    told = cacheproof(*FUZZ, "python:unseen_adapter:Fixed", "--json").json
    assert told["ignored"] == ["capacity"]
    assert told["unseen"]["operations"] == ["lookup", "get", "touch", "pop", "pin", "clear", "stat"]
    assert told["unseen"]["answers"]["put"][0] == "refused"


def test_a_field_that_is_read_is_not_reported(cacheproof: Run) -> None:
    assert "never read" not in cacheproof(*FUZZ, "python:unseen_adapter:Configured").out
    assert cacheproof(*FUZZ, "spec:normative", "--json").json["ignored"] == [], "who cannot tell is not asked"


def test_what_the_calls_of_a_scope_depend_on() -> None:
    """Equal hashes are read in the scopes that have them, and bounds of the calls in none."""
    read = {
        name: fields_read(Subject(KV_BLOCKS, KV_BLOCKS.normative, scope_named(KV_BLOCKS, name).config))
        for name in ("equal-hashes", "shared-prefix")
    }
    assert "hashes" in read["equal-hashes"]
    assert "hashes" not in read["shared-prefix"]
    assert not {"steps", "drafts", "resets"} & {*read["equal-hashes"], *read["shared-prefix"]}


IGNORING = """
from cacheproof.model.registry import component_named
from cacheproof.targets.specification import SpecificationTarget

KV_BLOCKS = component_named("kv_blocks")


class Ignoring:
    def __init__(self, config):
        kind = KV_BLOCKS.config
        known = {name: getattr(config, name) for name in kind._fields if name != "hashes"}
        self.yours = SpecificationTarget(KV_BLOCKS, KV_BLOCKS.normative)
        self.yours.reset(kind(**known))

    def apply(self, operation):
        return self.yours.apply(operation)
"""


def test_equal_hashes_that_are_ignored_are_noticed(
    cacheproof: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It agrees in outcomes, and the verdict says what it never looked at."""
    (tmp_path / "ignoring.py").write_text(IGNORING)
    monkeypatch.delitem(sys.modules, "ignoring", raising=False)
    fuzz = ("fuzz", "kv_blocks", "--driver", "lockstep", "--steps", "150", "--seed", "1", "--scope", "equal-hashes")
    ended = cacheproof(*fuzz, "--target", "python:ignoring:Ignoring")
    assert ended.status == 0, ended.out
    assert "never read of the configuration, though the specification reads it: hashes" in ended.out


def test_consume_and_validate_say_it_too(cacheproof: Run, tmp_path: Path) -> None:
    consumed = cacheproof("consume", GROWTH, "--target", "spec:normative")
    assert "never called: lookup, get, pin, stat; never answered: " in consumed.out
    header = {"format": "cacheproof-log", "version": "0.1", "component": "lru", "config": {"capacity": 2, "sizes": [1]}}
    put = {"operation": {"op": "put", "key": 0, "size": 1}, "outcome": {"code": "done"}}
    vague = {"operation": {"op": "touch"}, "outcome": {"code": "done"}}
    log = tmp_path / "run.ndjson"
    log.write_text("".join(json.dumps(line) + "\n" for line in (header, put, vague)))
    line = cacheproof("validate", log).out.splitlines()[-1]
    assert line.startswith("never called: contains, lookup, get, pop, pin, clear, stat; never answered: put ")
    assert "touch absent" in line
