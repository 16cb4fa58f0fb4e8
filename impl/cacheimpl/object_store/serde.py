"""Items as bytes: a description as msgpack, and behind it the bytes of the tensors, which are read where they lie."""

from __future__ import annotations

import ctypes
import io
import pickle
from collections.abc import Callable
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
            tree = pack(value, extended)
        except (MsgpackError, pickle.PicklingError, TypeError, AttributeError, NotImplementedError) as error:
            raise SerdeError(f"cannot store a value of type {type(value).__name__}: {error}") from error
        chunks: list[Buffer] = []
        entries, at = [], 0
        for tensor in tensors:
            entries.append([str(tensor.dtype).removeprefix("torch."), list(tensor.shape), at])
            chunks += (bytes_of(tensor), bytes(-tensor.nbytes % ALIGNMENT))
            at += sum(map(len, chunks[-2:]))
        metadata = pack([tree, entries, at])
        head = len(metadata).to_bytes(4, "little") + metadata
        head += bytes(-len(head) % ALIGNMENT)
        return chunks, at, head, len(head)

    def deserialize(self, data_view: memoryview) -> Any:
        """The value, with tensors of its own."""
        return self._restored(data_view, torch.clone)

    def view(self, data_view: memoryview) -> Any:
        """The value, with tensors that are the memory itself. They must not be written."""
        return self._restored(data_view, lambda tensor: tensor)

    def _restored(self, data_view: memoryview, kept: Callable[[Tensor], Tensor]) -> Any:
        size = int.from_bytes(data_view[:4], "little")
        first = 4 + size + -(4 + size) % ALIGNMENT
        tree, entries, nbytes = unpack(data_view[4 : 4 + size])
        data = data_view[first : first + nbytes]

        def tensor(number: int) -> Tensor:
            return kept(tensor_in(data, *entries[number]))

        def restored(extension: Extension) -> Any:
            if extension.kind == TENSOR:
                return tensor(unpack(extension.data))
            if extension.kind == SEQUENCE:
                return tuple(unpack(extension.data, restored))
            return unpickled(extension.data, tensor)

        return unpack(tree, restored)


# Tensors and bytes --------------------------------------------------------------------------------------------------


def bytes_of(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor on the host, uncopied; it keeps the tensor."""
    array = (ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr())
    array.tensor = tensor  # type: ignore[attr-defined]  # an attribute of ours: what the memory belongs to
    return memoryview(array).cast("B")


def tensor_in(data: memoryview, dtype: str, shape: list[int], at: int) -> Tensor:
    """The tensor that lies there, uncopied. Raises `SerdeError` where there is none of this kind."""
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype) or at + prod(shape) * kind.itemsize > len(data):
        raise SerdeError(f"no tensor of {dtype} and {shape} is in {len(data)} bytes from {at} on")
    if prod(shape) == 0:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(data, dtype=kind, count=prod(shape), offset=at).reshape(shape)


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
