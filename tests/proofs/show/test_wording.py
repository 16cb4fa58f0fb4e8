"""What is said beside a finding: the settings that matter, and where to read on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cacheproof.lockstep.campaign import lockstep
from cacheproof.model.finding import Answer, Difference, Finding, differing
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scopes_of
from cacheproof.model.trace import Violation
from cacheproof.model.wire import config_to_message
from cacheproof.model.wording import answer_text, count, operation_text, settings
from cacheproof.present.show.plain import finding_as_text
from cacheproof.targets.specification import SpecificationTarget
from cachespec import scheduler
from cachespec.encoder_cache import Report
from cachespec.kernel import Code, Outcome
from cachespec.scheduler import Schedule


def test_a_value_of_zero_is_shown_if_the_default_is_another() -> None:
    plain = scopes_of(component_named("scheduler"))[0].config
    config = plain._replace(chunked_prefill=0)
    shown = settings(scheduler.Config, config_to_message(config)).split(", ")
    assert "chunked_prefill 0" in shown
    assert scheduler.Config._field_defaults["chunked_prefill"] == 1
    defaults = {name: value for name, value in scheduler.Config._field_defaults.items() if value == 0}
    name = next(name for name in defaults if getattr(config, name) == 0)
    assert f"{name} 0" not in shown


def found(target: str) -> tuple[Finding, list[str]]:
    component = component_named("lru")
    scope = scopes_of(component)[0]
    driven = SpecificationTarget(component, component.variants[target])
    campaign = lockstep(component, component.normative, scope.config, driven, steps=2000, seed=1)
    assert campaign.finding is not None
    return campaign.finding, finding_as_text(campaign.finding).splitlines()


@pytest.mark.parametrize("target", ["M2"])
def test_a_difference_names_its_operation(target: str) -> None:
    finding, lines = found(target)
    assert isinstance(finding, Difference)
    assert finding.operation is not None
    number = len(finding.trace.steps)
    assert f"they differ after call {number}, {operation_text(finding.operation)}:" in lines
    assert "next: cacheproof explain M2" in lines
    era = replace(finding, trace=replace(finding.trace, variant="M3"))
    assert "order: the era M3 has [], the target [0]" in era.statements


def test_a_violation_names_its_property_its_statement_and_the_command() -> None:
    finding, _ = found("M2")
    text = finding_as_text(Violation("LRU-1", "the sizes fit", finding.trace))
    assert "LRU-1 does not hold: the sizes fit" in text
    assert "next: cacheproof explain LRU-1" in text


def test_one_of_a_kind_has_no_plural() -> None:
    assert (count(1, "episode"), count(2, "episode"), count(1000, "step")) == ("1 episode", "2 episodes", "1,000 steps")


def test_progress_names_what_runs() -> None:
    component = component_named("lru")
    config, shown = scopes_of(component)[0].config, list[str]()
    itself = SpecificationTarget(component, component.normative)
    lockstep(component, component.normative, config, itself, steps=200, seed=1, progress=shown.append)
    assert shown
    assert all(line.startswith("lru normative: ") and "1 episodes" not in line for line in shown)


def test_the_values_of_an_answer_are_named() -> None:
    """As the operation declares them; values that do not fill whole groups stay as they are."""
    plan = Outcome(Code.DONE, (0, 4, 3, 2, 0, 3))
    assert answer_text(Schedule, plan) == "done: request 0, start 4, tokens 3; request 2, start 0, tokens 3"
    assert answer_text(Schedule, plan._replace(values=(0, 4))) == "done (0, 4)"
    assert answer_text(Schedule, Outcome(Code.MISS)) == "miss"
    assert answer_text(Report, Outcome(Code.DONE, (1, 2))) == "done (1, 2)", "several meanings, by era"


def test_the_exception_of_a_call_that_failed_is_said_beside_the_outcome() -> None:
    expected = Answer(Outcome(Code.DONE), {})
    failed = Answer(Outcome(Code.FAILED), {}, "KeyError: 3 at vllm/x.py:12")
    (line,) = differing(expected, failed)
    assert line == "outcome: the specification says done, the target failed: KeyError: 3 at vllm/x.py:12"
    assert failed == Answer(Outcome(Code.FAILED), {}), "it is not compared"
