"""Launching a kernel: compiled on a CUDA device, in Triton's interpreter on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import torch
import triton
from triton.compiler import ASTSource
from triton.runtime.interpreter import InterpretedFunction

SIGNATURES = {torch.int64: "*i64", torch.int32: "*i32", torch.bool: "*i1"}


class Kernel:
    """One kernel, given as a function in Triton's language. Parameters in upper case are constants of a compilation.

    The function must use `tl.associative_scan` and `tl.reduce` with Triton's own combinations. Its shorthands, such as
    `tl.cumsum`, have one form for the compiler and one for the interpreter, and a process can have only one of them.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function

    @cached_property
    def compiled(self) -> Any:
        """For a CUDA device."""
        return triton.runtime.jit.JITFunction(self.function)

    @cached_property
    def interpreted(self) -> Any:
        """For tensors of a CPU."""
        return InterpretedFunction(self.function)

    def launch(self, programs: int, warps: int, **given: Any) -> None:
        """Run `programs` programs of `warps` warps. `given` has the arguments by name; its tensors are on one device.

        On a device other than CUDA the interpreter runs the programs one after the other.
        """
        device = next(value.device for value in given.values() if isinstance(value, torch.Tensor))
        if device.type == "cuda":
            with torch.cuda.device(device):
                self.compiled[(programs,)](**given, num_warps=warps)
        else:
            self.interpreted[(programs,)](**given)

    def source(self, given: Mapping[str, Any]) -> Any:
        """What the compiler needs to compile the kernel for these arguments without launching it."""
        constants = {name: value for name, value in given.items() if name.isupper()}
        signature = {name: "constexpr" if name.isupper() else type_of(value) for name, value in given.items()}
        aligned = {
            (place,): [["tt.divisibility", 16]]
            for place, value in enumerate(given.values())
            if isinstance(value, torch.Tensor)
        }
        return ASTSource(fn=self.compiled, signature=signature, constexprs=constants, attrs=aligned)


def type_of(value: Any) -> str:
    """The type of an argument in a signature."""
    return SIGNATURES[value.dtype] if isinstance(value, torch.Tensor) else "i32"
