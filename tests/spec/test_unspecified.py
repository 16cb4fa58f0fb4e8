"""What components have no rules for: each refusal has a configuration that is refused for it alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from cacheproof.model.registry import AnyComponent, components
from cacheproof.model.scope import scope_named, scopes_of
from cachespec import scheduler
from cachespec.kernel import Unspecified, is_on, not_together, refused_with
from cachespec.layer_groups import FULL, WINDOW

Changes = dict[str, Any]

VALUES: dict[str, Changes] = {
    "turns": {"turns": (0, 1), "prompts": (2, 5), "outputs": (1, 1)},
    "external": {"external": (1, 1)},
    "sends": {"sends": (1, 1)},
    "stops": {"stops": (1, 1)},
    "min_tokens": {"min_tokens": (1, 1)},
    "grammars": {"grammars": (1, 1)},
    "running_resets": {"running_resets": 1},
    "loads_later": {"loads_later": (1, 1), "external": (1, 1)},
    "encoder_decoder": {"encoder_decoder": 1, "chunked_prefill": 0, "prefix_caching": 0},
    "chunked_prefill": {"chunked_prefill": 1},
    "prefix_caching": {"prefix_caching": 1},
    "whole_items": {"whole_items": 1},
    "long_prefill_threshold": {"long_prefill_threshold": 1},
    "alignment": {"alignment": 1},
    "encoder_connector": {"encoder_connector": (1,), "items": (((0, 0, 1),), ((0, 0, 1),))},
    "pooling": {"pooling": 1, "outputs": (1, 1)},
    "drafts": {"drafts": 1},
}
"""How two requests have a setting of a scheduler."""

LOADED = {"external": (1, 1), "loads_later": (1, 1)}

CASES: dict[tuple[str, str], tuple[str, Changes]] = {
    ("scheduler", "ahead above 1 together with pooling"): ("", {**VALUES["pooling"], "ahead": 2}),
    ("engine", "ahead above 1 together with shared_memory"): ("shared-memory", {"ahead": 2}),
    ("engine", "several senders together with shared_memory"): ("shared-memory", {"senders": (0, 1)}),
    ("engine", "running_resets together with shared_memory"): ("shared-memory", {"running_resets": 1}),
    ("engine", "turns together with shared_memory"): ("sessions", {"shared_memory": 1, "store_capacity": 6}),
    ("engine", "ahead above 1 together with load_failures"): ("transfers", {"ahead": 2}),
    ("engine", "encoder_connector for an engine"): ("missed", {"encoder_connector": (1,)}),
    ("engine", "pooling for an engine"): ("shared-memory", {"pooling": 1, "outputs": (1, 1)}),
    ("layer_groups", "groups of full attention with blocks of different sizes"): (
        "three-kinds",
        {"kinds": (FULL, FULL, WINDOW), "sizes": (1, 2, 1), "spans": (0, 0, 2)},
    ),
    ("layer_groups", "chunked local attention together with blocks of different sizes"): ("chunks", {"sizes": (2, 1)}),
    ("layer_groups", "one group with blocks larger than hash blocks"): (
        "drafting-alone",
        {"sizes": (2,), "drafting": ()},
    ),
    ("layer_groups", "state-space layers with blocks larger than hash blocks"): ("states", {"sizes": (1, 2)}),
    ("layer_groups", "drafting together with chunked local attention"): ("chunks", {"drafting": (1, 1)}),
    ("layer_groups", "drafting together with cross attention"): ("encoder", {"drafting": (1, 0)}),
    ("layer_groups", "draft layers of full attention with blocks larger than hash blocks"): (
        "sizes",
        {"drafting": (1, 0)},
    ),
    ("layer_groups", "external together with cross attention"): ("encoder", {"external": 1}),
    ("kv_blocks", "rollbacks together with groups"): ("two-groups", {"rollbacks": 1}),
    ("kv_blocks", "repeats together with groups"): ("two-groups", {"repeats": 1}),
    ("kv_blocks", "disciplined 0 together with groups"): ("two-groups", {"disciplined": 0}),
}
"""Conditions of more than two switches, and those of other components: the scope and what is changed in it."""

SCHEDULER = scheduler.Config(
    block_size=2,
    kv_blocks=8,
    token_budget=8,
    encoder_compute=4,
    encoder_capacity=4,
    max_running=2,
    max_model_len=9,
    prompts=(2, 2),
    outputs=(2, 2),
)

DECLARED = [(component, each) for component in components().values() for each in component.unspecified]


def configuration(component: AnyComponent, each: Unspecified[Any]) -> Any:
    """A configuration that has what the component does not specify."""
    scope, changes = CASES.get((component.name, each.what), ("", {}))
    if not changes:
        changes = {name: value for setting in each.settings for name, value in VALUES[setting].items()}
        changes |= LOADED if "loads_later" in each.settings else {}
    config = scope_named(component, scope).config if scope else SCHEDULER
    return config._replace(**changes)


@pytest.mark.parametrize(("component", "each"), DECLARED, ids=lambda each: getattr(each, "what", ""))
def test_what_is_not_specified_is_refused_by_name(component: AnyComponent, each: Unspecified[Any]) -> None:
    config = configuration(component, each)
    assert component.malformed(config) is None
    assert each.refusal in [other.refusal for other in component.unspecified if other.holds(config)]
    assert component.invalid(config) is not None


@pytest.mark.parametrize(("component", "each"), DECLARED, ids=lambda each: getattr(each, "what", ""))
def test_no_scope_has_what_is_not_specified(component: AnyComponent, each: Unspecified[Any]) -> None:
    assert not any(each.holds(scope.config) for scope in scopes_of(component))


def test_every_case_is_declared() -> None:
    assert set(CASES) <= {(component.name, each.what) for component, each in DECLARED}


class Switches(NamedTuple):
    first: int = 0
    second: tuple[int, ...] = ()
    third: int = 0


def test_a_switch_is_on_with_any_value_but_0() -> None:
    refused = not_together("first", "second", "third")
    assert not any(each.holds(Switches(first=1, second=(0, 0))) for each in refused)
    (holds,) = (each for each in refused if each.holds(Switches(first=1, second=(0, 1))))
    assert holds.refusal == "second together with first is not specified"
    assert is_on(Switches(third=2), "third")


def test_partners_of_a_setting() -> None:
    refused = (*not_together("first", "second", "third"), *not_together("fourth", "first"))
    assert refused_with("first", refused) == ("second", "third", "fourth")
    assert refused_with("second", refused) == ("first",)
