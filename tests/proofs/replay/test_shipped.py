"""The slices that come with the package: their counts, their checksums, their licences."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from cacheproof.model.registry import component_named
from cacheproof.replay.readers import read
from cacheproof.replay.run import replay_of
from cacheproof.replay.shipped import DATA, Replayed, listed, replay_shipped, serving

README = (DATA / "README.md").read_text()
IMAGES = ("pope", "servegen")
CUT = {"mooncake_slice.jsonl": 1000, "weka_slice.jsonl": 62, "azure_code_slice.csv": 250}
SCHEDULER = component_named("scheduler")
TRACES = sorted(path for path in DATA.iterdir() if path.suffix == ".gz")


FIRST = {line.trace: line for line in reversed(listed()) if SCHEDULER not in serving(line)}
"""The first run of each slice, without those of the scheduler, which take long. `make check` has every run."""


@pytest.fixture(scope="module")
def replayed() -> list[Replayed]:
    return list(replay_shipped(lines=FIRST.values()))


def test_the_first_replay_of_each_slice_gives_the_counts_of_the_list(replayed: list[Replayed]) -> None:
    assert [each for each in replayed if not each.as_expected] == []
    assert len(replayed) == sum(len(serving(line)) for line in FIRST.values()) > len(FIRST)


@pytest.mark.nightly
def test_every_listed_replay_gives_the_counts_of_the_list() -> None:
    every = list(replay_shipped())
    assert [each for each in every if not each.as_expected] == []
    assert len(every) == sum(len(serving(line)) for line in listed())


def test_the_three_components_have_counts_for_every_listed_run() -> None:
    assert all(
        {"lru", "mirror", "encoder_cache"} <= set(line.hits) for line in listed() if line.trace.name.startswith(IMAGES)
    )


def test_a_line_has_counts_for_the_components_that_go_through_it() -> None:
    others = [line for line in listed() if not line.trace.name.startswith(IMAGES)]
    assert {component.name for line in others for component in serving(line)} == {
        "kv_blocks",
        "layer_groups",
        "scheduler",
    }
    assert all((set(line.components) or set(line.hits)) == set(line.hits) or line.rounds > 0 for line in listed())


def test_every_slice_is_replayed() -> None:
    assert {line.trace for line in listed()} == set(TRACES)
    assert sum(trace.stat().st_size for trace in TRACES) < 300_000


def test_the_slices_are_long_enough_to_tell_capacities_and_orders_apart() -> None:
    """In file order a capacity below the images of a split is worth nothing; shuffled, each one counts."""
    hits = {
        (line.options["order"], line.capacity): line.hits["lru"]
        for line in listed()
        if line.trace.name.startswith("pope_coco")
    }
    assert hits["file", 1] == hits["file", 20] < hits["file", 30]
    assert hits["shuffled", 1] < hits["shuffled", 10] < hits["shuffled", 20] < hits["shuffled", 30]
    assert hits["round-robin", 1] == hits["file", 30] == hits["shuffled", 30] == 540 - 30


def test_a_reuse_rule_can_be_told_from_the_others() -> None:
    composed = [line for line in listed() if "reuse" in line.options and line.capacity == 16_384]
    assert {line.options["reuse"]: line.hits["lru"] > 0 for line in composed} == {
        "none": False,
        "conversation": True,
        "zipf": True,
    }
    assert len({line.hits["lru"] for line in composed}) == 3


@pytest.mark.parametrize("change", [{"hits": {"lru": 1}}, {"requests": 1}, {"references": 1}, {"rounds": 1}])
def test_a_count_that_is_not_that_of_the_list_is_not_as_expected(
    replayed: list[Replayed], change: dict[str, object]
) -> None:
    lru = next(each for each in replayed if each.setting.component.name == "lru")
    assert not replace(lru, listed=replace(lru.listed, **change)).as_expected  # type: ignore[arg-type]  # one field each


def test_a_component_without_counts_is_only_checked(replayed: list[Replayed]) -> None:
    unknown = replace(replayed[0], listed=replace(replayed[0].listed, hits={}))
    assert unknown.expected_hits is None
    assert unknown.as_expected


def test_the_counts_do_not_depend_on_how_closely_a_replay_is_looked_at(replayed: list[Replayed]) -> None:
    of_each = {each.setting.component.name: each for each in replayed}
    for each in of_each.values():
        once = replay_of(replace(each.setting, check_every=0)).run()
        assert (once.hits, once.requests) == (each.result.hits, each.result.requests)


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name)
def test_the_readme_has_the_checksum_of_each_slice(trace: Path) -> None:
    row = re.search(rf"^\| `{trace.name}` .*$", README, re.MULTILINE)
    assert row is not None
    digest = hashlib.sha256((DATA / str(trace.name)).read_bytes()).hexdigest()
    assert f"`{digest}`" in row[0]


def test_the_licences_that_the_readme_names_are_there() -> None:
    named = set(re.findall(r"`(LICENSES/[^`]+)`", README))
    assert named == {f"LICENSES/{path.name}" for path in (DATA / "LICENSES").iterdir()}
    assert "Copyright (c) 2024 Yifan Li" in (DATA / "LICENSES" / "MIT-POPE.txt").read_text()
    assert "Apache License" in (DATA / "LICENSES" / "Apache-2.0.txt").read_text()


def test_the_slices_are_cut_as_the_readme_says() -> None:
    for trace in TRACES:
        if trace.name.startswith("pope"):
            workload = read([trace], {})
            assert len(workload.arrivals) == 3 * 180
            assert len(workload.sizes) == 30
    rows = {name: len(read([DATA / f"{name}.gz"], {}).arrivals) for name in CUT}
    assert rows == CUT
