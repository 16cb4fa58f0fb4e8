"""Macros: bursts of thousands beside the specification's calls, and planted bugs that are shrunk to their counts."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch

from cacheproof.lockstep import pair as pair_module
from cacheproof.lockstep.macros.campaign import Loads, MacroCampaign, campaign
from cacheproof.lockstep.macros.macro import VOCABULARIES, Macro, vocabulary_of
from cacheproof.lockstep.macros.plan import difference, macro_from
from cacheproof.lockstep.macros.vocabularies.kv_blocks import Burst, Finish, Step, Turnover
from cacheproof.lockstep.tally import Limit
from cacheproof.model.burst import Answered, Extent, Together
from cacheproof.model.finding import parting
from cacheproof.model.registry import component_named
from cacheproof.model.target import TargetError
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.targets.tensor.bursts import kv_blocks as bursts
from cachespec.kernel import ABSENT, DONE, REFUSED, Observation, Operation
from cachespec.kv_blocks import FreeRequest, ResetPrefixCache

torch.set_num_threads(1)

KV = component_named("kv_blocks")
Plant = Callable[[Answered], Answered]


class Planted(bursts.ServingTarget):
    """The pool with a bug in the answers of one sort of burst."""

    def __init__(self, sort: str, plant: Plant) -> None:
        super().__init__()
        self._sort, self._plant = sort, plant

    def burst(self, together: Together) -> Answered:
        answered = super().burst(together)
        return self._plant(answered) if together.sort == self._sort else answered


def run(target: Any, requests: int = 64, steps: int = 3000, seed: int = 1, **more: Any) -> MacroCampaign:
    """A run on loads of the pool."""
    loads = Loads(vocabulary_of("kv_blocks"), requests=requests)
    return campaign(KV, KV.normative, target, loads, Limit(steps), seed, **more)


def test_bursts_of_thousands_are_the_calls_one_after_the_other() -> None:
    found = run(bursts.open_bursts("cpu"), requests=4096, steps=6000)
    assert found.finding is None
    assert found.tally.largest > 1000


def test_they_meet_what_the_rules_are_about() -> None:
    found = run(bursts.open_bursts("cpu"), steps=12_000)
    assert found.finding is None
    seen = {(call, code) for call, codes in found.tally.by_operation().items() for code in codes}
    assert seen >= {
        ("get_computed_blocks", "hit"),
        ("allocate_slots", "refused"),
        ("allocate_slots", "stale"),
        ("allocate_slots", "too_large"),
        ("allocate_slots", "present"),
        ("evict_block", "done"),
        ("reset_prefix_cache", "refused"),
        ("withdraw", "done"),
    }


def test_what_takes_more_than_64_at_once_is_shrunk_to_its_count() -> None:
    """The 65th that is admitted in one burst is told that there is no room."""

    def plant(answered: Answered) -> Answered:
        return [(call, REFUSED if turn == 64 else outcome) for turn, (call, outcome) in enumerate(answered)]

    found = run(Planted("admit", plant), requests=256, steps=20_000)
    assert found.finding is not None
    assert found.finding.macros == (Burst(65, 0),)
    assert (found.plain, found.tried_plain, found.came_again) == (None, True, True)
    assert "call 65 of 65 in its burst" in found.finding.statements[0]


def test_a_lost_block_after_a_large_burst_is_seen_in_the_state() -> None:
    """More than 64 that are finished at once are answered, and the last of them is not."""

    class Forgetful(bursts.ServingTarget):
        def burst(self, together: Together) -> Answered:
            if together.sort == "free" and len(together.calls) > 64:
                made = super().burst(Together("free", together.calls[:-1]))
                return [*made, (together.calls[-1], DONE)]
            return super().burst(together)

    found = run(Forgetful(), requests=256, steps=20_000)
    assert found.finding is not None
    assert sum(isinstance(call, FreeRequest) for call, _ in found.finding.calls) == 65
    assert found.finding.macros[-1].count == 65
    assert found.finding.statements[0].startswith(("carried:", "free:", "references:", "tables:"))
    assert found.plain is None


def test_what_needs_no_burst_is_shrunk_to_plain_calls() -> None:
    def plant(answered: Answered) -> Answered:
        return [(call, ABSENT if getattr(call, "request", 0) == 3 else outcome) for call, outcome in answered]

    found = run(Planted("free", plant))
    assert found.finding is not None
    assert found.plain is not None
    assert [type(step.operation).__name__ for step in found.plain.trace.steps] == ["AllocateSlots", "FreeRequest"]


def test_a_target_without_bursts_has_macros_too() -> None:
    assert run(SpecificationTarget(KV, KV.normative)).finding is None
    found = run(SpecificationTarget(KV, KV.variants["K2"]))
    assert found.finding is not None
    assert found.finding.macros == ()  # a manager of that time sets a block aside: what is free differs at once


def test_the_same_seed_makes_the_same_macros() -> None:
    made: list[list[Operation]] = []

    class Noting(bursts.ServingTarget):
        def burst(self, together: Together) -> Answered:
            made[-1] += together.calls
            return super().burst(together)

    for seed in (1, 1, 2):
        made.append([])
        run(Noting(), steps=1500, seed=seed)
    assert made[0] == made[1] != made[2]


def test_a_target_that_fails_is_a_breakdown() -> None:
    class Fragile(bursts.ServingTarget):
        def burst(self, together: Together) -> Answered:
            if together.sort == "decode":
                raise TargetError("it fell over")
            return super().burst(together)

    found = run(Fragile())
    assert found.finding is not None
    assert (found.finding.sort, found.finding.statements) == ("breakdown", ("it fell over",))
    assert [type(macro) for macro in found.finding.macros] == [Burst, Step]


def test_a_property_that_does_not_hold_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = next(one for one in KV.safety if one.name == "KV-1")
    monkeypatch.setattr(
        pair_module, "broken_in", lambda subject, state, viewed=None: rule if state.holdings.length > 9 else None
    )
    found = run(bursts.open_bursts("cpu"))
    assert found.finding is not None
    assert (found.finding.sort, found.finding.property) == ("violation", "KV-1")
    assert [(type(macro), macro.count) for macro in found.finding.macros] == [(Burst, 10)]


def test_interrupted_with_what_is_known() -> None:
    class Stopped(bursts.ServingTarget):
        count = 0

        def burst(self, together: Together) -> Answered:
            self.count += 1
            if self.count == 20:
                raise KeyboardInterrupt
            return super().burst(together)

    found = run(Stopped())
    assert found.interrupted
    assert found.finding is None
    assert found.tally.steps > 0
    assert found.tally.macros > 0


def test_what_does_not_come_again_is_said_so() -> None:
    class Moody(bursts.ServingTarget):
        count = 0

        def observe(self) -> Mapping[str, Observation]:
            self.count += 1
            return {**super().observe(), **({"free": ()} if self.count == 9 else {})}

    found = run(Moody())
    assert found.finding is not None
    assert not found.came_again


def test_a_burst_of_which_too_little_was_made_is_a_difference() -> None:
    one, other = FreeRequest(0), FreeRequest(1)
    both = (one, other)
    assert Together("free", both).lacking([(one, DONE), (other, DONE)]) == ""
    assert Together("free", both).lacking([(one, DONE)])
    assert Together("free", both, Extent.SOME).lacking([(one, DONE)]) == ""
    assert Together("free", both, Extent.SOME).lacking([])
    assert Together("free", both, Extent.UNTIL_REFUSED).lacking([(one, DONE)])
    assert Together("free", both, Extent.UNTIL_REFUSED).lacking([(one, REFUSED)]) == ""
    assert Together("free", both, Extent.ANY).lacking([]) == ""
    assert Together("free", both, Extent.ANY).lacking([(ResetPrefixCache(), DONE)])
    assert Together("free", both).lacking([(one, DONE), (one, DONE)])


def test_long_observations_are_shown_where_they_part() -> None:
    assert parting("free", (1, 2), (2, 1)) == "free: the specification has (1, 2), the target (2, 1)"
    same = tuple(range(30))
    assert parting("free", (*same, 1), (*same, 2)) == "free: from place 30 on the specification has [1], the target [2]"
    assert "from place 30 on the specification has [], the target [5]" in parting("free", same, (*same, 5))


def test_macros_are_written_as_they_are_read() -> None:
    vocabulary = vocabulary_of("kv_blocks")
    made: Sequence[Macro] = [Burst(37, 5), Turnover(2, 0), Finish(1, 999)]
    assert [macro_from(str(macro), vocabulary) for macro in made] == made
    assert "kv_blocks" in VOCABULARIES


def test_a_smaller_count_chooses_the_first_of_the_same() -> None:
    assert Burst(40, 7).chosen(range(100))[:5] == Burst(5, 7).chosen(range(100))


def test_the_call_of_a_written_file_says_what_is_wrong() -> None:
    config = vocabulary_of("kv_blocks").load(8, None, random.Random(1))
    assert difference("kv_blocks", "normative", config._asdict(), "torch", ["Burst(8, 1)", "Finish(8, 0)"]) is None
    wrong = difference("kv_blocks", "normative", config._asdict(), "spec:K2", ["Burst(8, 1)"])
    assert wrong is not None
    assert wrong.startswith("after 0 calls: free:")
