"""How the two budgets follow from the settings, and which items are let in, normatively.

What is let in can be scheduled: its embeddings fit both budgets, and where it may not be split, its tokens fit one step
wherever in the prompt it begins. Everything else is said to its client at once; a queue has no place for what can
never leave it. A budget is no larger than that takes: room for "one more item" (#11895) is not what keeps a scheduled
count positive, see `shared_prefix`.
"""

from __future__ import annotations

from cachespec.encoder_budget.configuration import NOTHING, Config, Modality
from cachespec.encoder_budget.operations import Admit, Configure
from cachespec.encoder_budget.state import Budget, Settings, settings_of
from cachespec.kernel import DONE, REFUSED, TOO_LARGE, Outcome, Transitions

Result = tuple[Budget, Outcome]


# Sizes --------------------------------------------------------------------------------------------------------------


def is_enabled(settings: Settings, modality: Modality) -> bool:
    """Clients may send it: to be encoded, or, where embeddings are accepted, encoded already."""
    return settings.limits[modality] > 0 or settings.embeddings > 0


def largest_item(sizes: tuple[int, ...], settings: Settings) -> int:
    """The largest item of a modality that is enabled, as profiled; 0 where none is. BUD-1, BUD-2."""
    largest, modality = 0, 0
    while more(sizes, modality):
        largest, modality = with_modality(sizes, settings, largest, modality), modality + 1
    return largest


def more(sizes: tuple[int, ...], modality: Modality) -> bool:
    """The test of a loop over modalities."""
    return modality < len(sizes)


def with_modality(sizes: tuple[int, ...], settings: Settings, largest: int, modality: Modality) -> int:
    """The body of the loop: one modality more."""
    return max(largest, sizes[modality]) if is_enabled(settings, modality) else largest


def asked_compute(settings: Settings) -> int:
    """Without a word from the operator: as much as a step has tokens."""
    return settings.compute if settings.compute > 0 else settings.batch_tokens


def asked_space(settings: Settings) -> int:
    """Without a word from the operator: as much as a step has tokens."""
    return settings.space if settings.space > 0 else settings.batch_tokens


def splits_items(settings: Settings) -> bool:
    """Whether a step may end inside an item."""
    return settings.chunked_prefill > 0 and settings.whole_items == 0


def largest_chunk(settings: Settings) -> int:
    """The most tokens that one request can be sure of in one step.

    C-ENC-16: the threshold counts, because others may wait for as long as this request does. What an alignment cuts
    off is gone.
    """
    tokens = settings.batch_tokens
    if settings.threshold > 0:
        tokens = min(tokens, settings.threshold)
    return tokens // settings.alignment * settings.alignment


def longest_item(settings: Settings) -> int:
    """Tokens of the longest item that one chunk takes whole, wherever it begins.

    A chunk begins at a multiple of the alignment, so up to `alignment - 1` tokens of text come before the item.
    """
    return max(0, largest_chunk(settings) - (settings.alignment - 1))


# Items that were let in ---------------------------------------------------------------------------------------------


def let_in(budget: Budget, op: Admit, embeds: int) -> Budget:
    """The item is queued."""
    return budget._replace(admitted=budget.admitted.push(op.item, embeds))


def without_items(budget: Budget) -> Budget:
    """Nothing that was let in before is there any more."""
    while has_items(budget):
        budget = without_oldest(budget)
    return budget


def has_items(budget: Budget) -> bool:
    """The test of the emptying loop."""
    return budget.admitted.length > 0


def without_oldest(budget: Budget) -> Budget:
    """The body of the emptying loop: `admitted` becomes shorter."""
    return budget._replace(admitted=budget.admitted.remove(budget.admitted.oldest(NOTHING)))


# Calls --------------------------------------------------------------------------------------------------------------


def started(budget: Budget, settings: Settings, largest: int, compute: int, space: int) -> Budget:
    """The engine with these budgets; `budget` is empty, as nothing was let in yet."""
    return budget._replace(
        configured=1,
        settings=settings,
        largest=largest,
        compute=compute,
        space=space,
        longest=0 if splits_items(settings) else longest_item(settings),
    )


def configure(config: Config, budget: Budget, op: Configure) -> Result:
    """BUD-1: each budget takes the largest item. BUD-2: both are 0 where there is none. BUD-5: `max` only grows.

    C-ENC-15: where items may not be split, the profiled items are held against a step *in tokens*, and an engine that
    could not schedule them does not start.
    """
    settings, empty = settings_of(op), without_items(budget)
    largest, tokens = largest_item(config.embeds, settings), largest_item(config.tokens, settings)
    if largest == 0:
        return started(empty, settings, 0, 0, 0), DONE
    compute, space = max(asked_compute(settings), largest), max(asked_space(settings), largest)
    engine = started(empty, settings, largest, compute, space)
    if not splits_items(settings) and tokens > engine.longest:
        return budget, REFUSED
    return engine, DONE


def admit(config: Config, budget: Budget, op: Admit) -> Result:
    """BUD-3: what does not fit both budgets is turned down (C-ENC-11). BUD-4: so is what fits no step (C-ENC-16)."""
    modality, embeds, tokens = config.items[op.item]
    if budget.configured == 0 or not is_enabled(budget.settings, modality):
        return budget, REFUSED
    if embeds > min(budget.compute, budget.space):
        return budget, TOO_LARGE
    if not splits_items(budget.settings) and tokens > budget.longest:
        return budget, TOO_LARGE
    return let_in(budget, op, embeds), DONE


TRANSITIONS: Transitions[Config, Budget] = {Configure: configure, Admit: admit}
