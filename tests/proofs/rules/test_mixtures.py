"""Rules have names and sentences, compose, and are refused where they cannot."""

from __future__ import annotations

import pytest
from tests.command_line import Run

from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.campaign import lockstep
from cacheproof.model.mixture import AnyRule, entries_of, rules_of, suits, with_deviations, without
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named, components, variant_named
from cacheproof.model.scope import scope_named, scopes_of
from cacheproof.targets.specification import SpecificationTarget
from cachespec.kernel import Operation

KV, LRU = component_named("kv_blocks"), component_named("lru")


@pytest.mark.parametrize("name", sorted(components()))
def test_every_rule_has_a_name_of_its_own_and_a_sentence(name: str) -> None:
    component = component_named(name)
    names = [rule.name for rule in rules_of(component)]
    assert len(names) == len(set(names))
    assert all(rule.statement for rule in rules_of(component))
    for rule in rules_of(component):
        into = [variant for variant in component.variants.values() if suits(component, rule, variant)]
        assert into, rule.name
        assert [each.name for each in variant_named(component, f"{into[0].tag}+{rule.name}").mixed] == [rule.name]


def test_each_transition_in_which_an_era_differs_is_a_rule() -> None:
    names = {rule.name for rule in rules_of(KV)}
    assert {"K0:free_request", "K1:allocate_slots", "K1b:evict_block", "K2:start"} <= names
    assert "K0b:free_request" not in names, "K0 has the same"


def test_eras_with_a_state_of_their_own_are_mixed_with_one_another() -> None:
    encoder = component_named("encoder_cache")
    mixed = variant_named(encoder, "E1+E2:report")
    assert mixed.transitions[mixed_kind(mixed)] is encoder.variants["E2"].transitions[mixed_kind(mixed)]
    with pytest.raises(InputError, match="E2:report changes the state of E1, E1b, E2, and normative has another"):
        variant_named(encoder, "normative+E2:report")
    assert variant_named(encoder, "E1+C-ENC-10").mixed[0].name == "C-ENC-10"
    with pytest.raises(InputError, match="C-ENC-10 is a rule of E1, E1b, E2, and normative has another state"):
        variant_named(encoder, "normative+C-ENC-10")
    with pytest.raises(InputError, match="C-SHM-1 begins in the initial state of M1"):
        variant_named(component_named("ring"), "normative+C-SHM-1")


def mixed_kind(variant: AnyVariant) -> type[Operation]:
    """The operation that the only rule replaces."""
    (kind,) = variant.mixed[0].replaces
    return kind


def test_a_number_of_the_catalogue_is_the_rule_that_names_it() -> None:
    by_number = variant_named(KV, "normative+C-KV-15").mixed[0]
    declared = variant_named(KV, "normative+unhashed-last").mixed[0]
    assert by_number.wraps == declared.wraps
    assert entries_of(declared) == ("C-KV-15",)
    ghost = variant_named(LRU, "normative+C-MIR-10").mixed[0]
    assert {kind.wire_name() for kind in ghost.replaces} == {"touch", "evict", "clear"}


@pytest.mark.parametrize(
    ("tag", "reason"),
    [
        ("normative+no-such", "has no rule 'no-such': see `cacheproof list --rules kv_blocks`"),
        ("normative+last-copy+last-copy", "last-copy is given twice"),
        ("normative+last-copy-only+merged-copies", "last-copy-only and merged-copies both replace commit"),
        ("K1+last-copy", "last-copy changes the state of normative, K0, K0b"),
        ("normative+C-KV-5", "only together with C-KV-6, C-KV-10: name the rule K0:allocate_slots"),
        ("normative+C-LRU-2", "has no rule for C-LRU-2: there are C-KV-1"),
        ("era+last-copy", "has no variant 'era'"),
    ],
)
def test_what_cannot_be_mixed_is_refused(tag: str, reason: str) -> None:
    with pytest.raises(InputError) as raised:
        variant_named(KV, tag)
    assert reason in str(raised.value)


