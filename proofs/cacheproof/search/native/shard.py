"""All states of a run, in compiled code: what `search.shard.Shard` answers, answered from there."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import weakref
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.memory import peak_bytes, resident_bytes
from cacheproof.model.plan import Granularity, Plan
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.search.canonical import Classes, exchanged, first_colours
from cacheproof.search.coverage import added
from cacheproof.search.native.library import Compiled, compiled, packed
from cacheproof.search.result import Coverage
from cacheproof.search.rules import Where
from cacheproof.search.shard import Account, Expansion, Owed
from cachespec.kernel import Code, Operation

STATES, TRANSITIONS, DIGEST, LEVEL_BEGIN, LEVEL_END, EXPANDED, BYTES, OWED, LABELS = range(9)
NEVER = -2
ALIKE, UNLIKE, OPEN, FAILED = range(4)
NOWHERE = (1 << 64) - 1


class NativeShard:
    """One run, or the states of one of its `owners`. Its memory is freed with it, or at the end of a `with`.

    `made` is the variant's library, if it is not the one of the cache folder.
    """

    def __init__(
        self,
        component: AnyComponent,
        variant: AnyVariant,
        config: Any,
        plan: Plan,
        threads: int = 1,
        place: int = 0,
        owners: int = 1,
        made: Compiled | None = None,
    ) -> None:
        if owners > 1 and threads > 1:
            raise InputError("a run is shared by threads or by owners, not by both")
        variant = plan.explored(variant)
        self.made: Compiled = made or compiled(component, variant)
        self.library = self.made.library
        self.variant, self.place, self.owners = variant, place, owners
        liveness = plan.liveness and bool(self.made.progress)
        calls = plan.granularity is Granularity.CALL
        self.search = self.library.cp_new(packed(config, self.made.config), calls, liveness, threads)
        self._free = weakref.finalize(self, self.library.cp_free, self.search)
        self._free.atexit = False
        if owners > 1:
            self.library.cp_share(self.search, place, owners)
        if plan.symmetry:
            self._exchange(component.interchangeable(config))
        self._transitions = self._kept_steps = self._kept_labels = 0
        self._broken: Mapping[str, Where] = {}
        self._covered: Coverage = {}
        self.start = variant.start(config)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._free()

    def _exchange(self, classes: Classes) -> None:
        """Which names may be exchanged, with the colours that they have at first."""
        for sort, colours, groups in exchanges(classes, self.made.sorts):
            self.library.cp_exchange(self.search, sort, numbers(colours), len(colours), numbers(groups), len(groups))

    def _checked(self, failed: int) -> None:
        if failed:
            raise InputError(f"the compiled specification failed: {self.library.cp_error(self.search).decode()}")

    def _count(self, what: int) -> int:
        return int(self.library.cp_count(self.search, what))

    def alike(self, form: int, most: int, depth: int | None) -> bool | None:
        """Whether nothing tells a form of the library from the original, to this depth; None over `most` pairs."""
        start, bound = packed(self.start, self.made.state), -1 if depth is None else depth
        found = self.library.cp_alike(self.search, start, form, most, bound)
        self._checked(found == FAILED)
        return {ALIKE: True, UNLIKE: False}.get(found)

    # A level ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The canonical form of the initial state."""
        self._checked(self.library.cp_begin(self.search, packed(self.start, self.made.state)))

    def expand(self, most: int, seconds: float) -> None:
        """Expand some more states of the level, until so many or for so long."""
        self._checked(self.library.cp_expand(self.search, most, seconds))

    def packed_beginning(self) -> list[bytes]:
        """The owner of the initial state has it already: nothing is sent."""
        self.begin()
        return [b""] * self.owners

    def packed_expansion(self, most: int, seconds: float) -> Expansion:
        """Expand a slice. What leads to own states stays here; the rest is sent as rows."""
        before = self._count(EXPANDED)
        self.expand(most, seconds)
        library, search = self.library, self.search
        outgoing = [
            ctypes.string_at(library.cp_outgoing(search, owner), library.cp_outgoing_size(search, owner))
            for owner in range(self.owners)
        ]
        return Expansion(self._count(EXPANDED) - before, outgoing)

    def absorb_packed(self, packed: Sequence[bytes]) -> None:
        """Take in what others sent."""
        for rows in packed:
            self._checked(self.library.cp_absorb(self.search, rows, len(rows)))

    def is_through(self) -> bool:
        """Whether the whole level was expanded."""
        return self._count(EXPANDED) == self._count(LEVEL_END)

    def fresh(self) -> Sequence[Where]:
        """The first steps to the states that are new in this level, in order; only their number if it owns all."""
        first, end = self._count(LEVEL_END), self._count(STATES)
        if self.owners == 1:
            return range(end - first)
        self._checked(self.library.cp_order(self.search))
        return array("q", self.library.cp_found_by(self.search)[first:end])

    def settle(self, numbers: Sequence[int]) -> None:
        """The new states have these numbers, in the order of `fresh`; each is judged."""
        if self.owners > 1:
            self.library.cp_number(self.search, (ctypes.c_uint64 * len(numbers))(*numbers), len(numbers))
        self._checked(self.library.cp_settle(self.search))

    # What is known -----------------------------------------------------------------------------------------------

    def states(self) -> int:
        """How many states are known."""
        return self._count(STATES)

    def account(self) -> Account:
        """What was seen so far."""
        made = self.made
        witnessed = {
            name
            for what, names in enumerate((made.safety, made.steps, made.progress))
            for name, seen in zip(
                names, ctypes.string_at(self.library.cp_seen(self.search, what), len(names)), strict=True
            )
            if seen
        }
        broken = {
            name: int(at)
            for steps, names in ((1, made.steps), (0, made.safety))
            for name, at in zip(names, self.library.cp_broken(self.search, steps)[: len(names)], strict=True)
            if at != NEVER
        }
        for name, at in self._broken.items():
            broken[name] = min(at, broken.get(name, at))
        return Account(
            self._count(STATES),
            self._count(TRANSITIONS) + self._transitions,
            self._count(DIGEST),
            broken,
            frozenset(witnessed),
            added([self._covered, self._coverage()]),
            resident_bytes(),
            peak_bytes(),
        )

    def _coverage(self) -> Coverage:
        return coverage_of(self.library.cp_coverage(self.search), self.made.operations, self.variant)

    def lookup(self, number: int) -> tuple[bytes, Where] | None:
        """The encoding of the state of this number, and the first step to it, if it is an own state."""
        place = self.library.cp_place(self.search, number)
        if place == NOWHERE:
            return None
        return self.library.cp_state(self.search, place), int(self.library.cp_found_by(self.search)[place])

    def pending_states(self) -> tuple[array[int], array[int]]:
        """The numbers of states in which something is pending, and what."""
        bits = self.library.cp_pending(self.search)[: self._count(LEVEL_END)]
        places = [place for place, pending in enumerate(bits) if pending]
        own = self.library.cp_numbers(self.search) if self.owners > 1 else range(len(bits))
        return array("Q", [own[place] for place in places]), array("Q", [bits[place] for place in places])

    def may_last(self, whole: int) -> bool:
        """Whether anything that is pending can stay so for ever; of several owners none knows."""
        if self.owners > 1:
            return True
        found = self.library.cp_lasts(self.search, whole)
        self._checked(found < 0)
        return bool(found)

    def owed_steps(self) -> Owed:
        """The steps for the search for lassos."""
        count = self._count(OWED)
        owed = Owed(
            array("Q", self.library.cp_owed(self.search, 0)[:count]),
            array("H", self.library.cp_owed_moves(self.search)[:count]),
            array("Q", self.library.cp_owed(self.search, 1)[:count]),
            array("Q", self.library.cp_owed(self.search, 2)[:count]),
        )
        for label in range(1, self._count(LABELS) + 1):
            owed.operations[label * self.owners + self.place] = self._operation(
                self.library.cp_operation(self.search, label)
            )
        return owed

    # Checkpoints -------------------------------------------------------------------------------------------------

    def write_level(self, path: str) -> str:
        """Keep the states of this level, and the steps and labels that came with it; the digest of the file."""
        whole = Path(path)
        scratch = whole.with_name(f".{whole.name}.tmp")
        if self.library.cp_write_level(self.search, os.fsencode(scratch), self._kept_steps, self._kept_labels):
            raise OSError(errno.EIO, self.library.cp_error(self.search).decode())
        self._kept_steps, self._kept_labels = self._count(OWED), self._count(LABELS)
        with scratch.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        scratch.replace(whole)
        return digest

    def read_level(self, paths: Sequence[str]) -> None:
        """Take in the next level that was kept."""
        for path in paths:
            if self.library.cp_read_level(self.search, os.fsencode(path)):
                said = self.library.cp_error(self.search).decode()
                raise InputError(f"{path}: not a level of this run ({said}): leave out --resume to begin anew")
        self._kept_steps, self._kept_labels = self._count(OWED), self._count(LABELS)

    def knows(self, witnessed: Sequence[str]) -> None:
        """These witnesses were reached before."""
        made = self.made
        for what, names in enumerate((made.safety, made.steps, made.progress)):
            for rule, name in enumerate(names):
                if name in witnessed:
                    self.library.cp_know(self.search, what, rule)

    def carry(self, transitions: int, broken: Mapping[str, Where], coverage: Coverage) -> None:
        """What was seen before the checkpoint."""
        self._transitions, self._broken, self._covered = transitions, broken, coverage

    def _operation(self, text: bytes) -> Operation:
        tag, *fields = msgspec.json.decode(text)
        owner: Any = self.made.operations[tag]
        made: Operation = owner(*map(_plain, fields))
        return made


def exchanges(classes: Classes, sorts: Sequence[str]) -> Iterator[tuple[int, list[int], list[int]]]:
    """Sorts of names that may be exchanged: number, first colours, and the groups, each behind its length."""
    for sort, groups in exchanged(classes).items():
        if sort in sorts:
            flat = [number for group in groups for number in (len(group), *group)]
            yield sorts.index(sort), list(first_colours(groups)), flat


def numbers(values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    """As compiled code reads them."""
    return (ctypes.c_int64 * len(values))(*values)


def coverage_of(counts: Any, operations: Sequence[type[Operation]], variant: AnyVariant) -> Coverage:
    """Coverage from one count for each operation and each code, in this order."""
    codes = [code.value for code in Code]
    every, found = counts[: len(operations) * len(codes)], {}
    for tag, owner in enumerate(operations):
        if owner in variant.transitions:
            own = every[tag * len(codes) : (tag + 1) * len(codes)]
            found[owner.wire_name()] = dict(sorted(pair for pair in zip(codes, own, strict=True) if pair[1]))
    return dict(sorted(found.items()))


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, list) else value
