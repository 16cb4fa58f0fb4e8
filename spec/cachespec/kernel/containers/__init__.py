"""The two containers of a state, behind one small interface, in several realisations.

Transition code sees `Map` and `Queue` only, and of them only what these interfaces name. *Frozen* containers are
hashable and canonical, for exploring. *Rerooting* containers step in constant time while every older version stays
readable, for production sizes. A *symbolic* realisation, for proofs, lives with the prover.
"""

from cachespec.kernel.containers.frozen import FROZEN, FrozenMap, FrozenQueue
from cachespec.kernel.containers.interface import Containers, Map, Queue
from cachespec.kernel.containers.rerooting import REROOTING, RerootingMap, RerootingQueue

__all__ = [
    "FROZEN",
    "REROOTING",
    "Containers",
    "FrozenMap",
    "FrozenQueue",
    "Map",
    "Queue",
    "RerootingMap",
    "RerootingQueue",
]
