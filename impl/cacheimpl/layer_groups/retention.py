"""Which blocks of windows and which states stay findable: those that hits at a few prefixes of a request need."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cacheimpl.kv_cache_manager.reach import Kind
from cacheimpl.layer_groups.errors import LayerGroupsError
from cacheimpl.layer_groups.groups import Layers, alignment


def retained(
    groups: Sequence[Layers], prompts: Tensor, shared: Tensor | None, positions: int, interval: int | None
) -> Tensor:
    """[requests, groups, positions] bool: whether the block at a position can be found once it is written.

    `prompts`, `shared`: [requests] int64, tokens; see `configuration`. Raises `LayerGroupsError` for an interval that
    is no multiple of where blocks of all groups end, for one without windows and states, and for `shared` without one.
    """
    unit, thinned = alignment(groups), [one.reach.kind in (Kind.WINDOW, Kind.STATE) for one in groups]
    everything = torch.ones((len(prompts), len(groups), positions), dtype=torch.bool, device=prompts.device)
    if interval is None:
        if shared is not None:
            raise LayerGroupsError("shared must be None without a retention interval: every block can be found")
        return everything
    if interval < 0 or interval % unit or not any(thinned):
        wanted = f"0 or a multiple of {unit}, and there must be a window or a state-space group"
        raise LayerGroupsError(f"retention must be {wanted}, not {interval}")
    ends = prefixes(groups, prompts, torch.zeros_like(prompts) if shared is None else shared)
    for number, one in enumerate(groups):
        if thinned[number]:
            places = torch.arange(positions, device=prompts.device)
            kept = needed(one, ends[:, :, None], places).any(1)
            if interval:
                behind = (places + 1 - one.proofs) * one.size
                multiple = ((behind + interval - 1) // interval).clamp(min=1) * interval
                kept = kept | needed(one, multiple, places)
            everything[:, number] = kept
    return everything


def prefixes(groups: Sequence[Layers], prompts: Tensor, shared: Tensor) -> Tensor:
    """[requests, 3] int64, tokens: the longest prefix that the same prompt finds; and those that sharers find.

    With draft layers a hit needs a findable block behind it; the last prefix has that within the shared tokens.
    """
    unit, proof = alignment(groups), max(one.proofs * one.size for one in groups)

    def whole(tokens: Tensor) -> Tensor:
        return tokens.clamp(min=0) // unit * unit

    again = torch.minimum(whole(prompts - 1), whole(prompts - proof))
    return torch.stack((again, whole(shared), whole(shared - proof)), 1)


def needed(one: Layers, tokens: Tensor, places: Tensor) -> Tensor:
    """Whether a hit of these tokens, if there are any, needs the block at each place; both broadcast."""
    first, last = (tokens - one.back).clamp(min=0) // one.size, tokens // one.size + one.proofs
    return (tokens > 0) & (first <= places) & (places < last)
