"""Requests that arrive in bursts of 256, with text or a picture: the cost of taking in a request.

`arrivals` times the calls of `add_request` only. `arrivals_named` times all work on a request until it can be looked up
and served. A release hashes the blocks of a request when it makes the request, before it adds it. Our scheduler numbers
the contents of the blocks and writes all arrivals between `add_request` and the next step. The steps that serve the
requests are not timed; the step after a burst finishes the whole burst.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from cacheproof.bench.measure import Benchmark, Contender, Released
from cacheproof.bench.plain_arrivals import PlainArrivals
from cacheproof.bench.workload import Arrivals

BURST, TOKENS, PICTURE = 256, 208, 64
SMALL_PART = 16
KINDS = {"text": 0, "picture": PICTURE}


def load(picture: int, named: int, *, small: bool) -> Arrivals:
    """The sizes of the work; all prompts have the same length."""
    count = BURST // SMALL_PART if small else BURST
    return Arrivals(requests=count, block_size=16, text=TOKENS - picture, picture=picture, steps=4, named=named)


def benchmark(family: str, kind: str, about: str, named: int) -> Benchmark:
    """The benchmark of requests of this kind."""

    def contenders(*, small: bool) -> Mapping[str, Contender]:
        from cacheproof.bench.tensor.arrivals import TensorArrivals  # noqa: PLC0415  # torch is an extra

        asked = load(KINDS[kind], named, small=small)
        return {"plain dictionaries": PlainArrivals(asked), "tensors": TensorArrivals(asked)}

    return Benchmark(
        name=f"{family}-{kind}",
        about=about,
        unit="requests",
        size=f"bursts of {BURST} requests of {TOKENS} tokens",
        contenders=contenders,
        released=lambda small: Released("arrivals", asdict(load(KINDS[kind], named, small=small))),
        timed=True,
    )


BENCHMARKS = tuple(
    benchmark(family, kind, about, named)
    for family, about, named in (
        ("arrivals", "a request is added", 0),
        ("arrivals_named", "a request is added, and what its blocks hold has a name", 1),
    )
    for kind in KINDS
)
