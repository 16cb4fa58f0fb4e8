"""The native engine: the specification compiled to C++, and explored there; Python judges what is shown.

A counterexample is executed again by the specification in Python before it is shown, as that of any engine is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, TypeVarTuple

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.workers import raise_if_stopped
from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.scope import DEFAULT, scopes_of
from cacheproof.search.checkpoint import Checkpoint
from cacheproof.search.crew import Alone, Crew
from cacheproof.search.native.build import NONE, QUICK, THOROUGH, TRAINED, compiler_of_this_machine
from cacheproof.search.native.library import compiled, loaded, translated
from cacheproof.search.native.shard import NativeShard
from cacheproof.search.native.unit import CompileError
from cacheproof.search.reference import ReferenceSearch
from cacheproof.search.result import Ending, Exploration, Watch
from cacheproof.search.shard import Shard

ENGINE = "native"

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
) -> Exploration:
    """Explore one configuration of one variant, as the reference engine does, in compiled code.

    `threads` share the work, or the workers of a `crew` whose shards are native; what is found does not depend on how
    many there are. `checkpoint` says where one process keeps how far it is; it belongs to the compiled library. Raises
    `InputError` for a `share`, which this engine does not have, and for a `checkpoint` with a `crew`.
    """
    if checkpoint is not None and crew is not None:
        raise InputError("a crew of native workers has no checkpoints: add --engine reference")
    if share:
        raise InputError("the native engine explores the specification itself: there is nothing to compare it with")
    plan = plan or Plan()
    if crew is None:
        shard = NativeShard(component, variant, config, plan, threads)
        if checkpoint is not None:
            checkpoint.identity = {**checkpoint.identity, "engine": ENGINE, "library": shard.made.name}
        crew = NativeCrew(shard)
    with crew:
        search = ReferenceSearch(component, variant, config, plan, watch, crew, checkpoint)
        search.engine = ENGINE
        return search.run()


class NativeCrew(Alone):
    """A shard in compiled code. It is asked what a shard is asked, and answers with its own methods."""

    slice_states = 1 << 30
    slice_seconds = 0.2

    def __init__(self, shard: NativeShard) -> None:
        self.native = shard

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.native.__exit__(kind, error, trace)

    def begin(self) -> None:
        self.native.begin()

    def expand(self) -> None:
        self.native.expand(self.slice_states, self.slice_seconds)

    def ask(self, question: Callable[[Shard, *Arguments], Answer], *arguments: *Arguments) -> list[Answer]:
        return [getattr(self.native, question.__name__)(*arguments)]

    def ask_each(
        self, question: Callable[[Shard, *Arguments], Answer], arguments: Sequence[tuple[*Arguments]]
    ) -> list[Answer]:
        return [getattr(self.native, question.__name__)(*own) for own in arguments]


THOROUGH_FROM, TRAINED_FROM = 2_000_000, 20_000_000
"""Expected states of a variant's runs from which a better compilation pays."""
TRAINING_STATES = 2_000
"""How many states of each scope a library explores that counts what runs."""


def prepare(component: AnyComponent, variant: AnyVariant, states: int = 0) -> None:
    """Compile the variant, unless that was done before. Raises CompileError and InputError."""
    way = TRAINED if states >= TRAINED_FROM else THOROUGH if states >= THOROUGH_FROM else QUICK
    compiled(component, variant, way, partial(train, component, variant))


def train(component: AnyComponent, variant: AnyVariant, file: Path) -> None:
    """Explore the beginning of each default scope with a library that counts what runs, and have the counts written."""
    counting = loaded(file, translated(component, variant))
    try:
        for scope in scopes_of(component):
            raise_if_stopped()
            if scope.set == DEFAULT and variant.tag in scope.variants:
                plan = replace(scope.plan_for(variant.tag), normal_form=True, limit_states=TRAINING_STATES)
                crew = NativeCrew(NativeShard(component, variant, scope.config, plan, made=counting))
                if explore(component, variant, scope.config, plan, crew=crew).ending is Ending.INTERRUPTED:
                    raise KeyboardInterrupt
    finally:
        counting.library.cp_counted()


judges_progress = True
"""It looks for cycles in which a property of progress fails."""


def cannot(component: AnyComponent, variant: AnyVariant, plan: Plan, config: Any = None) -> str | None:
    """What in the specification the compiler lacks, or None."""
    if compiler_of_this_machine() is None:
        return NONE
    try:
        translated(component, variant)
    except CompileError as error:
        return f"{component.name} ({variant.tag}) cannot be compiled: {error}"
    return None
