"""How the budgets were computed in real systems, formula by formula.

- budget-2024-12 (B0), before #11895: two constants, whatever the model.
- budget-2025-01a (B1), #11895 as first proposed: the items that a step can hold, and one more, but no more than there
  are requests; as compute budget and as space.
- budget-2025-01b (B2), the branch as reviewed: no more than there are requests times items in each.
- budget-2025-02 (B3), #11895 as merged, released with 0.7.3: the larger of a step's tokens and the largest item.
- budget-2025-10 (B4), released with 0.11.0: an engine that may not split items checks the largest at its start
  (#16447).
- budget-2026-05 (B5), released with 0.20.2 and 0.33.0: sizes are embeddings (#30475), and intake looks at the space
  (#33110).
- budget-2026-02 (B6), a short time on main and in no release (#34051): both budgets can be set.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from cachespec.encoder_budget.configuration import Config
from cachespec.encoder_budget.environment import calls
from cachespec.encoder_budget.operations import Admit, Configure
from cachespec.encoder_budget.state import (
    Budget,
    Settings,
    View,
    initial,
    settings_of,
    view,
    view_in_tokens,
    view_of_budgets,
)
from cachespec.encoder_budget.transitions import is_enabled, largest_item, let_in, more, started, without_items
from cachespec.kernel import DONE, REFUSED, TOO_LARGE, UNSUPPORTED, Outcome, Variant

Result = tuple[Budget, Outcome]
Formula = Callable[[Config, Settings], tuple[int, int, int]]
"""The largest item that it counts, the compute budget, and the space."""


# Formulas -----------------------------------------------------------------------------------------------------------


def constants(config: Config, settings: Settings) -> tuple[int, int, int]:
    """B0: the model is not looked at."""
    return 0, config.constant, config.constant


def items_of_a_step(batch_tokens: int, largest: int) -> int:
    """The number of largest items that cover a step's tokens, rounded up."""
    return 1 if largest > batch_tokens else (batch_tokens + largest - 1) // largest


def one_more(config: Config, settings: Settings) -> tuple[int, int, int]:
    """B1: what a step can hold, and one more."""
    largest = largest_item(config.tokens, settings)
    if largest == 0:
        return 0, 0, 0
    items = min(items_of_a_step(settings.batch_tokens, largest) + 1, settings.sequences)
    return largest, items * largest, items * largest


def one_more_as_reviewed(config: Config, settings: Settings) -> tuple[int, int, int]:
    """B2: a request may have several items."""
    largest = largest_item(config.tokens, settings)
    if largest == 0:
        return 0, 0, 0
    there_can_be = settings.sequences * max(1, largest_limit(settings.limits))
    items = min(items_of_a_step(settings.batch_tokens, largest) + 1, there_can_be)
    return largest, items * largest, items * largest


def largest_limit(limits: tuple[int, ...]) -> int:
    """The most items of one modality that a prompt may have."""
    limit, modality = 0, 0
    while more(limits, modality):
        limit, modality = max(limit, limits[modality]), modality + 1
    return limit


def larger_of_step_and_item(settings: Settings, largest: int) -> tuple[int, int, int]:
    """#11895 as merged."""
    if largest == 0:
        return 0, 0, 0
    return largest, max(settings.batch_tokens, largest), max(settings.batch_tokens, largest)


def merged(config: Config, settings: Settings) -> tuple[int, int, int]:
    """B3, B4: separators are counted as if they were encoded (C-ENC-17)."""
    return larger_of_step_and_item(settings, largest_item(config.tokens, settings))


def merged_in_embeddings(config: Config, settings: Settings) -> tuple[int, int, int]:
    """B5."""
    return larger_of_step_and_item(settings, largest_item(config.embeds, settings))


# Calls --------------------------------------------------------------------------------------------------------------


def has_no_such_setting(op: Configure) -> bool:
    """What came later than most of these: budgets that can be set."""
    return op.compute > 0 or op.space > 0


def by(config: Config, budget: Budget, settings: Settings, formula: Formula) -> Budget:
    """The engine with the budgets that the formula gives."""
    empty = without_items(budget)
    largest, compute, space = formula(config, settings)
    return started(empty, settings, largest, compute, space)


def configure_constants(config: Config, budget: Budget, op: Configure) -> Result:
    """C-ENC-22: a larger item than the constant is computed never; an encoder that is turned off keeps its cache."""
    return configure_without_check(config, budget, op, constants)


def configure_one_more(config: Config, budget: Budget, op: Configure) -> Result:
    """C-SCH-1: see `shared_prefix` for what the item more is good for."""
    return configure_without_check(config, budget, op, one_more)


def configure_one_more_as_reviewed(config: Config, budget: Budget, op: Configure) -> Result:
    """C-SCH-1: see `shared_prefix` for what the item more is good for."""
    return configure_without_check(config, budget, op, one_more_as_reviewed)


def configure_merged(config: Config, budget: Budget, op: Configure) -> Result:
    """C-ENC-17: in tokens."""
    return configure_without_check(config, budget, op, merged)


