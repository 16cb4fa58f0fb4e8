"""The rounds of the scheduler, and what their output changes, recorded once for each extent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from cacheimpl.captured.capture import Capture
from cacheimpl.recency import length, queued
from cacheimpl.scheduler import Config, Extent, State, proceed, release, schedule, update
from cacheimpl.writing import IN_PLACE

Change = Callable[[State], tuple[State, Tensor]]


class Round(NamedTuple):
    """What the host reads to decide what comes next, in one tensor; it is written over by the next call."""

    summary: Tensor
    """[4] int64: the code of the call; how many wait; how many tokens the largest part of a plan in flight has; how
    many requests are `ending`"""


class InKernels(Protocol):
    """`schedule` and `update` of one extent on one state, each of which returns its summary ([4] int64)."""

    def schedule(self) -> Tensor:
        """Begin a round."""

    def update(self) -> Tensor:
        """The plan in flight was executed."""


class CapturedRounds:
    """`schedule`, `proceed`, `update` and `release` of one extent, on a state whose tensors stay at their addresses.

    `state` is copied; the calls change `self.state`. Each call returns its `Round`, and the host reads back
    `summary.tolist()` only. A round goes on with `proceed` while its code is UNANSWERED; while requests are ending, the
    host calls `release`. A graph is recorded at the first call that needs it: call `prepare` for all of them before
    serving. Between rounds the host writes arrivals and aborts into `self.state` with `keep`.

    `fused` makes what takes the place of `schedule` and `update`: `cacheimpl.kernels.FusedRound`, for an extent without
    admissions.
    """

    def __init__(
        self,
        config: Config,
        state: State,
        extent: Extent,
        *,
        fused: Callable[[Config, State, Extent], InKernels] | None = None,
    ) -> None:
        self.config, self.extent = config, extent
        self.state: State = _cloned(state)
        self.accepted = torch.zeros_like(config.prompts)
        """[requests] int64: the operand of `update`: how many drafts of each request were right"""
        self._captures: dict[str, Capture[Round]] = {}
        self._changes: dict[str, Change] = {
            "schedule": lambda state: schedule(config, state, extent=extent, write=IN_PLACE),
            "proceed": lambda state: proceed(config, state, extent=extent, write=IN_PLACE),
            "update": lambda state: update(config, state, self.accepted, extent=extent, write=IN_PLACE),
            "release": self._released,
        }
        self._kernels: dict[str, Callable[[], Tensor]] = {}
        if fused is not None:
            kernels = fused(config, self.state, extent)
            self._kernels = {"schedule": kernels.schedule, "update": kernels.update}

    def schedule(self) -> Round:
        """Begin a round. It also ends unless a request has to be handled alone."""
        return self._capture("schedule")()

    def proceed(self) -> Round:
        """The round goes on."""
        return self._capture("proceed")()

    def update(self) -> Round:
        """The oldest plan was executed, with what is `accepted`."""
        return self._capture("update")()

    def release(self) -> Round:
        """The first of those that are ending let go."""
        return self._capture("release")()

    def prepare(self, *names: str) -> None:
        """Record these calls now, all four without a name."""
        for name in names or tuple(self._changes):
            self._capture(name)

    @property
    def is_graph(self) -> bool:
        """Whether graphs are replayed: on a device of CUDA."""
        return self._capture("schedule").is_graph

    def keep(self, after: State) -> None:
        """The state is this one from now on, at the addresses that it has."""
        with torch.inference_mode():
            _keep(self.state, after)

    def _capture(self, name: str) -> Capture[Round]:
        if name not in self._captures:
            kernel, change = self._kernels.get(name), self._changes[name]
            once = (lambda: self._once(change)) if kernel is None else (lambda: Round(kernel()))
            self._captures[name] = Capture(once, _leaves(self.state))
        return self._captures[name]

    def _once(self, change: Change) -> Round:
        after, code = change(self.state)
        _keep(self.state, after)
        state = self.state
        ending = queued(state.ending).sum()
        return Round(torch.stack((code, length(state.waiting), state.tokens.amax(), ending)))

    def _released(self, state: State) -> tuple[State, Tensor]:
        return release(self.config, state, extent=self.extent, write=IN_PLACE), torch.zeros_like(state.plans)


def _leaves(state: Any) -> list[Tensor]:
    """Every tensor of a state and of the states in it."""
    return [leaf for value in state for leaf in ([value] if isinstance(value, Tensor) else _leaves(value))]


def _cloned(state: Any) -> Any:
    """In memory of its own, field by field: fields that begin alike may be one tensor."""
    return type(state)(*(value.clone() if isinstance(value, Tensor) else _cloned(value) for value in state))


def _keep(state: State, after: State) -> None:
    """Copy what is not written in place. What is in the memory of another field is read before that is written."""
    pairs = [(ours, new) for ours, new in zip(_leaves(state), _leaves(after), strict=True) if new is not ours]
    owned = {_memory(values) for values in _leaves(state)}
    ready = [(ours, new.clone() if _memory(new) in owned else new) for ours, new in pairs]
    for ours, new in ready:
        ours.copy_(new)


def _memory(values: Tensor) -> int:
    """The storage, by a name that tensors without data have as well."""
    name: int = values.untyped_storage()._cdata  # noqa: SLF001  # an address is not to be had of every sort of tensor
    return name
