"""Releases that are no era: which eras they are tried with, and what may be said of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import ran

from cacheproof.command import conform
from cacheproof.foundation.errors import ExitStatus
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.store import HOME_VARIABLE
from cacheproof.model.target import TargetError
from cacheproof.present.show.eras import verdict
from cacheproof.releases import conformance, nearest
from cacheproof.releases.conformance import Trial
from cacheproof.releases.nearest import lines_for, neighbours
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.targets.vllm.eras import Era, table
from cacheproof.targets.vllm.release import Installed, Release

BETWEEN = Release("0.12.0")


def named(eras: list[Era]) -> list[tuple[str, str]]:
    return [(era.variant, era.like.version if era.like else "") for era in eras]


@pytest.mark.parametrize(
    ("version", "component", "tried"),
    [
        ("0.12.0", "kv_blocks", [("K1", "0.11.0"), ("K1b", "0.20.2")]),
        ("0.12.0", "lru", [("M2", "0.11.0")]),
        ("0.25.0", "encoder_cache", [("E1b", "0.20.2"), ("ED", "0.20.2"), ("E2", "0.33.0")]),
        ("0.8.5", "ring", [("M1", "0.11.0")]),
        ("0.6.0", "mirror", [("M0", "0.7.3")]),
        ("0.40.0", "lru", [("M3", "0.33.0")]),
    ],
)
def test_the_nearest_eras(version: str, component: str, tried: list[tuple[str, str]]) -> None:
    """One that both neighbours have is tried once, and none with another version of a dependency."""
    eras = neighbours(table(), Release(version), component)
    assert named(eras) == tried
    assert {era.release.version for era in eras} == {version}


def test_a_release_with_eras_is_compared_with_those_and_nothing_else() -> None:
    eras, undriven = lines_for(table(), Release("0.11.0"), None, lambda component: "no reason")
    assert (eras, undriven) == (table().of(Release("0.11.0")), [])


def test_what_cannot_be_driven_is_told_with_the_reason() -> None:
    why = {"ring": "ModuleNotFoundError: no module", "mirror": "AttributeError: no class"}
    eras, undriven = lines_for(table(), Release("0.8.5"), None, lambda component: why.get(component, ""))
    assert {(one.component, one.reason, one.expected) for one in undriven} == {
        ("ring", why["ring"], False),
        ("mirror", why["mirror"], True),
    }, "the release before it has a mirror, and no ring"
    assert {era.component for era in eras} == {era.component for era in table().eras} - set(why)


def tried(tag: str | None) -> list[conformance.EraResult]:
    """Both neighbours' eras of an LRU cache, beside a release that behaves as a variant; None: its driver fails."""

    class Failing(SpecificationTarget):
        def reset(self, config: Any) -> None:
            raise TargetError("the driver is gone")

    component = component_named("lru")
    target = (Failing if tag is None else SpecificationTarget)(component, variant_named(component, tag or "M2"))
    eras = neighbours(table(), Release("0.25.0"), "lru")
    return [Trial.of(table(), era, steps=600, seed=9).perform(lambda era: target) for era in eras]


@pytest.mark.parametrize(
    ("tag", "status", "verdicts"),
    [
        ("M2", ExitStatus.AS_EXPECTED, ["agrees, as far as was tried", "differs at touch, after 1 call"]),
        ("M3", ExitStatus.AS_EXPECTED, ["differs at touch, after 1 call", "agrees, as far as was tried"]),
        ("stale-growth", ExitStatus.FELL_SHORT, None),
        (None, ExitStatus.INCONCLUSIVE, None),
    ],
)
def test_it_is_as_one_of_its_neighbours_or_falls_short(
    tag: str | None, status: ExitStatus, verdicts: list[str] | None
) -> None:
    results = tried(tag)
    assert nearest.status(results, []) is status
    if verdicts is not None:
        assert [nearest.verdict(result) for result in results] == verdicts


def test_why_the_driver_of_a_release_failed_is_said_in_the_table() -> None:
    assert {verdict(result) for result in tried(None)} == {"the driver failed: the driver is gone (at the start)"}


def test_what_should_be_driven_and_is_not_leaves_a_question_open() -> None:
    results = tried("M2")
    new = nearest.Undriven("ring", BETWEEN, "no module", expected=False)
    known = replace(new, expected=True)
    assert nearest.status(results, [new]) is ExitStatus.AS_EXPECTED
    assert nearest.status(results, [known]) is ExitStatus.INCONCLUSIVE


