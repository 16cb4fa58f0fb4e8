"""The two encoder budgets of an engine, computed from its settings; and which items are admitted.

An item has two sizes: its *embeddings* are what the encoder computes and its cache stores, its *tokens* are its
placeholders in the prompt, which separators make longer. Budgets are in embeddings, steps in tokens (C-ENC-15).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cacheimpl import counts
from cacheimpl.encoder_budget.errors import InvalidSettingError, ItemTooLargeError, ItemTooLongError


class Settings(NamedTuple):
    """What is read of a scheduler's configuration."""

    batch_tokens: int
    """`max_num_batched_tokens`: tokens of one step, of all requests together."""
    compute: int
    """`max_num_encoder_input_tokens`; 0 or nothing: as many as a step has tokens."""
    space: int
    """`encoder_cache_size`; 0 or nothing: as many as a step has tokens."""
    sequences: int
    """`max_num_seqs`: requests that run at once."""
    chunked_prefill: bool
    """`enable_chunked_prefill`. False: a prompt is computed in one step."""
    whole_items: bool
    """`disable_chunked_mm_input`. True: no step ends inside an item."""
    threshold: int
    """`long_prefill_token_threshold`: tokens of one request in one step, while others wait; 0 for no such limit."""
    alignment: int
    """A step ends at a multiple of so many tokens, unless it ends the prompt; 1 for no such rule."""

    @property
    def splits_items(self) -> bool:
        """Whether a step may end inside an item."""
        return self.chunked_prefill and not self.whole_items

    @property
    def longest_item(self) -> int:
        """Tokens of the longest item that one step takes whole, wherever in the prompt it begins.

        C-ENC-16: the threshold applies, since other requests may wait as long as this one runs. C-ENC-24: an alignment
        cuts tokens off, at the end of a step and before the item.
        """
        tokens = min(self.batch_tokens, self.threshold) if self.threshold else self.batch_tokens
        return max(0, tokens // self.alignment * self.alignment - (self.alignment - 1))


def settings_of(scheduler_config: Any, alignment: int = 1) -> Settings:
    """The settings of a duck-typed scheduler configuration. Raises `InvalidSettingError`."""
    batch_tokens = counted(scheduler_config, "max_num_batched_tokens")
    return Settings(
        batch_tokens=batch_tokens,
        compute=counted(scheduler_config, "max_num_encoder_input_tokens", 0) or batch_tokens,
        space=counted(scheduler_config, "encoder_cache_size", 0) or batch_tokens,
        sequences=counted(scheduler_config, "max_num_seqs", 1),
        chunked_prefill=bool(getattr(scheduler_config, "enable_chunked_prefill", True)),
        whole_items=bool(getattr(scheduler_config, "disable_chunked_mm_input", False)),
        threshold=counted(scheduler_config, "long_prefill_token_threshold", 0),
        alignment=positive("alignment", alignment),
    )


class EncoderBudget(NamedTuple):
    """Both budgets, in embeddings, and the longest item that fits a step."""

    compute: int
    """What the encoder takes in one step."""
    space: int
    """What its cache holds."""
    longest_item: int | None
    """Tokens of the longest item that may arrive; None where items may be split."""
    settings: Settings

    @property
    def usable(self) -> int:
        """The smaller budget: the largest admitted item, in embeddings."""
        return min(self.compute, self.space)

    def check_item(self, embeds: int, tokens: int) -> None:
        """Raises `ItemTooLargeError` or `ItemTooLongError` for an item that can never be scheduled.

        Such an item must not be queued (C-ENC-11).
        """
        whole("the item's embeddings", embeds)
        whole("the item's tokens", tokens)
        if embeds > self.usable:
            raise ItemTooLargeError(
                f"the item has {embeds} embeddings, and the encoder takes {self.compute} in a step and keeps "
                f"{self.space}: send a smaller item, or raise max_num_batched_tokens"
            )
        if self.longest_item is not None and tokens > self.longest_item:
            raise ItemTooLongError(too_long("the item", tokens, self.longest_item))

    def profiled(self, size: int, limit: int, model_tokens: int) -> tuple[int, int]:
        """Items of one modality in a prompt, and in a batch that the encoder is profiled with.

        `size`: embeddings of its largest item; `limit`: items of it in one prompt; `model_tokens`: the longest
        sequence that the model takes. A batch has as many items as the smaller budget holds, at most those of all
        running requests, and at least one; none if the modality is off.
        """
        whole("size, of the largest item,", size)
        whole("limit, of items in a prompt,", limit)
        whole("model_tokens, of the longest sequence,", model_tokens)
        if min(size, limit, self.usable) <= 0:
            return 0, 0
        per_prompt, running = max(1, min(limit, model_tokens // size)), self.settings.sequences
        if not self.settings.chunked_prefill:
            running = min(running, self.settings.batch_tokens // size)
        return per_prompt, max(1, min(self.usable // size, running * per_prompt))


def budget_of(settings: Settings, embeds: Mapping[str, int], tokens: Mapping[str, int]) -> EncoderBudget:
    """The budgets for the largest item of each modality that is on, in embeddings and in tokens.

    Raises `ItemTooLongError` if items may not be split and one of these could never be scheduled.
    """
    largest, most_tokens = largest_of(embeds), largest_of(tokens)
    longest = None if settings.splits_items else settings.longest_item
    if largest == 0:
        return EncoderBudget(0, 0, longest, settings)
    if longest is not None and most_tokens > longest:
        raise ItemTooLongError(too_long("the largest item", most_tokens, longest))
    return EncoderBudget(max(settings.compute, largest), max(settings.space, largest), longest, settings)


def released_budget_of(settings: Settings, sizes: Mapping[str, int]) -> EncoderBudget:
    """The budgets of releases 0.11.0 to 0.33.0: sizes are compared with a step in one unit, without further checks.

    C-ENC-11 (chunked prefill off), C-ENC-15 (embeddings against tokens), C-ENC-16 (threshold), C-ENC-24 (alignment).
    """
    only = settings._replace(chunked_prefill=True, threshold=0, alignment=1)
    return budget_of(only, sizes, sizes)._replace(longest_item=None, settings=settings)


def largest_of(sizes: Mapping[str, int]) -> int:
    """The largest of these sizes; 0 if there are none."""
    if not isinstance(sizes, Mapping):
        raise InvalidSettingError(f"the size of each modality's largest item must be in a mapping, not {sizes!r}")
    return max((whole(f"the size of {modality}", size) for modality, size in sizes.items()), default=0)


def too_long(what: str, tokens: int, longest: int) -> str:
    """The message, with both numbers and the remedy."""
    return (
        f"{what} takes {tokens} tokens, may not be split, and one step takes an item of {longest} tokens at most: "
        "increase max_num_batched_tokens (or long_prefill_token_threshold), or allow items to be split"
    )


def counted(config: Any, name: str, default: int | None = None) -> int:
    """A setting that is a count; `default` if it is missing or None."""
    value = getattr(config, name, None)
    if value is None:
        if default is None:
            raise InvalidSettingError(f"{name} is missing")
        return default
    return whole(name, value)


def positive(what: str, count: Any) -> int:
    """A count above zero."""
    return counts.whole(what, count, InvalidSettingError, least=1)


def whole(what: str, count: Any) -> int:
    """A count: an integer that is not negative."""
    return counts.whole(what, count, InvalidSettingError, least=0)
