"""What must hold of the budgets: BUD."""

from __future__ import annotations

from cachespec.encoder_budget.configuration import Config
from cachespec.encoder_budget.operations import Admit, Configure
from cachespec.encoder_budget.state import Settings, View, settings_of
from cachespec.kernel import Code, Operation, Outcome, Safety, Step

# The sizes are said anew here: a property that asked the rules' own functions would go wrong with them.


def is_enabled(settings: Settings, modality: int) -> bool:
    """Encoded here, or taken as embeddings."""
    return max(settings.limits[modality], settings.embeddings) > 0


def largest_item(sizes: tuple[int, ...], settings: Settings) -> int:
    """Of the modalities that are enabled."""
    return max((size for modality, size in enumerate(sizes) if is_enabled(settings, modality)), default=0)


def splits_items(settings: Settings) -> bool:
    """Prompts are cut, and items with them."""
    return bool(settings.chunked_prefill) and not settings.whole_items


def longest_item(settings: Settings) -> int:
    """A chunk ends at the last multiple of the alignment within the step; the item may begin late in a multiple."""
    step = min(settings.batch_tokens, settings.threshold or settings.batch_tokens)
    chunk = max(range(0, step + 1, settings.alignment))
    return max(0, chunk + 1 - settings.alignment)


def takes_the_largest(config: Config, view: View) -> bool:
    largest = largest_item(config.embeds, view.settings) if view.configured else 0
    return min(view.compute, view.space) >= largest


def any_enabled(config: Config, settings: Settings) -> bool:
    """Whether there is an item that clients may send."""
    return any(is_enabled(settings, modality) for modality in range(len(config.embeds)))


def nothing_for_nothing(config: Config, view: View) -> bool:
    there = bool(view.configured) and any_enabled(config, view.settings)
    return (view.compute > 0) == there and (view.space > 0) == there


def profiling_fits(config: Config, view: View) -> bool:
    usable = min(view.compute, view.space)
    encoded = [size for size, limit in zip(config.embeds, view.settings.limits, strict=False) if limit > 0]
    counts = [count for count in view.per_batch if count > 0]
    return len(counts) == len(encoded) and all(
        count * size <= usable for count, size in zip(view.per_batch, config.embeds, strict=True)
    )


def fits_both_budgets(config: Config, view: View) -> bool:
    return all(config.items[item][1] <= min(view.compute, view.space) for item in view.admitted)


def fits_a_chunk(config: Config, view: View) -> bool:
    if splits_items(view.settings):
        return True
    return all(config.items[item][2] <= longest_item(view.settings) for item in view.admitted)


def is_no_more_than_asked(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Configure) or outcome.code is not Code.DONE:
        return True
    settings = settings_of(op)
    largest = largest_item(config.embeds, settings)
    return after.compute <= max(settings.compute or settings.batch_tokens, largest) and after.space <= max(
        settings.space or settings.batch_tokens, largest
    )


def turned_down_for_a_reason(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Admit) or outcome.code is Code.DONE:
        return True
    modality, embeds, tokens = config.items[op.item]
    if outcome.code is Code.REFUSED:
        return before.configured == 0 or not is_enabled(before.settings, modality)
    too_long = not splits_items(before.settings) and tokens > longest_item(before.settings)
    return embeds > min(before.compute, before.space) or too_long


def answers_are_so(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """What is let in is queued, and is of a modality that is on; an engine has the settings that it started with."""
    if isinstance(op, Admit):
        if outcome.code is not Code.DONE:
            return after == before
        return op.item in after.admitted and is_enabled(before.settings, config.items[op.item][0])
    if isinstance(op, Configure) and outcome.code is Code.DONE:
        return after.configured == 1 and after.settings == settings_of(op)
    return after == before


def is_no_less_than_asked(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Configure) or outcome.code is not Code.DONE or not any_enabled(config, settings_of(op)):
        return True
    compute, space = op.compute or op.batch_tokens, op.space or op.batch_tokens
    return after.compute >= compute and after.space >= space


def starts_if_it_can(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Configure) or outcome.code is Code.UNSUPPORTED:
        return True
    settings = settings_of(op)
    never = not splits_items(settings) and largest_item(config.tokens, settings) > longest_item(settings)
    return (outcome.code is Code.DONE) == (not never)


def differs_in_batch_only(before: Settings, now: Settings) -> bool:
    """The same settings with more tokens in a step."""
    return before._replace(batch_tokens=now.batch_tokens) == now and before.batch_tokens < now.batch_tokens


def grows_with_the_batch(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Configure) or not before.configured:
        return True
    if not differs_in_batch_only(before.settings, settings_of(op)):
        return True
    grown = after.compute >= before.compute and after.space >= before.space
    return outcome.code is Code.DONE and grown


SAFETY: tuple[Safety[Config, View], ...] = (
    Safety(
        "BUD-1",
        "each encoder budget is at least the size of the largest item of every enabled modality",
        takes_the_largest,
        lambda c, v: min(v.compute, v.space) == largest_item(c.embeds, v.settings) if v.configured else False,
    ),
    Safety(
        "BUD-1/profile",
        "profiling encodes at least one item of each encoded modality, and never more than the encoder accepts at once",
        profiling_fits,
        lambda c, v: max(v.per_batch, default=0) > 1,
    ),
    Safety(
        "BUD-2",
        "both encoder budgets are 0 if and only if no modality is enabled",
        nothing_for_nothing,
        lambda c, v: bool(v.configured) and not any_enabled(c, v.settings),
    ),
    Safety(
        "BUD-3",
        "every queued item is at most as large as either budget",
        fits_both_budgets,
        lambda c, v: any(c.items[item][1] == min(v.compute, v.space) for item in v.admitted),
    ),
    Safety(
        "BUD-4",
        "if items may not be split, every queued item fits a chunk that is guaranteed to occur",
        fits_a_chunk,
        lambda c, v: (
            not splits_items(v.settings) and any(c.items[i][2] == longest_item(v.settings) for i in v.admitted)
        ),
    ),
)

STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "BUD-1/least",
        "no budget exceeds the larger of the requested budget and the largest item",
        is_no_more_than_asked,
        lambda c, b, op, o, a: a.compute > 0 and a.compute == largest_item(c.embeds, a.settings),
    ),
    Step(
        "BUD-3/reason",
        "an item is rejected only if its modality is disabled or it can never be scheduled",
        turned_down_for_a_reason,
        lambda c, b, op, o, a: o.code is Code.TOO_LARGE,
    ),
    Step(
        "BUD-3/answered",
        "an accepted item is queued and its modality is enabled; a rejected item changes nothing",
        answers_are_so,
        lambda c, b, op, o, a: isinstance(op, Admit) and o.code is Code.REFUSED and bool(b.configured),
    ),
    Step(
        "BUD-1/asked",
        "if any item can occur, each budget is at least the requested one",
        is_no_less_than_asked,
        lambda c, b, op, o, a: a.compute > largest_item(c.embeds, a.settings) if a.configured else False,
    ),
    Step(
        "BUD-4/start",
        "an engine starts if and only if it can schedule the largest item of every modality",
        starts_if_it_can,
        lambda c, b, op, o, a: isinstance(op, Configure) and o.code is Code.REFUSED,
    ),
    Step(
        "BUD-5",
        "raising the token budget of a step never lowers an encoder budget and never prevents a start",
        grows_with_the_batch,
        lambda c, b, op, o, a: isinstance(op, Configure) and a.compute > b.compute > 0,
    ),
)
