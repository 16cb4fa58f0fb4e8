"""One run on a device: what the search asks, level by level."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from cacheproof.foundation.errors import InconclusiveError
from cacheproof.foundation.memory import peak_bytes, resident_bytes
from cacheproof.model.plan import Granularity, Plan
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.search.canonical import canonical
from cacheproof.search.cuda.build import ready
from cacheproof.search.cuda.text import for_device
from cacheproof.search.native.glue import Glue
from cacheproof.search.native.library import INT, NUMBER, POINTER, declare, library_name, packed, translated
from cacheproof.search.native.shard import coverage_of, exchanges, numbers
from cacheproof.search.result import Coverage
from cacheproof.search.rules import Where
from cacheproof.search.shard import Account

STATES, TRANSITIONS, DIGEST, LEVEL_BEGIN, LEVEL_END, EXPANDED, BYTES, CELLS, THREADS = range(9)
FULL = "the memory of a thread is full"
TIMES_MORE = 4


class Sizes(NamedTuple):
    """Memory of a run on a device. What the run needs beside it depends on the scope."""

    all_bytes: int = 0
    """At most so much of the device's memory; 0: most of what is free"""
    thread_bytes: int = 1 << 16
    """What a thread fills while it takes one state; a run that needs more is begun again with four times as much"""
    lasting_bytes: int = 1 << 26
    """The configuration, and results that functions keep"""
    stack_bytes: int = 1 << 14
    """The stack of a thread; what the compiler says of recursive functions is not the whole of it"""
    least_cells: int = 1 << 20
    """Of the table at first, a power of two; it grows"""
    most_threads: int = 0
    """At most so many; 0: as many as the device runs at a time"""
    most_seconds: int = 20
    """A run is given up if a kernel takes longer; each is given work for less than a second"""

    def larger(self) -> Sizes:
        """For a run in which the memory of a thread was not enough."""
        return self._replace(thread_bytes=TIMES_MORE * self.thread_bytes)


USUAL = Sizes()
EMULATED = Sizes(all_bytes=1 << 28, lasting_bytes=1 << 22, least_cells=1 << 8, most_threads=512)
"""For kernels that are emulated on a CPU: few threads, and a table that has to grow."""


class ThreadMemoryError(InconclusiveError):
    """A state needs more memory than a thread has."""


_LOADED: dict[tuple[str, int, bool], tuple[AnyVariant, Glue, ctypes.CDLL]] = {}
"""By component, variant (compiled libraries are known by the object), and whether it is emulated."""


def library_of(
    component: AnyComponent, variant: AnyVariant, *, emulated: bool = False, seconds: float | None = None
) -> Path:
    """The file of a variant's library, compiled in at most so many `seconds`. Raises CompileError, and as `ready`."""
    text = for_device(translated(component, variant).text)
    return ready(text, library_name(component, variant), emulated=emulated, seconds=seconds)


def loaded(component: AnyComponent, variant: AnyVariant, *, emulated: bool) -> tuple[Glue, ctypes.CDLL]:
    """The variant as a library, and how values go in. Raises CompileError, NoDeviceError and InputError."""
    key = component.name, id(variant), emulated
    if key not in _LOADED:
        glue = translated(component, variant)
        library = ctypes.CDLL(str(library_of(component, variant, emulated=emulated)))
        _declare(library)
        _LOADED[key] = variant, glue, library
    return _LOADED[key][1:]


def _declare(library: ctypes.CDLL) -> None:
    """The types of the library's functions."""
    text, integers, small = ctypes.c_char_p, ctypes.POINTER(INT), ctypes.c_int
    words, search = ctypes.POINTER(NUMBER), POINTER
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "cp_cuda_new": (search, [text, NUMBER, small, words]),
        "cp_cuda_free": (None, [search]),
        "cp_cuda_exchange": (None, [search, small, integers, INT, integers, INT]),
        "cp_cuda_begin": (small, [search, text, NUMBER]),
        "cp_cuda_expand": (small, [search, ctypes.c_double]),
        "cp_cuda_settle": (small, [search]),
        "cp_cuda_probe": (small, [search, text, NUMBER, words, NUMBER]),
        "cp_cuda_error": (text, [search]),
        "cp_cuda_count": (NUMBER, [search, small]),
        "cp_cuda_broken": (integers, [search, small]),
        "cp_cuda_seen": (POINTER, [search, small]),
        "cp_cuda_coverage": (words, [search]),
    }
    declare(library, signatures)


