"""Which blocks of windows and which states can be found: those that hits at a few prefixes of a request need (LG-15).

The prefixes: that with which the same prompt goes on, one that the scheduler knows to be shared
(`shared_prefix_boundary` of the request), and each multiple of the interval. Other kinds of layers keep every block.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from cacheimpl.kv_cache_manager.errors import InvalidCountError
from cacheimpl.kv_cache_manager.reach import Kind, Reach
from cacheimpl.request import ComputedRequest

NAME = "prefix_cache_retention_interval"


class Thinned(NamedTuple):
    """A group of windows or of states."""

    reach: Reach
    block_size: int
    proofs: int
    """Blocks behind a hit that must be cached, too."""
    drafting: bool
    """Whether it has layers of a draft model."""

    def needs(self, tokens: int, position: int) -> bool:
        """Whether a hit of these tokens, if there are any, needs the block at this position."""
        first = self.reach.first_needed(tokens, self.block_size)
        return tokens > 0 and first <= position < tokens // self.block_size + self.proofs

    @property
    def in_a_row(self) -> int:
        """How many blocks in a row a hit needs."""
        reached = -(-(self.reach.span - 1) // self.block_size) if self.reach.kind is Kind.WINDOW else 1
        return reached + self.proofs

    def is_of_tail(self, tokens: int, position: int) -> bool:
        """Whether the block is one of those that end with this prefix, as 0.33.0 counts them."""
        last = tokens // self.block_size + self.proofs
        return last - self.in_a_row <= position < last


class Retention(NamedTuple):
    """A retention interval, and where hits end."""

    interval: int
    """Tokens; 0: no multiples."""
    alignment: int
    """Tokens. The end of a hit is a multiple of this number."""
    proof: int
    """Tokens behind a hit that draft layers have to find."""
    drafts: bool
    """Whether any group has draft layers."""
    as_released: bool
    """With draft layers, the prefixes of 0.33.0 (C-KV-35)."""

    def kept(self, group: Thinned, request: ComputedRequest, positions: Iterable[int]) -> set[int]:
        """Those of the positions whose blocks can be found once they are written."""
        prompt = whole(getattr(request, "num_prompt_tokens", None), len(request.all_token_ids))
        shared = whole(getattr(request, "shared_prefix_boundary", None), 0)
        if self.as_released:
            ends = self.released_ends(group, prompt, shared)
            return {
                position
                for position in positions
                if self._ends_a_segment(group, position) or any(group.is_of_tail(end, position) for end in ends)
            }
        ends = self.ends(prompt, shared)
        return {
            position
            for position in positions
            if self._is_of_multiple(group, position) or any(group.needs(end, position) for end in ends)
        }

    def ends(self, prompt: int, shared: int) -> tuple[int, ...]:
        """The prefixes, in tokens: that of the prompt, and of the shared tokens with and without a block behind it."""
        again = min(self._aligned(max(0, prompt - 1)), self._aligned(max(0, prompt - self.proof)))
        return again, self._aligned(shared), self._aligned(max(0, shared - self.proof))

    def released_ends(self, group: Thinned, prompt: int, shared: int) -> tuple[int, ...]:
        """The same of 0.33.0: with draft layers anywhere, the prompt ends one alignment earlier."""
        ends = [prompt - 1]
        if self.drafts:
            ends = [max(0, self._aligned(end) - self.alignment) for end in (prompt - 1, prompt)]
        if shared:
            ends += [shared, shared - group.block_size] if group.drafting else [shared]
        return tuple(map(self._aligned, ends))

    def _aligned(self, tokens: int) -> int:
        return tokens // self.alignment * self.alignment

    def _is_of_multiple(self, group: Thinned, position: int) -> bool:
        if not self.interval:
            return False
        behind = (position + 1 - group.proofs) * group.block_size
        return group.needs(max(1, -(-behind // self.interval)) * self.interval, position)

    def _ends_a_segment(self, group: Thinned, position: int) -> bool:
        if not self.interval:
            return False
        length, drop = self.interval // group.block_size, group.proofs
        if group.in_a_row >= length:
            return True
        return position >= drop and (position - drop) % length >= length - group.in_a_row


def whole(given: Any, otherwise: int) -> int:
    """A count that a request brings, or another one if it brings none."""
    return given if isinstance(given, int) and not isinstance(given, bool) and given >= 0 else otherwise


def checked(interval: Any, reaches: Iterable[Reach], scheduler_block_size: int) -> int | None:
    """The interval, if it has an effect. Raises `InvalidCountError` for a wrong one."""
    if interval is None:
        return None
    if not any(reach.kind in (Kind.WINDOW, Kind.STATE) for reach in reaches):
        if interval:
            raise InvalidCountError(
                f"{NAME} is set but there is no sliding-window or Mamba group, so retention has no effect: it must be 0"
                " or None"
            )
        return None
    if not isinstance(interval, int) or interval < 0 or interval % scheduler_block_size:
        raise InvalidCountError(
            f"{NAME} must be non-negative and a multiple of scheduler_block_size {scheduler_block_size}, not {interval}"
        )
    return interval
