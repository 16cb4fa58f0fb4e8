"""Two implementations beside each other: what one answers and shows and the other does not, and what that breaks."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from cacheproof.command.frame import dispatch, main
from cacheproof.foundation.errors import ExitStatus
from cacheproof.model.finding import Answer, Difference, Subject
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.target import TargetError
from cacheproof.model.trace import record
from cacheproof.present.show.against import notes
from cacheproof.releases.against.beside import Beside
from cacheproof.releases.against.judging import SHOWN, judged
from cacheproof.releases.against.parts import Line, Listed, parts_of
from cacheproof.releases.against.shown import Watched
from cacheproof.releases.against.sides import changed_files, lines_of, side_of
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.targets.vllm.eras import table
from cacheproof.targets.vllm.release import Release, installed
from cachespec.block_hash.operations import Submit, Write
from cachespec.encoder_cache.operations import Allocate, FreeInput
from cachespec.kernel import HIT, Operation, Outcome
from cachespec.lru import Config, Get, Put, Touch
from cachespec.scheduler.operations import Add, Schedule, Update

LRU = component_named("lru")
NEWEST = Release("0.33.0")
CONFIG = Config(capacity=6, sizes=(1, 2, 3))


class Forgetful(SpecificationTarget):
    """An M3 whose count of used bytes is one too many once a key was put."""

    def observe(self) -> dict[str, object]:  # type: ignore[override]  # the test's own observables
        shown = dict(super().observe())
        return {**shown, "used": shown["used"] + 1 if shown["order"] else 0}  # type: ignore[operator]  # an integer


def forgetful(config: object) -> Forgetful:
    """What `python:` makes."""
    del config
    return Forgetful(LRU, variant_named(LRU, "M3"))


class Unwilling(SpecificationTarget):
    """Its driver fails at each touch."""

    def apply(self, operation: Operation) -> Outcome:
        if isinstance(operation, Touch):
            raise TargetError("the driver is gone")
        return super().apply(operation)


def beside(target: SpecificationTarget, base: SpecificationTarget) -> Beside:
    subject = Subject(LRU, variant_named(LRU, "M3"), CONFIG)
    return Beside(subject, target, base, ("target", "base"))


def of(tag: str) -> SpecificationTarget:
    return SpecificationTarget(LRU, variant_named(LRU, tag))


def call(arguments: str, capsys: pytest.CaptureFixture[str], status: ExitStatus) -> dict[str, object]:
    assert dispatch(["conform", *arguments.split(), "--component", "lru", "--jobs", "1", "--json"]) == status
    told: dict[str, object] = json.loads(capsys.readouterr().out)
    return told


def test_two_eras_part_and_one_breaks_what_the_other_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    told = call("spec:M2 --against spec:M3 --steps 400", capsys, ExitStatus.FELL_SHORT)
    difference = told["results"][0]["difference"]  # type: ignore[index]  # JSON
    assert difference["where"] == "differs at touch (order, sizes), after 1 call"
    assert [one["property"] for one in difference["target_breaks"]] == ["LRU-1", "LRU-5", "LRU-7/recency"]
    assert difference["base_breaks"] == []


def test_the_other_way_round_the_base_is_the_one_that_breaks_it(capsys: pytest.CaptureFixture[str]) -> None:
    told = call("spec:M3 --against spec:M2 --steps 400", capsys, ExitStatus.FELL_SHORT)
    difference = told["results"][0]["difference"]  # type: ignore[index]  # JSON
    assert [one["property"] for one in difference["base_breaks"]] == ["LRU-1", "LRU-5", "LRU-7/recency"]
    assert difference["target_breaks"] == []


def test_the_same_on_both_sides_is_no_difference_whatever_the_specification_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """M2 breaks properties, and the normative specification differs from it."""
    told = call("spec:M2 --against spec:M2 --steps 400", capsys, ExitStatus.AS_EXPECTED)
    assert told["results"][0]["steps"] == 800  # type: ignore[index]  # JSON: as many in random configurations
    assert told["results"][0]["difference"] is None  # type: ignore[index]  # JSON


def test_processes_find_what_one_process_finds(capsys: pytest.CaptureFixture[str]) -> None:
    given = "spec:M2 --against spec:M3 --steps 400"
    alone = call(given, capsys, ExitStatus.FELL_SHORT)["results"]
    again = ["conform", *given.split(), "--component", "lru", "--jobs", "2", "--json"]
    assert dispatch(again) == ExitStatus.FELL_SHORT
    shared = json.loads(capsys.readouterr().out)["results"]
    assert [one["difference"] for one in shared] == [one["difference"] for one in alone]  # type: ignore[attr-defined]  # JSON


def test_a_driver_that_fails_on_one_side_is_no_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(text: str, component: str, variant: str, window: int) -> SpecificationTarget:
        del component, variant, window
        return Unwilling(LRU, LRU.normative) if text == "spec:M2" else of("M3")

    monkeypatch.setattr("cacheproof.releases.against.sides.opened", opened)
    told = call("spec:M2 --against spec:M3 --steps 400", capsys, ExitStatus.INCONCLUSIVE)
    assert "spec:M2: the driver is gone" in told["results"][0]["failure"]  # type: ignore[index]  # JSON


def test_ctrl_c_shows_what_is_known(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Interrupted(SpecificationTarget):
        calls = 0

        def apply(self, operation: Operation) -> Outcome:
            self.calls += 1
            if self.calls > 50:
                raise KeyboardInterrupt
            return super().apply(operation)

    monkeypatch.setattr(
        "cacheproof.releases.against.sides.opened", lambda *_: Interrupted(LRU, variant_named(LRU, "M3"))
    )
    summary = tmp_path / "summary.md"
    told = call(f"spec:M3 --against spec:M3 --steps 400 --summary {summary}", capsys, ExitStatus.INCONCLUSIVE)
    assert told["interrupted"]
    assert summary.read_text().startswith("### spec:M3 against spec:M3: no answer\n\nThe run was interrupted")
    assert told["results"][0]["steps"] > 0  # type: ignore[index]  # JSON


def test_calls_that_mean_nothing_to_both_end_an_episode() -> None:
    pair = beside(Unwilling(LRU, LRU.normative), Unwilling(LRU, LRU.normative))
    assert pair.replay([Put(0, 1), Touch(0)], only_offered=True) is None
    assert (pair.without_answer, pair.offered) == (1, ())


def test_what_a_side_shows_is_judged_if_it_is_as_no_variant() -> None:
    pair = beside(forgetful(None), of("M3"))
    assert isinstance(pair.replay([Put(0, 1)], only_offered=True), Difference)
    base, target = ([both[side] for both in pair.answers] for side in (0, 1))
    ours = judged(pair.subject, [Put(0, 1)], base, base)
    theirs = judged(pair.subject, [Put(0, 1)], target, base)
    assert [(one.rule, one.by) for one in theirs.alone(ours)] == [("LRU-2", SHOWN)]
    assert ours.alone(theirs) == ()


def test_a_variant_for_other_configurations_is_not_the_nearest() -> None:
    """The planted one raises an error in each call."""
    component = component_named("block_hash")

    def undefined(config: Any, state: Any, op: Operation) -> tuple[Any, Outcome]:
        raise LookupError(f"{op} has no meaning in {config}")

    other = replace(
        component.normative, tag="other", transitions=dict.fromkeys(component.normative.transitions, undefined)
    )
    component = replace(component, variants={**component.variants, "other": other})
    config = component.config(block_size=1, prompt_tokens=1, tokens=2)
    calls = [Write(0, 1), Submit(0)]
    run = record(component, component.normative, config, calls, whole_calls=True)
    answers = [Answer(None, run.initial), *(Answer(step.outcome, step.observations) for step in run.steps)]
    assert judged(Subject(component, component.normative, config), calls, answers, answers).broken == ()


def test_a_property_that_reads_what_is_not_shown_is_not_asked() -> None:
    pair = beside(of("M3"), of("M3"))
    assert pair.replay([Put(0, 1), Get(0)], only_offered=True) is None
    said = [both[0] for both in pair.answers]
    strange = [*said[:-1], Answer(HIT, {**said[-1].observations, "hits": 9})]
    asked = judged(pair.subject, [Put(0, 1), Get(0)], strange, said).asked
    assert "LRU-1" in asked
    assert not {rule.name for rule in LRU.progress} & asked


def test_fields_of_parts_are_watched_by_path_and_a_part_as_a_whole_is_told_apart() -> None:
    scheduler = component_named("scheduler")
    config = table().configurations["scheduler"][0]
    view = scheduler.normative.view(config, scheduler.normative.start(config))
    reads = set[str]()
    watched = Watched(view, reads)
    assert watched.kv.tables == ()
    assert reads == {"kv.tables"}
    assert watched.kv == view.kv
    assert "kv=" in reads
    assert tuple(watched.kv) == tuple(view.kv)
    assert "kv.*" in reads


def test_a_reference_that_is_dropped_too_soon_is_known_by_what_is_shown() -> None:
    """As #54284 does it: an input that the request does not hold is released, and the entry loses its holder."""
    cache = component_named("encoder_cache")
    subject = Subject(cache, variant_named(cache, "E2"), table().configurations["encoder_cache"][0])
    calls = [Allocate(0, 2), FreeInput(0, 0)]
    state, said = subject.variant.start(subject.config), list[Answer]()
    for call_made in (None, *calls):
        outcome = None
        if call_made is not None:
            state, outcome = subject.variant.call(subject.config, state, call_made)
        said.append(Answer(outcome, cache.observe(subject.config, subject.variant.view(subject.config, state))))
    dropped: dict[str, int | tuple[int, ...]] = {"freeable": 6, "holders": (), "idle": (0,), "idle_sizes": (2,)}
    wrong = [*said[:-1], Answer(said[-1].outcome, {**said[-1].observations, **dropped})]
    broken = judged(subject, calls, wrong, said).alone(judged(subject, calls, said, said))
    assert [one.rule for one in broken] == ["ENC-5", "ENC-10"]