def configure_without_check(config: Config, budget: Budget, op: Configure, formula: Formula) -> Result:
    """Items can always be split, and embeddings ready made are not accepted yet."""
    if has_no_such_setting(op) or op.whole_items > 0 or op.embeddings > 0:
        return budget, UNSUPPORTED
    return by(config, budget, settings_of(op), formula), DONE


def configure_with_check(config: Config, budget: Budget, op: Configure) -> Result:
    """C-ENC-16: the largest item, in tokens, is held against a step, and not against a chunk. C-ENC-17: in tokens."""
    if has_no_such_setting(op) or op.embeddings > 0:
        return budget, UNSUPPORTED
    settings = settings_of(op)
    if settings.whole_items > 0 and largest_item(config.tokens, settings) > settings.batch_tokens:
        return budget, REFUSED
    return by(config, budget, settings, merged), DONE


def configure_in_embeddings(config: Config, budget: Budget, op: Configure) -> Result:
    """C-ENC-15: the largest item, in embeddings, is held against a step's tokens. C-ENC-16: and not against a chunk."""
    if has_no_such_setting(op):
        return budget, UNSUPPORTED
    settings = settings_of(op)
    if settings.whole_items > 0 and largest_item(config.embeds, settings) > settings.batch_tokens:
        return budget, REFUSED
    return by(config, budget, settings, merged_in_embeddings), DONE


def configure_as_set(config: Config, budget: Budget, op: Configure) -> Result:
    """C-ENC-23: a budget that is too small is raised, and what it was raised to is kept as if it had been asked for."""
    kept, empty = budget.settings, without_items(budget)
    largest = largest_item(config.embeds, settings_of(op))
    compute = op.compute if op.compute > 0 else kept.compute if kept.compute > 0 else op.batch_tokens
    space = op.space if op.space > 0 else kept.space if kept.space > 0 else compute
    if space < compute or (op.whole_items > 0 and largest > op.batch_tokens):
        return budget, REFUSED
    if largest == 0:
        return started(empty, settings_of(op), 0, 0, 0), DONE
    raised = settings_of(op)._replace(compute=max(compute, largest), space=max(space, largest))
    return started(empty, raised, largest, raised.compute, raised.space), DONE


def admit_everything(config: Config, budget: Budget, op: Admit) -> Result:
    """C-ENC-11: an item larger than both budgets is queued, and waits for ever."""
    modality, embeds, _ = config.items[op.item]
    if budget.configured == 0 or not is_enabled(budget.settings, modality):
        return budget, REFUSED
    return let_in(budget, op, embeds), DONE


def admit_by_space(config: Config, budget: Budget, op: Admit) -> Result:
    """C-ENC-11 repaired where the budgets are equal. C-ENC-15, C-ENC-16: it is not checked against a chunk."""
    modality, embeds, _ = config.items[op.item]
    if budget.configured == 0 or not is_enabled(budget.settings, modality):
        return budget, REFUSED
    if embeds > budget.space:
        return budget, TOO_LARGE
    return let_in(budget, op, embeds), DONE


NO_INTAKE = "C-ENC-11: no item is rejected for its size"
COUNTED = MappingProxyType({"BUD-1/asked": "the budget counts items, at most as many as requests can have"})

CONSTANT: Variant[Config, Budget, View] = Variant(
    tag="B0",
    title="budget-2024-12",
    state=Budget,
    initial=initial,
    transitions={Configure: configure_constants, Admit: admit_everything},
    view=view_of_budgets,
    alphabet=calls,
    differences={Configure: "both budgets are constants", Admit: NO_INTAKE},
)

ONE_MORE = CONSTANT.era(
    "B1",
    "budget-2025-01a",
    {Configure: configure_one_more},
    {Configure: "the largest items that fit a step plus one, at most as many as there are requests"},
    exempt=COUNTED,
)

ONE_MORE_AS_REVIEWED = CONSTANT.era(
    "B2",
    "budget-2025-01b",
    {Configure: configure_one_more_as_reviewed},
    {Configure: "the largest items that fit a step plus one, at most as many as all requests have"},
    exempt=COUNTED,
)

MERGED = CONSTANT.era(
    "B3",
    "budget-2025-02",
    {Configure: configure_merged},
    {Configure: "C-ENC-17: the larger of a step's tokens and the largest item's tokens"},
)

CHECKED = CONSTANT.era(
    "B4",
    "budget-2025-10",
    {Configure: configure_with_check},
    {Configure: "C-ENC-16, C-ENC-17: as B3; if items may not be split, the largest must fit a step"},
    view=view_in_tokens,
)

IN_EMBEDDINGS = CONSTANT.era(
    "B5",
    "budget-2026-05",
    {Configure: configure_in_embeddings, Admit: admit_by_space},
    {
        Configure: "C-ENC-15, C-ENC-16: as B4, but compares embeddings with a step's tokens",
        Admit: "C-ENC-15, C-ENC-16: compares the item with the cache space, not with a chunk",
    },
    view=view,
)

AS_SET = IN_EMBEDDINGS.era(
    "B6",
    "budget-2026-02",
    {Configure: configure_as_set},
    {
        Configure: "C-ENC-23: both budgets can be set; too small a value is raised, also in the settings",
        Admit: "C-ENC-23: compares the item with the cache space, which may exceed the compute budget",
    },
)
