"""Which requests begin alike: those of one group share the beginning of one text, each so much of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence


class ForkError(Exception):
    """Requests share prefixes in a way that groups cannot say."""


def beginnings(chains: Sequence[Sequence[Hashable]], prompts: Sequence[int], block: int) -> tuple[list[int], list[int]]:
    """The group of each request, and how many of its first tokens are those of its group; empty if nothing is shared.

    `chains` are what each request's whole blocks hold, `prompts` the tokens of its prompt, and `block` those of a
    block. Raises ForkError if three requests share a prefix and two of them share another
    continuation than the third does with a fourth, or if a shared block has output in it.
    """
    groups = [-1] * len(chains)
    shared = [0] * len(chains)
    for first, count in Counter(chain[0] for chain in chains if chain).items():
        members = [number for number, chain in enumerate(chains) if chain and chain[0] == first]
        for number in members:
            groups[number] = members[0]
        if count > 1:
            _follow(chains, members, shared, block)
    for number, length in enumerate(shared):
        if length > prompts[number]:
            raise ForkError(f"request {number} shares blocks of its output with another request")
    if not any(shared):
        return [], []
    return [number if group < 0 else group for number, group in enumerate(groups)], shared


def _follow(chains: Sequence[Sequence[Hashable]], members: Sequence[int], shared: list[int], block: int) -> None:
    """Follow the text that the members have in common, and note how far each goes with it."""
    together, depth = list(members), 0
    while len(together) > 1:
        depth += 1
        for number in together:
            shared[number] = depth * block
        following = Counter(chains[number][depth] for number in together if len(chains[number]) > depth)
        common = [key for key, count in following.items() if count > 1]
        if len(common) > 1:
            raise ForkError("prompts share prefixes in the way of a tree, not of groups")
        together = [number for number in together if common and chains[number][depth : depth + 1] == common]
