"""Which checks and figures there are; the pages and the verb say the same, because both read this."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError


class Asked(NamedTuple):
    """What is asked of a check."""

    device: str
    small: bool
    """A fraction of the size, to try it out: no goals"""
    seed: int

    @property
    def on_cuda(self) -> bool:
        """Whether graphs are recorded, and times are those of a device."""
        return self.device.partition(":")[0] == "cuda"


class DifferenceError(Exception):
    """What was checked is not so. The message is one line: where, and what differs."""


@dataclass(slots=True)
class Found:
    """What a check has seen so far: it is reported whatever becomes of the check."""

    counts: dict[str, int] = field(default_factory=dict)
    """What was done: steps, states, triples"""
    figures: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[dict[str, str]] = field(default_factory=list)
    """What was not run here, and why"""

    def count(self, what: str, more: int = 1) -> None:
        """So many more."""
        self.counts[what] = self.counts.get(what, 0) + more

    def leave_out(self, what: str, reason: str) -> None:
        """This was not run."""
        self.left_out.append({"what": what, "reason": reason})


Perform = Callable[[Asked, Found, Show], None]


@dataclass(frozen=True, slots=True)
class Check:
    """One check: `place` is the module and the function, which raises `DifferenceError` where something is not so."""

    name: str
    about: str
    place: str
    without_a_device: str
    """What it does on a CPU"""

    def perform(self, asked: Asked, found: Found, show: Show) -> None:
        """Run it."""
        module, _, function = self.place.partition(":")
        perform: Perform = getattr(importlib.import_module(module), function)
        perform(asked, found, show)


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing to be measured, by the check of the same beginning: the time or the rate of a unit.

    `needs_cuda`: it means nothing on a CPU. `goal` is asked of the machine that `goal_on` is part of the name of.
    """

    name: str
    check: str
    unit: str
    about: str
    needs_cuda: bool = True
    goal: float | None = None
    goal_is_most: bool = True
    goal_on: str = "H200"

    def met(self, value: float, machine: str) -> bool | None:
        """Whether the goal is met; None where there is none for this machine."""
        if self.goal is None or self.goal_on not in machine:
            return None
        return value <= self.goal if self.goal_is_most else value >= self.goal


HERE = "cacheproof.device.tensor"

CHECKS = (
    Check(
        "recorded-decode",
        "a recorded decode step equals the unrecorded step, over thousands of steps, at fixed addresses",
        f"{HERE}.recorded:decode_steps",
        "the same class, which calls the function instead of a graph",
    ),
    Check(
        "recorded-rounds",
        "recorded rounds of the scheduler equal unrecorded ones",
        f"{HERE}.recorded:rounds",
        "the same class, which calls the function instead of a graph",
    ),
    Check(
        "components",
        "every operation of every component with tensor code, on hundreds of states at once: the same tensors on the "
        "device and on the CPU",
        f"{HERE}.components:lockstep",
        "compared with a CPU on which the first of repeated indices wins",
    ),
    Check(
        "bursts",
        "random bursts of production size (KV blocks, contents of blocks, the arena, the scheduler): the same tensors "
        "on the device and on the CPU",
        f"{HERE}.bursts:lockstep",
        "compared with a CPU on which the first of repeated indices wins",
    ),
    Check(
        "refinement",
        "steps of the tensor code on the device are the specification's, triple by triple",
        f"{HERE}.exploring:refinement",
        "the same",
    ),
    Check(
        "example",
        "the example of the README serves the recorded load with the same result as on the CPU",
        f"{HERE}.example:readme",
        "twice: the second time the first of repeated indices wins",
    ),
    Check(
        "fused-decode",
        "a decode step in Triton kernels equals the torch form, over thousands of steps in one launch and in two",
        f"{HERE}.fused:decode_steps",
        "the same kernels in Triton's interpreter",
    ),
    Check(
        "fused-look-up",
        "look-ups in Triton kernels equal the torch form, over thousands of requests",
        f"{HERE}.fused:look_ups",
        "the same kernels in Triton's interpreter",
    ),
    Check(
        "fused-scopes",
        "the decode kernel in states of the default scopes of the KV blocks, with every burst of requests",
        f"{HERE}.fused:scopes",
        "the same kernel in Triton's interpreter",
    ),
    Check(
        "fused-rounds",
        "rounds of the scheduler in Triton kernels equal the torch form, from every state of random loads",
        f"{HERE}.fused_rounds:rounds",
        "the same kernels in Triton's interpreter",
    ),
    Check("decode-speed", "decode steps, eager and recorded", f"{HERE}.speed:decode", "eager only"),
    Check("fused-speed", "decode steps and rounds as graphs of Triton kernels", f"{HERE}.speed:in_kernels", "nothing"),
    Check(
        "compile-speed",
        "decode steps through torch.compile, which needs a C++ compiler on a CPU",
        f"{HERE}.speed:compiled",
        "the same",
    ),
    Check("round-speed", "rounds of the scheduler, eager and recorded", f"{HERE}.speed:rounds", "eager only"),
    Check("burst-speed", "a burst of new prompts", f"{HERE}.speed:burst", "the same"),
    Check(
        "arena-speed",
        "gather and store of encoder outputs beside a copy of the same bytes",
        f"{HERE}.speed:arena",
        "the same, beside a copy in memory",
    ),
    Check(
        "exploration-speed",
        "states a second of large frontiers, without properties",
        f"{HERE}.speed:exploration",
        "the same",
    ),
    Check(
        "exploration",
        "default scopes explored on the device, against the golden counts and digests, as many as 200 seconds allow",
        f"{HERE}.exploring:exploration",
        "the same",
    ),
    Check(
        "native-exploration",
        "default scopes explored by kernels of the compiled specification, against the golden counts and digests, as "
        "many as 240 seconds allow",
        "cacheproof.device.native:exploration",
        "the same kernels, emulated, in small scopes",
    ),
    Check(
        "native-exploration-speed",
        "large scopes explored by these kernels, beside one thread of the native engine on the host",
        "cacheproof.device.native:speed",
        "the emulated kernels, in a small scope",
    ),
)

