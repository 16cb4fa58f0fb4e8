"""A contract about the specification, whose touch lets a ghost in."""

from __future__ import annotations

from icontract import ensure, require

from cachespec import lru
from cachespec.kernel import FROZEN


@require(lambda key: key >= 0)
@ensure(lambda result: result)
def touch_keeps_the_order(key: int) -> bool:
    """After touching, the order still holds exactly the entries."""
    config = lru.Config(capacity=1, sizes=(1,))
    after, _ = lru.GHOST.step(config, lru.GHOST.start(config, FROZEN), lru.Touch(key))
    return after.order.length == after.entries.length


LEDGER = {"touch_keeps_the_order": "the empty cache"}
