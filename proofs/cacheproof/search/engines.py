"""The engines that explore, by name."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from cacheproof.foundation.errors import InputError, MissingExtraError
from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.search.checkpoint import Checkpoint
from cacheproof.search.crew import Crew
from cacheproof.search.result import Exploration, Watch
from cacheproof.search.worker import NATIVE, REFERENCE

AUTO = "auto"
"""For each variant the faster one of these two."""
CUDA = "cuda"
"""The engine that explores the specification, compiled, on a CUDA device."""
SHARING = (REFERENCE, NATIVE)
"""Engines in which several processes or threads share a run."""
OF_SPECIFICATION = (*SHARING, CUDA)
ENGINES = {
    REFERENCE: "cacheproof.search.reference",
    NATIVE: "cacheproof.search.native",
    CUDA: "cacheproof.search.cuda",
    "tensor": "cacheproof.search.tensor",
}


class Engine(Protocol):
    """The function `explore` of an engine's module."""

    def __call__(
        self,
        component: AnyComponent,
        variant: AnyVariant,
        config: Any,
        plan: Plan | None,
        watch: Watch | None,
        *,
        crew: Crew | None = None,
        share: float = 0.0,
        checkpoint: Checkpoint | None = None,
        threads: int = 1,
    ) -> Exploration:
        """Explore one configuration of one variant.

        Raises `InputError` for a `crew` of processes or for several `threads`, if the engine cannot share a run so; or
        for a `share`, if it explores the specification itself.
        """
        ...


class EngineModule(Protocol):
    """A module of `ENGINES`."""

    @property
    def explore(self) -> Engine:
        """The engine."""
        ...

    @property
    def judges_progress(self) -> bool:
        """Whether it looks for cycles in which a property of progress fails."""
        ...

    def cannot(self, component: AnyComponent, variant: AnyVariant, plan: Plan, config: Any = None) -> str | None:
        """Why the engine cannot explore this variant as planned, in this configuration if one is given; or None."""
        ...

    def prepare(self, component: AnyComponent, variant: AnyVariant, states: int = 0) -> None:
        """Do what takes long before the first run of a variant, and is kept for all of its runs.

        `states` is the number that these runs are expected to have together, or 0 if it is not known.
        """
        ...


def engine_named(name: str) -> Engine:
    """The engine, or an error that names those there are."""
    return engine_module(name).explore


def engine_module(name: str) -> EngineModule:
    """The module of an engine, or an error that names those there are."""
    if name not in ENGINES:
        raise InputError(f"unknown engine '{name}': there are {', '.join(ENGINES)} and {AUTO}")
    try:
        module: Any = importlib.import_module(ENGINES[name])
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise MissingExtraError("torch", f"the engine '{name}'") from None
        raise
    found: EngineModule = module
    return found
