"""A device that is not there: tensors in memory that say they are on a device of CUDA, and are treated as if they were.

What fails on such a device fails here: an operation on tensors of both sorts, and, while a graph is recorded, whatever
waits for the device, brings something from the host, or has a shape that depends on data. A graph does not run what is
recorded; to replay it performs the same operations on the same memory, whatever the Python code would do by then. Where
an index repeats, the first value stays. Nothing here says how fast anything is, or that a kernel of CUDA is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from cacheproof.device.tensor.comparing import OtherWinners

DEVICE = torch.device("cuda:0")
BENEATH = torch.device("meta")
"""What torch itself takes them for: a build without CUDA refuses to do anything for such a device."""
NAME = "NVIDIA Pretended"


class PretendedError(RuntimeError):
    """What a device of CUDA does not do."""


class Pretended(Tensor):
    """In memory, and says it is on the device."""

    memory: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # as torch says

    @staticmethod
    def __new__(cls, inner: Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=BENEATH,
        )

    def __init__(self, inner: Tensor) -> None:
        self.memory = inner

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return DEVICE

    def data_ptr(self) -> int:
        return self.memory.data_ptr()

    def untyped_storage(self) -> Any:
        return self.memory.untyped_storage()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:  # type: ignore[override]  # torch says otherwise than it calls it
        return performed(function, given, dict(named or {}))


ATEN = torch.ops.aten
FROM_BOTH = {ATEN._to_copy, ATEN.copy_, ATEN.index, ATEN.index_put, ATEN.index_put_}
WAITING = {
    *(ATEN._local_scalar_dense, ATEN.nonzero, ATEN.equal, ATEN._unique2, ATEN.unique_dim, ATEN.masked_select),
    *(ATEN.bincount, ATEN.repeat_interleave),
}
RECORDING: list[Graph] = []


def inside(value: Any) -> Any:
    """In memory."""
    return value.memory if isinstance(value, Pretended) else value


def outside(value: Any) -> Any:
    """On the device."""
    return Pretended(value) if isinstance(value, Tensor) and not isinstance(value, Pretended) else value


def performed(function: Any, given: Any, named: dict[str, Any]) -> Any:
    """In memory, if the device would do it."""
    packet = function.overloadpacket
    tensors = [one for one in tree_flatten((given, named))[0] if isinstance(one, Tensor)]
    strangers = [one for one in tensors if not isinstance(one, Pretended) and one.dim() > 0]
    if strangers and packet not in FROM_BOTH:
        raise PretendedError(f"{function}: tensors of the host among those of the device")
    to_host = packet is ATEN._to_copy and torch.device(named.get("device", DEVICE)).type == "cpu"
    if RECORDING:
        masks = packet in (ATEN.index, ATEN.index_put, ATEN.index_put_) and any(
            one is not None and one.dtype == torch.bool for one in given[1]
        )
        if packet in WAITING or strangers or to_host or masks:
            raise PretendedError(f"{function}: not permitted while a graph is recorded")
    if "device" in named:
        named["device"] = torch.device("cpu")
    given, named = tree_map(inside, given), tree_map(inside, named)
    if RECORDING:
        return tree_map(outside, RECORDING[-1].take(function, given, named))
    result = run(function, given, named)
    if to_host:
        return result.clone() if result is given[0] else result
    return tree_map(outside, result)


def run(function: Any, given: Any, named: Any) -> Any:
    """With the other winners."""
    with OtherWinners():
        return function(*given, **named)


class Graph:
    """What was recorded: operations, with the memory that they read and write."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], None]] = []
        self.before: dict[int, tuple[Tensor, Tensor]] = {}

    def take(self, function: Any, given: Any, named: Any) -> Any:
        """It is performed, to know what comes of it, and undone at the end of the recording."""
        changed = [
            value
            for argument, value in zip(function._schema.arguments, given, strict=False)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        for value in changed:
            self.before.setdefault(value.data_ptr(), (value, value.clone()))
        result = run(function, given, named)
        ours = {one.untyped_storage()._cdata for one in tree_flatten((given, named))[0] if isinstance(one, Tensor)}
        made = [one for one in tree_flatten(result)[0] if isinstance(one, Tensor)]
        if changed:
            self.steps.append(lambda: (run(function, given, named), None)[1])
        elif any(one.untyped_storage()._cdata not in ours for one in made):
            self.steps.append(lambda: again(function, given, named, made))
        return result

    def constant(self, value: Tensor) -> Tensor:
        """A tensor that the device makes by itself, each time anew."""
        kept = value.clone()
        self.steps.append(lambda: (value.copy_(kept), None)[1])
        return value

    def replay(self) -> None:
        """All of it once more."""
        for step in self.steps:
            step()

    def pool(self) -> tuple[int, int]:
        return (0, 0)


def again(function: Any, given: Any, named: Any, made: list[Tensor]) -> None:
    """Into the memory that was there when it was recorded."""
    for old, new in zip(made, tree_flatten(run(function, given, named))[0], strict=True):
        old.copy_(new)


@contextmanager
def recording(graph: Graph, **how: Any) -> Iterator[None]:
    """Nothing is executed while a graph is recorded."""
    RECORDING.append(graph)
    try:
        yield
    finally:
        RECORDING.pop()
        for value, was in reversed(graph.before.values()):
            value.copy_(was)


class Made(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types for it
    """What torch itself makes on the device, a number that it needs as a tensor."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        named = dict(named or {})
        tensors = [one for one in tree_flatten((given, named))[0] if isinstance(one, Tensor)]
        if any(isinstance(one, Pretended) for one in tensors):
            return performed(function, given, named)
        if is_device(named.get("device")) and not tensors:
            made = function(*given, **{**named, "device": torch.device("cpu")})
            return Pretended(RECORDING[-1].constant(made) if RECORDING else made)
        return function(*given, **named)


FACTORIES = {torch.full, torch.zeros, torch.ones, torch.empty, torch.arange, torch.tensor, torch.as_tensor}
FROM_HOST = {torch.tensor, torch.as_tensor}


class OnDevice(TorchFunctionMode):
    """What makes tensors on the device, and moves them there."""

    def __torch_function__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        named = dict(named or {})
        if function in FACTORIES and is_device(named.get("device")):
            return self.made(function, given, {**named, "device": "cpu"})
        if function is Tensor.new_tensor and isinstance(given[0], Pretended):
            kind = named.get("dtype", given[0].dtype)
            return self.made(torch.tensor, given[1:], {"dtype": kind})
        if function in (Tensor.to, Tensor.cuda):
            asked = [*given[1:], *named.values()]
            if function is Tensor.cuda or any(is_device(one) for one in asked):
                rest = [one for one in given[1:] if not is_device(one)]
                if isinstance(given[0], Pretended):  # it is there already
                    return given[0].to(*rest) if rest else given[0]
                if RECORDING:
                    raise PretendedError("a copy from the host while a graph is recorded")
                moved = given[0].to(*rest) if rest else given[0]
                return Pretended(moved.clone())
        if function is Tensor.tolist and isinstance(given[0], Pretended):
            if RECORDING:
                raise PretendedError("tolist: not permitted while a graph is recorded")
            return given[0].memory.tolist()
        if function is Tensor.__getitem__ and isinstance(given[1], list):
            given = (given[0], torch.tensor(given[1], dtype=torch.int64))
        if function is Tensor.__setitem__ and isinstance(given[1], list):
            given = (given[0], torch.tensor(given[1], dtype=torch.int64), given[2])
        return function(*given, **named)

    def made(self, function: Any, given: Any, named: dict[str, Any]) -> Any:
        if RECORDING and function in FROM_HOST:
            raise PretendedError(f"{function.__name__}: a copy from the host while a graph is recorded")
        if any(isinstance(one, Pretended) for one in given) and RECORDING:
            raise PretendedError(f"{function.__name__}: a number of the device is read while a graph is recorded")
        made = function(*(inside(one) for one in given), **named)
        return Pretended(RECORDING[-1].constant(made) if RECORDING else made.clone())


def is_device(given: Any) -> bool:
    """Whether that is the device."""
    return isinstance(given, (str, torch.device)) and torch.device(given).type in (DEVICE.type, BENEATH.type)


@contextmanager
def pretended(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """There is a device of CUDA for the length of the block."""
    stream = SimpleNamespace(wait_stream=lambda other: None)
    properties = SimpleNamespace(name=NAME, total_memory=0, multi_processor_count=0, major=0, minor=0)
    patched = {
        "is_available": lambda: True,
        "synchronize": lambda device=None: None,
        "Stream": lambda device=None: stream,
        "current_stream": lambda device=None: stream,
        "stream": lambda stream: nullcontext(),
        "device": lambda device: nullcontext(),
        "CUDAGraph": Graph,
        "graph": recording,
        "get_device_properties": lambda device=None: properties,
    }
    with monkeypatch.context() as patch, OnDevice(), Made():
        for name, value in patched.items():
            patch.setattr(torch.cuda, name, value)
        for name in ("__enter__", "__exit__"):  # a wrapped tensor has no views in inference mode
            patch.setattr(torch.inference_mode, name, lambda self, *raised: None)
        yield
