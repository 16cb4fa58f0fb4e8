"""`target` and `conform` as a person and as CI see them, without a network."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import ran

from cacheproof.catalogue.attribution import Attribution, Cause
from cacheproof.command import conform
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.store import HOME_VARIABLE, load
from cacheproof.model.target import TargetError
from cacheproof.present.show import violations
from cacheproof.releases import conformance
from cacheproof.releases.results.cases import case_named
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.targets.vllm.eras import Era

Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setenv("CACHEPROOF_CACHE", str(tmp_path / "cache"))

    return lambda text: ran(capsys, *text.split())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("target add", "target add needs a release, as in vllm==0.33.0"),
        ("target add engine==0.5", "'engine==0.5' is not a release"),
        ("target list vllm==0.33.0", "target list takes no name"),
        ("target remove vllm==0.33.0", "vllm==0.33.0 is not installed: no release is"),
        ("conform vllm==9.9.9", "vllm==9.9.9 is not installed: cacheproof target add vllm==9.9.9"),
        ("conform vllm==0.7.3 --component lru", "no era of lru is vllm==0.7.3: there are eras of vllm==0.11.0"),
        ("conform --configurations all", "--configurations"),
        ("conform --component publication", "no era of publication is a release"),
        ("conform --component configuration", "vllm==0.11.0 is not installed"),
        ("conform --component no-such", "unknown component 'no-such'"),
        ("conform vllm==0.33.0", "vllm==0.33.0 is not installed: cacheproof target add vllm==0.33.0"),
        ("conform nothing:true", "'nothing:true' is not a release"),
        ("conform --steps 0", "--steps"),
        ("fuzz lru --target vllm==0.33.0", "vllm==0.33.0 is not installed"),
    ],
)
def test_wrong_calls(run: Run, tmp_path: Path, call: str, said: str) -> None:
    status, out, errors = run(call)
    assert (status, out) == (2, "")
    assert said in errors.splitlines()[-1]
    assert not (tmp_path / "home").exists()


def test_nothing_is_installed_at_first(run: Run, tmp_path: Path) -> None:
    status, out, _ = run("target list")
    assert (status, out.splitlines()) == (0, ["no release is installed", f"in {tmp_path / 'cache' / 'targets'}"])
    status, out, _ = run("target list --json")
    assert json.loads(out) == {"ok": True, "targets": [], "folder": str(tmp_path / "cache" / "targets")}
    assert not (tmp_path / "cache").exists(), "asking makes nothing"


def released(monkeypatch: pytest.MonkeyPatch, tag: str | None) -> None:
    """Instead of a package, a variant of the specification; None for a driver that fails."""

    class Failing(SpecificationTarget):
        def reset(self, config: Any) -> None:
            raise TargetError("the driver is gone")

    def opened(era: Era) -> SpecificationTarget:
        component = component_named(era.component)
        kind = Failing if tag is None else SpecificationTarget
        return kind(component, variant_named(component, tag or era.variant))

    monkeypatch.setattr(conformance, "open_released", opened)
    monkeypatch.setattr(conform, "needed", str)


@pytest.mark.parametrize(
    ("tag", "status", "verdict"),
    [
        ("M2", 0, "agrees"),
        ("M3", 1, "a difference that is not listed"),
        (None, 3, "the driver failed"),
    ],
)
def test_how_conform_ends(
    run: Run, monkeypatch: pytest.MonkeyPatch, tag: str | None, status: int, verdict: str
) -> None:
    released(monkeypatch, tag)
    ended, out, _ = run("conform vllm==0.20.2 --component lru --steps 400")
    assert ended == status
    assert verdict in out
    kept = load("conform", "lru.M2.vllm==0.20.2")
    assert (kept["component"], kept["target"], bool(kept["difference"])) == ("lru", "vllm==0.20.2", status == 1)


def test_what_conform_tells_a_machine(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    released(monkeypatch, "M2")
    _, out, _ = run("conform vllm==0.20.2 --component lru --steps 300 --seed 5 --json")
    told = json.loads(out)
    (result,) = told["results"]
    assert (told["ok"], told["seed"], result["steps"], result["known_as"]) == (True, 5, 300, [])
    assert sum(sum(codes.values()) for codes in result["operations"].values()) == 300


CONFORM = "conform vllm==0.20.2 --component lru --steps 100 --violations 300"


def test_conform_shows_what_the_release_breaks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """An era that is known to break properties is as expected where the release breaks them too."""
    released(monkeypatch, "M2")
    status, out, errors = run(CONFORM)
    assert status == 0
    assert "properties broken in" in out
    assert "LRU-5" in out
    assert "C-MIR-10" in out
    assert "seed 1" in errors
    status, shown, _ = run(f"{CONFORM} --show 0")
    assert "lru M2, vllm==0.20.2: LRU-5 is broken" in shown
    assert "touch(key=0)" in shown
    assert "touch(key=0)" not in out


def test_what_the_violations_tell_a_machine(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    released(monkeypatch, "M2")
    told = json.loads(run(f"{CONFORM} --json")[1])
    assert told["ok"]
    (searched,) = told["searched"]
    assert searched["steps"] >= 300 > searched["beside"] > 0
    assert (searched["violations"], searched["failure"]) == (len(told["violations"]), "")
    one = next(one for one in told["violations"] if (one["property"], one["length"]) == ("LRU-5", 1))
    assert one["operations"] == [{"op": "touch", "key": 0}]
    assert [outcome["code"] for outcome in one["outcomes"]] == ["absent"]
    assert (one["component"], one["variant"], one["target"], one["first"]) == ("lru", "M2", "vllm==0.20.2", "")
    assert (one["operation"], one["faults"], one["ending"], one["reach"]) == ("touch", [], "", "class")
    assert (one["catalogue"], one["certainty"]) == (["C-MIR-10"], "cause")
    assert one["issues"]
    assert set(one["config"]) >= {"capacity", "sizes"}
    assert json.loads(run(f"{CONFORM} --json")[1])["violations"] == told["violations"], "the same seed, the same"


def test_what_the_last_run_found_can_be_reproduced_by_its_id(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    released(monkeypatch, "M2")
    told = json.loads(run(f"{CONFORM} --json")[1])
    one = next(one for one in told["violations"] if (one["property"], one["length"]) == ("LRU-5", 1))
    case = case_named(one["id"], "vllm==0.20.2")
    assert (case.rule, case.operations, case.config) == ("LRU-5", [{"op": "touch", "key": 0}], one["config"])
    ids = [each["id"] for each in told["violations"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(("option", "status"), [("", 0), (" --new-falls-short", 1)])
@pytest.mark.parametrize("known", [Attribution(), Attribution(others=("C-MIR-10",))])
def test_what_is_attributed_to_no_entry_falls_short_on_demand(
    run: Run, monkeypatch: pytest.MonkeyPatch, option: str, status: int, known: Attribution
) -> None:
    released(monkeypatch, "M2")
    monkeypatch.setattr(violations, "attribution", lambda subject, rule, calls: known)
    ended, out, _ = run(CONFORM + option)
    assert ended == status
    assert str(known) in out


def test_what_is_attributed_does_not_fall_short(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    released(monkeypatch, "M2")
    monkeypatch.setattr(violations, "attribution", lambda subject, rule, calls: Attribution((Cause("C-MIR-10"),)))
    assert run(f"{CONFORM} --new-falls-short")[0] == 0


def test_without_a_search_there_is_one_table(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    released(monkeypatch, "M2")
    status, out, _ = run("conform vllm==0.20.2 --component lru --steps 100 --violations 0")
    assert (status, "properties broken" in out) == (0, False)


def test_a_search_can_be_limited_by_time(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    released(monkeypatch, "M2")
    told = json.loads(run("conform vllm==0.20.2 --component lru --steps 50 --seconds 0.01 --json")[1])
    (searched,) = told["searched"]
    assert searched["states"] > 0
    assert told["violations"]


def test_an_era_that_is_wrong_is_not_searched(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it breaks is nothing that the release was seen to do."""
    released(monkeypatch, "M3")
    told = json.loads(run(CONFORM.replace("--steps 100", "--steps 400") + " --json")[1])
    assert (told["ok"], told["violations"], told["searched"]) == (False, [], [])


def test_violations_in_junit(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    released(monkeypatch, "M2")
    run(f"{CONFORM} --junit {tmp_path / 'conform.xml'}")
    cases = {case.get("classname"): case for case in ET.parse(tmp_path / "conform.xml").iter("testcase")}
    assert set(cases) == {"cacheproof.conform.lru", "cacheproof.conform.lru.violations"}
    assert cases["cacheproof.conform.lru.violations"].find("failure") is None
