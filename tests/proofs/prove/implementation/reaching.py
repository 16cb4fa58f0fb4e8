"""The functions of `cacheimpl` that take or return tensors, and those that the obligations reach."""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

import cacheimpl
from cacheproof.prove.implementation.actions import function_of
from cacheproof.prove.implementation.correspondence import Correspondence

APART = ("cacheimpl.kernels", "cacheimpl.vllm", "cacheimpl.mirror.example")
"""Needs triton, an engine, or the network; none has operations of its own."""


def tensor_functions() -> dict[str, CodeType]:
    """Every function of `cacheimpl` that takes or returns tensors, as `module:function`, with its code."""
    return {f"{function.__module__}:{function.__name__}": function.__code__ for function in _functions()}


def _functions() -> Iterator[FunctionType]:
    for found in pkgutil.walk_packages(cacheimpl.__path__, "cacheimpl."):
        if found.name.startswith(APART):
            continue
        for value in vars(import_module(found.name)).values():
            function = inspect.unwrap(value) if isinstance(value, FunctionType) else None
            if isinstance(function, FunctionType) and function.__module__ == found.name and _takes_tensors(function):
                yield function


def _takes_tensors(function: FunctionType) -> bool:
    return any("Tensor" in str(hint) for hint in function.__annotations__.values())


def reached(correspondences: Mapping[str, tuple[Correspondence, ...]]) -> set[CodeType]:
    """The code that runs in the operations and bursts: it is the same for all numbers."""
    ran: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            ran.add(frame.f_code)

    for name in correspondences:
        for one in correspondences[name]:
            model = one.model()
            for operation in one.operations():
                function = function_of(model, operation)
                operands = [torch.tensor(0) for _ in one.operands_of(model, operation)]
                sys.setprofile(note)
                try:
                    function(model.parameters, model.initial, *operands)
                finally:
                    sys.setprofile(None)
    return ran