def test_an_endless_run_goes_on_with_other_seeds_and_other_configurations() -> None:
    line = Listed(Line("lru", "M3", "M3", "M3"), (CONFIG,))
    endless = parts_of([line], steps=1_000, seed=1, endless=True)
    first, second, third = (next(endless) for _ in range(3))
    assert [part.number for part in (first, second, third)] == [0, 1, 2]
    assert [part.stretches[0].steps for part in (first, second, third)] == [200, 1_000, 1_000]
    listed, drawn = zip(*((part.stretches[0], part.stretches[1]) for part in (second, third)), strict=True)
    assert listed[0].configurations == listed[1].configurations
    assert listed[0].seed != listed[1].seed
    assert not set(drawn[0].configurations) & set(drawn[1].configurations)
    assert [one.number for one in parts_of([line], steps=200, seed=1, endless=False)] == [0]


def lines_with(changed: dict[str, frozenset[str] | None]) -> list[Listed]:
    """Of three components, with these changed files; none of the others."""
    return [
        Listed(Line(name, tag, tag, tag), table().configurations[name][:1], changed=changed.get(name, frozenset()))
        for name, tag in (("lru", "M3"), ("encoder_cache", "E2"), ("scheduler", "S3"))
    ]


def test_lines_whose_files_have_changed_come_first_and_the_others_once() -> None:
    given = lines_with({"encoder_cache": frozenset({"manager.py"}), "scheduler": frozenset({"manager.py"})})
    endless = parts_of(given, steps=100, seed=1, endless=True)
    order = list(dict.fromkeys((part.line.component, part.stretches[0].seed) for part in islice(endless, 60)))
    assert [component for component, _ in order[:5]] == [
        "encoder_cache",
        "scheduler",
        "scheduler",
        "encoder_cache",
        "lru",
    ]
    assert [component for component, _ in order].count("lru") == 1
    assert changed_files(given) == {"manager.py": ["encoder_cache", "scheduler"]}