@pytest.mark.parametrize(("tag", "variants"), [("M2", []), ("stale-growth", ["M2", "M3"]), (None, [])])
def test_what_is_as_no_neighbour_is_searched_beside_all_of_them(tag: str | None, variants: list[str]) -> None:
    """A driver that fails says nothing, and is not searched."""
    results = tried(tag)
    assert [era.variant for era in nearest.hints(results)] == variants


def test_what_is_not_searched_is_said_with_the_reason() -> None:
    new = nearest.Undriven("ring", BETWEEN, "no module", expected=False)
    agreeing = tried("M2")
    searched = [result.era for result in agreeing if result.agrees]
    assert nearest.unsearched(agreeing, [new], searched) == ["ring of vllm==0.12.0: not driven: no module"]
    failed = "the driver failed beside M2; the driver failed beside M3"
    assert nearest.unsearched(tried(None), [], []) == [f"lru of vllm==0.25.0: {failed}"]


Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))

    return lambda text: ran(capsys, *text.split())


def released(monkeypatch: pytest.MonkeyPatch, tag: str, obstacles: dict[str, str]) -> None:
    """In the place of a package, a variant of the specification, and what keeps others from being driven."""
    component = component_named("lru")
    monkeypatch.setattr(
        conformance, "open_released", lambda era: SpecificationTarget(component, variant_named(component, tag))
    )
    monkeypatch.setattr(
        conform, "needed", lambda release: Installed(release, Path("nowhere"), {"components": obstacles})
    )


def test_the_verb_says_which_neighbour_a_release_is_like(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    released(monkeypatch, "M2", {"lru": ""})
    call = "conform vllm==0.25.0 --component lru --steps 400 --violations 0"
    status, out, _ = run(call)
    assert status == 0
    assert "M2 (nearest: vllm==0.20.2)" in out
    assert "agrees, as far as was tried" in out
    assert "differs at touch, after 1 call" in out
    assert "they differ after call" not in out, "why one neighbour differs is of no interest where the other does not"
    status, out, _ = run(f"{call} --json")
    told = json.loads(out)
    assert [one["nearest"] for one in told["results"]] == ["vllm==0.20.2", "vllm==0.33.0"]
    assert [one["difference"] is None for one in told["results"]] == [True, False]
    assert told["not_driven"] == []


def test_the_verb_shows_where_a_release_differs_from_both(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    released(monkeypatch, "stale-growth", {"lru": ""})
    status, out, _ = run("conform vllm==0.25.0 --component lru --steps 400 --seed 9 --violations 0")
    assert status == 1
    assert out.count("they differ after call") >= 2


def test_the_verb_says_what_could_not_be_driven(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    released(monkeypatch, "M2", {"lru": "TypeError: takes no size"})
    status, out, _ = run("conform vllm==0.25.0 --component lru --violations 0 --json")
    assert status == 3
    reason = {"component": "lru", "target": "vllm==0.25.0", "reason": "TypeError: takes no size"}
    assert json.loads(out)["not_driven"] == [reason]


def test_random_configurations(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    released(monkeypatch, "M2", {"lru": ""})
    call = "--steps 400 --violations 0 --configurations random"
    status, out, _ = run(f"conform vllm==0.20.2 --component lru {call} --json")
    told = json.loads(out)
    assert (status, told["configurations"], told["results"][0]["steps"]) == (0, "random", 400)


def test_readers_apart_where_there_are_none(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    released(monkeypatch, "M2", {"lru": ""})
    status, out, errors = run("conform vllm==0.20.2 --component lru --readers-apart")
    assert (status, out) == (2, "")
    assert "--readers-apart is for ring and object_store, and no era of these is meant" in errors


def test_a_release_that_is_as_neither_neighbour_is_searched(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What both it and a neighbour's era do is found; that they part elsewhere is no finding of the search."""
    released(monkeypatch, "stale-growth", {"lru": "", "ring": "no module"})
    status, out, _ = run("conform vllm==0.25.0 --steps 400 --seed 9 --violations 400 --component lru")
    assert status == 1
    assert "lru of vllm==0.25.0 is as no era: searched beside M3 of vllm==0.33.0 as a hint" in out
    assert "lru M2 (hint)" in out
    assert "LRU-8" in out
    assert "not as the era" not in out
    told = json.loads(run("conform vllm==0.25.0 --steps 400 --seed 9 --violations 400 --component lru --json")[1])
    assert {one["hint"] for one in told["violations"]} == {True}
    assert told["not_searched"] == []