FIGURES = (
    Figure("decode-eager", "decode-speed", "us", "one decode step, launched operation by operation", needs_cuda=False),
    Figure("decode-recorded", "decode-speed", "us", "one decode step, as a graph", goal=25.0),
    Figure("decode-fused", "fused-speed", "us", "one decode step in Triton kernels, as a graph", goal=25.0),
    Figure("decode-recorded-read", "decode-speed", "us", "the same, and whether anything remains read back"),
    Figure("step-eager", "compile-speed", "us", "one decode step with positions, lengths and slots", needs_cuda=False),
    Figure("step-compiled", "compile-speed", "us", "the same through torch.compile", needs_cuda=False),
    Figure("round-eager", "round-speed", "us", "a round of the scheduler and its update", needs_cuda=False),
    Figure("round-recorded", "round-speed", "us", "the same as two graphs, each read back"),
    Figure("round-fused", "fused-speed", "us", "a round and its update as a Triton kernel each, each read back"),
    Figure("burst", "burst-speed", "us", "one prompt of a burst: contents, hits, slots, registered", needs_cuda=False),
    Figure("copy", "arena-speed", "GB/s", "a copy on the device, bytes read and written", needs_cuda=False),
    Figure("gather", "arena-speed", "GB/s", "a gather from the arena, bytes read and written", needs_cuda=False),
    Figure(
        "gather-share",
        "arena-speed",
        "%",
        "the rate of the gather as a share of the copy's",
        needs_cuda=False,
        goal=90.0,
        goal_is_most=False,
    ),
    Figure("store", "arena-speed", "GB/s", "a store into the arena, bytes read and written", needs_cuda=False),
    Figure(
        "store-share",
        "arena-speed",
        "%",
        "the rate of the store as a share of the copy's",
        needs_cuda=False,
        goal=90.0,
        goal_is_most=False,
    ),
    Figure(
        "states",
        "exploration-speed",
        "1/s",
        "states explored in a second",
        needs_cuda=False,
        goal=144e6,
        goal_is_most=False,
    ),
    *(
        Figure(name, "native-exploration-speed", unit, about, needs_cuda=False)
        for name, unit, about in (
            ("native-states", "1/s", "states explored in a second by kernels of the compiled specification"),
            ("native-transitions", "1/s", "transitions in a second, likewise"),
            ("native-transitions-on-host", "1/s", "transitions in a second of the native engine with one thread"),
            ("native-times-host", "times", "the rate of the device as a multiple of the host's"),
        )
    ),
)


def checks_named(names: list[str] | None) -> list[Check]:
    """All of them, or these in their order; raises InputError that names those there are."""
    known = {check.name: check for check in CHECKS}
    if unknown := [name for name in names or () if name not in known]:
        raise InputError(f"there is no check '{unknown[0]}': there are {', '.join(known)}")
    return [check for check in CHECKS if not names or check.name in names]


def figure_named(name: str) -> Figure:
    """The figure of this name, without the size behind the colon."""
    return next(figure for figure in FIGURES if figure.name == name)
