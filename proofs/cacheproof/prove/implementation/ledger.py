"""The functions of tensors in `cacheimpl` that no obligation reaches, each with the reason."""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import CodeType, FrameType, FunctionType, MappingProxyType
from typing import Any

import torch

import cacheimpl
from cacheproof.prove.implementation.actions import function_of
from cacheproof.prove.implementation.correspondence import Correspondence

APART = ("cacheimpl.kernels", "cacheimpl.vllm", "cacheimpl.mirror.example")
"""Needs triton, an engine, or the network; none has operations of its own."""

BURST = "part of a burst of turns: compared with the sequential rule by lockstep, not proved"
SCHEDULER = (
    "explored beside the specification, not proved: with two requests and two blocks, the graph of a round has 7,293 "
    "calls, and aborting a request has more than 2,000 paths in the specification"
)
GROUPS = (
    "explored beside the specification, not proved: no correspondence is written yet, and the graph of an allocation "
    "in two groups has 573 calls"
)
MEMORY = "handles bytes or rows of memory, of which the specification has no state"
IN_PLACE = "writes in place: the operations are proved as they write into copies, and tests compare both"

OPEN: Mapping[str, str] = MappingProxyType({
    "cacheimpl.arena.runs": MEMORY,
    "cacheimpl.block_content.comparing": "hashes of block contents: 64-bit arithmetic that wraps is not followed",
    "cacheimpl.block_content.hashing": "hashes of block contents: 64-bit arithmetic that wraps is not followed",
    "cacheimpl.block_content.operations": "hashes of block contents: 64-bit arithmetic that wraps is not followed",
    "cacheimpl.block_content.probing": "a loop with as many rounds as the tensors say: it has no graph",
    "cacheimpl.block_content.release": "a loop with as many rounds as the tensors say: it has no graph",
    "cacheimpl.captured.rounds": MEMORY,
    "cacheimpl.encoder_cache.growth": "makes the tables larger: a shape that changes is not followed",
    "cacheimpl.kv_blocks.admission:distance": BURST,
    "cacheimpl.kv_blocks.bounds": BURST,
    "cacheimpl.kv_blocks.index": BURST,
    "cacheimpl.kv_blocks.prefix:slot_mapping": "positions of tokens in KV memory: the specification has no such answer",
    "cacheimpl.kv_blocks.state:configuration": "makes the parameters: states that are run on both sides check them",
    "cacheimpl.kv_blocks.steps": "a decode step with positions in KV memory: the specification has no such answer",
    "cacheimpl.layer_groups.bounds": GROUPS,
    "cacheimpl.layer_groups.execution": GROUPS,
    "cacheimpl.layer_groups.operations": GROUPS,
    "cacheimpl.layer_groups.prefix": GROUPS,
    "cacheimpl.layer_groups.queue": GROUPS,
    "cacheimpl.layer_groups.releasing": GROUPS,
    "cacheimpl.layer_groups.slots": GROUPS,
    "cacheimpl.layer_groups.state": GROUPS,
    "cacheimpl.layout": "packs states for the explorer, which checks each round trip",
    "cacheimpl.lru.eras": "eras: explored, not proved",
    "cacheimpl.lru.ghosts": "eras: explored, not proved",
    "cacheimpl.object_store.serde": MEMORY,
    "cacheimpl.scheduler.burst": BURST,
    "cacheimpl.scheduler.connector": SCHEDULER,
    "cacheimpl.scheduler.counts": SCHEDULER,
    "cacheimpl.scheduler.items": SCHEDULER,
    "cacheimpl.scheduler.lines": SCHEDULER,
    "cacheimpl.scheduler.plans": SCHEDULER,
    "cacheimpl.scheduler.readiness": SCHEDULER,
    "cacheimpl.scheduler.requests": SCHEDULER,
    "cacheimpl.scheduler.reserving": SCHEDULER,
    "cacheimpl.scheduler.rounds": SCHEDULER,
    "cacheimpl.scheduler.single": SCHEDULER,
    "cacheimpl.scheduler.state:empty": SCHEDULER,
    "cacheimpl.scheduler.transferring": SCHEDULER,
    "cacheimpl.scheduler.transfers": SCHEDULER,
    "cacheimpl.writing:_put_in_place": IN_PLACE,
    "cacheimpl.writing:_put_rows_in_place": IN_PLACE,
})  # fmt: skip
"""By module, or by module and function: why nothing is proved of it."""


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


def reason_of(function: str) -> str | None:
    """The reason why nothing is proved of this function, `module:function`; None if the ledger does not name it."""
    return OPEN.get(function) or OPEN.get(function.partition(":")[0])
