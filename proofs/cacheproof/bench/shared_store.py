"""Items in shared memory, in one process: put and got, with the bytes copied in and out, in a ring that is warm.

The yardstick copies the same bytes into a buffer and out of it, and does nothing else. Counted is one call, `put` or
`get`; each item is put once and read by one reader. `shared_parts` leaves out what guarantees cost, one by one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

from cacheproof.bench.measure import Benchmark, Contender, Released, Work

COPIES = "copies"
SHARED = "shared memory"
ITEMS = 6
"""How many items of the largest size the ring holds."""
MOST, KIB = 2048, 1 << 16
"""A turn is so many calls at the most, or as many as copy so many KiB; it goes round the ring twice at the least."""
BOTH = "put and get"


def sizes(call: str, kib: int, *, small: bool) -> Mapping[str, int | str]:
    """What one turn does."""
    times = 2 * ITEMS if small else max(2 * ITEMS, min(MOST, KIB // kib))
    return {"call": call, "kib": 1 if small else kib, "items": ITEMS, "times": times}


def content(kib: int) -> bytes:
    """The bytes of an item. Memory that holds nothing but zeros would be a single page, which every copy finds near."""
    return random.Random(kib).randbytes(kib << 10)  # noqa: S311  # nothing secret


def counted(call: str, put: float, got: float) -> float:
    """The seconds of the call that is measured."""
    return {"put": put, "get": got, BOTH: put + got}[call]


class Copies:
    """One buffer for each item."""

    def __init__(self, call: str, kib: int, items: int, times: int) -> None:
        self.call, self.data, self.times = call, content(kib), times
        self.buffers = [memoryview(bytearray(kib << 10)) for _ in range(items)]

    def warm_up(self) -> None:
        """A turn that is not counted."""
        self.turn(-1)

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """So many items in and out."""
        seconds, read = 0.0, 0
        for place in range(self.times):
            started = time.process_time()
            buffer = self.buffers[place % len(self.buffers)]
            buffer[:] = self.data
            between = time.process_time()
            read += len(bytes(buffer))
            ended = time.process_time()
            seconds += counted(self.call, between - started, ended - between)
        return Work(self.times, [read], seconds)


def benchmark(call: str, kib: int) -> Benchmark:
    """Of one call at one size."""

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
    """The same where an item is a tensor in a dictionary, with a description."""

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
    """What guarantees cost."""

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
