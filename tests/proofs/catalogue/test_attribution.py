"""A finding is attributed to an entry if it does not occur once that entry alone is mended; otherwise to none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from cacheproof.catalogue import mends as all_mends
from cacheproof.catalogue.attribution import Attribution, Cause, Certainty, attribution, together, unattributed
from cacheproof.catalogue.kept import Kept, load
from cacheproof.catalogue.mends import encoder_cache, mends
from cacheproof.catalogue.register import entry_named
from cacheproof.lockstep.properties import AnyProperty
from cacheproof.model.finding import Subject
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.scope import scope_named, scopes_of
from cacheproof.model.wire import Message, config_from_message, config_to_message, operation_from_message
from cacheproof.releases.results.attributing import attribute
from cacheproof.releases.results.cases import records
from cacheproof.releases.results.record import Record
from cacheproof.targets.vllm.eras import table
from cachespec.kernel import Operation

COMPONENTS = sorted(all_mends._MENDS)


def given(
    component: str, era: str, rule: str, config: Message, *calls: Message
) -> tuple[Subject, AnyProperty, list[Operation]]:
    owner = component_named(component)
    subject = Subject(owner, variant_named(owner, era), config_from_message(owner, config))
    (broken,) = (one for one in owner.properties() if one.name == rule)
    return subject, broken, [operation_from_message(owner.operations, call) for call in calls]


def attributed(component: str, era: str, rule: str, config: Message, *calls: Message) -> Attribution:
    return attribution(*given(component, era, rule, config, *calls))


def call(name: str, **fields: int) -> Message:
    return {"op": name, **fields}


# The four that were wrong -------------------------------------------------------------------------------------------


def test_a_waiting_request_that_holds_the_item_is_a_look_up_that_pins() -> None:
    """0.11.0: a deadlock in three calls, which was said to be like #26223, an item that is too large."""
    known = attributed(
        "scheduler",
        "S2",
        "SCH-8",
        {
            "block_size": 4,
            "kv_blocks": 3,
            "token_budget": 11,
            "encoder_compute": 4,
            "encoder_capacity": 3,
            "max_running": 3,
            "max_model_len": 9,
            "prompts": [5, 7],
            "outputs": [3, 1],
            "items": [[[0, 0, 3]], [[0, 1, 3], [1, 4, 1]]],
        },
        call("add", request=1),
        call("add", request=0),
        call("schedule"),
    )
    assert known.catalogue == ("C-ENC-10",)
    assert "#31857" in known.issues
    assert known.causes[0].operation == "schedule"


def test_an_item_that_is_too_large_is_no_look_up_that_pins() -> None:
    """0.11.0: it was said to be like #31857."""
    known = attributed(
        "scheduler",
        "S2",
        "SCH-8",
        {
            "block_size": 2,
            "kv_blocks": 6,
            "token_budget": 5,
            "encoder_compute": 3,
            "encoder_capacity": 4,
            "max_running": 3,
            "max_model_len": 12,
            "prompts": [8],
            "outputs": [2],
            "items": [[[0, 1, 5]]],
        },
        call("add", request=0),
        call("schedule"),
        call("update", accepted=0),
    )
    assert known.catalogue == ("C-ENC-11",)
    assert "#26223" in known.issues
    assert (known.causes[0].step, known.causes[0].operation) == (1, "add")


STORE = {
    "capacity": 48,
    "payloads": [16, 16, 16],
    "requests": [[0], [1], [2]],
    "largest": 16,
    "readers": 2,
    "header": 8,
}
STORE = {**STORE, "modulus": 8, "limit": 2147483647}


