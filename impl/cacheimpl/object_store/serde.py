"""Items as bytes: a description in MessagePack, and behind it the bytes of the tensors, which are read where they lie.

Decoding runs no code of the item's classes: `forms` says which values are stored, and how each is put together again.
"""

from __future__ import annotations

import ctypes
from functools import partial
from math import prod
from typing import Any, Protocol

import msgspec
import torch
from torch import Tensor

from cacheimpl.object_store.errors import SerdeError, TooLargeError
from cacheimpl.object_store.forms import ARRAY, TENSOR, Describing, is_array, restored
from cacheimpl.ring.headers import LARGEST_CHUNK

Buffer = bytes | bytearray | memoryview
Serialized = tuple[Buffer | list[Buffer], int, bytes, int]
"""Data, its bytes, metadata, and its bytes."""

ALIGNMENT = 64
"""Every tensor begins at a multiple of this many bytes behind the first."""
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.uint16, torch.uint32, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64),
        *(torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz, torch.float8_e8m0fnu),
        *(torch.complex32, torch.complex64, torch.complex128),
    )
}
"""The types of elements that are stored, by name."""
_LENGTH = 4
"""Bytes of the length of a description, which come first."""


class ObjectSerde(Protocol):
    """How items become bytes: a class that is made without arguments."""

    def serialize(self, value: Any) -> Serialized:
        """Data, its bytes in all, metadata, and its bytes. Raises `SerdeError` for a value that cannot be stored."""
        ...

    def deserialize(self, data_view: memoryview) -> Any:
        """The value, from a private copy of metadata and data, which the value may keep."""
        ...


class MsgpackSerde:
    """Plain values, tensors, arrays, and objects of data classes; `forms` has the list.

    `deserialize` is given a copy and keeps it; `view` shows tensors where they lie.
    """

    def serialize(self, value: Any) -> Serialized:
        """The bytes of the tensors, and the description with their types, shapes and places.

        Tensors of another device are copied to the host. Gradients are not stored. Raises `SerdeError` for what cannot
        be stored exactly, and `TooLargeError` for tensors that no chunk can hold.
        """
        tensors = _Tensors()
        try:
            tree = Describing(tensors.describe).encoded(value)
        except SerdeError as error:
            raise SerdeError(f"cannot store a value of type {type(value).__name__}: {error}") from error
        head = _LENGTH + len(tree)
        metadata = len(tree).to_bytes(_LENGTH, "little") + tree + bytes(-head % ALIGNMENT)
        return tensors.chunks, tensors.nbytes, metadata, len(metadata)

    def deserialize(self, data_view: memoryview) -> Any:
        """The value; its tensors lie in `data_view`, which from now on belongs to it. Raises `SerdeError`."""
        first = _length_of(data_view)
        return self.view(data_view[:first], data_view[first:])

    def view(self, description: memoryview, data: memoryview) -> Any:
        """The value, with tensors that are the memory of `data` itself. Raises `SerdeError`."""
        size = int.from_bytes(description[:_LENGTH], "little")
        return restored(
            description[_LENGTH : _LENGTH + size], {TENSOR: partial(tensor_in, data), ARRAY: partial(array_in, data)}
        )


def _length_of(payload: memoryview) -> int:
    """Bytes of the description, with its length and what fills it up."""
    head = _LENGTH + int.from_bytes(payload[:_LENGTH], "little")
    return head + -head % ALIGNMENT


# Tensors and bytes --------------------------------------------------------------------------------------------------


class _Tensors:
    """The tensors of one item, as they will lie behind its description."""

    def __init__(self) -> None:
        self.chunks: list[Buffer] = []
        self.nbytes = 0

    def describe(self, value: Any) -> tuple[int, bytes] | None:
        """The form of a tensor or an array, whose bytes are stored; None for any other value."""
        if isinstance(value, Tensor):
            return TENSOR, self._added(value)
        if is_array(value):
            try:
                return ARRAY, self._added(torch.from_numpy(value))
            except (TypeError, ValueError) as error:
                raise SerdeError(f"an array of {value.dtype}: {error}") from error
        return None

    def _added(self, tensor: Tensor) -> bytes:
        name, at, nbytes = checked_dtype(tensor), self.nbytes, tensor.nbytes
        if at + nbytes > LARGEST_CHUNK:
            raise TooLargeError(f"an item with {at + nbytes} bytes of tensors exceeds every ring")
        self.chunks.append(bytes_of(on_the_host(tensor)))
        if padding := -nbytes % ALIGNMENT:
            self.chunks.append(bytes(padding))
        self.nbytes = at + nbytes + padding
        return msgspec.msgpack.encode((name, at, *tensor.shape))


def checked_dtype(tensor: Tensor) -> str:
    """The name of the type of its elements. Raises `SerdeError` unless the bytes of its elements are its value."""
    if type(tensor) is not Tensor:
        raise SerdeError(f"a tensor of the class {type(tensor).__name__}, which would come back as a plain one")
    if tensor.layout is not torch.strided or tensor.is_nested:
        raise SerdeError(f"a tensor that is not dense: {'nested' if tensor.is_nested else tensor.layout}")
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise SerdeError(f"a tensor of {tensor.dtype}, whose bytes are not its value")
    return name


def on_the_host(tensor: Tensor) -> Tensor:
    """The elements one after the other in the memory of the host, signs and conjugates carried out."""
    try:
        # A conjugate is kept as a bit beside the bytes, and so is a negative: the bytes alone would be another value.
        plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        without_memory = plain.numel() > 0 and plain.data_ptr() == 0
    except (RuntimeError, NotImplementedError) as error:  # no memory for a copy, or no data: a tensor on `meta`
        raise SerdeError(f"a tensor of {tensor.dtype} on {tensor.device}: {error}") from error
    if without_memory:
        raise SerdeError("a tensor whose storage is gone")
    return plain


def bytes_of(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor on the host, uncopied; it keeps the tensor."""
    array = (ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr())
    array.tensor = tensor  # type: ignore[attr-defined]  # an attribute of ours: what the memory belongs to
    return memoryview(array).cast("B")


def tensor_in(data: memoryview, description: Any) -> Tensor:
    """The tensor that lies there, uncopied. Raises `SerdeError` where there is none of this kind."""
    name, at, *shape = description
    dtype, count = DTYPES.get(name), prod(shape)
    if dtype is None or at + count * dtype.itemsize > len(data):
        raise SerdeError(f"no tensor of {name} and {shape} is in {len(data)} bytes from {at} on")
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    flat = torch.frombuffer(data, dtype=dtype, count=count, offset=at)
    return flat if len(shape) == 1 else flat.view(shape)


def array_in(data: memoryview, description: Any) -> Any:
    """The same as an array of numpy, which the torch of this process has."""
    return tensor_in(data, description).numpy()
