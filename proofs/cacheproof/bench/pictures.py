"""Requests with a new picture each, which all arrive before a step: admission and encoding.

A unit is one whole step with its update. In a step all requests compute their prompts, their pictures are encoded, and
all requests finish. The encoder cache has room for the pictures of two steps, so each step evicts the pictures of the
step before the last. Arrivals are not timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict

from cacheproof.bench.measure import Benchmark, Contender, Make, Released
from cacheproof.bench.plain_pictures import PlainPictures
from cacheproof.bench.workload import Pictures

REQUESTS = (16, 64, 256)
SMALL_PART = 8


def load(requests: int, *, small: bool) -> Pictures:
    """Sizes of the work."""
    count = requests // SMALL_PART if small else requests
    return Pictures(requests=count, block_size=16, text=15, picture=64, steps=4)


def make(requests: int) -> Make:
    """Our contenders at this number of requests."""

    def contenders(*, small: bool) -> Mapping[str, Contender]:
        from cacheproof.bench.tensor.pictures import TensorPictures  # noqa: PLC0415  # torch is an extra

        asked = load(requests, small=small)
        return {"plain dictionaries": PlainPictures(asked), "tensors": TensorPictures(asked)}

    return contenders


def released(requests: int) -> Callable[[bool], Released]:
    """The same work of a release."""
    return lambda small: Released("pictures", asdict(load(requests, small=small)))


BENCHMARKS = tuple(
    Benchmark(
        name=f"pictures-{requests}",
        about="a whole scheduler step in which requests with a new picture each are admitted and finished",
        unit="steps",
        size=f"{requests:,} requests",
        contenders=make(requests),
        released=released(requests),
        timed=True,
    )
    for requests in REQUESTS
)
