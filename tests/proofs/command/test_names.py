"""`list` and `explain` say what the components and their scope files say, and keep nothing of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import ran

from cacheproof import command
from cacheproof.catalogue.meaning import names
from cacheproof.model.registry import PATH_VARIABLE, components

TOY = """
from dataclasses import replace
from cachespec.lru import COMPONENT as LRU

COMPONENT = replace(LRU, name="toy", summary="a cache that a test made")
"""

SCOPES = """
[[scope]]
name = "whole"
about = "Two keys."
variants = ["normative", "M2"]
config = {capacity = 2, sizes = [1, 2], lookups = 0, pins = 0}

[scope.expect.M2]
violations = [{property = "LRU-1", length = 2, catalogue = "C-MIR-10"}]

[[scope]]
name = "turns"
about = "Two keys, turn by turn."
variants = ["normative"]
set = "nightly"
granularity = "step"
symmetry = false
liveness = true
config = {capacity = 2, sizes = [1, 2], lookups = 0, pins = 0}
"""

Json = Callable[..., dict[str, Any]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Json:
    """Runs a verb with `--json`, beside a component of its own."""
    (tmp_path / "toy.py").write_text(TOY)
    (tmp_path / "toy.toml").write_text(SCOPES)
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path))
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path / "home"))

    def run(*arguments: str, status: int = 0) -> dict[str, Any]:
        ended = ran(capsys, *arguments, "--json")
        assert ended.status == status
        data: dict[str, Any] = ended.json
        return data

    return run


def about_toy(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [found["meaning"] for found in data["meanings"] if found["meaning"].get("component") == "toy"]


def test_list_has_every_component_and_what_is_in_it(call: Json) -> None:
    listed = {component["name"]: component for component in call("list")["components"]}
    assert set(listed) == set(components())
    assert listed["toy"]["variants"][0] == {"tag": "normative", "title": "normative"}
    assert [scope["set"] for scope in listed["toy"]["scopes"]] == ["default", "nightly"]
    assert {rule["kind"] for rule in listed["toy"]["properties"]} == {"safety", "step", "liveness"}
    assert [component["name"] for component in call("list", "toy")["components"]] == ["toy"]
    assert "there are" in call("list", "no-such", status=2)["error"]


def test_a_property_names_where_it_must_hold_and_who_breaks_it(call: Json) -> None:
    order, *parts = about_toy(call("explain", "LRU-1"))
    assert order["name"] == "LRU-1"
    assert all(part["name"].startswith("LRU-1/") for part in parts)
    assert order["held_by"] == {"whole": ["normative"], "turns": ["normative"]}
    assert [(one["variant"], one["length"], one["catalogue"]) for one in order["broken_by"]] == [("M2", 2, "C-MIR-10")]


def test_liveness_is_only_said_to_be_checked_where_it_is(call: Json) -> None:
    (returns,) = about_toy(call("explain", "LRU-6"))
    assert returns["held_by"] == {"turns": ["normative"]}


def test_a_property_has_its_parts_with_it(call: Json) -> None:
    parts = [rule["name"] for rule in about_toy(call("explain", "LRU-4"))]
    assert {"LRU-4", "LRU-4/report"} <= set(parts)
    assert all(part.partition("/")[0] == "LRU-4" for part in parts)


@pytest.mark.parametrize("name", ["M2", "lru-2025-11"])
def test_an_era_is_its_differences_by_tag_or_title(call: Json, name: str) -> None:
    (era,) = about_toy(call("explain", name))
    assert "C-MIR-10" in era["differences"]["touch"]
    assert [one["property"] for one in era["breaks"]] == ["LRU-1"]


def test_an_entry_of_the_catalogue_leads_to_properties_and_eras(call: Json) -> None:
    (entry,) = [found["meaning"] for found in call("explain", "C-MIR-10")["meanings"]]
    assert ("toy", "M2", "whole") in {(one["component"], one["variant"], one["scope"]) for one in entry["shown_by"]}
    assert entry["statements"]["LRU-1"] == "the recency order contains exactly the cached entries"
    assert any(line.startswith("toy M2 touch: ") for line in entry["differences"])


def test_an_unknown_name_is_answered_with_names_like_it(call: Json) -> None:
    assert "LRU-7" in call("explain", "lru-7", status=2)["error"]
    assert "C-MIR-1" in call("explain", "C-MIR-1O", status=2)["error"]


def test_every_name_can_be_explained_to_a_person(call: Json, capsys: pytest.CaptureFixture[str]) -> None:
    for component in components().values():
        for rule in component.properties():
            with pytest.raises(SystemExit) as ended:
                command.main(["explain", rule.name])
            assert ended.value.code == 0
            assert rule.statement in capsys.readouterr().out


def test_an_entry_that_no_scope_shows_is_explained_by_the_register(call: Json) -> None:
    (entry,) = call("explain", "C-KV-16")["meanings"]
    assert entry["is"] == "catalogue entry"
    assert entry["meaning"]["shown_by"] == []
    assert entry["meaning"]["registered"]["outside"]
    assert "C-KV-16" in names(components().values())


def test_an_entry_says_what_a_property_says_in_the_component_that_breaks_it(call: Json) -> None:
    (deferred,) = call("explain", "C-SCH-6")["meanings"]
    assert deferred["meaning"]["statements"] == {"SCH-8": "every queued request is eventually finished"}
    (twice,) = call("explain", "C-SCH-1")["meanings"]
    assert {"SCH-1 of scheduler", "SCH-1 of shared_prefix"} <= set(twice["meaning"]["statements"])
