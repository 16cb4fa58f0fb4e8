"""Kinds of layers: which groups the manager serves, and which it refuses. Specs are recognised by their class names.

Every kind that the specification's groups of layers have is served. The others would be served wrongly, so they are
refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cacheimpl.kv_cache_manager.errors import UnsupportedError
from cacheimpl.kv_cache_manager.reach import Kind, Reach
from cacheimpl.kv_cache_manager.unsupported import Unsupported

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
"""Layers that read a window of the tokens."""

OTHERS: Mapping[str, Kind] = {"MambaSpec": Kind.STATE, "CrossAttentionSpec": Kind.CROSS}
"""Layers that read a state, or the encoder's tokens."""

PAGED: Mapping[str, Kind] = {"HiSparseResidentSpec": Kind.RESIDENT, "HiSparseHotSpec": Kind.HOT}
"""Pages of sparse attention on the device; the host has them too (`cacheimpl.hisparse`). No prefix finds them."""

ROLES: Mapping[str, bool] = {"default": False, "hisparse_source": True, "hisparse_indexer": False}
"""Roles of groups, and whether the group has the host's pool."""

REFUSED: Mapping[str, Unsupported] = {
    "EncoderOnlyAttentionSpec": Unsupported.ENCODER_ONLY,
    "SinkFullAttentionSpec": Unsupported.SINKS,
    "RSWASpec": Unsupported.REFERENCE_WINDOWS,
    "CircularBufferSpec": Unsupported.CIRCULAR,
}
"""Layers that the manager does not serve, by the class of their spec."""

SERVED: Mapping[str, str] = {**FULL, **WINDOWED, "MambaSpec": "mamba", "CrossAttentionSpec": "cross_attention"}


def check_groups(groups: Any) -> None:
    """Raises `UnsupportedError` for a group of layers that the manager would serve wrongly; it names the kind."""
    for number, group in enumerate(groups):
        where = f"group {number} of kv_cache_groups"
        role = role_of(group)
        if role not in ROLES:
            raise UnsupportedError(
                Unsupported.ROLE, f"{where} has the role {role!r}; the supported roles are {', '.join(ROLES)}"
            )
        if bool(getattr(group, "host_resident", False)) is not ROLES[role]:
            pools = "the host's pool" if ROLES[role] else "the device's pool"
            raise UnsupportedError(Unsupported.ROLE, f"{where} has the role {role!r}, and must be of {pools}")
        for spec in specs_of(group.kv_cache_spec):
            _check(where, spec)


def role_of(group: Any) -> str:
    """The role of a group, as text; "default" if it names none."""
    role = getattr(group, "role", "default")
    return str(getattr(role, "value", role))


def reach_of(spec: Any) -> Reach:
    """What the layers of a group read. Raises `UnsupportedError` if they read different parts of the tokens."""
    reaches = {_reach(layer) for layer in specs_of(spec)}
    if len(reaches) != 1:
        named = " and ".join(sorted(f"{reach.kind.value} {reach.span or ''}".strip() for reach in reaches))
        raise UnsupportedError(
            Unsupported.MIXED_GROUP, f"the layers of a group must read the same tokens, and these read {named}"
        )
    return reaches.pop()


def _reach(spec: Any) -> Reach:
    name = type(spec).__name__
    if name in WINDOWED:
        chunk = getattr(spec, "attention_chunk_size", None)
        return Reach(Kind.WINDOW, spec.sliding_window) if chunk is None else Reach(Kind.CHUNK, chunk)
    return Reach(OTHERS.get(name) or PAGED.get(name, Kind.FULL))


def specs_of(spec: Any) -> Iterator[Any]:
    """The specs of a group's layers."""
    if type(spec).__name__ == UNIFORM:
        yield from spec.kv_cache_specs.values()
    else:
        yield spec


def drafts_of(spec: Any) -> int:
    """The blocks for the states of drafts that a request has in a group."""
    return max(int(getattr(layer, "num_speculative_blocks", 0)) for layer in specs_of(spec))


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
    if name in PAGED:
        return
    if name in SERVED:
        if not getattr(spec, "prefix_cacheable", True):
            raise UnsupportedError(
                Unsupported.NOT_CACHEABLE, f"{where} has {name} without a prefix cache, which is not supported"
            )
        if name == "MambaSpec":
            _check_states(where, spec)
    elif name in REFUSED:
        raise UnsupportedError(
            REFUSED[name], f"{where} has {REFUSED[name].value}, which are not supported: use the release's own"
        )
    elif any(base.__name__ == BASE for base in type(spec).__mro__):
        known = ", ".join(SERVED)
        raise UnsupportedError(
            Unsupported.UNKNOWN_KIND, f"{where} has layers of an unknown kind ({name}); the supported kinds are {known}"
        )


def _check_states(where: str, spec: Any) -> None:
    """States are kept at the ends of blocks and of prompts only."""
    mode = getattr(spec, "mamba_cache_mode", "none")
    if mode != "align":
        raise UnsupportedError(
            Unsupported.STATES_OF_ALL_BLOCKS,
            f"{where} has state-space layers, of which the mode 'align' is supported, not {mode!r}",
        )
