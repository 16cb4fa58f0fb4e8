"""An LRU cache of blocks that was written for these tests alone, and knows nothing of the specification."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import takewhile


def plain_hits(requests: Iterable[tuple[int, ...]], capacity: int) -> int:
    """One request at a time: the leading blocks that are there are hits, and then all of it is there.

    The end of a request is older than its beginning, so that it is evicted first.
    """
    held: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for blocks in requests:
        hits += sum(1 for _ in takewhile(held.__contains__, blocks))
        for block in reversed(blocks):
            held[block] = None
            held.move_to_end(block)
        while len(held) > capacity:
            held.popitem(last=False)
    return hits
