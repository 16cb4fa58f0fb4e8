"""The encoder cache: the pure specification with 5,000 contents, as an oracle steps it. A tenth of them fits.

A unit is a call. Requests of 3 inputs are admitted and freed in the order of a scheduler, 8 at a time.
"""

from __future__ import annotations

from cacheproof.bench.measure import Benchmark, Contender
from cacheproof.bench.oracle import contenders_of, served, skewed
from cacheproof.bench.plain import Apply, PlainEncoderCache
from cachespec.encoder_cache import COMPONENT
from cachespec.encoder_cache.service import SERVICE
from cachespec.kernel import Demand, Request

CONTENTS = 5_000
TURN = 2_000
FRACTION = 50
"""A small run has this fraction of the contents."""
INPUTS = 3
ALIVE = 8


def contenders(*, small: bool) -> dict[str, Contender]:
    """A plain implementation, and the specification."""
    contents, length = (CONTENTS // FRACTION, TURN // FRACTION) if small else (CONTENTS, TURN)
    sizes = tuple(1 + content % 3 for content in range(contents))
    drawn = skewed(contents, 1, INPUTS * length)
    requests = tuple(tuple(drawn[place : place + INPUTS]) for place in range(0, len(drawn), INPUTS))
    config = SERVICE.configure(Demand(max(100, sum(sizes) // 10), sizes, requests))
    arrivals = [Request(name, inputs) for name, inputs in enumerate(requests)]

    def turn(apply: Apply, number: int) -> int:
        return served(SERVICE, config, arrivals, ALIVE, apply)

    return contenders_of(COMPONENT, config, turn, PlainEncoderCache(config, turn))


BENCHMARKS = (
    Benchmark(
        name="encoder_cache",
        about="the specification of the encoder cache as an oracle: check, ask for room, allocate, report, free",
        unit="calls",
        size="5,000 contents",
        contenders=contenders,
    ),
)
