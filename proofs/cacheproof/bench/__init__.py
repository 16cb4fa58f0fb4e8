"""Measurements side by side in one run; a module with `BENCHMARKS` is found by scanning."""

from __future__ import annotations

from cacheproof.bench.measure import Benchmark
from cacheproof.foundation.discover import discover
from cacheproof.foundation.errors import InputError


def benchmarks() -> dict[str, Benchmark]:
    """All benchmarks by name, in the order of their modules and sizes."""
    groups = discover(__name__, "BENCHMARKS", tuple, optional=True)
    return {benchmark.name: benchmark for group in groups.values() for benchmark in group}


def benchmarks_named(name: str) -> list[Benchmark]:
    """The benchmark of this name, or all sizes of a family (`decode` is `decode-256`, `decode-1024` and so on).

    Raises InputError, which lists the benchmarks, if the name is unknown.
    """
    known = benchmarks()
    chosen = [one for one in known.values() if name in (one.name, one.family)]
    if not chosen:
        raise InputError(f"there is no benchmark '{name}': there are {', '.join(known)}")
    return chosen