@pytest.mark.parametrize("era", ["M1", "M3"])
def test_a_rejection_after_a_put_is_no_eviction_by_the_own_update(era: str) -> None:
    """0.11.0, 0.33.0: it was said to be like #26195."""
    known = attributed(
        "object_store",
        era,
        "SHM-3/settled",
        {**STORE, "rejects": 1},
        call("render", request=0),
        call("put", request=0, position=0),
        call("reject", request=0),
        call("render", request=0),
        call("get_cached", request=0, position=0),
        call("send", request=0),
        call("schedule", request=0, covered=0),
        call("read", reader=0),
        call("read", reader=1),
    )
    assert set(known.catalogue) == {"C-MIR-4", "C-SHM-4"}
    assert "#26195" not in known.issues
    assert {cause.operation for cause in known.causes} == {"reject"}


def test_an_abort_that_no_worker_acknowledges_is_not_the_start_of_the_ring() -> None:
    """0.33.0: it was said to be like #27117, which 0.12.0 mended."""
    known = attributed(
        "object_store",
        "M3",
        "SHM-8/freed",
        {**STORE, "capacity": 84, "payloads": [64], "requests": [[0, 0]], "largest": 64, "aborts": 1, "reclaims": 1},
        call("render", request=0),
        call("put", request=0, position=0),
        call("get_cached", request=0, position=1),
        call("send", request=0),
        call("abort", request=0),
        call("end", request=0),
        call("free_unused"),
    )
    assert known.catalogue == ("C-SHM-4",)
    assert known.causes[0].operation == "end"


def test_a_lone_prompt_is_too_long_for_a_step_although_the_threshold_would_cut_it() -> None:
    """0.33.0: the threshold for long prompts does not count for a lone request."""
    config = {
        "block_size": 2,
        "kv_blocks": 12,
        "token_budget": 5,
        "encoder_compute": 2,
        "encoder_capacity": 2,
        "max_running": 2,
        "max_model_len": 12,
        "prompts": [4, 7],
        "outputs": [2, 2],
        "chunked_prefill": 0,
        "long_prefill_threshold": 3,
    }
    assert attributed("scheduler", "S3", "SCH-8", config, call("add", request=1)).catalogue == ("C-SCH-9",)


TRIED = call("can_allocate", request=0, input=0, budget=0, pending=0)


@pytest.mark.parametrize(
    ("rule", "calls"),
    [
        ("ENC-10", (call("free_input", request=0, input=0), call("free_request", request=0))),
        (
            "ENC-11",
            (call("can_allocate", request=0, input=0, budget=0, pending=0), call("abandon", request=0, cause=1)),
        ),
    ],
)
def test_a_release_without_slots_is_the_fault_of_encoder_decoder_models(rule: str, calls: tuple[Message, ...]) -> None:
    """Also of an input without tokens, which changes no count."""
    config = {"capacity": 1, "sizes": [0], "requests": [[0]], "failures": 1}
    known = attributed("encoder_cache", "ED", rule, config, call("allocate", request=0, input=0), *calls)
    assert known.catalogue == ("C-ENC-13",)


# Every kept trace ---------------------------------------------------------------------------------------------------


def kept_traces() -> Iterator[Any]:
    released = {(era.component, era.variant) for era in table().eras}
    for component in COMPONENTS:
        for kept in load(component).values():
            known = {mend.entry for mend in mends(component, kept.variant)}
            if (component, kept.variant) in released and kept.catalogue in known:
                yield pytest.param(component, kept, id=" ".join((component, *kept.key)))


def run_of(component: str, kept: Kept) -> tuple[Subject, Any, Sequence[Any]]:
    owner = component_named(component)
    (scope,) = (one for one in scopes_of(owner) if one.name == kept.scope)
    (rule,) = (one for one in owner.properties() if one.name == kept.rule)
    operations = [operation_from_message(owner.operations, each) for each in kept.operations]
    return Subject(owner, variant_named(owner, kept.variant), scope.config), rule, operations[: kept.cycle]


@pytest.mark.parametrize(("component", "kept"), list(kept_traces()))
def test_each_kept_trace_is_attributed_to_its_entry(component: str, kept: Kept) -> None:
    known = attribution(*run_of(component, kept))
    assert known.certainty is Certainty.CAUSE
    assert kept.catalogue in known.catalogue


