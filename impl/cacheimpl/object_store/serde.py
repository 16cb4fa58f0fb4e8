"""Items as bytes: a description as msgpack, and behind it the bytes of the tensors, which are read where they lie."""

from __future__ import annotations

import ctypes
import io
import pickle
from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, Protocol

import torch
from torch import Tensor

from cacheimpl.msgpack import Buffer, Extension, MsgpackError, pack, unpack
from cacheimpl.object_store.errors import SerdeError

ALIGNMENT = 64
"""Every tensor begins at a multiple of so many bytes behind the first."""
TENSOR, OBJECT, SEQUENCE = 1, 2, 3
"""Extensions: a tensor, by its number; an object of a class, pickled; a tuple."""


class ObjectSerde(Protocol):
    """How items become bytes: a class that is made without arguments."""

    def serialize(self, value: Any) -> tuple[Buffer | list[Buffer], int, bytes, int]:
        """Data, its bytes in all, metadata, and its bytes."""
        ...

    def deserialize(self, data_view: memoryview) -> Any:
        """The value, from metadata and data as they lie; nothing of it may refer to the view."""
        ...


class MsgpackSerde:
    """Any value: what is plain as msgpack, tensors beside it as they are, and objects of other classes pickled.

    Tensors inside objects lie beside the pickle too. `deserialize` copies, `view` does not.
    """

    def serialize(self, value: Any) -> tuple[Buffer | list[Buffer], int, bytes, int]:
        """The bytes of the tensors, and the description with their types, shapes and places.

        Raises `SerdeError`. Tensors of another device are copied to the host.
        """
        tensors: list[Tensor] = []

        def numbered(tensor: Tensor) -> int:
            tensors.append(tensor.detach().cpu().contiguous())
            return len(tensors) - 1

        def extended(one: Any) -> Extension:
            if isinstance(one, Tensor):
                return Extension(TENSOR, pack(numbered(one)))
            if type(one) is tuple:
                return Extension(SEQUENCE, pack(list(one), extended))
            return Extension(OBJECT, pickled(one, numbered))

        try:
            tree = ONE_TENSOR if isinstance(value, Tensor) and numbered(value) == 0 else pack(value, extended)
        except (MsgpackError, pickle.PicklingError, TypeError, AttributeError, NotImplementedError) as error:
            raise SerdeError(f"cannot store a value of type {type(value).__name__}: {error}") from error
        chunks: list[Buffer] = []
        entries, at = [], 0
        for tensor in tensors:
            nbytes = tensor.nbytes
            entries.append((tensor.dtype, tensor.shape, at))
            chunks.append(bytes_of(tensor))
            if padding := -nbytes % ALIGNMENT:
                chunks.append(bytes(padding))
            at += nbytes + padding
        describe = description if len(tree) <= SHORT else description.__wrapped__
        metadata = describe(tree, tuple(entries), at)
        return chunks, at, metadata, len(metadata)

    def deserialize(self, data_view: memoryview) -> Any:
        """The value, with tensors of its own."""
        return self._restored(data_view, torch.clone)

    def view(self, data_view: memoryview) -> Any:
        """The value, with tensors that are the memory itself. They must not be written."""
        return self._restored(data_view, lambda tensor: tensor)

    def _restored(self, data_view: memoryview, kept: Callable[[Tensor], Tensor]) -> Any:
        size = int.from_bytes(data_view[:4], "little")
        first = 4 + size + -(4 + size) % ALIGNMENT
        described = described_by if size <= SHORT else described_by.__wrapped__
        tree, entries, nbytes = described(data_view[4 : 4 + size].tobytes())
        data = data_view[first : first + nbytes]

        def tensor(number: int) -> Tensor:
            return kept(tensor_in(data, *entries[number]))

        if tree == ONE_TENSOR:
            return tensor(0)

        def restored(extension: Extension) -> Any:
            if extension.kind == TENSOR:
                return tensor(unpack(extension.data))
            if extension.kind == SEQUENCE:
                return tuple(unpack(extension.data, restored))
            return unpickled(extension.data, tensor)

        return unpack(tree, restored)


# Descriptions -------------------------------------------------------------------------------------------------------

ONE_TENSOR = pack((), lambda _: Extension(TENSOR, pack(0)))
"""The description of a value that is a tensor and nothing else."""
SHORT, AT_HAND = 1024, 256
"""Descriptions of so many bytes are kept, and so many of them: items of one model are of few types and shapes."""


@lru_cache(maxsize=AT_HAND)
def description(tree: bytes, entries: tuple[tuple[torch.dtype, torch.Size, int], ...], nbytes: int) -> bytes:
    """Its length, the value without its tensors, their types, shapes and places, and their bytes in all; padded."""
    named = [[str(dtype).removeprefix("torch."), list(shape), at] for dtype, shape, at in entries]
    metadata = pack([tree, named, nbytes])
    head = len(metadata).to_bytes(4, "little") + metadata
    return head + bytes(-len(head) % ALIGNMENT)


@lru_cache(maxsize=AT_HAND)
def described_by(metadata: bytes) -> tuple[bytes, list[tuple[str, list[int], int]], int]:
    """What a description says: the value without its tensors, these, and their bytes in all."""
    tree, entries, nbytes = unpack(metadata)
    return tree, entries, nbytes


# Tensors and bytes --------------------------------------------------------------------------------------------------


def bytes_of(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor on the host, uncopied; it keeps the tensor."""
    array = (ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr())
    array.tensor = tensor  # type: ignore[attr-defined]  # an attribute of ours: what the memory belongs to
    return memoryview(array).cast("B")


def tensor_in(data: memoryview, dtype: str, shape: list[int], at: int) -> Tensor:
    """The tensor that lies there, uncopied. Raises `SerdeError` where there is none of this kind."""
    kind = getattr(torch, dtype, None)
    count = prod(shape)
    if not isinstance(kind, torch.dtype) or at + count * kind.itemsize > len(data):
        raise SerdeError(f"no tensor of {dtype} and {shape} is in {len(data)} bytes from {at} on")
    if count == 0:
        return torch.empty(shape, dtype=kind)
    found = torch.frombuffer(data, dtype=kind, count=count, offset=at)
    return found if len(shape) == 1 else found.view(shape)


class _Pickler(pickle.Pickler):
    """An object without its tensors."""

    def __init__(self, file: io.BytesIO, numbered: Callable[[Tensor], int]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._numbered = numbered

    def persistent_id(self, obj: Any) -> int | None:
        return self._numbered(obj) if isinstance(obj, Tensor) else None


class _Unpickler(pickle.Unpickler):
    """An object with its tensors again; what is unpickled was written by the engine itself, in a signed chunk."""

    def __init__(self, data: bytes, tensor: Callable[[int], Tensor]) -> None:
        super().__init__(io.BytesIO(data))
        self._tensor = tensor

    def persistent_load(self, pid: Any) -> Tensor:
        return self._tensor(pid)


def pickled(value: Any, numbered: Callable[[Tensor], int]) -> bytes:
    """The object, with numbers in the places of its tensors."""
    file = io.BytesIO()
    _Pickler(file, numbered).dump(value)
    return file.getvalue()


def unpickled(data: bytes, tensor: Callable[[int], Tensor]) -> Any:
    """The object, with tensors in the places of their numbers."""
    return _Unpickler(data, tensor).load()