def test_without_a_changed_file_one_short_round_is_all() -> None:
    parts = list(parts_of(lines_with({}), steps=1_000, seed=1, endless=True))
    assert {part.line.component for part in parts} == {"lru", "encoder_cache", "scheduler"}
    assert next(part.stretches[0].steps for part in parts if part.line.component == "lru") == 200
    assert changed_files(lines_with({})) == {}
    assert notes({}, []) == ["no file differs that a driver reads: one short round is all"]


def test_if_nothing_is_known_of_files_all_lines_are_alike() -> None:
    given = lines_with({"lru": None, "encoder_cache": None, "scheduler": None})
    first = list(
        dict.fromkeys(part.line.component for part in islice(parts_of(given, steps=9, seed=1, endless=True), 9))
    )
    assert first == ["lru", "encoder_cache", "scheduler"]
    assert changed_files(given) is None
    assert notes(None, []) == []


def test_changed_files_are_named_with_their_readers_if_they_are_few() -> None:
    assert notes({"a.py": ["lru", "mirror"]}, ["ring: gone"]) == [
        "changed: a.py, read by lru, mirror",
        "left out: ring: gone",
    ]
    assert notes({f"{number}.py": ["lru"] for number in range(6)}, []) == ["changed: 6 files that drivers read"]


