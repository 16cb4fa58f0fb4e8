"""The modules of `cacheimpl` in plain Python of which no contract runs a function, each with the reason."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType, MappingProxyType, ModuleType
from typing import Any

import cacheimpl
from cacheproof.prove.confirmation import example_of

TENSORS = "its state is in tensors, of which CrossHair cannot follow the operations; lockstep compares it"
SHARED_MEMORY = "bytes of shared memory, files and locks, which CrossHair cannot follow; lockstep compares it"
TEXTS = "texts and objects of callers, without arithmetic; tests give it hostile input"
PARTIAL = "hits within a block: contracts have whole blocks only; lockstep compares it"
HOST = "pages in the host's memory: the specification has none; random runs with workers hold it to invariants"
TYPES = "protocols and exceptions: there is nothing to run"

OPEN: Mapping[str, str] = MappingProxyType({
    "cacheimpl.arena": TENSORS,
    "cacheimpl.block_content.bursts": TENSORS,
    "cacheimpl.block_content.state": TENSORS,
    "cacheimpl.block_content.table": TENSORS,
    "cacheimpl.captured": TENSORS,
    "cacheimpl.devices": TENSORS,
    "cacheimpl.encoder_cache.manager": TENSORS,
    "cacheimpl.encoder_cache.rows": "names as rows of tensors: the specification has no rows",
    "cacheimpl.hisparse": HOST,
    "cacheimpl.kernels": "Triton kernels, which tests compare with the tensor functions",
    "cacheimpl.kv_blocks": TENSORS,
    "cacheimpl.kv_cache_manager.by_hash": PARTIAL,
    "cacheimpl.kv_cache_manager.cached": "the pool's map as callers see it: it decides nothing",
    "cacheimpl.kv_cache_manager.draft_states": PARTIAL,
    "cacheimpl.kv_cache_manager.errors": TYPES,
    "cacheimpl.kv_cache_manager.events": TEXTS,
    "cacheimpl.kv_cache_manager.packed_prefix": "buffers of packed tokens; tests compare them with the general path",
    "cacheimpl.kv_cache_manager.partial": PARTIAL,
    "cacheimpl.kv_cache_manager.partial_finding": PARTIAL,
    "cacheimpl.kv_cache_manager.prefixes": PARTIAL,
    "cacheimpl.kv_cache_manager.protocols": TYPES,
    "cacheimpl.kv_cache_manager.several_keys": PARTIAL,
    "cacheimpl.kv_cache_manager.steps": PARTIAL,
    "cacheimpl.lru.state": TENSORS,
    "cacheimpl.mirror.errors": TYPES,
    "cacheimpl.mirror.example": "processes that talk over ZeroMQ",
    "cacheimpl.object_store": SHARED_MEMORY,
    "cacheimpl.processor_cache.errors": TYPES,
    "cacheimpl.request": TYPES,
    "cacheimpl.ring.buffer": SHARED_MEMORY,
    "cacheimpl.ring.headers": SHARED_MEMORY,
    "cacheimpl.ring.locks": SHARED_MEMORY,
    "cacheimpl.ring.segment": SHARED_MEMORY,
    "cacheimpl.ring.state": TENSORS,
    "cacheimpl.scheduler": TENSORS,
    "cacheimpl.scheduler.contents": "packed words of tokens, which must be known numbers; lockstep compares it",
    "cacheimpl.scheduler.reading": TEXTS,
    "cacheimpl.vllm": "it needs an engine of vLLM",
})  # fmt: skip
"""By module, or by package: why no contract runs it."""


def modules_with_functions() -> dict[str, Path]:
    """Every module of `cacheimpl` that defines a function, with its file; none is imported for that."""
    return dict(_modules_with_functions())


def _modules_with_functions() -> Iterator[tuple[str, Path]]:
    for folder in map(Path, cacheimpl.__path__):
        for file in sorted(folder.rglob("*.py")):
            parts = file.relative_to(folder.parent).with_suffix("").parts
            tree = ast.parse(file.read_text(encoding="utf-8"))
            if any(isinstance(node, ast.FunctionDef) for node in ast.walk(tree)):
                yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), file


def files_run(ledgers: Iterable[ModuleType]) -> set[Path]:
    """The files of which the examples of these ledgers run a function."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)

    for module in ledgers:
        for name in (*module.LEDGER, *getattr(module, "PAIRS", {})):
            example = example_of(module, name)
            sys.setprofile(note)
            try:
                example()
            finally:
                sys.setprofile(None)
    return {Path(file) for file in files}


def reason_of(module: str) -> str | None:
    """Why no contract runs this module: its own reason, or that of the nearest package around it."""
    while module:
        if module in OPEN:
            return OPEN[module]
        module = module.rpartition(".")[0]
    return None