@pytest.mark.parametrize("variant", ["B0", "B1", "B1-shared", "B2"])
def test_a_negative_count_is_attributed_to_the_rule_and_not_to_the_constant(variant: str) -> None:
    """These eras are of no release that is driven: the test above leaves their traces out."""
    (kept, *_) = (kept for kept in load("shared_prefix").values() if kept.variant == variant)
    known = attribution(*run_of("shared_prefix", kept))
    assert [(cause.entry, cause.operation) for cause in known.causes] == [("C-SCH-1", "step")]


def test_an_item_that_is_larger_than_the_constant_is_attributed_to_it() -> None:
    config = scope_named(component_named("shared_prefix"), "three-requests").config._replace(constant=6)
    message = config_to_message(config)
    known = attributed("shared_prefix", "B0", "SCH-8", message, call("add", request=0), call("step"), call("step"))
    assert (known.certainty, known.catalogue) == (Certainty.CAUSE, ("C-ENC-22",))


def test_each_entry_that_a_release_shows_is_mended_in_its_era() -> None:
    """Without a mend, the test above would leave the trace out. These two are attributed by their traces alone."""
    released = {(era.component, era.variant) for era in table().eras}
    shown = {
        (component, kept.variant, kept.catalogue)
        for component in COMPONENTS
        for kept in load(component).values()
        if (component, kept.variant) in released
    }
    mended = {(component, era, mend.entry) for component, era, _ in shown for mend in mends(component, era)}
    assert shown - mended == {("object_store", "M3", "C-SHM-15"), ("scheduler", "S1", "C-SCH-17")}


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_mend_is_of_an_entry_and_of_eras_that_there_are(component: str) -> None:
    variants = component_named(component).variants
    for era in variants:
        numbers = [mend.entry for mend in mends(component, era)]
        assert all(entry_named(number) is not None for number in numbers)
    module = all_mends._MENDS[component]
    assert {era for mend in module for era in mend.eras} <= set(variants)


def test_a_fault_of_a_part_is_mended_in_the_whole_engine() -> None:
    turn = (call("schedule"), call("execute", worker=0), call("update", accepted=0))
    arrivals = (call("submit_request", request=0), call("deliver", sender=0), call("schedule"))
    calls = (*arrivals, call("submit_request", request=1), *turn[1:], *turn, call("schedule"))
    config = config_to_message(scope_named(component_named("engine"), "phantom").config)
    assert attributed("engine", "S3", "X-1/agreement", config, *calls).catalogue == ("C-ENC-26",)


def test_two_faults_can_break_a_property_together() -> None:
    """One request is queued whose tokens fit no pool (C-SCH-5), and one whose item fits no cache (C-ENC-11)."""
    config = {
        "block_size": 2,
        "kv_blocks": 3,
        "token_budget": 4,
        "encoder_compute": 2,
        "encoder_capacity": 2,
        "max_running": 1,
        "max_model_len": 9,
        "prompts": [8, 4],
        "outputs": [1, 1],
        "items": [[], [[0, 0, 3]]],
    }
    calls = (call("add", request=0), call("add", request=1))
    subject, rule, operations = given("scheduler", "S3", "SCH-9", config, *calls)
    assert attribution(subject, rule, operations).causes == ()
    assert together(subject, rule, operations) == ("C-ENC-11", "C-SCH-5")
    one_alone = given("scheduler", "S3", "SCH-9", config, *calls[1:])
    assert attribution(*one_alone).catalogue == ("C-ENC-11",)


def test_blocks_that_were_sent_wait_for_steps_in_flight_by_the_same_fault() -> None:
    steps = (*[call("schedule")] * 3, *[call("update", accepted=0)] * 2)
    config = config_to_message(scope_named(component_named("scheduler"), "sent-ahead").config)
    calls = (call("add", request=0), *steps, call("finish_send", request=0))
    assert attributed("scheduler", "S3", "SCH-15/once", config, *calls).catalogue == ("C-SCH-40",)


# What is said -------------------------------------------------------------------------------------------------------


