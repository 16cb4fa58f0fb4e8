"""Benchmarks whose contenders get the sizes of the work by name, and a release's child process the same ones."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from cacheproof.bench.measure import Benchmark, Contender, Released

Sizes = Callable[[bool], Mapping[str, Any]]
"""Of a small run, or of a full one."""
Kind = Callable[..., Contender]
"""Makes a contender of these sizes."""


def on_tensors(place: str, **own: Any) -> Kind:
    """A class of `bench.tensor`, as `slots:TensorDecode`. It is imported when it is made, because torch is an extra."""
    module, _, name = place.partition(":")

    def made(**asked: Any) -> Contender:
        kind: Kind = getattr(importlib.import_module(f"{__package__}.tensor.{module}"), name)
        return kind(**asked, **own)

    return made


def sized(
    name: str,
    about: str,
    unit: str,
    size: str,
    sizes: Sizes,
    kinds: Mapping[str, Kind],
    work: str = "",
    of_release: Mapping[str, int] | None = None,
    **more: Any,
) -> Benchmark:
    """A timed benchmark. `work` is that of a release, if one can do it, which gets some sizes `of_release` besides."""

    def contenders(*, small: bool) -> Mapping[str, Contender]:
        asked = sizes(small)
        return {shown: kind(**asked) for shown, kind in kinds.items()}

    def released(small: bool) -> Released:  # noqa: FBT001  # the type of `Benchmark.released`
        return Released(work, {**sizes(small), **(of_release or {})})

    return Benchmark(name, about, unit, size, contenders, released=released if work else None, timed=True, **more)
