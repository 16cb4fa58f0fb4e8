"""Items in shared memory, in one process: put and got, with the bytes copied in and out, in a warm ring.

The yardstick copies the same bytes into a buffer and out of it, and does no other work. A unit is one call, `put` or
`get`; each item is put once and read by one reader. `shared_parts` leaves out the parts that give guarantees, one by
one.
"""

from __future__ import annotations

from collections.abc import Mapping

from cacheproof.bench.copies import BOTH, Copies
from cacheproof.bench.measure import Benchmark, Contender, Released

COPIES = "copies"
SHARED = "shared memory"
ITEMS = 6
"""The number of items of the largest size that the ring holds."""
MOST, KIB = 2048, 1 << 16
"""A turn has at most this number of calls or of copied KiB; it goes round the ring at least twice."""


def sizes(call: str, kib: int, *, small: bool) -> Mapping[str, int | str]:
    """The number of calls in a turn."""
    times = 2 * ITEMS if small else max(2 * ITEMS, min(MOST, KIB // kib))
    return {"call": call, "kib": 1 if small else kib, "items": ITEMS, "times": times}


def benchmark(call: str, kib: int) -> Benchmark:
    """The benchmark of one call at one size."""

    def contenders(*, small: bool) -> Mapping[str, Contender]:
        from cacheproof.bench.tensor.shared_store import SharedItems  # noqa: PLC0415  # torch is an extra

        asked = sizes(call, kib, small=small)
        return {COPIES: Copies(**asked), SHARED: SharedItems(**asked)}  # type: ignore[arg-type]  # by their names

    return Benchmark(
        name=f"shared_{call}-{kib}",
        about=f"{call} of items in shared memory, one writer and one reader",
        unit="items",
        size=f"{kib} KiB",
        contenders=contenders,
        released=lambda small: Released("shared", sizes(call, kib, small=small)),
        timed=True,
    )


def of_tensors(call: str, kib: int) -> Benchmark:
    """The same for an item that is a tensor in a dictionary, with a description."""

    def contenders(*, small: bool) -> Mapping[str, Contender]:
        from cacheproof.bench.tensor.shared_store import CopiedTensors, SharedTensors  # noqa: PLC0415  # an extra

        asked = sizes(call, kib, small=small)
        return {COPIES: CopiedTensors(**asked), SHARED: SharedTensors(**asked)}  # type: ignore[arg-type]  # as above

    return Benchmark(
        name=f"shared_tensor_{call}-{kib}",
        about=f"{call} of dictionaries with a tensor in shared memory, one writer and one reader",
        unit="items",
        size=f"{kib} KiB",
        contenders=contenders,
        timed=True,
    )


def of_parts(kib: int) -> Benchmark:
    """The benchmark of the cost of guarantees."""

    def contenders(*, small: bool) -> Mapping[str, Contender]:
        from cacheproof.bench.tensor.shared_store import LEFT_OUT, SharedItems  # noqa: PLC0415  # torch is an extra

        asked = sizes(BOTH, kib, small=small)
        made: dict[str, Contender] = {SHARED: SharedItems(**asked)}  # type: ignore[arg-type]  # by their names
        for what, leave_out in LEFT_OUT.items():
            made[f"without {what}"] = lacking = SharedItems(**asked)  # type: ignore[arg-type]  # as above
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
