"""What cannot be compiled is said with file, line and construct; and so is what a machine lacks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import ran

from cacheproof.foundation.errors import InconclusiveError, InputError, NoCompilerError
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.search import native
from cacheproof.search.native import build, glue
from cacheproof.search.native.unit import CompileError
from cachespec.kernel import ABSENT, DONE, Outcome
from cachespec.lru.configuration import Config
from cachespec.lru.operations import Touch
from cachespec.lru.state import Cache

LRU = component_named("lru")
Touching = Callable[[Config, Cache, Touch], tuple[Cache, Outcome]]


def with_a_try(config: Config, cache: Cache, op: Touch) -> tuple[Cache, Outcome]:
    try:
        return cache, DONE
    finally:
        del config


def with_a_float(config: Config, cache: Cache, op: Touch) -> tuple[Cache, Outcome]:
    return cache._replace(used=int(cache.used * 0.5)), DONE


def with_two_types(config: Config, cache: Cache, op: Touch) -> tuple[Cache, Outcome]:
    found: Any = cache.used
    found = cache.entries
    return cache._replace(entries=found), DONE


def with_identity(config: Config, cache: Cache, op: Touch) -> tuple[Cache, Outcome]:
    return cache, DONE if cache.entries is cache.pinned else ABSENT


def more(by: int, used: int) -> int:
    return used + by


def with_a_rule_of_a_branch(config: Config, cache: Cache, op: Touch) -> tuple[Cache, Outcome]:
    return cache._replace(used=by_rule(partial(more, 1), cache)), DONE


def by_rule(rule: Callable[[int], int], cache: Cache) -> int:
    if cache.used > 3:
        rule = partial(more, cache.used)
    return rule(cache.used)


def with_a_rule_of_a_turn(config: Config, cache: Cache, op: Touch) -> tuple[Cache, Outcome]:
    return cache._replace(used=by_rule_of_turn(partial(more, 1), cache)), DONE


def by_rule_of_turn(rule: Callable[[int], int], cache: Cache) -> int:
    total = 0
    for key, size in cache.entries.items():
        total = rule(total) + size
        rule = partial(more, key)
    return total


@pytest.mark.parametrize(
    ("function", "construct"),
    [
        (with_a_try, "a statement that is not known: try"),
        (with_a_float, "0.5"),
        (with_two_types, "two types"),
        (with_identity, "cache.entries is cache.pinned"),
        (with_a_rule_of_a_branch, "rule depends on the way that the code takes"),
        (with_a_rule_of_a_turn, "rule means something else after the first turn"),
    ],
)
def test_a_construct_that_is_not_known(function: Touching, construct: str) -> None:
    variant = replace(LRU.normative, transitions={**LRU.normative.transitions, Touch: function})
    with pytest.raises(CompileError) as caught:
        glue.Glue(LRU, variant)
    first = function.__code__.co_firstlineno
    place, line, _ = str(caught.value).split(":", 2)
    assert place == str(Path(__file__))
    assert first <= int(line) <= first + 10
    assert construct in str(caught.value)
    reason = native.cannot(LRU, variant, Plan())
    assert build.compiler_of_this_machine() is None or (reason is not None and construct in reason)


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    reason = native.cannot(LRU, LRU.normative, Plan())
    assert reason is not None
    assert "no C++ compiler" in reason
    with pytest.raises(NoCompilerError, match=r"install g\+\+, clang\+\+ or the Python package ziglang"):
        build.ready("", "nothing")


def test_the_compiler_of_the_package_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    (tmp_path / "ziglang.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert build.compiler_of_this_machine() == [sys.executable, "-m", "ziglang", "c++"]


def test_a_compiler_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "false")
    monkeypatch.setenv("CACHEPROOF_CACHE", str(tmp_path))
    with pytest.raises(InputError, match="refuses the compiled specification"):
        build.ready("int x;", "nothing")


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    shown = ran(capsys, "compile", "lru", "--variant", "normative", "--show", "evict_oldest", "--json")
    (function,) = shown.json["functions"]
    assert function["python"].startswith("def evict_oldest(")
    assert "oldest_outside(" in function["cpp"]
    missing = ran(capsys, "compile", "lru", "--show", "nowhere")
    assert missing.status == 2
    assert "no function 'nowhere'" in missing.err
    shared = ran(
        capsys, "check", "lru", "--variant", "normative", "--scope", "three-keys", "--engine", "native", "--split", "2"
    )
    assert shared.status == 0, shared.err


@pytest.mark.parametrize("script", ["kill -TERM $$", "echo 'Interrupt signal terminated program cc1plus' >&2; exit 1"])
def test_a_compiler_that_a_signal_ends_refuses_nothing(tmp_path: Path, script: str) -> None:
    """An interruption of the whole process group reaches the compiler too."""
    with pytest.raises(InconclusiveError, match="was ended by a signal"):
        build._compile(["sh", "-c", script], "", tmp_path, tmp_path / "kept.so")
