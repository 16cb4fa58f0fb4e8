"""Screened configurations: both sides make only the episodes that are new to the specification."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from cacheproof.foundation.errors import ExitStatus
from cacheproof.foundation.junit import CaseStatus
from cacheproof.lockstep.tally import Limit
from cacheproof.model.finding import Difference, Subject
from cacheproof.model.registry import component_named, variant_named
from cacheproof.present.show import against as shown
from cacheproof.releases.against.beside import Beside
from cacheproof.releases.against.parted import Ran, ran
from cacheproof.releases.against.parts import SCREENED, Line, Listed, Part, Stretch, parts_of
from cacheproof.releases.against.running import Compared
from cacheproof.releases.against.screening import Alone, Situations, new_episodes, screened
from cacheproof.releases.exploring import kept_name, settings_of
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.targets.vllm.eras import table
from cachespec.kernel import Operation, Outcome
from cachespec.lru import Config, Touch

LONGEST_NAME = 200
"""Most file systems allow 255 bytes, the ending included."""

LRU = component_named("lru")
CONFIG = Config(capacity=6, sizes=(1, 2, 3))
STRETCH = Stretch((tuple(CONFIG),), steps=200, episode=20, patience=20, seed=1, screened=True)
PART = Part(Line("lru", "M3", "M2", "M3"), 0, (STRETCH,))


def alone() -> Alone:
    return Alone(Subject(LRU, variant_named(LRU, "M3"), CONFIG), frozenset(), patience=20)


def of(tag: str) -> SpecificationTarget:
    return SpecificationTarget(LRU, variant_named(LRU, tag))


def beside(target: SpecificationTarget) -> Beside:
    return Beside(Subject(LRU, variant_named(LRU, "M3"), CONFIG), target, of("M3"), ("target", "base"))


def test_an_episode_with_a_new_situation_is_given_and_no_other() -> None:
    known: Situations = set()
    first = list(new_episodes(alone(), 200, 20, 1, known))
    assert first
    assert all(0 < len(calls) <= 20 for calls in first)
    assert sum(map(len, first)) < 200
    assert len(known) >= len(first)
    assert list(new_episodes(alone(), 200, 20, 1, known)) == []


def test_a_situation_is_new_once_with_each_setting() -> None:
    """The scopes that are explored for releases say what a setting is; `capacity` is none."""
    cache = component_named("kv_blocks")
    tag = variant_named(cache, "K2")
    config = next(one for one in table().configurations["kv_blocks"] if not settings_of(one))
    known: Situations = set()

    def count(other: object) -> int:
        return len(list(new_episodes(Alone(Subject(cache, tag, other), frozenset(), 20), 100, 20, 1, known)))

    assert count(config)
    assert not count(config)
    assert settings_of(config._replace(resets=1)) == {"resets"}
    before = len(known)
    assert count(config._replace(resets=1))
    assert len(known) > before


def test_the_same_seed_gives_the_same_episodes_and_another_seed_others() -> None:
    first, again, other = (list(new_episodes(alone(), 200, 20, seed, set())) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_the_specification_alone_stops_at_its_limit_of_calls() -> None:
    walk = alone()
    list(new_episodes(walk, 35, 20, 1, set()))
    assert walk.tally.steps == 35


def test_both_sides_part_in_a_new_episode() -> None:
    pair = beside(of("M2"))
    campaign = screened(pair, new_episodes(alone(), 200, 20, 1, set()), Limit(None, None), 1, seconds_to_shrink=5.0)
    assert isinstance(campaign.finding, Difference)
    assert campaign.came_again
    assert campaign.finding.trace.operations == (Touch(0),)


def test_a_known_episode_costs_both_sides_nothing() -> None:
    known: Situations = set()
    assert ran(PART, of("M2"), of("M3"), ("target", "base"), known=known).parted is not None
    list(new_episodes(alone(), STRETCH.steps, STRETCH.episode, STRETCH.seed, known))
    again = ran(PART, of("M2"), of("M3"), ("target", "base"), known=known)
    assert (again.steps, again.parted) == (0, None)


def test_ctrl_c_ends_it_with_what_is_known() -> None:
    class Interrupted(SpecificationTarget):
        def apply(self, operation: Operation) -> Outcome:
            if isinstance(operation, Touch):
                raise KeyboardInterrupt
            return super().apply(operation)

    assert ran(PART, Interrupted(LRU, variant_named(LRU, "M3")), of("M3"), ("target", "base")).interrupted


def test_later_rounds_of_a_component_that_decides_between_requests_are_screened() -> None:
    lines = [
        Listed(Line(name, tag, tag, tag), table().configurations[name][:1])
        for name, tag in (("lru", "M3"), ("scheduler", "S3"))
    ]
    parts = list(islice(parts_of(lines, steps=100, seed=1, endless=True), 12))
    drawn = [(part.line.component, stretch) for part in parts for stretch in part.stretches]
    assert not any(stretch.screened for name, stretch in drawn if name == "lru")
    of_scheduler = [stretch for name, stretch in drawn if name == "scheduler" and stretch.episode == 50]
    assert [one.screened for one in of_scheduler[:3]] == [False, True, True]
    assert [len(one.configurations) for one in of_scheduler[:2]] == [2, 8 * SCREENED]
    assert not set(of_scheduler[1].configurations) & set(of_scheduler[2].configurations)


def test_a_line_that_reads_no_changed_file_and_was_not_run_is_no_missing_answer() -> None:
    done, spared = Compared(PART.line, ran=Ran(steps=10)), Compared(PART.line, unchanged=True)
    assert shown.status_of([done, spared]) is ExitStatus.AS_EXPECTED
    assert shown.verdict(spared) == "not run: it reads no changed file"
    assert shown.case(spared, ("target", "base")).status is CaseStatus.SKIPPED
    assert "no answer" not in shown.markdown([done, spared], ("target", "base"), [], interrupted=False)
    assert shown.status_of([done, Compared(PART.line)]) is ExitStatus.INCONCLUSIVE
    assert shown.status_of([spared]) is ExitStatus.INCONCLUSIVE
    failed = Compared(PART.line, unchanged=True, ran=Ran(failure="gone"))
    assert shown.status_of([done, failed]) is ExitStatus.INCONCLUSIVE


def test_what_an_exploration_is_kept_under_fits_a_file_system() -> None:
    """A release that lacks many settings gives its exploration no longer name. Other lacks give another one."""
    eras = [replace(era, lacks=lacks) for era in table().eras for lacks in (era.lacks, ("items", "drafts"), ("items",))]

    names = {(era.component, era.variant, tuple(sorted(era.lacks))): kept_name(era, None) for era in eras}

    assert max(map(len, names.values())) < LONGEST_NAME
    assert len(set(names.values())) == len(names)
