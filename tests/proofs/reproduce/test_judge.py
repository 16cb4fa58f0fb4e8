"""Cases judged on releases that are pretended: an era, another era, one that lies, one that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.proofs.results.making import STATEMENT, Failing, charged_again, on_the_era

from cacheproof.foundation.errors import InputError
from cacheproof.model.target import Target, TargetError
from cacheproof.releases.reproduce.case import Case
from cacheproof.releases.reproduce.judge import Ending, Judged, judged
from cacheproof.releases.reproduce.looks import look
from cacheproof.releases.results.cases import of_violation
from cacheproof.releases.results.record import load
from cachespec.kernel import Code, Observation, Operation, Outcome

RECORDS = sorted((Path(__file__).parents[3] / "docs/results/records").glob("vllm-*.json"))


def case(**changes: Any) -> Case:
    return of_violation(charged_again(**changes))


def recorded(path: Path) -> list[Case]:
    return [of_violation(violation) for violation in load(path).violations]


class Changed:
    """A release that answers one call otherwise, or shows something else after it."""

    def __init__(self, beneath: Target, number: int, outcome: Outcome | None, **shown: Observation) -> None:
        self.beneath, self.number, self.outcome, self.shown, self.made = beneath, number, outcome, shown, 0

    def reset(self, config: Any) -> None:
        self.made = 0
        self.beneath.reset(config)

    def apply(self, operation: Operation) -> Outcome:
        self.made += 1
        outcome = self.beneath.apply(operation)
        return self.outcome if self.made == self.number and self.outcome is not None else outcome

    def observe(self) -> Mapping[str, Observation]:
        return {**self.beneath.observe(), **(self.shown if self.made == self.number else {})}

    def close(self) -> None:
        self.beneath.close()


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_what_agrees_with_its_era_ends_as_is_recorded(path: Path) -> None:
    """Each record, with the eras as the releases."""
    targets: dict[tuple[str, str], Target] = {}
    ended = []
    for each in recorded(path):
        target = targets.setdefault((each.component, each.variant), on_the_era(each.component, each.variant))
        ended.append(judged(each, target))
    assert [one for one in ended if not one.as_recorded] == []
    assert {Ending.VIOLATED} <= {one.ending for one in ended}
    other = msgspec.structs.replace(charged_again(), verdict="VIOLATED: something else")
    assert not judged(of_violation(other), on_the_era("encoder_cache", "E2")).as_recorded


def test_a_release_that_parts_from_its_era_does_not_show_it() -> None:
    parted = judged(case(), on_the_era("encoder_cache", "normative"))
    assert (parted.ending, len(parted.calls)) == (Ending.NOT_SHOWN, 2)
    assert "at call 2, allocate(request=0, input=0), it is not as E2: it answers present, not done" in parted.last_line


@pytest.mark.parametrize(
    ("number", "outcome", "shown", "says"),
    [
        (1, Outcome(Code.FAILED), {}, "at call 1, allocate(request=0, input=0), it is not as E2: it answers failed"),
        (2, None, {"free": 1}, "at call 2, allocate(request=0, input=0), it is not as E2: free is 1, not 0"),
        (0, None, {"free": 1}, "in the initial state it is not as E2: free is 1, not 2"),
    ],
)
def test_where_a_release_parts_is_told(
    number: int, outcome: Outcome | None, shown: Mapping[str, Observation], says: str
) -> None:
    ended = judged(case(), Changed(on_the_era("encoder_cache", "E2"), number, outcome, **shown))
    assert ended.ending is Ending.NOT_SHOWN
    assert says in ended.last_line


def test_a_property_that_the_calls_do_not_break_is_not_shown() -> None:
    ended = judged(case(operations=charged_again().operations[:1]), on_the_era("encoder_cache", "E2"))
    assert ended.last_line == "NOT SHOWN: ENC-2 holds throughout in E2, which answers alike"


def test_a_driver_that_fails_cannot_be_run() -> None:
    ended = judged(case(), Failing())
    assert ended.last_line == "CANNOT RUN: the driver failed: the driver does not fit (at the start)"


def test_what_is_printed() -> None:
    lines = list(judged(case(), on_the_era("encoder_cache", "E2")).lines())
    assert lines[0] == "encoder_cache-E2-ENC-2-C-ENC-2 (C-ENC-2)"
    assert f"ENC-2: {STATEMENT}" in lines
    assert any("-> done (the specification: present); free 0" in line for line in lines)
    assert lines[-1] == charged_again().verdict
    settings = next(line for line in lines if line.startswith("configuration: "))
    assert "capacity 2" in settings
    assert "disciplined 0" not in settings


def test_a_setting_that_is_zero_and_not_by_default_is_printed() -> None:
    off = next(each for path in RECORDS for each in recorded(path) if each.config.get("chunked_prefill") == 0)
    assert any("chunked_prefill 0" in line for line in Judged(off, (), Ending.NOT_SHOWN, "").lines())


def test_a_cycle_is_made_twice() -> None:
    lasso = next(each for path in RECORDS for each in recorded(path) if each.cycle)
    target = on_the_era(lasso.component, lasso.variant)
    assert judged(lasso, target).ending is Ending.VIOLATED
    assert len(lasso.calls()) == len(lasso.operations) + 2 * len(lasso.cycle)
    for number in range(1, len(lasso.calls()) + 1):
        assert judged(lasso, Changed(target, number, Outcome(Code.FAILED, (7, 7)))).ending is Ending.NOT_SHOWN


@pytest.mark.parametrize(
    ("number", "outcome", "ending"),
    [
        (2, Outcome(Code.FAILED), Ending.VIOLATED),
        (2, Outcome(Code.REFUSED), Ending.NOT_SHOWN),
        (9, None, Ending.NOT_SHOWN),
    ],
)
def test_without_a_property_a_call_has_to_fail_that_does_not_in_the_era(
    number: int, outcome: Outcome | None, ending: Ending
) -> None:
    without = Case.from_message({**case().as_message(), "rule": "", "statement": "no call fails"})
    assert judged(without, Changed(on_the_era("encoder_cache", "E2"), number, outcome)).ending is ending


def test_a_case_is_the_same_after_json() -> None:
    assert Case.from_message(msgspec.json.decode(msgspec.json.encode(case().as_message()))) == case()
    with pytest.raises(InputError, match="strange"):
        Case.from_message({**case().as_message(), "strange": 1})


class Scheduler:
    """Shows a queue that is served after so many steps; answers as it is told."""

    def __init__(self, steps: int, code: Code) -> None:
        self.left, self.code = steps, code

    def reset(self, config: Any) -> None:
        """Nothing to do."""

    def apply(self, operation: Operation) -> Outcome:
        self.left -= 1
        return Outcome(self.code)

    def observe(self) -> Mapping[str, Observation]:
        return {"waiting": (0,) if self.left > 0 else (), "running": (), "plans": 0}

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("steps", "code", "violated", "says"),
    [
        (1, Code.MISS, False, "all queued requests are served"),
        (10**9, Code.MISS, True, "nothing was scheduled, and requests [0] are left"),
        (10**9, Code.DONE, False, "requests [0] are still scheduled"),
    ],
)
def test_a_scheduler_goes_on_without_arrivals(steps: int, code: Code, violated: bool, says: str) -> None:
    starving = next(each for path in RECORDS for each in recorded(path) if each.rule == "SCH-8")
    seen = look(starving, [Outcome(Code.DONE)] * len(starving.operations), Scheduler(steps, code))
    assert seen is not None
    assert (seen.violated, says in seen.says) == (violated, True)
    assert look(starving, [Outcome(Code.FAILED)], Scheduler(steps, code)) is None


@pytest.mark.parametrize(("used", "violated"), [((0,), False), ((1,), True)])
def test_contents_that_are_used_are_compared_with_those_asked_for(used: Sequence[int], violated: bool) -> None:
    denied = next(each for path in RECORDS for each in recorded(path) if (each.variant, each.rule) == ("M0", "MIR-6"))
    outcomes = [*[Outcome(Code.DONE)] * (len(denied.operations) - 1), Outcome(Code.HIT, tuple(used))]
    seen = look(denied, outcomes, Failing())
    assert seen is not None
    assert seen.violated == violated


def test_a_look_at_a_release_whose_driver_fails_is_no_answer() -> None:
    starving = next(each for path in RECORDS for each in recorded(path) if each.rule == "SCH-8" and not each.cycle)
    beneath = on_the_era(starving.component, starving.variant)

    class Ends(Changed):
        def apply(self, operation: Operation) -> Outcome:
            if self.made == len(starving.calls()):
                raise TargetError("gone")
            return super().apply(operation)

    assert judged(starving, Ends(beneath, 0, None)).last_line == "CANNOT RUN: the driver failed: gone"
