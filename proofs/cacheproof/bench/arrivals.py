"""Requests that arrive in bursts of 256, as text or with a picture: what it costs to take one in.

In `arrivals` the calls of `add_request` are timed, and nothing else. In `arrivals_named` it is all that is done for a
request until it can be looked up and served: a release hashes its blocks when it makes the request, before it is added;
our scheduler gives numbers to what they hold, and writes all that arrived, after it was added and before the next step.
The steps in which the requests are served are not timed; all are finished in the step that follows their burst.
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
    """The work; prompts are of the same length."""
    count = BURST // SMALL_PART if small else BURST
    return Arrivals(requests=count, block_size=16, text=TOKENS - picture, picture=picture, steps=4, named=named)


def benchmark(family: str, kind: str, about: str, named: int) -> Benchmark:
    """Of requests of this kind."""

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
