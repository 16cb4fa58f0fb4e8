"""The yardstick of the shared memory: the same bytes copied into a buffer and out of it, without other work."""

from __future__ import annotations

import random
import time

from cacheproof.bench.measure import Work

BOTH = "put and get"


def content(kib: int) -> bytes:
    """The bytes of an item. They are not zeros: memory of zeros would be a single page, which caches hold."""
    return random.Random(kib).randbytes(kib << 10)  # noqa: S311  # nothing secret


def counted(call: str, put: float, got: float) -> float:
    """The seconds of the call that is measured."""
    return {"put": put, "get": got, BOTH: put + got}[call]


class Copies:
    """A buffer for each item."""

    def __init__(self, call: str, kib: int, items: int, times: int) -> None:
        self.call, self.data, self.times = call, content(kib), times
        self.buffers = [memoryview(bytearray(kib << 10)) for _ in range(items)]

    def warm_up(self) -> None:
        """Run a turn that is not counted."""
        self.turn(-1)

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Copy `times` items in and out."""
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