def test_rules_compose_in_any_order_and_one_can_be_taken_out() -> None:
    both = variant_named(KV, "normative+lowest-first+last-copy")
    other = variant_named(KV, "normative+last-copy+lowest-first")
    config = scope_named(KV, "shared-prefix").config
    assert lockstep(KV, both, config, SpecificationTarget(KV, other), steps=300, seed=1).finding is None
    assert without(KV, both, both.mixed[0]).tag == "normative+last-copy"
    assert without(KV, without(KV, both, both.mixed[0]), both.mixed[1]).tag == "normative"


DECLARED = [(component, rule) for component in (KV, LRU) for rule in component.rules]


@pytest.mark.parametrize(("component", "rule"), DECLARED, ids=lambda each: str(each.name))
def test_each_declared_rule_shows_in_some_scope_and_differs_where_it_is_not_declared(
    component: AnyComponent, rule: AnyRule
) -> None:
    mixed = variant_named(component, f"normative+{rule.name}")
    for scope in scopes_of(component):
        if scope.set != "default" or "normative" not in scope.variants:
            continue
        target = SpecificationTarget(component, mixed)
        done = lockstep(component, mixed, scope.config, target, steps=300, seed=1)
        assert done.finding is None
        if done.tally.rules:
            break
    assert done.tally.rules == {rule.name}
    plain = lockstep(component, component.normative, scope.config, target, steps=300, seed=1, seconds_to_shrink=0)
    assert plain.finding is not None


def test_callers_of_an_unguarded_implementation_make_no_such_call() -> None:
    config = scope_named(KV, "any-call").config
    stale = {("allocate_slots", "stale"), ("commit", "stale")}
    plain = lockstep(KV, KV.normative, config, SpecificationTarget(KV, KV.normative), steps=300, seed=1)
    assert stale & set(plain.tally.outcomes)
    mixed = variant_named(KV, "normative+unguarded:stale")
    done = lockstep(KV, mixed, config, SpecificationTarget(KV, KV.normative), steps=300, seed=1)
    assert done.finding is None
    assert not stale & set(done.tally.outcomes)
    assert done.tally.rules == {"unguarded:stale"}


def test_deviations_are_rules_of_the_variant() -> None:
    assert with_deviations(None, ["C-KV-15"]) == "normative+C-KV-15"
    assert with_deviations("K2", []) == "K2"


def test_the_list_of_rules(run: Run) -> None:
    found = run("list", "--rules", "kv_blocks", "--json").json
    rules = {rule["name"]: rule for rule in found["components"][0]["rules"]}
    assert rules["unhashed-last"]["entries"] == ["C-KV-15"]
    assert "last-copy" in run("list", "--rules", "kv_blocks").out


def test_a_declared_deviation_does_not_end_a_run_and_one_that_never_shows_is_told(run: Run) -> None:
    given = ("fuzz", "kv_blocks", "--driver", "lockstep", "--steps", "200", "--seed", "1", "--scope", "shared-prefix")
    target = ("--target", "spec:normative+unhashed-last")
    assert run(*given, *target).status == 1
    agreed = run(*given, *target, "--deviation", "C-KV-15", "--deviation", "C-KV-10", "--json")
    assert agreed.status == 0
    assert [(rule["name"], rule["shown"]) for rule in agreed.json["rules"]] == [("C-KV-15", True), ("C-KV-10", False)]
    told = run(*given, *target, "--deviation", "C-KV-15", "--deviation", "C-KV-10").out
    assert "C-KV-10 is declared and never showed" in told


def test_a_deviation_that_an_implementation_does_not_have_is_named(run: Run) -> None:
    given = ("fuzz", "kv_blocks", "--driver", "lockstep", "--steps", "200", "--seed", "1", "--scope", "shared-prefix")
    wrong = run(*given, "--target", "spec:normative", "--deviation", "C-KV-15")
    assert wrong.status == 1
    assert "without C-KV-15 the answer of the target is right" in wrong.out
    assert run(*given, "--target", "spec:normative", "--deviation", "C-KV-999").status == 2
