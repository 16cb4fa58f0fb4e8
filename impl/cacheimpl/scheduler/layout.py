"""The layout of the scheduler: the fields of its two caches and its own, side by side in one flat state."""

from __future__ import annotations

import collections
from typing import Any

import torch

from cacheimpl import encoder_cache, kv_blocks
from cacheimpl.layout import Field, Layout
from cacheimpl.recency import OUTSIDE
from cacheimpl.scheduler.connector import EXPECTED
from cacheimpl.scheduler.state import Config, State
from cacheimpl.scheduler.transferring import PHASES

_build: Any = collections.namedtuple  # noqa: PYI024  # a declared type names its fields

KV, ENCODER = "kv_", "encoder_"
OWN = tuple(name for name in State._fields if name not in ("kv", "encoder"))

PROGRESS = ("parts", "served", "to_serve", "tokens_left", "embeds_left", "closed", "ended", "passed")
"""What means nothing where no round is in progress."""

Flat: Any = _build(
    "Flat",
    (
        *(KV + name for name in kv_blocks.Pool._fields),
        *(ENCODER + name for name in encoder_cache.Cache._fields),
        *OWN,
    ),
)
"""A state without parts: `kv_` and `encoder_` stand before the names of theirs."""


def flat(state: State) -> Any:
    """The state without parts."""
    return Flat(*state.kv, *state.encoder, *(getattr(state, name) for name in OWN))


def nested(values: Any) -> State:
    """The state with its parts."""
    kv, encoder = len(kv_blocks.Pool._fields), len(encoder_cache.Cache._fields)
    return State(
        kv_blocks.Pool(*values[:kv]),
        encoder_cache.Cache(*values[kv : kv + encoder]),
        *values[kv + encoder :],
    )


def layout(config: Config, blocks: int, contents: int, plans: int) -> Layout[Any]:
    """Bounds between two rounds, for these requests, so many blocks, encoder outputs and plans in flight."""
    requests, items = config.item_starts.shape
    longest, budget = int(config.finals.max()), int(config.token_budget)
    pool = kv_blocks.layout(config.kv, blocks)
    cache = encoder_cache.layout(config.encoder, contents)

    def column(name: str, high: int) -> Field:
        return Field(name, (requests,), torch.int64, 0, high, axes=("request",))

    def line(name: str) -> Field:
        return Field(name, (requests,), torch.int64, OUTSIDE, requests - 1, axes=("request",))

    def of_plan(name: str, *shape: int, dtype: torch.dtype = torch.bool, low: int = 0, high: int = 1) -> Field:
        return Field(name, (plans, *shape), dtype, low, high)

    def fixed(name: str, dtype: torch.dtype = torch.int64) -> Field:
        return Field(name, (), dtype, 0, 0)

    own = (
        line("running"),
        line("waiting"),
        column("computed", longest),
        column("produced", longest),
        column("proposed", config.drafts),
        Field("gone", (requests,), torch.bool, 0, 1, axes=("request",)),
        Field("leaving", (requests,), torch.bool, 0, 1, axes=("request",)),
        Field("ending", (requests,), torch.int64, OUTSIDE, OUTSIDE, axes=("request",)),
        Field("compiling", (requests,), torch.bool, 0, int(config.compiles), axes=("request",)),
        Field("queued", (requests,), torch.bool, 0, int(config.sessions), axes=("request",)),
        Field("transfer", (requests,), torch.int64, 0, PHASES, axes=("request",)),
        column("brought", longest if config.loads or config.fails else 0),
        Field("remote", (contents,), torch.int64, 0, EXPECTED if config.connected else 0),
        Field("plans", (), torch.int64, 0, plans),
        of_plan("turns", requests, dtype=torch.int64, low=OUTSIDE, high=requests - 1),
        of_plan("starts", requests, dtype=torch.int64, high=longest),
        of_plan("tokens", requests, dtype=torch.int64, high=min(budget, longest)),
        of_plan("drafts", requests, dtype=torch.int64, high=config.drafts),
        of_plan("samples", requests),
        of_plan("void", requests),
        of_plan("encode", requests, items),
        of_plan("relies", requests, items),
        of_plan("dropped", contents, dtype=torch.int32, low=OUTSIDE, high=contents - 1),
        of_plan("finished", requests),
        of_plan("preempted", requests, dtype=torch.int64, low=OUTSIDE, high=requests - 1),
        of_plan("fetched", contents, high=int(config.connected)),
        fixed("open", torch.bool),
        fixed("parts"),
        fixed("served"),
        fixed("to_serve"),
        fixed("tokens_left"),
        fixed("embeds_left"),
        fixed("closed", torch.bool),
        fixed("ended", torch.bool),
        Field("passed", (requests,), torch.bool, 0, 0, axes=("request",)),
    )
    parts = (*_prefixed(KV, pool.fields), *_prefixed(ENCODER, _between_rounds(cache.fields)))

    def derive(values: Any) -> Any:
        state = nested(values)
        return flat(state._replace(kv=pool.derive(state.kv), encoder=cache.derive(state.encoder)))

    def normal(values: Any) -> Any:
        state = nested(values)
        progress = {
            name: torch.where(state.open, getattr(state, name), 0).to(getattr(state, name)) for name in PROGRESS
        }
        return flat(state._replace(kv=pool.normal(state.kv), encoder=cache.normal(state.encoder), **progress))

    return Layout(Flat, (*parts, *own), derive, normal)


def _prefixed(prefix: str, fields: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(
        Field(
            prefix + field.name, field.shape, field.dtype, field.low, field.high, field.axes, field.holds, field.derived
        )
        for field in fields
    )


def _between_rounds(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Nothing is granted, attempted or unreported."""
    empty = ("freed", "promised", "attempted")
    return tuple(
        Field(field.name, field.shape, field.dtype, OUTSIDE, OUTSIDE, field.axes) if field.name in empty else field
        for field in fields
    )
