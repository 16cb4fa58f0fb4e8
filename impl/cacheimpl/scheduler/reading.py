"""What is read of a request, whichever of the field's names its attributes have, and what of it is refused at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from cacheimpl.counts import whole
from cacheimpl.request import PromptRequest
from cacheimpl.scheduler.contents import Tokens, packed
from cacheimpl.scheduler.errors import InvalidRequestError, UnsupportedError
from cacheimpl.scheduler.settings import LARGEST


class Item(NamedTuple):
    """A multimodal item of a prompt."""

    identifier: str
    start: int
    length: int


class Read(NamedTuple):
    """What is read of a request."""

    name: str
    tokens: Tokens
    """A copy: what the caller does with his afterwards changes nothing"""
    outputs: int
    priority: int
    items: tuple[Item, ...]


NOT_THERE = ("lora_request", "kv_transfer_params", "pooling_params", "structured_output_request", "prompt_embeds")
"""Attributes that a request must not have, or only as None: adapters, external KV and the like."""


def read_of(request: PromptRequest) -> Read:
    """The attributes of a request. Raises `InvalidRequestError` and `UnsupportedError`."""
    name = getattr(request, "request_id", None)
    if not isinstance(name, str):
        raise InvalidRequestError(f"a request has a request_id, which is a text, and {type(request).__name__} has none")
    if asked := [attribute for attribute in NOT_THERE if getattr(request, attribute, None) is not None]:
        raise UnsupportedError(f"request {name!r} has {', '.join(asked)}: there is no rule for that here")
    outputs = getattr(request, "max_tokens", None)
    if outputs is None:
        outputs = getattr(getattr(request, "sampling_params", None), "max_tokens", None)
    of = f"of request {name!r}"
    priority = whole(f"priority {of}", getattr(request, "priority", 0), InvalidRequestError)
    if not -LARGEST <= priority < LARGEST:
        raise InvalidRequestError(f"priority {of} must be from {-LARGEST} to {LARGEST - 1}, not {priority}")
    return Read(
        name,
        tokens_of(request, of),
        whole(f"max_tokens {of}", outputs, InvalidRequestError),
        priority,
        tuple([item_of(feature, of) for feature in getattr(request, "mm_features", None) or ()]),
    )


def tokens_of(request: PromptRequest, of: str) -> Tokens:
    """The prompt. Raises `InvalidRequestError` for what are no integers."""
    given = getattr(request, "prompt_token_ids", None)
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidRequestError(f"prompt_token_ids {of} must be a list of integers, not {given!r}")
    tokens = given if isinstance(given, list) else list(given)
    if {*map(type, tokens)} - {int}:  # what is not of Python is looked at one by one
        tokens = [whole(f"a token in prompt_token_ids {of}", token, InvalidRequestError) for token in tokens]
    return packed(tokens)


def item_of(feature: Any, of: str) -> Item:
    """An item of a prompt. Raises `InvalidRequestError` for what is none."""
    identifier, placeholder = getattr(feature, "identifier", None), getattr(feature, "mm_position", None)
    if not isinstance(identifier, str):
        raise InvalidRequestError(f"an item in mm_features {of} has an identifier, which is a text, not {identifier!r}")
    offset, length = (
        whole(f"the {name} of item {identifier!r} {of}", getattr(placeholder, name, None), InvalidRequestError)
        for name in ("offset", "length")
    )
    return Item(identifier, offset, length)
