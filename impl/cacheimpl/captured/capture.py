"""A function of tensors at fixed addresses: recorded as a CUDA graph where the tensors are on such a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

Results = TypeVar("Results", bound=tuple[Any, ...])

WARM_UP = 3
"""Calls before a graph is recorded: what a library does at its first call, it must not do while it is recorded."""


class Capture(Generic[Results]):
    """Repeats `function()`, which takes no operands: it reads and writes tensors that stay where they are.

    `function` returns a NamedTuple of tensors, of the same shapes each time; `changed` are all tensors that it changes,
    of which the first says the device. Making a capture calls the function and then undoes what that changed. On a
    device of CUDA the calls that follow replay a graph with a memory pool of its own; on any other they call the
    function. Both write `results`, which stay at their addresses, and wait for nothing. The function is called in
    inference mode, so the results are to be read, and not to be changed in place elsewhere.

    The function must not read a value back to the host, and no shape may depend on data. On CUDA that is an error when
    the graph is recorded (a `RuntimeError`, as torch has it), and the tensors are as they were.
    """

    def __init__(self, function: Callable[[], Results], changed: Iterable[Tensor]) -> None:
        self._function, tensors = function, tuple(changed)
        self.device = tensors[0].device
        self._graph: torch.cuda.CUDAGraph | None = None
        with torch.inference_mode():
            self._prepare(tensors)

    def _prepare(self, tensors: tuple[Tensor, ...]) -> None:
        """Call the function as often as it takes, undo what that changed, and record it where it can be recorded."""
        before = [values.clone() for values in tensors]
        try:
            if self.device.type == "cuda":
                self._warm_up()
            else:
                self.results = _copies(self._function())
        finally:
            for values, was in zip(tensors, before, strict=True):
                values.copy_(was)
        if self.device.type == "cuda":
            self._record()

    @property
    def is_graph(self) -> bool:
        """Whether a graph is replayed."""
        return self._graph is not None

    def __call__(self) -> Results:
        """Once more; the results are those at the same addresses."""
        if self._graph is not None:
            self._graph.replay()
        else:
            with torch.inference_mode():
                for kept, new in zip(self.results, self._function(), strict=True):
                    kept.copy_(new)
        return self.results

    def _warm_up(self) -> None:
        """On another stream, as what is recorded will be."""
        here = torch.cuda.current_stream(self.device)
        aside = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]  # torch has no types for it
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                self._function()
        here.wait_stream(aside)

    def _record(self) -> None:
        """Nothing is executed here. The results live in the graph's own pool: nothing else ever takes their place."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self.device), torch.cuda.graph(graph):
            self.results = self._function()
        self._graph = graph


def _copies(results: Results) -> Results:
    """In memory of their own, whatever the function returned."""
    copied = (values.clone() for values in results)
    return type(results)(*copied) if hasattr(results, "_fields") else type(results)(copied)
