"""The encoder budgets beside the specification: an engine's start, its intake, its profile run, and every era."""

from __future__ import annotations

from icontract import ensure, require

from cacheimpl.encoder_budget import BudgetEra, budget_of_era
from cacheimpl.encoder_budget.functions import compute_encoder_budget
from cacheimpl.encoder_budget.rules import EncoderBudget, Settings, budget_of, released_budget_of, settings_of
from cacheproof.model.target import Target
from cacheproof.prove.contract import Beside, Pair
from cacheproof.prove.implementation.side_by_side import agree, era
from cacheproof.targets.tensor.encoder_budget_functions import BudgetTarget, EraTarget, FunctionTarget
from cachespec import encoder_budget
from cachespec.encoder_budget import transitions
from cachespec.encoder_budget.configuration import Config
from cachespec.encoder_budget.operations import Admit, Configure
from cachespec.encoder_budget.state import Settings as SpecifiedSettings
from cachespec.kernel import Operation

ITEM = (0, 1, 1)
"""An item that every engine takes."""


def started(
    batch: int,
    *,
    sequences: int = 2,
    limits: tuple[int, ...] = (1,),
    whole: int = 0,
    threshold: int = 0,
    alignment: int = 1,
    compute: int = 0,
    space: int = 0,
) -> Configure:
    """An engine with these settings."""
    return Configure(batch, sequences, limits, 0, 1, whole, threshold, alignment, compute, space)


def model(
    embeds: tuple[int, ...],
    tokens: tuple[int, ...] = (),
    item: tuple[int, int, int] = ITEM,
    *,
    model_tokens: int = 1,
    constant: int = 4,
) -> Config:
    """A model of these largest items."""
    items = (item,)
    return Config(embeds, tokens or embeds, items, (1,), model_tokens=model_tokens, constant=constant)


def as_normative(config: Config, *operations: Operation) -> bool:
    """`MultiModalBudget` beside the normative variant."""
    component = encoder_budget.COMPONENT
    return agree(BudgetTarget(as_released=False), component, component.normative, config, operations)


def as_era(tag: str, target: Target, config: Config, *operations: Operation) -> bool:
    """A function of ours beside an era."""
    component = encoder_budget.COMPONENT
    return agree(target, component, era(component, tag), config, operations)


@require(lambda batch, compute, embeds: min(batch, embeds) > 0 and compute >= 0)
@ensure(lambda result: result)
def compute_budget(batch: int, compute: int, embeds: int) -> bool:
    """Both budgets and the profiled items, if items may be split and the compute budget is set."""
    return as_normative(model((embeds,)), started(batch, compute=compute))


@require(lambda batch, space, embeds: min(batch, embeds) > 0 and space >= 0)
@ensure(lambda result: result)
def space_budget(batch: int, space: int, embeds: int) -> bool:
    """The same, if the size of the cache is set."""
    return as_normative(model((embeds,)), started(batch, space=space))


@require(lambda batch, embeds, separators: min(batch, embeds) > 0 and separators >= 0)
@ensure(lambda result: result)
def whole_items(batch: int, embeds: int, separators: int) -> bool:
    """An engine that may not split items starts only if the largest fits a step, separators included."""
    return as_normative(model((embeds,), (embeds + separators,)), started(batch, whole=1))


@require(lambda batch, threshold, embeds: min(batch, embeds) > 0 and threshold >= 0)
@ensure(lambda result: result)
def shared_steps(batch: int, threshold: int, embeds: int) -> bool:
    """The same, if one request gets no more than a threshold of each step."""
    return as_normative(model((embeds,)), started(batch, whole=1, threshold=threshold))


@require(lambda batch, embeds, alignment: min(batch, embeds, alignment) > 0)
@ensure(lambda result: result)
def aligned_steps(batch: int, embeds: int, alignment: int) -> bool:
    """The same, if steps end at multiples of a number of tokens."""
    return as_normative(model((embeds,)), started(batch, whole=1, alignment=alignment))


@require(lambda batch, compute, embeds: min(batch, compute, embeds) > 0)
@ensure(lambda result: result)
def intake(batch: int, compute: int, embeds: int) -> bool:
    """An item is admitted only if it fits both budgets."""
    return as_normative(model((2,), item=(0, embeds, embeds)), started(batch, compute=compute), Admit(0))


@require(lambda batch, embeds, separators: min(batch, embeds) > 0 and separators >= 0)
@ensure(lambda result: result)
def intake_of_whole_items(batch: int, embeds: int, separators: int) -> bool:
    """An item that may not be split is admitted only if its tokens fit a step."""
    return as_normative(model((1,), item=(0, embeds, embeds + separators)), started(batch, whole=1), Admit(0))


@require(lambda batch, sequences, limit, size: min(batch, sequences, limit, size) > 0)
@ensure(lambda result: result)
def profile_run(batch: int, sequences: int, limit: int, size: int) -> bool:
    """Items of a prompt, and of the batch that the encoder is profiled with."""
    return as_normative(model((size,), model_tokens=8), started(batch, sequences=sequences, limits=(limit,)))


@require(lambda constant: constant > 0)
@ensure(lambda result: result)
def constants(constant: int) -> bool:
    """B0: both budgets are constants."""
    return as_era("B0", EraTarget(BudgetEra.CONSTANTS), model((3,), constant=constant), started(8))