def test_processes_share_the_random_configurations_of_the_scheduler() -> None:
    scheduler = component_named("scheduler")
    line = Listed(Line("scheduler", "S3", "S3", "S3"), table().configurations["scheduler"][:1])
    parts = list(parts_of([line], steps=1_000, seed=1, endless=False))
    assert {len(part.stretches) for part in parts} == {1}
    assert sum(len(part.stretches[0].configurations) for part in parts) == 1 + 80
    assert all(
        scheduler.invalid(scheduler.config(*config)) is None
        for part in parts
        for config in part.stretches[0].configurations
    )


def test_a_summary_is_added_to_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    call(f"spec:M2 --against spec:M3 --steps 400 --summary {summary}", capsys, ExitStatus.FELL_SHORT)
    text = summary.read_text()
    assert text.startswith("before\n### spec:M2 against spec:M3: 1 component differs\n")
    assert "- spec:M2 breaks LRU-1, and spec:M3 does not: " in text
    assert "touch(key=0)" in text


def test_junit_has_a_case_for_each_component(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    junit = tmp_path / "against.xml"
    call(f"spec:M2 --against spec:M3 --steps 400 --junit {junit}", capsys, ExitStatus.FELL_SHORT)
    assert 'failure message="differs at touch (order, sizes), after 1 call"' in junit.read_text()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("spec:M2 spec:M3 --against spec:M2 --component lru", "--against compares one target with BASE: name one"),
        ("spec:M2 --against spec:M3", "--component says as what these targets are compared"),
        ("spec:M2 --against nothing --component lru", "unknown target 'nothing'"),
        ("spec:M2 --against spec:M3 --component lru --all", "--all: for releases that are compared with eras"),
        ("spec:M2 --against spec:M3 --component lru --summary /nowhere/s.md", "there is no folder /nowhere"),
    ],
)
def test_wrong_input_is_one_line(given: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["conform", *given.split(), "--jobs", "1"])
    said = capsys.readouterr().err.splitlines()
    assert ended.value.code == ExitStatus.WRONG_INPUT
    assert says in said[-1]


def test_every_line_has_configurations() -> None:
    lines, left_out = lines_of(side_of("spec:M2"), side_of("spec:M3"), "lru")
    assert [(one.line.component, len(one.configurations)) for one in lines] == [("lru", 2)]
    assert left_out == []


@pytest.mark.skipif(installed(NEWEST) is None, reason=f"{NEWEST.name} is not installed")
def test_releases_have_a_line_for_the_scheduler_with_a_window_and_it_behaves_otherwise() -> None:
    lines, _ = lines_of(side_of(NEWEST.name), side_of(NEWEST.name), "scheduler")
    assert [one.line.name for one in lines] == ["scheduler S3", "scheduler S3, window 3"]
    scheduler = component_named("scheduler")
    sizes = {"block_size": 1, "kv_blocks": 12, "token_budget": 4, "max_running": 1, "max_model_len": 16}
    config = scheduler.config(**sizes, encoder_compute=1, encoder_capacity=1, prompts=(8,), outputs=(2,))
    free: list[int] = []
    for one in lines:
        side = side_of(NEWEST.name).opening("scheduler", one.line.target, one.line.window)
        try:
            side.reset(config)
            for call in (Add(0), Schedule(), Update(0), Schedule(), Update(0), Schedule()):
                side.apply(call)
            shown = side.observe()["kv_free"]
            assert isinstance(shown, int)
            free.append(shown)
        finally:
            side.close()
    assert free[0] < free[1]


def test_a_window_takes_a_part_of_the_random_configurations() -> None:
    plain = Line("scheduler", "S3", "S3", "S3")
    configurations = table().configurations["scheduler"][:1]
    numbers = [
        sum(len(one.stretches[0].configurations) for one in parts_of([listed], steps=1_000, seed=1, endless=False))
        for listed in (Listed(plain, configurations), Listed(replace(plain, window=3), configurations))
    ]
    assert numbers == [1 + 80, 1 + 20]
