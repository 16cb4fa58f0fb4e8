"""Our engines beside Spin and TLC, on the same model: one thread each, every contender's run in its own process.

The models are written by hand, and their counts must be ours (`models.py`). `spin.py`, `tlc.py` and `ours.py` run one
exploration each; `contenders.py` takes turns with them.
"""

from __future__ import annotations

from cacheproof.bench.peers.contenders import ENCODER_CACHE, ENCODER_CACHE_WIDE, MIRROR, MIRROR_WIDE, Peered

PEERED = (
    Peered("explore-mirror", MIRROR),
    Peered("explore-encoder_cache", ENCODER_CACHE),
    Peered("explore-mirror_wide", MIRROR_WIDE, slow=False),
    Peered("explore-encoder_cache_wide", ENCODER_CACHE_WIDE, slow=False),
)

BENCHMARKS = tuple(peered.benchmark() for peered in PEERED)