class CudaShard:
    """One run on a device. Use it in a `with` statement: the device's memory is given back at its end.

    States have numbers in the order in which threads found them, which differs from run to run. So there are no ways
    back from a state: of a property that is violated, this knows how long the shortest way to a violation is.
    """

    def __init__(
        self,
        component: AnyComponent,
        variant: AnyVariant,
        config: Any,
        plan: Plan,
        sizes: Sizes = USUAL,
        *,
        emulated: bool = False,
    ) -> None:
        self.variant = plan.explored(variant)
        self.made, self.library = loaded(component, self.variant, emulated=emulated)
        given, calls = packed(config, self.made.config), plan.granularity is Granularity.CALL
        self.search = self.library.cp_cuda_new(given, len(given), calls, (NUMBER * len(sizes))(*sizes))
        if plan.symmetry:
            for sort, colours, groups in exchanges(component.interchangeable(config), self.made.sorts):
                own = numbers(colours), len(colours), numbers(groups), len(groups)
                self.library.cp_cuda_exchange(self.search, sort, *own)
        self.start = canonical(component, self.variant, config, symmetry=plan.symmetry)(self.variant.start(config))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.library.cp_cuda_free(self.search)

    def _checked(self, failed: int) -> None:
        if not failed:
            return
        about = self.library.cp_cuda_error(self.search).decode(errors="replace")
        raise (ThreadMemoryError if about.startswith(FULL) else InconclusiveError)(f"on the device: {about}")

    def count(self, what: int) -> int:
        """A number of the run: states, transitions, bytes of rows, cells of the table, threads."""
        return int(self.library.cp_cuda_count(self.search, what))

    # A level ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The initial state."""
        start = packed(self.start, self.made.state)
        self._checked(self.library.cp_cuda_begin(self.search, start, len(start)))

    def expand(self, seconds: float) -> None:
        """Expand some more states of the level, for about so long."""
        self._checked(self.library.cp_cuda_expand(self.search, seconds))

    def is_through(self) -> bool:
        """Whether the whole level was expanded."""
        return self.count(EXPANDED) == self.count(LEVEL_END)

    def fresh(self) -> Sequence[Where]:
        """One entry for each state that is new in this level."""
        return range(self.count(STATES) - self.count(LEVEL_END))

    def settle(self, numbered: Sequence[int]) -> None:
        """The new states make the next level, as many as are `numbered`; each is judged."""
        assert len(numbered) == self.count(STATES) - self.count(LEVEL_END)
        self._checked(self.library.cp_cuda_settle(self.search))

    def probe(self, state: Any, most: int = 10_000) -> list[int]:
        """What one thread sees of a state, a number for each stage, to be compared with another machine's."""
        given, seen = packed(state, self.made.state), (NUMBER * (most + 1))()
        self._checked(self.library.cp_cuda_probe(self.search, given, len(given), seen, most))
        return list(seen[1 : 1 + min(most, seen[0])])

    # What is known -----------------------------------------------------------------------------------------------

    def states(self) -> int:
        """How many states are known."""
        return self.count(STATES)

    def broken(self) -> dict[str, int]:
        """The violated properties, each with the number of edges on a shortest way to a violation."""
        found: dict[str, int] = {}
        both: list[Sequence[Any]] = [self.made.safety, self.made.steps]
        for steps, rules in enumerate(both):
            lengths = self.library.cp_cuda_broken(self.search, steps)[: len(rules)]
            found.update({rule.name: length for rule, length in zip(rules, lengths, strict=True) if length >= 0})
        return found

    def account(self) -> Account:
        """What was seen so far."""
        rules: list[Sequence[Any]] = [self.made.safety, self.made.steps, self.made.progress]
        witnessed = {
            rule.name
            for what, own in enumerate(rules)
            for rule, seen in zip(
                own, ctypes.string_at(self.library.cp_cuda_seen(self.search, what), len(own)), strict=True
            )
            if seen
        }
        return Account(
            self.count(STATES),
            self.count(TRANSITIONS),
            self.count(DIGEST),
            self.broken(),
            frozenset(witnessed),
            self._coverage(),
            resident_bytes(),
            peak_bytes(),
        )

    def _coverage(self) -> Coverage:
        counts = self.library.cp_cuda_coverage(self.search)
        if not counts:
            raise InconclusiveError("on the device: the coverage cannot be read")
        return coverage_of(counts, self.made.operations, self.variant)
