"""What was configured, what was computed from it, and which items were let in."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from cachespec.encoder_budget.configuration import Config, Item, Modality
from cachespec.encoder_budget.operations import Configure
from cachespec.kernel import Containers, Grouping, Observation, Queue


class Settings(NamedTuple):
    """The fields of `Configure`; all 0 before the first."""

    batch_tokens: int = 0
    sequences: int = 0
    limits: tuple[int, ...] = ()
    embeddings: int = 0
    chunked_prefill: int = 0
    whole_items: int = 0
    threshold: int = 0
    alignment: int = 1
    compute: int = 0
    space: int = 0


class Budget(NamedTuple):
    """The engine as far as budgets go."""

    configured: int
    """1 once an engine has started."""
    settings: Settings
    largest: int
    """The largest item that counts, in the unit of the formula; 0 where every modality is off."""
    compute: int
    """Encoder compute budget: what the encoder takes in one step."""
    space: int
    """Encoder space: what the cache holds."""
    longest: int
    """Tokens of the longest item that a step can take whole, wherever it begins; 0: items may be split."""
    admitted: Queue[Item]
    """Items that were let in since the engine started, weighed in embeddings."""


class View(NamedTuple):
    """As the state, for properties; with what the encoder is profiled with."""

    configured: int
    settings: Settings
    compute: int
    space: int
    admitted: tuple[Item, ...]
    per_prompt: tuple[int, ...]
    """Items of each modality that one prompt may have; 0 where none is encoded."""
    per_batch: tuple[int, ...]
    """Items of each modality that the encoder is profiled with."""
    shown: tuple[str, ...]


def settings_of(op: Configure) -> Settings:
    """What was asked for, as it is kept."""
    return Settings(
        batch_tokens=op.batch_tokens,
        sequences=op.sequences,
        limits=op.limits,
        embeddings=op.embeddings,
        chunked_prefill=op.chunked_prefill,
        whole_items=op.whole_items,
        threshold=op.threshold,
        alignment=op.alignment,
        compute=op.compute,
        space=op.space,
    )


def initial(config: Config, containers: Containers) -> Budget:
    """No engine yet."""
    return Budget(
        configured=0,
        settings=Settings(),
        largest=0,
        compute=0,
        space=0,
        longest=0,
        admitted=containers.queue(),
    )


def profiled(config: Config, budget: Budget, sizes: tuple[int, ...], modality: Modality) -> tuple[int, int]:
    """Items of one modality in a prompt and in a profiling batch.

    As many as the smaller budget holds, and no more than all running requests can have; at least one.
    """
    settings, size = budget.settings, sizes[modality]
    usable = min(budget.compute, budget.space)
    if budget.configured == 0 or settings.limits[modality] == 0 or usable == 0:
        return 0, 0
    per_prompt = max(1, min(settings.limits[modality], config.model_tokens // size))
    running = settings.sequences
    if settings.chunked_prefill == 0:
        running = min(running, settings.batch_tokens // size)
    return per_prompt, max(1, min(usable // size, running * per_prompt))


def view_in(config: Config, budget: Budget, sizes: tuple[int, ...], shown: tuple[str, ...]) -> View:
    """The state, with the profiling batch for items of these sizes."""
    batches = tuple(profiled(config, budget, sizes, modality) for modality in range(len(sizes)))
    return View(
        configured=budget.configured,
        settings=budget.settings,
        compute=budget.compute,
        space=budget.space,
        admitted=tuple(sorted(item for item, _ in budget.admitted.items())),
        per_prompt=tuple(per_prompt for per_prompt, _ in batches),
        per_batch=tuple(per_batch for _, per_batch in batches),
        shown=shown,
    )


OBSERVABLES: Mapping[str, str] = MappingProxyType(
    {
        "compute": "embeddings that the encoder computes in one step, at most",
        "space": "embeddings that the encoder cache holds",
        "per_prompt": "for each modality, items of one prompt, at most",
        "per_batch": "for each modality, items in a batch of the profile run",
    }
)
"""What each observable holds."""


GROUPING: Mapping[str, Grouping] = MappingProxyType(
    {
        "per_prompt": Grouping(row=("",), each="modality"),
        "per_batch": Grouping(row=("",), each="modality"),
    }
)
"""Which integers of an observable belong together."""
BUDGETS = ("compute", "space")


def view(config: Config, budget: Budget) -> View:
    """Sizes are counted in embeddings."""
    return view_in(config, budget, config.embeds, tuple(OBSERVABLES))


def view_in_tokens(config: Config, budget: Budget) -> View:
    """Sizes are counted in tokens."""
    return view_in(config, budget, config.tokens, tuple(OBSERVABLES))


def view_of_budgets(config: Config, budget: Budget) -> View:
    """Nothing but the budgets is shown."""
    return view_in(config, budget, config.tokens, BUDGETS)


def observe(config: Config, view: View) -> Mapping[str, Observation]:
    """What an implementation shows: see `OBSERVABLES`."""
    everything: Mapping[str, Observation] = {
        "compute": view.compute,
        "space": view.space,
        "per_prompt": view.per_prompt,
        "per_batch": view.per_batch,
    }
    return {name: everything[name] for name in view.shown}
