"""What a failure says by itself: its rule, two columns, rows by request, and the implementation's own words."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.examples import page_pool

from cacheproof.lockstep.campaign import lockstep
from cacheproof.lockstep.reproduction import violation as broken_in
from cacheproof.model.finding import Answer, Difference
from cacheproof.model.finding_json import finding_from_message, finding_to_message
from cacheproof.model.observed import grouping_of, observed, rows_of
from cacheproof.model.registry import AnyComponent, component_named, components, variant_named
from cacheproof.model.scope import scopes_of
from cacheproof.model.trace import Violation, record
from cacheproof.model.wire import config_to_message, operation_to_message
from cacheproof.present.show.moves import executed
from cacheproof.present.show.plain import finding_as_text
from cacheproof.present.show.reading import Reading
from cacheproof.targets.factory import open_target
from cacheproof.targets.process import InProcessTarget
from cacheproof.targets.specification import SpecificationTarget
from cachespec import block_hash
from cachespec.kernel import Code, Operation, Outcome
from cachespec.lru import Config, Put, Touch

LRU = component_named("lru")
KV_BLOCKS = component_named("kv_blocks")
CHILD = Path(__file__).parents[2] / "examples" / "lru_child.py"
CONFIG = Config(capacity=3, sizes=(1, 1, 2), pins=1)


def of_child() -> Difference:
    target = f"exec:{sys.executable} {CHILD}"
    opened = open_target(target, LRU, LRU.normative)
    finding = lockstep(LRU, LRU.normative, CONFIG, opened, steps=2_000, seed=1, name=target).finding
    opened.close()
    assert isinstance(finding, Difference)
    return finding


def differing(calls: list[Operation], outcome: Outcome, **shown: Any) -> Difference:
    """A target that answers and shows something else at the last of these calls."""
    trace = record(LRU, LRU.normative, CONFIG, calls, whole_calls=True)
    last = trace.steps[-1]
    return Difference(
        "python:mine:Adapter", trace, Answer(last.outcome, last.observations), Answer(outcome, shown, "KeyError: 3")
    )


def test_the_readme_s_child_breaks_a_rule_that_is_named() -> None:
    reading = Reading(of_child())
    assert [(rule.how, rule.name) for rule in reading.rules] == [("breaks", "LRU-7/recency")]
    assert reading.rules[0].statement == "a used key becomes the most recent, and the other keys keep their order"


def test_both_sides_have_a_column() -> None:
    lines = finding_as_text(differing([Put(2, 2), Put(0, 1), Put(2, 2)], Outcome(Code.DONE), order=(2, 0))).splitlines()
    after = lines[lines.index("they differ after call 3, put(key=2, size=2):") + 1 :]
    assert [cell.strip() for cell in after[0].split("┃")] == ["", "specification", "yours"]
    assert [cell.strip() for cell in after[2].split("│")] == ["order", "[0, 2]", "[2, 0]"]


@pytest.mark.parametrize(("target", "column"), [("exec:./mine", "yours"), ("vllm==0.33.0", "vllm==0.33.0")])
def test_the_columns_are_named_by_variant_and_release(target: str, column: str) -> None:
    finding = replace(differing([Put(2, 2)], Outcome(Code.DONE), order=()), target=target)
    assert Reading(finding).columns == ("specification", column)
    era = replace(finding, trace=replace(finding.trace, variant="M2"))
    assert Reading(era).columns == ("M2", column)


def test_an_outcome_is_judged_too() -> None:
    """A key is stored, and the target says that it was too large: no state makes that right."""
    reading = Reading(differing([Put(0, 1)], Outcome(Code.TOO_LARGE), order=(0,)))
    assert reading.rows[0] == type(reading.rows[0])("outcome", "done", "too_large")
    assert reading.rules


def test_a_target_that_shows_nothing_wrong_has_no_broken_property() -> None:
    finding = differing([Put(0, 1)], Outcome(Code.DONE), order=(0,))
    assert [rule for rule in Reading(finding).rules if rule.how == "breaks"] == []


def test_the_variant_that_answers_so_is_named() -> None:
    config = scopes_of(LRU)[0].config
    driven = SpecificationTarget(LRU, LRU.variants["M2"])
    finding = lockstep(LRU, LRU.normative, config, driven, steps=2_000, seed=1).finding
    assert isinstance(finding, Difference)
    (rule,) = (rule for rule in Reading(finding).rules if rule.how == "as variant")
    assert rule.name == "M2"
    assert "C-MIR-10" in rule.statement
    broken = {rule.name for rule in Reading(finding).rules if rule.how == "breaks"}
    assert broken == {"LRU-1", "LRU-5", "LRU-7/recency"}, "order and sizes differ together"


def test_the_implementation_speaks_for_itself() -> None:
    finding = differing([Put(0, 1)], Outcome(Code.FAILED))
    trace = 'Traceback (most recent call last):\n  File "mine.py", line 3, in put\nKeyError: 3'
    said = replace(finding, actual=replace(finding.actual, remark=trace))
    text = finding_as_text(said)
    assert 'the implementation itself:\n  Traceback (most recent call last):\n    File "mine.py", line 3' in text
    assert said.statements == ("outcome: the specification says done, the target failed: KeyError: 3",)
    assert Reading(said).message()["implementation"] == trace


def test_tables_are_by_request() -> None:
    assert observed(KV_BLOCKS, "tables", (0, 2, 0, 1, 1, 2, 2, 3)) == "request 0: [0, 1], 1: [2, 3]"
    assert observed(KV_BLOCKS, "references", (0, 1, 1, 2)) == "block 0: 1, 1: 2"
    assert observed(KV_BLOCKS, "free", (3, 2)) == "[3, 2]"
    assert observed(component_named("scheduler"), "scheduled", (0, 4, 3, 1, 0, 2)) == (
        "request 0: start 4 tokens 3, request 1: start 0 tokens 2"
    )
    assert observed(KV_BLOCKS, "tables", (0, 9, 1)) == "[0, 9, 1]", "what is in no rows stays as it is"


@pytest.mark.parametrize("component", components().values(), ids=lambda component: component.name)
def test_every_grouping_fits_what_is_shown(component: AnyComponent) -> None:
    """In the states at the beginning of every scope and variant; each grouping is of an observable."""
    assert set(component.grouping) <= set(component.observables)
    lanes = {lane for kind in component.operations for lane in kind.lane}
    assert {each.lane for each in component.grouping.values()} <= lanes | {""}
    for scope in scopes_of(component):
        for tag in scope.variants:
            variant, state = component.variants[tag], component.variants[tag].start(scope.config)
            for _ in range(12):
                offered = [one for one in variant.alphabet(scope.config, state) if type(one) in variant.transitions]
                for name, value in component.observe(scope.config, variant.view(scope.config, state)).items():
                    grouping = grouping_of(component, name)
                    if isinstance(value, tuple) and tag not in grouping.unless:
                        assert rows_of(grouping, value) is not None, (name, value)
                    assert grouping == grouping_of(component, name)
                if not offered:
                    break
                state, _ = variant.call(scope.config, state, offered[len(offered) // 2])


def test_the_false_clause_of_a_property() -> None:
    """M2 lets an absent key into the order: LRU-1 says where it became false."""
    rule = next(rule for rule in LRU.safety if rule.name == "LRU-1")
    trace = record(LRU, LRU.variants["M2"], CONFIG, [Touch(0)], whole_calls=True)
    calls = [operation_to_message(one) for one in trace.operations]
    assert broken_in("lru", "M2", config_to_message(CONFIG), calls, rule.name, whole_calls=True) is not None
    clause = Reading(Violation(rule.name, rule.statement, trace)).clause
    assert clause is not None
    assert clause.text in "\n".join(finding_as_text(Violation(rule.name, rule.statement, trace)).splitlines())
    held = record(LRU, LRU.normative, CONFIG, [Touch(0)], whole_calls=True)
    assert Reading(Violation(rule.name, rule.statement, held)).clause is None


def kv_blocks_with(rule: str) -> Difference:
    """The specification with another rule, driven beside the normative variant in a scope of copies."""
    scope = next(scope for scope in scopes_of(KV_BLOCKS) if scope.name == "copies-evicted")
    driven = SpecificationTarget(KV_BLOCKS, variant_named(KV_BLOCKS, rule))
    finding = lockstep(KV_BLOCKS, KV_BLOCKS.normative, scope.config, driven, steps=1_500, seed=1).finding
    assert isinstance(finding, Difference)
    return finding


def test_a_design_choice_is_named_with_how_to_declare_it() -> None:
    reading = Reading(kv_blocks_with("normative+last-copy"))
    assert ("as rule", "last-copy") in [(rule.how, rule.name) for rule in reading.rules]
    assert "if last-copy is a choice of yours: --deviation last-copy" in reading.next_steps
    assert ("breaks", "KV-3/first") in [(rule.how, rule.name) for rule in reading.rules]


@pytest.mark.parametrize(
    ("bug", "rule"),
    [
        ("gives a page back twice", "KV-2"),
        ("never gives the last page back", "KV-1"),
        ("takes the first hit again", "KV-1"),
        ("takes a page that a request uses", "KV-9"),
        ("refuses one page early", "KV-8/reasons"),
    ],
)
def test_an_allocator_with_names_of_its_own_is_read_in_the_names_of_the_specification(bug: str, rule: str) -> None:
    """Its choice of blocks is followed: the states of the trace are those that it was compared with."""
    scope = next(scope for scope in scopes_of(KV_BLOCKS) if scope.name == "copies-evicted")
    driven = InProcessTarget(type("Wrong", (page_pool.Adapter,), {"bug": bug}), KV_BLOCKS)
    finding = lockstep(KV_BLOCKS, KV_BLOCKS.normative, scope.config, driven, steps=3_000, seed=4).finding
    assert isinstance(finding, Difference)
    run = executed(finding.trace)
    assert run.is_whole
    views = [KV_BLOCKS.normative.view(scope.config, state) for state in run.states[1:]]
    shown = [dict(KV_BLOCKS.observe(scope.config, view)) for view in views]
    assert shown == [step.observations for step in finding.trace.steps]
    broken = {rule.name for rule in Reading(finding).rules if rule.how == "breaks"}
    assert broken == {rule}, "and none about an order that nobody claims"


def test_what_the_implementation_said_is_kept_with_its_finding() -> None:
    finding = differing([Put(0, 1)], Outcome(Code.FAILED))
    again = finding_from_message(json.loads(json.dumps(finding_to_message(finding))))
    assert isinstance(again, Difference)
    assert again.actual.remark == finding.actual.remark == "KeyError: 3"


def test_a_variant_that_cannot_run_in_a_configuration_is_no_explanation() -> None:
    """Two variants of `block_hash` divide by the number of digests, of which most configurations have none."""
    component = component_named("block_hash")
    config = block_hash.Config(block_size=1, requests=1, prompt_tokens=1, tokens=1, words=(1,), lengths=(1,))
    trace = record(
        component, component.normative, config, [block_hash.Write(0, 1), block_hash.Submit(0)], whole_calls=True
    )
    last = trace.steps[-1]
    shown = Answer(Outcome(Code.REFUSED), last.observations)
    reading = Reading(Difference("elsewhere", trace, Answer(last.outcome, last.observations), shown))
    assert "as variant" not in [rule.how for rule in reading.rules]