@require(lambda batch, sequences, size: min(batch, sequences, size) > 0)
@ensure(lambda result: result)
def one_more(batch: int, sequences: int, size: int) -> bool:
    """B1: the items of a step, and one more."""
    return as_era("B1", EraTarget(BudgetEra.ONE_MORE), model((size,)), started(batch, sequences=sequences))


@require(lambda batch, limit, size: min(batch, size) > 0 and 0 <= limit <= 2)
@ensure(lambda result: result)
def one_more_as_reviewed(batch: int, limit: int, size: int) -> bool:
    """B2: the same, as far as all requests have items."""
    return as_era("B2", EraTarget(BudgetEra.ONE_MORE_AS_REVIEWED), model((size,)), started(batch, limits=(limit,)))


@require(lambda batch, size: min(batch, size) > 0)
@ensure(lambda result: result)
def merged(batch: int, size: int) -> bool:
    """B3: the larger of a step and the largest item."""
    return as_era("B3", EraTarget(BudgetEra.MERGED), model((2, size)), started(batch, limits=(1, 1)))


@require(lambda batch, size, whole: min(batch, size) > 0 and 0 <= whole <= 1)
@ensure(lambda result: result)
def checked(batch: int, size: int, whole: int) -> bool:
    """B4: the largest item is compared with a step."""
    return as_era("B4", FunctionTarget(), model((size,)), started(batch, whole=whole))


@require(lambda batch, size, item: min(batch, size, item) > 0)
@ensure(lambda result: result)
def in_embeddings(batch: int, size: int, item: int) -> bool:
    """B5: an item is compared with the space of the cache."""
    return as_era(
        "B5", BudgetTarget(as_released=True), model((size,), item=(0, item, item)), started(batch, whole=1), Admit(0)
    )


@require(lambda batch, size, compute, space: min(batch, size) > 0 and min(compute, space) >= 0)
@ensure(lambda result: result)
def as_set(batch: int, size: int, compute: int, space: int) -> bool:
    """B6: both budgets can be set, and are raised if they are too small."""
    return as_era("B6", EraTarget(BudgetEra.AS_SET), model((size,)), started(batch, compute=compute, space=space))


ANY = "any positive sizes and settings"
LEDGER = {
    "compute_budget": Beside(f"{ANY}, one modality", budget_of, {"batch": 8, "compute": 3, "embeds": 9}, 8),
    "space_budget": Beside(f"{ANY}, one modality", settings_of, {"batch": 8, "space": 3, "embeds": 9}, 8),
    "whole_items": Beside(
        f"{ANY}, one modality",
        Settings.longest_item.fget,  # type: ignore[attr-defined]  # mypy takes a property for its value
        {"batch": 8, "embeds": 5, "separators": 4},
        4,
    ),
    "shared_steps": Beside(
        f"{ANY}, one modality", settings_of, {"batch": 8, "threshold": 6, "embeds": 5}, 8, nightly=True
    ),
    "aligned_steps": Beside(f"{ANY}, one modality", budget_of, {"batch": 9, "embeds": 5, "alignment": 4}, 4),
    "intake": Beside(f"{ANY}, one modality", EncoderBudget.check_item, {"batch": 8, "compute": 8, "embeds": 9}, 8),
    "intake_of_whole_items": Beside(
        f"{ANY}, one modality", EncoderBudget.check_item, {"batch": 8, "embeds": 5, "separators": 4}, 8
    ),
    "profile_run": Beside(
        f"{ANY}, a model of 8 tokens",
        EncoderBudget.profiled,
        {"batch": 8, "sequences": 2, "limit": 3, "size": 2},
        8,
        nightly=True,
    ),
    "constants": Beside("any constant", budget_of_era, {"constant": 3}),
    "one_more": Beside(ANY, budget_of_era, {"batch": 8, "sequences": 2, "size": 3}, 4),
    "one_more_as_reviewed": Beside(
        f"{ANY}, at most 2 items in a prompt", budget_of_era, {"batch": 8, "limit": 2, "size": 3}, 4
    ),
    "merged": Beside(f"{ANY}, two modalities", budget_of_era, {"batch": 8, "size": 9}, 4),
    "checked": Beside(ANY, compute_encoder_budget, {"batch": 8, "size": 9, "whole": 1}, 4),
    "in_embeddings": Beside(ANY, released_budget_of, {"batch": 8, "size": 3, "item": 9}, 4),
    "as_set": Beside(ANY, budget_of_era, {"batch": 8, "size": 9, "compute": 0, "space": 0}, 8, nightly=True),
}


# Arithmetic of both -------------------------------------------------------------------------------------------------


def specified_longest(batch: int, threshold: int, alignment: int) -> int:
    """Of the specification."""
    if min(batch, alignment) < 1 or threshold < 0:
        raise ValueError
    return transitions.longest_item(
        SpecifiedSettings(batch_tokens=batch, threshold=threshold, alignment=alignment, limits=(1,))
    )


def implemented_longest(batch: int, threshold: int, alignment: int) -> int:
    """Of the implementation."""
    if min(batch, alignment) < 1 or threshold < 0:
        raise ValueError
    return Settings(batch, 0, 0, 1, True, False, threshold, alignment).longest_item


PAIRS = {
    "longest_item": Pair(
        "tokens of the longest item that one step takes whole",
        specified_longest,
        implemented_longest,
        Settings.longest_item.fget,  # type: ignore[attr-defined]  # mypy takes a property for its value
        {"batch": 9, "threshold": 8, "alignment": 2},
        "any batch and alignment that are positive, any threshold",
    ),
}