def charged_twice() -> Attribution:
    return attributed(
        "encoder_cache",
        "E1",
        "ENC-2",
        {"capacity": 4, "sizes": [2], "requests": [[0], [0]], "disciplined": 0},
        call("allocate", request=0, input=0),
        call("allocate", request=1, input=0),
    )


def test_the_deciding_call_is_the_one_that_the_mended_era_answers_otherwise() -> None:
    assert charged_twice().causes == (Cause("C-ENC-2", 2, "allocate"),)
    assert str(charged_twice().causes[0]) == "C-ENC-2 at call 2, allocate"


def test_an_entry_is_no_cause_if_the_finding_occurs_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: the mend of C-ENC-2 changes nothing, so that nothing is shown to be the cause."""
    planted = tuple(
        replace(mend, change=lambda subject: subject) if mend.entry == "C-ENC-2" else mend
        for mend in encoder_cache.MENDS
    )
    monkeypatch.setattr(all_mends, "_MENDS", {"encoder_cache": planted})
    known = charged_twice()
    assert known.certainty is Certainty.UNATTRIBUTED
    assert "C-ENC-2" in known.others


def test_a_run_that_the_era_does_not_break_is_attributed_to_none() -> None:
    known = attributed(
        "encoder_cache",
        "E1",
        "ENC-2",
        {"capacity": 4, "sizes": [2], "requests": [[0]]},
        call("allocate", request=0, input=0),
    )
    assert known.causes == ()


def test_without_a_mend_the_kept_trace_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same run under other names, in a configuration of the finding's own."""
    monkeypatch.setattr(all_mends, "_MENDS", {})
    assert charged_twice().causes == ()
    again = attributed("lru", "M2", "LRU-5", {"capacity": 3, "sizes": [1, 1]}, call("touch", key=1))
    assert again.causes == (Cause("C-MIR-10"),)


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (Attribution((Cause("C-ENC-1"),)), "C-ENC-1"),
        (Attribution((Cause("C-ENC-1"), Cause("C-ENC-8"))), "C-ENC-1 and C-ENC-8"),
        (Attribution(others=("C-ENC-1",)), "unattributed"),
        (Attribution(), "new"),
    ],
)
def test_in_words(known: Attribution, text: str) -> None:
    assert str(known) == text


def test_what_no_era_describes_is_attributed_to_none() -> None:
    owner = component_named("scheduler")
    rules = {rule.name: rule for rule in owner.properties()}
    known = unattributed(owner, rules["SCH-8"])
    assert known.certainty is Certainty.UNATTRIBUTED
    assert "C-ENC-10" in known.others


def test_public_threads_come_from_the_register() -> None:
    entry = entry_named("C-ENC-8")
    assert entry is not None
    assert Attribution((Cause("C-ENC-8"), Cause("C-ENC-1"))).issues == tuple(entry.threads)


OF_ERAS = [one for one in records() if one.target.startswith("vllm==")]


@pytest.mark.parametrize("record", OF_ERAS, ids=lambda one: one.target)
def test_a_record_says_of_each_violation_whether_it_has_a_cause(record: Record) -> None:
    for violation in record.violations:
        assert (violation.certainty == Certainty.CAUSE.value) == bool(violation.catalogue)
        assert violation.certainty in {each.value for each in Certainty}


def test_a_record_is_attributed_anew() -> None:
    """As the catalogue is now: the wrong attribution is replaced, and the id follows."""
    (record,) = (one for one in OF_ERAS if one.target == "vllm==0.33.0")
    wrong = next(one for one in record.violations if one.catalogue == ["C-SHM-12"])
    anew = msgspec.structs.replace(wrong, catalogue=["C-SHM-1"], certainty="like", id="wrong", found="search")
    counts = attribute(msgspec.structs.replace(record, violations=[anew]))
    assert (anew.catalogue, anew.certainty, anew.id) == (["C-SHM-12"], "cause", wrong.id)
    assert counts == {"cause": 1}
