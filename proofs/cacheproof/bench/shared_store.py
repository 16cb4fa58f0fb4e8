"""Items in shared memory, in one process: put and got, with the bytes copied in and out, in a warm ring.

The yardstick copies the same bytes into a buffer and out of it, and does no other work. A unit is one call, `put` or
`get`; each item is put once and read by one reader. `shared_parts` leaves out the parts that give guarantees, one by
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from cacheproof.bench.copies import BOTH, Copies
from cacheproof.bench.measure import Benchmark, Contender
from cacheproof.bench.sized import on_tensors, sized

COPIES = "copies"
SHARED = "shared memory"
ITEMS = 6
"""The number of items of the largest size that the ring holds."""
MOST, KIB = 2048, 1 << 16
"""A turn has at most this number of calls or of copied KiB; it goes round the ring at least twice."""


def sizes_of(call: str, kib: int, small: bool) -> Mapping[str, Any]:  # noqa: FBT001  # called with nothing else
    """The number of calls in a turn."""
    times = 2 * ITEMS if small else max(2 * ITEMS, min(MOST, KIB // kib))
    return {"call": call, "kib": 1 if small else kib, "items": ITEMS, "times": times}


def benchmark(call: str, kib: int) -> Benchmark:
    """The benchmark of one call at one size."""
    about = f"{call} of items in shared memory, one writer and one reader"
    kinds = {COPIES: Copies, SHARED: on_tensors("shared_store:SharedItems")}
    return sized(f"shared_{call}-{kib}", about, "items", f"{kib} KiB", partial(sizes_of, call, kib), kinds, "shared")


def of_tensors(call: str, kib: int) -> Benchmark:
    """The same for an item that is a tensor in a dictionary, with a description."""
    about = f"{call} of dictionaries with a tensor in shared memory, one writer and one reader"
    kinds = {COPIES: on_tensors("shared_store:CopiedTensors"), SHARED: on_tensors("shared_store:SharedTensors")}
    return sized(f"shared_tensor_{call}-{kib}", about, "items", f"{kib} KiB", partial(sizes_of, call, kib), kinds)


def of_parts(kib: int) -> Benchmark:
    """The benchmark of the cost of guarantees."""

    def contenders(*, small: bool) -> Mapping[str, Contender]:
        from cacheproof.bench.tensor.shared_store import LEFT_OUT, SharedItems  # noqa: PLC0415  # torch is an extra

        asked = sizes_of(BOTH, kib, small)
        made: dict[str, Contender] = {SHARED: SharedItems(**asked)}
        for what, leave_out in LEFT_OUT.items():
            made[f"without {what}"] = lacking = SharedItems(**asked)
            leave_out(lacking)
        return made

    return Benchmark(
        name=f"shared_parts-{kib}",
        about="put and get of items in shared memory, without what guarantees need",
        unit="items",
        size=f"{kib} KiB",
        contenders=contenders,
        timed=True,
    )


BENCHMARKS = (
    *(benchmark(call, kib) for call in ("put", "get") for kib in (1, 64, 1024, 8192)),
    *(of_tensors(call, kib) for call in ("put", "get") for kib in (1, 1024)),
    of_parts(1),
)
