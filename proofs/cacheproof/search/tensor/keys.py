"""Sets of packed states: sorted tensors of keys, where a key is one word or several.

Keys are in the order of a 64-bit mix of their words, and where mixes are equal, of the words themselves. The mix is for
finding places only: whether two keys are the same is decided by all of their words, so keys that are different and have
equal mixes cost time and change nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

FACTOR = 0x1E3779B97F4A7C15
LOW_HALF = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class KeySet:
    """Each key once, in order."""

    words: Tensor
    """[keys, words] int64"""
    mix: Tensor
    """[keys] int64, ascending; of keys of one word it is the word, and the same memory"""

    @property
    def count(self) -> int:
        """How many keys there are."""
        return self.mix.shape[0]


def mixed(words: Tensor) -> Tensor:
    """[keys] int64: the mix of each key ([keys, words] int64); different for different keys of one word."""
    first, *others = words.unbind(1)
    mix = first
    for word in others:
        mix = (mix ^ (mix >> 32 & LOW_HALF)) * FACTOR  # products wrap around
        mix = mix ^ word
    return mix


def listed(words: Tensor) -> list[Hashable]:
    """Keys ([keys, words] int64) as plain data: an integer each, or a tuple of them."""
    if words.shape[1] == 1:
        return list(words[:, 0].tolist())
    return list(map(tuple, words.tolist()))


def tensor_of(key: Hashable, like: Tensor) -> Tensor:
    """[1, words] int64: one key as `listed` gives it."""
    return like.new_tensor([key]).reshape(1, -1)


def distinct(words: Tensor) -> KeySet:
    """The set of these keys ([keys, words] int64, in any order and repeated as it may be)."""
    if words.shape[1] == 1:
        found = torch.unique(words)
        return KeySet(found[:, None], found)
    mix, order = mixed(words).sort()
    words = words[order]
    same_mix, same = mix[1:] == mix[:-1], (words[1:] == words[:-1]).all(1)
    if bool((same_mix & ~same).any()):
        words, mix = _by_all_words(words, mix)
        same = (words[1:] == words[:-1]).all(1)
    first = torch.ones_like(mix, dtype=torch.bool)
    first[1:] = ~same
    return KeySet(words[first], mix[first])


def outside(found: KeySet, visited: KeySet) -> KeySet:
    """The keys that are not in `visited`, which has at least one."""
    place = places(found, visited).clamp(max=visited.count - 1)
    fresh = (visited.words[place] != found.words).any(1)
    return KeySet(found.words[fresh], found.mix[fresh])


def merged(visited: KeySet, fresh: KeySet) -> KeySet:
    """Both in one set; they have nothing in common."""
    place = places(fresh, visited) + torch.arange(fresh.count, device=fresh.mix.device)
    old = torch.ones(visited.count + fresh.count, dtype=torch.bool, device=fresh.mix.device)
    old[place] = False

    def union(before: Tensor, added: Tensor) -> Tensor:
        both = before.new_empty(old.shape[0], *before.shape[1:])
        both[place], both[old] = added, before
        return both

    words = union(visited.words, fresh.words)
    return KeySet(words, words[:, 0] if words.shape[1] == 1 else union(visited.mix, fresh.mix))


def places(found: KeySet, visited: KeySet) -> Tensor:
    """[found] int64: how many keys of `visited` come before each."""
    place = torch.searchsorted(visited.mix, found.mix)
    if found.words.shape[1] == 1 or visited.count == 0:
        return place
    there = place.clamp(max=visited.count - 1)
    collides = (visited.mix[there] == found.mix) & (visited.words[there] != found.words).any(1)
    (which,) = collides.nonzero(as_tuple=True)
    if which.shape[0] > 0:
        place[which] = _place_among_equal_mixes(KeySet(found.words[which], found.mix[which]), visited)
    return place


def less(one: Tensor, other: Tensor) -> Tensor:
    """[keys] bool: word by word, whether the one key ([keys, words]) comes before the other."""
    before = torch.zeros(one.shape[0], dtype=torch.bool, device=one.device)
    for mine, theirs in zip(one.unbind(1)[::-1], other.unbind(1)[::-1], strict=True):
        before = (mine < theirs) | ((mine == theirs) & before)
    return before


def _place_among_equal_mixes(found: KeySet, visited: KeySet) -> Tensor:
    """[found] int64: by bisection over the words, among the keys that have the same mix."""
    low, high = torch.searchsorted(visited.mix, found.mix), torch.searchsorted(visited.mix, found.mix, right=True)
    while bool((low < high).any()):
        middle = (low + high) // 2
        after = less(visited.words[middle.clamp(max=visited.count - 1)], found.words) & (low < high)
        low, high = torch.where(after, middle + 1, low), torch.where(after, high, middle)
    return low


def _by_all_words(words: Tensor, mix: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and mixes, by mix, then word by word: sorted by the last one first."""
    for place in range(words.shape[1] - 1, -1, -1):
        order = words[:, place].argsort(stable=True)
        words, mix = words[order], mix[order]
    mix, order = mix.sort(stable=True)
    return words[order], mix
