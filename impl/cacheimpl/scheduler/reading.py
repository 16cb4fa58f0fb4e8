"""What is read of a request, whichever of the field's names its attributes have, and what of it is refused at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

from cacheimpl.counts import whole
from cacheimpl.request import PromptRequest
from cacheimpl.scheduler.contents import Tokens, packed
from cacheimpl.scheduler.errors import InvalidRequestError, UnsupportedError
from cacheimpl.scheduler.settings import LARGEST
from cacheimpl.scheduler.unsupported import Unsupported


class Item(NamedTuple):
    """A multimodal item of a prompt."""

    identifier: str
    start: int
    length: int


class Elsewhere(NamedTuple):
    """What is said beside a request when it is added: KV from and to elsewhere, and its session."""

    external: int = 0
    """First tokens of which an external store has the KV"""
    load_first: bool = False
    """It waits until that KV is loaded"""
    send: bool = False
    """Its blocks are sent away once it is finished"""
    after: str | None = None
    """The request that is the turn before it in its session"""


Adapter = tuple[Hashable, ...]
"""What tells an adapter (LoRA) from others: its number, name and path, or its name alone."""


class Read(NamedTuple):
    """What is read of a request."""

    name: str
    tokens: Tokens
    """A copy: what the caller does with his afterwards changes nothing"""
    outputs: int
    priority: int
    items: tuple[Item, ...]
    least: int = 0
    """`min_tokens`: output tokens before which no stop token ends it"""
    adapter: Adapter | None = None
    grammar: bool = False
    """Its output follows a grammar, which is compiled while it waits"""
    salt: str | None = None
    """Only requests with the same salt share blocks with it"""


POOLED = "pooling_params"
"""An attribute that requests of a pooling model have."""
NOT_THERE: Mapping[str, Unsupported] = {
    "kv_transfer_params": Unsupported.EXTERNAL_KV,
    POOLED: Unsupported.POOLING,
    "prompt_embeds": Unsupported.EMBEDDINGS,
}
"""Attributes that a request must not have, or only as None: external KV and the like."""


def read_of(request: PromptRequest, *, pools: bool = False) -> Read:
    """The attributes of a request. Raises `InvalidRequestError` and `UnsupportedError`.

    `pools`: of a pooling model; what it pools counts as one output token.
    """
    name = getattr(request, "request_id", None)
    if not isinstance(name, str):
        raise InvalidRequestError(f"a request has a request_id, which is a text, and {type(request).__name__} has none")
    if asked := [
        attribute
        for attribute in NOT_THERE
        if getattr(request, attribute, None) is not None and not (pools and attribute == POOLED)
    ]:
        raise UnsupportedError(
            NOT_THERE[asked[0]], f"request {name!r} has {', '.join(asked)}: there is no rule for that here"
        )
    of = f"of request {name!r}"
    priority = whole(f"priority {of}", getattr(request, "priority", 0), InvalidRequestError)
    if not -LARGEST <= priority < LARGEST:
        raise InvalidRequestError(f"priority {of} must be from {-LARGEST} to {LARGEST - 1}, not {priority}")
    return Read(
        name,
        tokens_of(request, of),
        1 if pools else whole(f"max_tokens {of}", sampling(request, "max_tokens"), InvalidRequestError),
        priority,
        tuple([item_of(feature, of) for feature in getattr(request, "mm_features", None) or ()]),
        whole(f"min_tokens {of}", sampling(request, "min_tokens") or 0, InvalidRequestError, least=0),
        adapter_of(request, of),
        getattr(request, "structured_output_request", None) is not None,
        salt_of(request, of),
    )


def sampling(request: PromptRequest, name: str) -> Any:
    """An attribute of the request, or of its sampling parameters; None if there is none."""
    own = getattr(request, name, None)
    return getattr(getattr(request, "sampling_params", None), name, None) if own is None else own


def adapter_of(request: PromptRequest, of: str) -> Adapter | None:
    """The adapter: a name alone may be loaded with other weights (C-MIR-15).

    Raises `InvalidRequestError` if there is an adapter without a name, or with a number or a path that is no key.
    """
    given = getattr(request, "lora_request", None)
    if given is None or isinstance(given, str):
        return None if given is None else (given,)
    name = getattr(given, "lora_name", None)
    if not isinstance(name, str):
        raise InvalidRequestError(f"lora_request {of} has a lora_name, which is a text, not {name!r}")
    told = getattr(given, "lora_int_id", None), name, getattr(given, "lora_path", None)
    if not all(isinstance(part, int | str | None) for part in told):
        raise InvalidRequestError(
            f"lora_request {of} has a lora_int_id and a lora_path, a number and a text, not {told!r}"
        )
    return told


def salt_of(request: PromptRequest, of: str) -> str | None:
    """The salt; an empty one is none. Raises `InvalidRequestError` for what is no text."""
    salt = getattr(request, "cache_salt", None)
    if salt is not None and not isinstance(salt, str):
        raise InvalidRequestError(f"cache_salt {of} is a text, not {salt!r}")
    return salt or None


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
