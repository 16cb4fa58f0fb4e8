"""A model as it was profiled, the items that clients send, and the settings that a scope tries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Modality = int
"""The position of a modality in the model."""

Item = int
"""The position of an item among those that clients send."""

NOTHING = -1


class Config(NamedTuple):
    """Sizes of a model's items, and which settings its operators choose from.

    An item has two sizes. The encoder computes its *embeddings* and the cache stores them; its *tokens* are the
    placeholders in the prompt, which separators and line ends may make longer.
    """

    embeds: tuple[int, ...]
    """Of the largest item of each modality, as profiled at start-up."""
    tokens: tuple[int, ...]
    """Of the same items."""
    items: tuple[tuple[int, int, int], ...]
    """What clients send: modality, embeddings, tokens. It may be larger than the profiled items."""
    batches: tuple[int, ...]
    """Choices of `batch_tokens`."""
    sequences: tuple[int, ...] = (2,)
    """Choices of `sequences`."""
    limits: tuple[tuple[int, ...], ...] = ()
    """Choices of `limits`, each with one number for each modality; empty: one item of every modality."""
    embeddings: tuple[int, ...] = (0,)
    """Choices of `embeddings`."""
    chunked: tuple[int, ...] = (1,)
    """Choices of `chunked_prefill`."""
    whole: tuple[int, ...] = (0,)
    """Choices of `whole_items`."""
    thresholds: tuple[int, ...] = (0,)
    """Choices of `threshold`."""
    alignments: tuple[int, ...] = (1,)
    """Choices of `alignment`."""
    computes: tuple[int, ...] = (0,)
    """Choices of `compute`."""
    spaces: tuple[int, ...] = (0,)
    """Choices of `space`."""
    model_tokens: int = 64
    """The longest sequence that the model takes."""
    constant: int = 4
    """Both budgets, before they were computed."""


POSITIVE = ("embeds", "tokens", "batches", "sequences", "alignments")
FLAGS = ("embeddings", "chunked", "whole")
NOT_NEGATIVE = ("thresholds", "computes", "spaces")


def malformed(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    for name in POSITIVE:
        if not getattr(config, name) or min(getattr(config, name)) <= 0:
            return f"{name} must be given, all of them positive"
    for name in (*FLAGS, *NOT_NEGATIVE):
        if not getattr(config, name) or min(getattr(config, name)) < 0:
            return f"{name} must be given, none of them negative"
    for name in FLAGS:
        if max(getattr(config, name)) > 1:
            return f"{name} must be 0 or 1"
    if min(config.model_tokens, config.constant) <= 0:
        return "model_tokens and constant must be positive"
    return _invalid_model(config) or _invalid_items(config)


def _invalid_model(config: Config) -> str | None:
    if len(config.tokens) != len(config.embeds):
        return "tokens must have one size for each modality, as embeds has"
    if any(tokens < embeds for tokens, embeds in zip(config.tokens, config.embeds, strict=True)):
        return "an item has no fewer tokens than embeddings"
    for limits in config.limits:
        if len(limits) != len(config.embeds) or min(limits) < 0:
            return "limits must have one number for each modality, none of them negative"
    return None


def _invalid_items(config: Config) -> str | None:
    for modality, embeds, tokens in config.items:
        if not 0 <= modality < len(config.embeds):
            return f"items name modality {modality}, and there are {len(config.embeds)}"
        if not 0 < embeds <= tokens:
            return "an item has embeddings, and no fewer tokens than embeddings"
    return None


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """Every item and every modality has sizes of its own: none can stand for another."""
    return {}
