"""Formulas for the encoder budgets with the scheduling rules of their time, and what would have made them enough.

- B0, before #11895: constants, and an item without room leaves `start - computed` tokens, which may be negative.
- B1, B2, #11895 as proposed and as reviewed: room for one item more, and the same rule.
- B1-shared: B1 with today's manager, which shares encoder outputs by content and evicts them.
- B3, #11895 as merged, released with 0.7.3: no room for an item more; the count is 0 instead.
- enough, enough-shared: the old rule, and room for all items of all requests that can run at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cachespec import encoder_budget, encoder_cache
from cachespec.encoder_budget.eras import merged, one_more, one_more_as_reviewed
from cachespec.kernel import Containers, Operation, Outcome, Transitions, Variant
from cachespec.shared_prefix.configuration import Config
from cachespec.shared_prefix.environment import calls
from cachespec.shared_prefix.operations import Add, Finish, Step
from cachespec.shared_prefix.state import PerRequestState, State, View, view
from cachespec.shared_prefix.transitions import Rules, add, finish_by, initial_by, largest, step_by, up_to_the_item


def settings_of(config: Config) -> tuple[encoder_budget.Config, encoder_budget.Settings]:
    """The model and the settings as the formulas see them: one modality."""
    limit = max(1, *(len(items) for items in config.items))
    size = largest(config)
    model = encoder_budget.Config(
        embeds=(size,), tokens=(size,), items=(), batches=(config.batch_tokens,), constant=config.constant
    )
    settings = encoder_budget.Settings(
        batch_tokens=config.batch_tokens, sequences=config.sequences, limits=(limit,), chunked_prefill=1
    )
    return model, settings


def constants(config: Config) -> tuple[int, int]:
    """B0."""
    return config.constant, config.constant


def with_one_more(config: Config) -> tuple[int, int]:
    """B1."""
    _, compute, space = one_more(*settings_of(config))
    return compute, space


def with_one_more_as_reviewed(config: Config) -> tuple[int, int]:
    """B2."""
    _, compute, space = one_more_as_reviewed(*settings_of(config))
    return compute, space


def as_merged(config: Config) -> tuple[int, int]:
    """B3."""
    _, compute, space = merged(*settings_of(config))
    return compute, space


def for_all_that_run(config: Config) -> tuple[int, int]:
    """The sufficient condition: only running requests hold slots, and each has so many items at most."""
    most = max(1, *(len(items) for items in config.items))
    room = config.sequences * most * largest(config)
    return room, room


def back_to_the_item(start: int, computed: int) -> int:
    """C-SCH-1: negative where the request is inside the item already."""
    return start - computed


AT_SCHEDULE = "a block counts as cached when scheduled, so a later request of the same step starts after it"
NOT_ASKED = {"SCH-2/counted": AT_SCHEDULE, "SCH-8/reason": AT_SCHEDULE}
"""Of every variant but the normative one, whatever its budgets are."""

OTHER_ROOM = "the encoder cache has the size given by the rule of that release"

PER_REQUEST = encoder_cache.PER_REQUEST
SHARED = encoder_cache.NORMATIVE_ENCODER_CACHE

RULES: Mapping[str, Rules] = MappingProxyType(
    {
        "B0": Rules(constants, back_to_the_item, PER_REQUEST, at_schedule=1),
        "B1": Rules(with_one_more, back_to_the_item, PER_REQUEST, at_schedule=1),
        "B2": Rules(with_one_more_as_reviewed, back_to_the_item, PER_REQUEST, at_schedule=1),
        "B1-shared": Rules(with_one_more, back_to_the_item, SHARED, at_schedule=1),
        "B3": Rules(as_merged, up_to_the_item, PER_REQUEST, at_schedule=1),
        "enough": Rules(for_all_that_run, back_to_the_item, PER_REQUEST, at_schedule=1),
        "enough-shared": Rules(for_all_that_run, back_to_the_item, SHARED, at_schedule=1),
    }
)
"""The rules of each variant, by its tag."""


def transitions_by(rules: Rules) -> Transitions[Config, Any]:
    """The transitions of the same scheduler by other rules."""

    def step(config: Config, state: Any, op: Step) -> tuple[Any, Outcome]:
        return step_by(config, state, rules)

    def finish(config: Config, state: Any, op: Finish) -> tuple[Any, Outcome]:
        return finish_by(config, state, op, rules)

    return MappingProxyType({Add: add, Step: step, Finish: finish})


def variant_of(tag: str, title: str, differences: Mapping[type[Operation], str]) -> Variant[Config, Any, View]:
    """The variant with the rules of this tag."""
    rules = RULES[tag]
    kind: type[Any] = PerRequestState if rules.encoder is PER_REQUEST else State

    def initial(config: Config, containers: Containers) -> Any:
        return initial_by(config, containers, rules, kind)

    return Variant(
        tag=tag,
        title=title,
        state=kind,
        initial=initial,
        transitions=transitions_by(rules),
        view=view,
        alphabet=calls,
        differences=differences,
        start_differs="" if rules.budgets is as_merged else OTHER_ROOM,
        exempt=NOT_ASKED,
    )


CONSTANT = variant_of(
    "B0",
    "budget-2024-12",
    {Step: "C-SCH-1: constant budgets; an item without room leaves start minus computed tokens"},
)
ONE_MORE = variant_of(
    "B1",
    "budget-2025-01a",
    {Step: "C-SCH-1: room for one more item; an item without room leaves start minus computed tokens"},
)
ONE_MORE_AS_REVIEWED = variant_of(
    "B2",
    "budget-2025-01b",
    {Step: "C-SCH-1: as B1, at most as many items as all requests have"},
)
ONE_MORE_SHARED = variant_of(
    "B1-shared",
    "budget-2025-01a with shared outputs",
    {Step: "C-SCH-1: as B1, with encoder outputs shared by content and evicted"},
)
MERGED = variant_of(
    "B3",
    "budget-2025-02",
    {Step: "outputs are not shared; a block counts as cached when scheduled"},
)
ENOUGH = variant_of(
    "enough",
    "room for all that run",
    {Step: "the old rule never applies: there is room for every item of every running request"},
)
ENOUGH_SHARED = variant_of(
    "enough-shared",
    "room for all that run, with shared outputs",
    {Step: "the same with encoder outputs shared by content"},
)
