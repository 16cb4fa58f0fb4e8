"""The device engine: the specification compiled for a CUDA device, and explored there.

It finds the states, transitions, depth, digest and verdicts that the native engine finds. The order of discovery is
another one, so the native engine is asked for a counterexample, on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, TypeVarTuple

from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.trace import Violation
from cacheproof.search import native
from cacheproof.search.checkpoint import Checkpoint
from cacheproof.search.crew import Alone, Crew
from cacheproof.search.cuda.build import missing
from cacheproof.search.cuda.shard import USUAL, CudaShard, Sizes, ThreadMemoryError, loaded
from cacheproof.search.reference import ReferenceSearch
from cacheproof.search.result import Exploration, Watch
from cacheproof.search.shard import Shard

ENGINE = "cuda"
MOST_THREAD_BYTES = 1 << 24

Answer = TypeVar("Answer")
Arguments = TypeVarTuple("Arguments")


def explore(
    component: AnyComponent,
    variant: AnyVariant,
    config: Any,
    plan: Plan | None = None,
    watch: Watch | None = None,
    *,
    crew: Crew | None = None,
    share: float = 0.0,
    checkpoint: Checkpoint | None = None,
    threads: int = 1,
    sizes: Sizes = USUAL,
    emulated: bool = False,
) -> Exploration:
    """Explore one configuration of one variant on the first CUDA device, or with kernels that are `emulated` on a CPU.

    Properties of progress are not judged. Raises `InputError` for a `crew`, a `share`, a `checkpoint` or several
    `threads`, and `InconclusiveError` where the device's memory is not enough.
    """
    if crew is not None or checkpoint is not None or threads > 1:
        raise InputError(f"the {ENGINE} engine has no checkpoints and runs in one process: add --engine reference")
    if share:
        raise InputError(f"the {ENGINE} engine explores the specification itself: there is nothing to compare it with")
    plan = replace(plan or Plan(), liveness=False)
    while True:
        try:
            with CudaShard(component, variant, config, plan, sizes, emulated=emulated) as shard:
                return CudaSearch(component, variant, config, plan, watch, shard).run()
        except ThreadMemoryError:
            sizes = sizes.larger()
            if sizes.thread_bytes > MOST_THREAD_BYTES:
                raise


class CudaSearch(ReferenceSearch):
    """The reference engine's search, with states on a device. Counterexamples come from the native engine."""

    def __init__(
        self,
        component: AnyComponent,
        variant: AnyVariant,
        config: Any,
        plan: Plan,
        watch: Watch | None,
        shard: CudaShard,
    ) -> None:
        super().__init__(component, variant, config, plan, watch, CudaCrew(shard), None)
        self.engine, self.shard, self.config = ENGINE, shard, config

    def counterexamples(self) -> list[Violation]:
        """Of all properties that are violated, each as short as the device says."""
        broken = self.shard.broken()
        if not broken:
            return []
        plan = replace(self.plan, until=frozenset(broken), first=False)
        component, variant = self.graph.component, self.graph.variant
        found = native.explore(component, variant, self.config, plan).violations
        shown = [violation for violation in found if violation.property in broken]
        lengths = {violation.property: len(violation.trace.steps) for violation in shown}
        if lengths != broken:
            raise InconclusiveError(
                f"the native engine finds violations after {lengths} steps, the device after {broken}"
            )
        return shown


class CudaCrew(Alone):
    """A shard on a device. It is asked what a shard is asked, and answers with its own methods."""

    slice_seconds = 0.2

    def __init__(self, shard: CudaShard) -> None:
        self.shard_on_device = shard

    def begin(self) -> None:
        self.shard_on_device.begin()

    def expand(self) -> None:
        self.shard_on_device.expand(self.slice_seconds)

    def ask(self, question: Callable[[Shard, *Arguments], Answer], *arguments: *Arguments) -> list[Answer]:
        return [getattr(self.shard_on_device, question.__name__)(*arguments)]

    def ask_each(
        self, question: Callable[[Shard, *Arguments], Answer], arguments: Sequence[tuple[*Arguments]]
    ) -> list[Answer]:
        return [getattr(self.shard_on_device, question.__name__)(*own) for own in arguments]


def prepare(component: AnyComponent, variant: AnyVariant, states: int = 0) -> None:
    """Compile the variant, unless that was done before. Raises CompileError, NoDeviceError and InputError."""
    loaded(component, variant, emulated=False)


judges_progress = False
"""Properties of progress are left to the other engines."""


def cannot(component: AnyComponent, variant: AnyVariant, plan: Plan, config: Any = None) -> str | None:
    """What is missing here: a device, nvcc, or a construct that the compiler knows. None if nothing is."""
    return missing() or native.cannot(component, variant, plan, config)
