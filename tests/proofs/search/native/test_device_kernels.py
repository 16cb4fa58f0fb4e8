"""Kernels of the compiled specification, emulated on a CPU, find what the native engine finds; planted faults show."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import ran

from cacheproof.device import native as on_device
from cacheproof.device.listing import FIGURES, Asked, DifferenceError, Found
from cacheproof.foundation.cache_folder import CACHE_VARIABLE
from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.model.scope import DEFAULT, Scope, scope_named, scopes_of
from cacheproof.search import cuda, native
from cacheproof.search.cuda import build, shard
from cacheproof.search.cuda.shard import EMULATED, Sizes
from cacheproof.search.cuda.text import for_device, with_lambdas
from cacheproof.search.native.build import compiler_of_this_machine
from cacheproof.search.native.library import translated
from cacheproof.search.path import UnsoundReductionError
from cacheproof.search.result import Exploration
from cachespec.kernel import NORMATIVE

pytestmark = pytest.mark.skipif(compiler_of_this_machine() is None, reason="there is no C++ compiler")

LRU = component_named("lru")
TURNS = scope_named(LRU, "turns")


def seen(found: Exploration) -> tuple[Any, ...]:
    """All but the name of the engine, the time and the memory."""
    counts = (found.states, found.transitions, found.depth, found.digest, found.ending)
    return (*counts, found.witnessed, found.coverage, found.violations)


def plan_of(scope: Scope, tag: str) -> Plan:
    """Without properties of progress, which this engine does not judge."""
    return replace(scope.plan_for(tag), liveness=False)


def by_kernels(name: str, tag: str, scope: Scope, sizes: Sizes = EMULATED) -> tuple[Any, ...]:
    component = component_named(name)
    plan = plan_of(scope, tag)
    return seen(cuda.explore(component, component.variants[tag], scope.config, plan, sizes=sizes, emulated=True))


def on_the_host(name: str, tag: str, scope: Scope) -> tuple[Any, ...]:
    component = component_named(name)
    return seen(native.explore(component, component.variants[tag], scope.config, plan_of(scope, tag)))


def default_scopes(name: str, tag: str) -> list[Scope]:
    return [scope for scope in scopes_of(component_named(name)) if scope.set == DEFAULT and tag in scope.variants]


@pytest.mark.parametrize("tag", [NORMATIVE, "M2"])
def test_the_kernels_find_what_the_native_engine_finds(tag: str) -> None:
    scopes = default_scopes("lru", tag)
    found = [by_kernels("lru", tag, scope) for scope in scopes]
    assert found == [on_the_host("lru", tag, scope) for scope in scopes]
    assert any(violations for *_, violations in found) == (tag == "M2")


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", ["mirror", "encoder_cache", "kv_blocks", "ring"])
def test_they_do_in_all_default_scopes_of_a_component(name: str) -> None:
    for scope in default_scopes(name, NORMATIVE):
        assert by_kernels(name, NORMATIVE, scope) == on_the_host(name, NORMATIVE, scope), scope.name


# Planted faults -----------------------------------------------------------------------------------------------------

FAULTS = (
    ("kernels.hpp", "if ((cell & TAG_MASK) == tag && is_row(", "if (true || is_row("),
    ("kernels.hpp", "item < count * parts &&", "item + 1 < count * parts &&"),
    ("kernels.hpp", "if (move++ % parts != part) continue;", "if (move++ % parts != part / 2) continue;"),
    (
        "kernels.hpp",
        "rule < STEPS; ++rule) {\n            if (!step_holds",
        "rule < 1; ++rule) {\n            if (!step_holds",
    ),
    ("kernels.hpp", "if (!safety_holds(rule, config, view))", "if (rule && !safety_holds(rule, config, view))"),
    (
        "kernels.hpp",
        "for (Word number = own_thread(); number < count;",
        "for (Word number = 1 + own_thread(); number < count;",
    ),
    ("kernels.hpp", "if (move == Word(MOVES)) fail", "if (op.tag == 0) continue; if (move == Word(MOVES)) fail"),
    ("kernels.hpp", "if (own.transitions) atomicAdd(", "if (own.transitions > 20) atomicAdd("),
    ("kernels.hpp", "Word(blockIdx.x % SLICES) * Word(TAGS * CODES)", "Word(blockIdx.x % SLICES)"),
    ("device_memory.hpp", "digest.add(block, size, true);", "digest.add(block, size, false);"),
    ("device_memory.hpp", "before(own, at[-1]); --at)", "before(at[-1], own); --at)"),
    ("driver.hpp", "Int(level) + is_step", "Int(level)"),
)
QUICK = (FAULTS[0], FAULTS[1], FAULTS[4])


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Headers and libraries of its own, compiled quickly."""
    for name in build.OWN_HEADERS:
        shutil.copy(build.HERE / name, tmp_path / name)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(build, "HERE", tmp_path)
    quick = tuple("-O0" if flag == "-O1" else flag for flag in build.EMULATED_FLAGS)
    monkeypatch.setattr(build, "EMULATED_FLAGS", quick)
    monkeypatch.setattr(shard, "_LOADED", {})
    return tmp_path


