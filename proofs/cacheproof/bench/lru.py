"""The cache by recency: the pure specification with 10,000 contents, as an oracle steps it. A fifth of them fits.

A unit is a call: a content is looked up; if it is absent, it is stored, which evicts others.
"""

from __future__ import annotations

from cacheproof.bench.measure import Benchmark, Contender
from cacheproof.bench.oracle import contenders_of, served, skewed
from cacheproof.bench.plain import Apply, PlainLru
from cachespec.kernel import Request
from cachespec.lru import COMPONENT
from cachespec.lru.configuration import Config
from cachespec.lru.service import SERVICE

CONTENTS = 10_000
TURN = 20_000
FRACTION = 100
"""A small run has this fraction of the contents."""


def contenders(*, small: bool) -> dict[str, Contender]:
    """A plain implementation, and the specification."""
    contents, length = (CONTENTS // FRACTION, TURN // FRACTION) if small else (CONTENTS, TURN)
    sizes = tuple(1 + content % 7 for content in range(contents))
    config = Config(capacity=sum(sizes) // 5, sizes=sizes, lookups=0)

    def turn(apply: Apply, number: int) -> int:
        arrivals = [Request(0, (content,)) for content in skewed(contents, number + 1, length)]
        return served(SERVICE, config, arrivals, 1, apply)

    return contenders_of(COMPONENT, config, turn, PlainLru(config, turn))


BENCHMARKS = (
    Benchmark(
        name="lru",
        about="the specification of the cache by recency as an oracle: get, put with eviction",
        unit="calls",
        size="10,000 contents",
        contenders=contenders,
    ),
)
