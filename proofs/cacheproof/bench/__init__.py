"""Measurements side by side in one run; a module with a `BENCHMARK` is found by its name."""

from __future__ import annotations

import importlib
import pkgutil

from cacheproof.bench.measure import Benchmark
from cacheproof.errors import InputError


def benchmarks() -> dict[str, Benchmark]:
    """All benchmarks by name, in the order of their names."""
    modules = (importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    found = (getattr(module, "BENCHMARK", None) for module in modules)
    return {one.name: one for one in found if isinstance(one, Benchmark)}


def benchmark_named(name: str) -> Benchmark:
    """The benchmark, or an error that names those there are."""
    known = benchmarks()
    if name not in known:
        raise InputError(f"there is no benchmark '{name}': there are {', '.join(known)}")
    return known[name]