EXPECTED: list[tuple[Any, ...]] = []
"""Of the native engine, found once."""


def differs() -> bool:
    """Whether the kernels, as they are now, find anything else than the native engine in a scope with violations."""
    scope = replace(TURNS, plan=replace(TURNS.plan, until=frozenset()))
    EXPECTED.extend([] if EXPECTED else [on_the_host("lru", "M2", scope)])
    try:
        return by_kernels("lru", "M2", scope) != EXPECTED[0]
    except (InconclusiveError, InputError, UnsoundReductionError):
        return True


def plant(folder: Path, header: str, old: str, new: str) -> None:
    path = folder / header
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, (header, old)
    path.write_text(text.replace(old, new), encoding="utf-8")


def plant_equal_hashes(folder: Path) -> None:
    """Every state has the same hash then."""
    plant(folder, "kernels.hpp", "return h ^ (h >> 29);", "return 7;")


def test_without_a_fault_nothing_differs(alone: Path) -> None:
    assert not differs()


def test_equal_hashes_are_not_taken_for_equal_states(alone: Path) -> None:
    plant_equal_hashes(alone)
    assert not differs()


@pytest.mark.parametrize("fault", QUICK)
def test_a_fault_is_noticed(alone: Path, fault: tuple[str, str, str]) -> None:
    check_fault(alone, fault)


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_noticed(alone: Path, fault: tuple[str, str, str]) -> None:
    check_fault(alone, fault)


def check_fault(folder: Path, fault: tuple[str, str, str]) -> None:
    plant(folder, *fault)
    if fault is FAULTS[0]:
        plant_equal_hashes(folder)
    assert differs()


# The checks of `cacheproof device` -----------------------------------------------------------------------------------

ASKED = Asked("cpu", True, 1)


def quiet(line: str) -> None:
    """Nobody looks."""


def test_the_check_on_a_device_passes_and_fails(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_device, "SMALL", ("lru",))
    monkeypatch.setattr(on_device, "BROKEN", ())
    found = Found()
    on_device.exploration(ASKED, found, quiet)
    assert found.left_out == []
    assert found.counts["scopes"] == len(default_scopes("lru", NORMATIVE))
    plant(alone, *FAULTS[1])
    monkeypatch.setattr(shard, "_LOADED", {})
    with pytest.raises(DifferenceError, match="lru normative"):
        on_device.exploration(ASKED, Found(), quiet)


def test_the_rates_have_figures() -> None:
    found = Found()
    on_device.speed(ASKED, found, quiet)
    wanted = {figure.name for figure in FIGURES if figure.check == "native-exploration-speed"}
    assert {figure["name"] for figure in found.figures} == wanted
    assert all(figure["median"] > 0 for figure in found.figures)


def test_without_a_device_the_checks_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "architecture", lambda: "sm_90")
    monkeypatch.setattr(build, "nvcc", lambda: None)
    found = Found()
    on_device.exploration(Asked("cuda", False, 1), found, quiet)
    assert found.left_out == [{"what": "native-exploration", "reason": build.NO_NVCC}]


# Limits -------------------------------------------------------------------------------------------------------------


