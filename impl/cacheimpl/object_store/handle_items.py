"""Handles in the place of items: what P0 sends, what the engine's serialiser makes of it, and what a worker reads.

In a process that has loaded vLLM's own items, a handle is such an item. Elsewhere it has the same form on the wire, as
in 0.33: a map from names to elements, each with its data and the field that batches it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import msgspec

from cacheimpl.counts import whole
from cacheimpl.object_store.errors import ForgedHandleError, InvalidArgumentError

INPUTS = "vllm.multimodal.inputs"
"""The module with the items of vLLM. It is never imported here."""
BATCHED: tuple[str, dict[str, Any]] = ("batched", {})
"""The field of an element on the wire, and its arguments."""


class Element(msgspec.Struct, frozen=True):
    """One entry of an item that is a handle, with its value in `data` as the field's entries have it."""

    data: Any
    field: tuple[str, dict[str, Any]] = BATCHED


class HandleItem(dict[str, Element]):
    """A handle in the place of an item: `address`, `monotonic_id` and `signature`."""


class ShmHandle(NamedTuple):
    """What a handle item says."""

    address: int
    monotonic_id: int
    signature: Sequence[int]


def item_of(address: int, monotonic_id: int, signature: Sequence[int]) -> Any:
    """A handle in the place of an item. Raises `InvalidArgumentError`."""
    if isinstance(signature, str | bytes) or not isinstance(signature, Sequence):
        raise InvalidArgumentError(
            f"the signature of a handle must be integers, as `get_signature` gives, not {signature!r}"
        )
    values = ShmHandle(
        whole("the address of a handle", address, InvalidArgumentError, least=0),
        whole("the monotonic_id of a handle", monotonic_id, InvalidArgumentError, least=0),
        [whole("a part of the signature", part, InvalidArgumentError) for part in signature],
    )
    named = dict(zip(ShmHandle._fields, values, strict=True))
    released = _released(named)
    return HandleItem({name: Element(value) for name, value in named.items()}) if released is None else released


def handle_of(item: Any) -> ShmHandle | None:
    """The handle that an item is, or None where it is the item itself. Raises `ForgedHandleError` for half of one."""
    if not isinstance(item, Mapping) or "address" not in item:
        return None
    try:
        return ShmHandle(*(item[name].data for name in ShmHandle._fields))
    except (KeyError, AttributeError):
        raise ForgedHandleError(
            "Missing SHM handle signature: a handle needs address, monotonic_id and signature, each with its data"
        ) from None


def _released(named: Mapping[str, Any]) -> Any:
    """The same as an item of vLLM; None if it is not loaded, or if its elements are others than in 0.33."""
    module = sys.modules.get(INPUTS)
    names = ("KwargsItem", "FieldElem", "BatchedField")
    kinds: list[Any] = [getattr(module, f"MultiModal{name}", None) for name in names]
    item, element, field = kinds
    if not all(isinstance(kind, type) for kind in kinds) or not is_dataclass(element):
        return None
    if {one.name for one in fields(element)} != {"data", "field"}:
        return None
    made: Any = element
    return item({name: made(data=value, field=field()) for name, value in named.items()})
