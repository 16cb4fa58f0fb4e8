"""Contexts in parallel: ranks that share the tokens of a block, so that a block has several times as many tokens.

A group whose spec has `dcp_sharded` is shared among the ranks of decoding if it is set, and replicated otherwise. Specs
without that field are of releases before 0.33: one group of full attention, shared among the ranks of both kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cacheimpl.kv_cache_manager.errors import UnsupportedError
from cacheimpl.kv_cache_manager.reach import Kind, Reach
from cacheimpl.kv_cache_manager.sizes import at_least
from cacheimpl.kv_cache_manager.unsupported import Unsupported


class Ranks(NamedTuple):
    """How many ranks share the tokens of a request."""

    decode: int = 1
    prefill: int = 1

    @property
    def are_alone(self) -> bool:
        """Whether no tokens are shared."""
        return self.decode == self.prefill == 1


ALONE = Ranks()


def ranks_of(dcp_world_size: Any, pcp_world_size: Any) -> Ranks:
    """Raises `InvalidCountError`."""
    return Ranks(at_least("dcp_world_size", dcp_world_size, 1), at_least("pcp_world_size", pcp_world_size, 1))


def shared_by(specs: Sequence[Any], reaches: Sequence[Reach], ranks: Ranks) -> tuple[int, ...]:
    """For each group, how many ranks share the tokens of its blocks.

    Raises `UnsupportedError` for groups that the releases do not serve with several ranks.
    """
    if ranks.are_alone:
        return (1,) * len(specs)
    counts = list[int]()
    for number, (spec, reach) in enumerate(zip(specs, reaches, strict=True)):
        where, sharded = f"group {number} of kv_cache_groups", getattr(spec, "dcp_sharded", None)
        if sharded is None and (len(specs) > 1 or reach.kind is not Kind.FULL):
            raise UnsupportedError(
                Unsupported.SHARED_GROUP,
                f"{where} has no dcp_sharded: then dcp_world_size and pcp_world_size must be 1 for all but one group of"
                " full attention",
            )
        if sharded and reach.kind is not Kind.FULL:
            raise UnsupportedError(
                Unsupported.SHARED_GROUP, f"{where} has dcp_sharded, and contexts in parallel share full attention only"
            )
        if sharded is False and reach.kind is Kind.STATE and ranks.prefill > 1:
            raise UnsupportedError(
                Unsupported.STATES_IN_PARALLEL,
                f"{where} has state-space layers: pcp_world_size must be 1, not {ranks.prefill}",
            )
        counts.append(ranks.decode * ranks.prefill if sharded is None else ranks.decode if sharded else 1)
    return tuple(counts)
