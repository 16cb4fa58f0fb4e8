"""Measurements side by side in one run; a module with a `BENCHMARK`, or several, is found by its name."""

from __future__ import annotations

import importlib
import pkgutil

from cacheproof.bench.measure import Benchmark
from cacheproof.foundation.errors import InputError


def benchmarks() -> dict[str, Benchmark]:
    """All benchmarks by name, in the order of their modules and sizes."""
    modules = (importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    found = (one for module in modules for one in (*getattr(module, "BENCHMARKS", ()), getattr(module, "BENCHMARK", 0)))
    return {one.name: one for one in found if isinstance(one, Benchmark)}


def benchmarks_named(name: str) -> list[Benchmark]:
    """The benchmark, or all sizes of one (`decode` is `decode-256`, `decode-1024` and so on).

    Raises InputError that names those there are.
    """
    known = benchmarks()
    chosen = [one for one in known.values() if name in (one.name, one.family)]
    if not chosen:
        raise InputError(f"there is no benchmark '{name}': there are {', '.join(known)}")
    return chosen
