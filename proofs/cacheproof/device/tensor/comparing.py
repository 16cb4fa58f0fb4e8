"""Tensors of two sides, compared exactly; and a CPU on which another one of repeated indices wins.

The checks of a device drive two engines of ours, tensor for tensor, and no specification: their sides are no
`lockstep.pair`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from cacheproof.device.listing import Asked, DifferenceError


def same(where: str, ours: Tensor, theirs: Tensor, *, but: int = 0) -> None:
    """Raise `DifferenceError` unless both are equal, element by element, in type and shape.

    `but`: so many last elements hold anything; nothing is read from them.
    """
    mine, other = ours.detach().cpu(), theirs.detach().cpu()
    if mine.dtype != other.dtype or mine.shape != other.shape:
        forms = f"{mine.dtype} {tuple(mine.shape)} and {other.dtype} {tuple(other.shape)}"
        raise DifferenceError(f"{where}: {forms}")
    if but:
        mine, other = mine.flatten()[:-but], other.flatten()[:-but]
    if not torch.equal(mine, other):
        wrong = mine.flatten() != other.flatten()
        place = int(wrong.nonzero()[0])
        values = f"{mine.flatten()[place].item()}, not {other.flatten()[place].item()}"
        raise DifferenceError(f"{where}: element {place} of {wrong.numel()} is {values} ({int(wrong.sum())} differ)")


def alike(where: str, ours: Any, theirs: Any, spare: Mapping[str, int] | None = None) -> None:
    """The same for named tuples, field by field; `spare` says of how many last elements of a field hold anything."""
    names = getattr(ours, "_fields", None) or range(len(ours))
    for name, one, other in zip(names, ours, theirs, strict=True):
        if isinstance(one, Tensor):
            same(f"{where}, {name}", one, other, but=(spare or {}).get(str(name), 0))
        elif isinstance(one, tuple):
            alike(f"{where}, {name}", one, other, spare)
        elif one != other:
            raise DifferenceError(f"{where}, {name}: {one}, not {other}")


class OtherWinners(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types for it
    """Where an index repeats, the value that is written first stays, and not the one that is written last.

    On a device of CUDA any of them may stay. What is the same under both orders on a CPU was shown not to depend on it
    for these two; what differs between them is a bug on a device.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types for it

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        return function(*_reversed(function, given), **(named or {}))


SCATTERS = (torch.ops.aten.scatter, torch.ops.aten.scatter_)
COPIES = (torch.ops.aten.index_copy, torch.ops.aten.index_copy_)


def _reversed(function: Any, given: Any) -> Any:
    packet = function.overloadpacket
    if packet in (*SCATTERS, *COPIES) and function._overloadname in ("src", "default"):  # noqa: SLF001  # its name
        table, axis, index, values = given
        return table, axis, index.flip(axis), values.flip(axis)
    if packet in (torch.ops.aten.index_put, torch.ops.aten.index_put_):
        return _reversed_put(given)
    return given


def _reversed_put(given: Any) -> Any:
    table, indices, values, *rest = given
    if len(indices) != 1 or indices[0] is None or indices[0].dtype != torch.int64 or indices[0].dim() != 1:
        return given
    (index,) = indices
    flipped = values.flip(0) if values.dim() == table.dim() and values.shape[0] == index.shape[0] else values
    return table, [index.flip(0)], flipped, *rest


def other_side(asked: Asked) -> AbstractContextManager[Any]:
    """What the side that is compared with the CPU runs in: nothing on a device, other winners on a CPU."""
    return OtherWinners() if torch.device(asked.device).type == "cpu" else nullcontext()
