"""Items in shared memory, in one process: put and got, with the bytes copied in and out, in a ring that is warm.

The yardstick copies the same bytes into a buffer and out of it, and does nothing else. Counted is one call, `put` or
`get`; each item is put once and read by one reader.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from cacheproof.bench.measure import Benchmark, Contender, Released, Work

COPIES = "copies"
SHARED = "shared memory"
ITEMS = 6
"""How many items the ring holds."""


def sizes(call: str, kib: int, *, small: bool) -> Mapping[str, int | str]:
    """A turn goes round the ring twice."""
    return {"call": call, "kib": 1 if small else kib, "items": ITEMS, "times": 2 * ITEMS}


class Copies:
    """One buffer for each item."""

    def __init__(self, call: str, kib: int, items: int, times: int) -> None:
        self.call, self.data, self.times = call, bytes(kib << 10), times
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
            seconds += between - started if self.call == "put" else ended - between
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


BENCHMARKS = tuple(benchmark(call, kib) for call in ("put", "get") for kib in (1, 1024, 8192))