def test_a_run_that_needs_more_memory_for_a_thread_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    made = shard.CudaShard.__init__

    def noted(self: Any, *arguments: Any, **named: Any) -> None:
        asked.append(arguments[4].thread_bytes)
        made(self, *arguments, **named)

    monkeypatch.setattr(shard.CudaShard, "__init__", noted)
    small = EMULATED._replace(thread_bytes=1 << 8)
    assert by_kernels("lru", NORMATIVE, TURNS, small) == on_the_host("lru", NORMATIVE, TURNS)
    assert asked[0] == 1 << 8
    assert asked[-1] > asked[0]


@pytest.mark.parametrize(
    ("sizes", "about"),
    [
        (EMULATED._replace(all_bytes=9 << 20, most_threads=128), "the memory for states is full"),
        (EMULATED._replace(lasting_bytes=1), "the memory for what lasts is full"),
    ],
)
def test_a_run_without_enough_memory_is_inconclusive(sizes: Sizes, about: str) -> None:
    with pytest.raises(InconclusiveError, match=about):
        by_kernels("lru", NORMATIVE, replace(TURNS, config=TURNS.config._replace(sizes=(1,) * 9)), sizes)


def test_a_kernel_that_does_not_end_is_given_up(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "EMULATED_FLAGS", (*build.EMULATED_FLAGS, "-DCP_HANGS=true"))
    with pytest.raises(InconclusiveError, match=r"a kernel has not ended after 0 seconds .level 0, state 0 of 0.: end"):
        by_kernels("lru", NORMATIVE, TURNS, EMULATED._replace(most_seconds=0))


def test_a_failure_in_a_thread_names_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    glue = translated(LRU, LRU.normative)
    sound, last = "static MovedT step_of(", '}\n#include "levels.hpp"'
    failing = (
        "static MovedT step_of(const ConfigT& c, const StateT& s, const Op& o)"
        ' { if (s.used == 4) fail("planted"); return sound(c, s, o); }\n'
    )
    text = glue.text.replace(sound, "static MovedT sound(").replace(last, failing + last)
    monkeypatch.setattr(glue, "text", text)
    monkeypatch.setattr(shard, "_LOADED", {})
    config = TURNS.config._replace(capacity=4, sizes=(1, 1, 2))
    with pytest.raises(InconclusiveError, match=r"planted \(state \d+, move \d+, in a step\)"):
        by_kernels("lru", NORMATIVE, replace(TURNS, config=config))


def test_without_a_device_the_engine_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "architecture", lambda: None)
    ended = ran(capsys, "check", "lru", "--engine", "cuda")
    assert ended.status == 2
    assert ended.err.strip() == f"cacheproof: {build.NO_DEVICE}"
    monkeypatch.setattr(build, "architecture", lambda: "sm_90")
    monkeypatch.setattr(build, "nvcc", lambda: None)
    assert cuda.cannot(LRU, LRU.normative, Plan()) == build.NO_NVCC


# Texts --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("f(({ Int a = 1; a + 1; }))", "f([&] { Int a = 1; return a + 1; }())"),
        ("({ { Int a = 1; } b; }).x", "[&] { { Int a = 1; } return b; }().x"),
        ("({ auto a = ({ b; }); a ? T{1} : T{}; })", "[&] { auto a = [&] { return b; }(); return a ? T{1} : T{}; }()"),
        ("({ ({ a; }); })", "[&] { return [&] { return a; }(); }()"),
        ("({ for (;;) { a; } stop_1:; r; })", "[&] { for (;;) { a; } stop_1:; return r; }()"),
        ("set_of<Int>({1, 2})", "set_of<Int>({1, 2})"),
        ('fail("({ a; })")', 'fail("({ a; })")'),
    ],
)
def test_statement_expressions_become_lambdas(expression: str, expected: str) -> None:
    assert with_lambdas(expression) == expected


def test_a_unit_for_a_device_has_no_statement_expressions() -> None:
    text = for_device(translated(LRU, LRU.normative).text)
    assert " ({" not in text
    assert "static CP_DEVICE CP_APART MovedT step_of(" in text


@pytest.mark.nightly
@pytest.mark.skipif(build.nvcc() is None, reason="there is no nvcc")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_nvcc_compiles_the_kernels(architecture: str) -> None:
    found = build.usage(for_device(translated(LRU, LRU.normative).text), architecture)
    assert {one.kernel for one in found} >= {"expand_states", "judge_states"}
    assert all(one.architecture == architecture and 0 < one.registers <= 128 for one in found)
