"""Kinds of layers: which groups the manager serves, and which it refuses. Specs are recognised by their class names.

A group that is served as full attention keeps every block and finds whole prefixes only. That is right for layers with
a window, which read a part of what is kept. It is wrong for every other kind, so those are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cacheimpl.kv_cache_manager.errors import UnsupportedError

BASE = "KVCacheSpec"
"""The class of the releases from which all of their specs derive."""
UNIFORM = "UniformTypeKVCacheSpecs"
"""The spec of a group whose layers differ in their sizes only; it holds one spec for each layer."""

FULL: Mapping[str, str] = {
    "FullAttentionSpec": "full_attention",
    "TQFullAttentionSpec": "full_attention",
    "MLAAttentionSpec": "mla_attention",
    "HiddenStateCacheSpec": "mla_attention",
}
"""Layers that read every token, by the class of their spec; and the kind that events name."""

WINDOWED: Mapping[str, str] = {
    "SlidingWindowSpec": "sliding_window",
    "SlidingWindowMLASpec": "sliding_window_mla",
    "ChunkedLocalAttentionSpec": "chunked_local_attention",
}
"""Layers that read a window of the tokens. They are served as full attention."""

REFUSED: Mapping[str, str] = {
    "MambaSpec": "state-space layers",
    "CrossAttentionSpec": "cross-attention layers",
    "EncoderOnlyAttentionSpec": "encoder-only layers",
    "SinkFullAttentionSpec": "attention sinks",
    "RSWASpec": "reference sliding windows",
    "CircularBufferSpec": "circular buffers",
    "HiSparseHotSpec": "sparse caches",
    "HiSparseResidentSpec": "sparse caches",
}
"""Layers that the manager does not serve, and their name in an error."""

SERVED: Mapping[str, str] = {**FULL, **WINDOWED}


def check_groups(groups: Any) -> None:
    """Raises `UnsupportedError` for a group of layers that the manager would serve wrongly; it names the kind."""
    for number, group in enumerate(groups):
        where = f"group {number} of kv_cache_groups"
        role = getattr(group, "role", "default")
        if getattr(role, "value", role) != "default" or getattr(group, "host_resident", False):
            raise UnsupportedError(f"{where} must be of the device's pool with the default role, not {role!r}")
        for spec in specs_of(group.kv_cache_spec):
            _check(where, spec)


def check_room(config: Any, block_size: int, max_model_len: int) -> None:
    """Raises `UnsupportedError` if layers with a window have a pool that is too small for them as full attention.

    Releases size such a pool by the window. Then a long request would wait for slots for ever.
    """
    specs = [spec for group in config.kv_cache_groups for spec in specs_of(group.kv_cache_spec)]
    if not any(type(spec).__name__ in WINDOWED for spec in specs):
        return
    needed = -(-max_model_len // block_size) * len(config.kv_cache_groups)
    if needed >= config.num_blocks:
        raise UnsupportedError(
            "layers with a window are served as full attention, and their longest request needs more blocks than the"
            f" pool has: max_model_len {max_model_len} takes {needed} beside the null block, and num_blocks is"
            f" {config.num_blocks}"
        )


def specs_of(spec: Any) -> Iterator[Any]:
    """The specs of a group's layers."""
    if type(spec).__name__ == UNIFORM:
        yield from spec.kv_cache_specs.values()
    else:
        yield spec


def kind_of(spec: Any) -> str | None:
    """The kind of a group as events of 0.33 name it; None for a spec of no release."""
    kinds = {SERVED.get(type(layer).__name__) for layer in specs_of(spec)}
    if len(kinds) == 1:
        return kinds.pop()
    return "full_attention" if kinds <= set(FULL.values()) else "unknown"


def window_of(spec: Any) -> int | None:
    """The sliding window of a group in tokens, as events of 0.33 name it; None if its layers have none, or several."""
    slides = (type(layer).__name__.startswith("SlidingWindow") for layer in specs_of(spec))
    windows = {layer.sliding_window if its else None for layer, its in zip(specs_of(spec), slides, strict=True)}
    return windows.pop() if len(windows) == 1 else None


def _check(where: str, spec: Any) -> None:
    """A class of another name is accepted only if it is no class of a release: then the caller describes it."""
    name = type(spec).__name__
    if name in SERVED:
        if not getattr(spec, "prefix_cacheable", True):
            raise UnsupportedError(f"{where} has {name} without a prefix cache, which is not supported")
    elif name in REFUSED:
        raise UnsupportedError(f"{where} has {REFUSED[name]} ({name}), which are not supported: use the release's own")
    elif any(base.__name__ == BASE for base in type(spec).__mro__):
        known = ", ".join(SERVED)
        raise UnsupportedError(f"{where} has layers of an unknown kind ({name}); the supported kinds are {known}")
