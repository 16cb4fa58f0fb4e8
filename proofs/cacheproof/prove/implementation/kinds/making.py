"""Kinds that make tensors: of known numbers, or of whatever the memory holds."""

from __future__ import annotations

from typing import Any

import torch

from cacheproof.prove.implementation.call import Call, Kind
from cacheproof.prove.implementation.tensors import CellTensor, of


def made(call: Call, *arguments: Any, **keywords: Any) -> CellTensor:
    """By torch itself: no argument is a tensor of the graph."""
    return of(call.target(*arguments, **keywords))


def alike(number: int) -> Kind:
    """The shape of another tensor, and one number everywhere."""
    return lambda call, *_, **__: call.tensor([number] * len(call.places))


def alike_of(call: Call, tensor: CellTensor, *arguments: Any, **_: Any) -> CellTensor:
    """The shape of another tensor, and the number of the last argument everywhere."""
    return call.tensor([arguments[-1]] * len(call.places))


def arbitrary(call: Call, *_: Any, **__: Any) -> CellTensor:
    """Not written yet: nothing is known of it."""
    truth = call.dtype == torch.bool
    return call.tensor([call.duties.fresh("unwritten", truth=truth) for _ in call.places])


KINDS: dict[str, Kind] = {
    "aten.arange.default": made,
    "aten.arange.start": made,
    "aten.full.default": made,
    "aten.scalar_tensor.default": made,
    "aten.zeros.default": made,
    "aten.ones.default": made,
    "aten.zeros_like.default": alike(0),
    "aten.ones_like.default": alike(1),
    "aten.new_zeros.default": alike(0),
    "aten.full_like.default": alike_of,
    "aten.new_full.default": alike_of,
    "aten.new_empty.default": arbitrary,
    "aten.empty_like.default": arbitrary,
}
