"""Kinds that move elements. Each is done by the operation itself, on the numbers of the elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cacheproof.prove.implementation.call import Call, Kind
from cacheproof.prove.implementation.cells import is_term
from cacheproof.prove.implementation.tensors import CellTensor, moved


def moving(call: Call, tensor: CellTensor, *arguments: Any, **keywords: Any) -> CellTensor:
    """One tensor in, one out."""
    return moved([tensor], lambda places: call.target(places, *arguments, **keywords))


def joining(call: Call, tensors: Sequence[CellTensor], *arguments: Any) -> CellTensor:
    """Several tensors in, one out; each is first of the type of the result."""
    return moved([one.to(call.dtype) for one in tensors], lambda *places: call.target(list(places), *arguments))


def parting(call: Call, tensor: CellTensor, *arguments: Any) -> tuple[CellTensor, ...]:
    """One tensor in, several out."""
    return tuple(tensor.at(places) for places in call.target(tensor.places, *arguments))


def padded(call: Call, tensor: CellTensor, widths: Sequence[int], number: int = 0) -> CellTensor:
    """With one number around it."""
    pool = CellTensor((len(tensor.cells) + 1,), tensor.dtype, (*tensor.cells, number)).to(tensor.dtype)
    places: Tensor = call.target(tensor.places, widths, len(tensor.cells))
    return pool.at(places)


def copied(call: Call, tensor: CellTensor, **_: Any) -> CellTensor:
    """Of another type: a number has to fit it."""
    converted = tensor.to(call.dtype)
    shrinks = torch.bool not in (call.dtype, tensor.dtype) and call.dtype.itemsize < tensor.dtype.itemsize
    if shrinks:
        call.duties.widths.extend((cell, call.dtype) for cell in converted.cells if is_term(cell))
    return converted


KINDS: dict[str, Kind] = {
    "aten._to_copy.default": copied,
    "aten._unsafe_view.default": moving,
    "aten.cat.default": joining,
    "aten.clone.default": moving,
    "aten.constant_pad_nd.default": padded,
    "aten.expand.default": moving,
    "aten.flip.default": moving,
    "aten.lift_fresh_copy.default": moving,
    "aten.permute.default": moving,
    "aten.select.int": moving,
    "aten.slice.Tensor": moving,
    "aten.squeeze.dim": moving,
    "aten.stack.default": joining,
    "aten.t.default": moving,
    "aten.unbind.int": parting,
    "aten.unsqueeze.default": moving,
    "aten.view.default": moving,
}
