"""Single calls of caches: encoder outputs, and a cache by recency.

Tensors lose on single calls: an operation on a tensor costs microseconds, however small it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from cacheproof.bench import plain_entries
from cacheproof.bench.measure import Benchmark
from cacheproof.bench.sized import Kind, Sizes, on_tensors, sized

ON_TENSORS = "tensors"
PLAIN = "ordered dictionaries"


def encoder(small: bool, *, hit: int) -> Mapping[str, int | str]:  # noqa: FBT001  # called with nothing else
    """A tenth of the contents fits; with `hit` there is one content, and it fits."""
    return {"contents": 1000, "capacity": 100, "hit": hit, "times": 20 if small else 400}


def recency(call: str, small: bool) -> Mapping[str, int | str]:  # noqa: FBT001  # called with nothing else
    """The benchmark of a full cache."""
    return {"capacity": 50 if small else 1000, "call": call, "times": 20 if small else 1000}


def benchmark(name: str, about: str, unit: str, work: str, sizes: Sizes, plain: type[Any]) -> Benchmark:
    """Our contenders are named alike: `Plain` and `Tensor` with one name."""
    kinds: dict[str, Kind] = {
        PLAIN: plain,
        ON_TENSORS: on_tensors(f"entries:{plain.__name__.replace('Plain', 'Tensor')}"),
    }
    return sized(name, about, unit, "1,000 entries", sizes, kinds, work)


ENCODER = plain_entries.PlainEncoder
RECENCY = plain_entries.PlainRecency
BENCHMARKS = (
    benchmark(
        "encoder-miss", "check, ask for room, allocate, free", "inputs", "encoder", partial(encoder, hit=0), ENCODER
    ),
    benchmark("encoder-hit", "check, free", "inputs", "encoder", partial(encoder, hit=1), ENCODER),
    benchmark("recency-get", "get of what is there", "calls", "lru", partial(recency, "get"), RECENCY),
    benchmark("recency-touch", "touch of what is there", "calls", "lru", partial(recency, "touch"), RECENCY),
    benchmark("recency-put", "put that evicts", "calls", "lru", partial(recency, "put"), RECENCY),
)
