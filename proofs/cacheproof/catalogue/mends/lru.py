"""The eras of the LRU, each without one of their faults."""

from __future__ import annotations

from cacheproof.catalogue.mends import Mend, transitions
from cachespec.lru.eras import RELEASED
from cachespec.lru.normative import NORMATIVE_LRU
from cachespec.lru.operations import Clear, Evict, Put, Touch

NORMATIVE, AS_RELEASED = NORMATIVE_LRU.transitions, RELEASED.transitions

MENDS = (
    Mend("C-MIR-10", ("M2",), transitions({each: AS_RELEASED[each] for each in (Touch, Evict, Clear)})),
    Mend("C-LRU-1", ("M2", "M3", "stale-growth"), transitions({Put: NORMATIVE[Put]})),
    Mend("C-LRU-2", ("stale-growth",), transitions({each: AS_RELEASED[each] for each in (Put, Evict)})),
)
