"""One part of an exploration: the states whose digest falls to it, kept as their encodings.

Every state has one owner. The owner expands it, and is sent whatever leads to it, by itself and by the others. States
are numbered level by level, within a level by the first step that leads to them: that is the order in which one
process alone would find them, so nothing that is found depends on how many owners there are.
"""

from __future__ import annotations

import pickle
import time
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, starmap
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from cacheproof.foundation.memory import peak_bytes, resident_bytes
from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.wire import operation_from_message, operation_to_message
from cacheproof.search import level_file
from cacheproof.search.canonical import canonical
from cacheproof.search.coverage import added, counted
from cacheproof.search.digest import MODULUS, decoder, digest_of_encoding, encoding
from cacheproof.search.level_file import LabelLine, StateLine, StepLine
from cacheproof.search.path import Graph
from cacheproof.search.result import Coverage
from cacheproof.search.rules import INITIAL, MOVES, Judge, Where, where
from cacheproof.search.shape import shape_of
from cachespec.kernel import Kind, Operation

REMEMBERED = 1 << 14

Arrival = tuple[bytes, int, Where, int]
"""A state's encoding and its digest, the step that leads to it, and the label of that step (0: none is needed)."""
Form = tuple[bytes, int, Any]
"""The encoding of a state's canonical form, its digest, and the view of the state itself."""


class Expansion(NamedTuple):
    """A slice of a level: how many states were expanded, and what it leads to, as bytes for each owner."""

    expanded: int
    outgoing: list[bytes]


@dataclass(slots=True)
class Owed:
    """The steps that the system owes, from states in which something is pending, for the search for lassos.

    Step `i` leads from `sources[i]` as its move number `moves[i]`, with the operation `labels[i]`, to `targets[i]`.
    """

    sources: array[int] = field(default_factory=lambda: array("Q"))
    moves: array[int] = field(default_factory=lambda: array("H"))
    labels: array[int] = field(default_factory=lambda: array("Q"))
    targets: array[int] = field(default_factory=lambda: array("Q"))
    operations: dict[int, Operation] = field(default_factory=dict)

    def append(self, source: int, move: int, label: int) -> None:
        """A step; its target is appended when it has a number."""
        self.sources.append(source)
        self.moves.append(move)
        self.labels.append(label)


@dataclass(frozen=True, slots=True)
class Account:
    """What one owner has seen so far."""

    states: int
    transitions: int
    digest: int
    broken: dict[str, Where]
    witnessed: frozenset[str]
    coverage: Coverage
    resident_bytes: int
    peak_bytes: int


class Shard:
    """The states of one owner. `place` is its own, of `owners` in all."""

    def __init__(
        self, component: AnyComponent, variant: AnyVariant, config: Any, plan: Plan, place: int, owners: int
    ) -> None:
        variant = plan.explored(variant)
        counting, self.coverage = counted(variant)
        form = canonical(component, variant, config, symmetry=plan.symmetry)
        self.graph = Graph(component, counting, config, plan, form)
        self.judge = Judge(component, variant, config)
        self.liveness = plan.liveness and bool(self.judge.progress)
        self.decode = decoder(shape_of(variant.state))
        self.form = lru_cache(REMEMBERED)(self._form)
        """Most states are reached by several steps, and by steps that are close together."""
        self.place, self.owners = place, owners
        self.known: list[bytes] = []
        self.index: dict[bytes, int] = {}
        """From an encoding to its place in `known`, and in the three arrays."""
        self.numbers, self.found_by, self.pending = array("Q"), array("q"), array("Q")
        self.begins: list[tuple[int, int]] = []
        """For each level, the least number of an own state, and the first place."""
        self.level: list[int] = []
        """The places of the states of this level, in the order of their numbers."""
        self.expanded = self.settled = self.transitions = self.digest = 0
        """How many of the level were expanded; how many of `known` have a number."""
        self.owed = Owed()
        self.carried: Coverage = {}
        self._kept_steps = 0
        self._kept_labels: set[int] = set()
        self._unnumbered: list[int] = []
        """For each new step in `owed`, the place of its target, until that has a number."""
        self._labels: dict[Operation, int] = {}

    # A level ----------------------------------------------------------------------------------------------------

    def begin(self) -> list[list[Arrival]]:
        """The initial state, addressed to its owner."""
        form = self.form(self.graph.start())
        return [[(form[0], form[1], INITIAL, 0)] if owner == form[1] % self.owners else [] for owner in self._all()]

    def expand(self, most: int, seconds: float) -> list[list[Arrival]]:
        """Expand some more states of the level, until so many or for so long; the new arrivals, by owner."""
        end = time.monotonic() + seconds
        out: list[list[Arrival]] = [[] for _ in self._all()]
        for place in self.level[self.expanded : self.expanded + most]:
            self._expand(place, out)
            self.expanded += 1
            if time.monotonic() >= end:
                break
        return out

    def is_through(self) -> bool:
        """Whether the whole level was expanded."""
        return self.expanded == len(self.level)

    def absorb(self, arrivals: Iterable[Arrival]) -> None:
        """Take in what leads to own states."""
        index, found_by = self.index, self.found_by
        for encoded, digest, at, label in arrivals:
            place = index.get(encoded)
            if place is None:
                place = len(self.known)
                self.known.append(encoded)
                found_by.append(at)
                self.digest = (self.digest + digest) % MODULUS
                index[encoded] = place
            elif place >= self.settled and at < found_by[place]:
                found_by[place] = at
            if label:
                self._owe(at, label, place)

    # Between processes, arrivals are bytes, which only their owner unpacks.

    def packed_beginning(self) -> list[bytes]:
        """The initial state, for its owner."""
        return [pickle.dumps(arrivals) for arrivals in self.begin()]

    def packed_expansion(self, most: int, seconds: float) -> Expansion:
        """Expand some more states of the level, as `expand` does."""
        before = self.expanded
        outgoing = [pickle.dumps(arrivals) for arrivals in self.expand(most, seconds)]
        return Expansion(self.expanded - before, outgoing)

    def absorb_packed(self, packed: Sequence[bytes]) -> None:
        """Take in what leads to own states, from all owners."""
        for arrivals in packed:
            self.absorb(pickle.loads(arrivals))  # noqa: S301  # it comes from our own worker, through our own parent

    def fresh(self) -> array[int]:
        """The first steps to the states that are new in this level, in order."""
        self.level = sorted(range(self.settled, len(self.known)), key=self.found_by.__getitem__)
        self.expanded = 0
        return array("q", [self.found_by[place] for place in self.level])

    def settle(self, numbers: Sequence[int]) -> None:
        """The new states have these numbers, in the order of `fresh`; each is judged."""
        if numbers:
            self.begins.append((numbers[0], self.settled))
        self.numbers.extend([0] * len(numbers))
        self.pending.extend([0] * len(numbers))
        for place, number in zip(self.level, numbers, strict=True):
            self.numbers[place] = number
            view = self.graph.view(self.decode(self.known[place]))
            self.judge.state(self.found_by[place], view)
            if self.liveness:
                self.pending[place] = self.judge.pending(view)
        self.settled = len(self.known)
        self.owed.targets.extend([self.numbers[place] for place in self._unnumbered])
        self._unnumbered.clear()

    # What is known -----------------------------------------------------------------------------------------------

    def states(self) -> int:
        """How many states are known."""
        return len(self.known)

    def account(self) -> Account:
        """What was seen so far."""
        judge = self.judge
        return Account(
            len(self.known),
            self.transitions,
            self.digest,
            dict(judge.broken),
            frozenset(judge.witnessed),
            added([self.carried, self.coverage.as_coverage()]),
            resident_bytes(),
            peak_bytes(),
        )

    def knows(self, witnessed: Sequence[str]) -> None:
        """These witnesses were reached by others."""
        self.judge.knows(witnessed)

    def lookup(self, number: int) -> tuple[bytes, Where] | None:
        """The encoding of the state of this number, and the first step to it, if it is an own state."""
        level = bisect_right(self.begins, number, key=itemgetter(0)) - 1
        first = self.begins[level][1] if level >= 0 else 0
        last = self.begins[level + 1][1] if level + 1 < len(self.begins) else len(self.numbers)
        try:
            place = self.numbers.index(number, first, last)
        except ValueError:
            return None
        return self.known[place], self.found_by[place]

    def pending_states(self) -> tuple[array[int], array[int]]:
        """The numbers of states in which something is pending, and what."""
        places = [place for place, pending in enumerate(self.pending) if pending]
        return array("Q", [self.numbers[p] for p in places]), array("Q", [self.pending[p] for p in places])

    def may_last(self, whole: int) -> bool:
        """Whether a lasso may be found among the first `whole` states; it is looked for then."""
        del whole
        return True

    def owed_steps(self) -> Owed:
        """The steps for the search for lassos that lead to own states, and the operations of own labels."""
        return self.owed

    # Checkpoints -------------------------------------------------------------------------------------------------

    def write_level(self, path: str) -> str:
        """Keep the states of this level, and the steps and labels that came with it; the digest of the file."""
        owed = self.owed
        first, self._kept_steps = self._kept_steps, len(owed.sources)
        labels = [label for label in owed.operations if label not in self._kept_labels]
        self._kept_labels.update(labels)
        states = (
            StateLine(self.numbers[place], self.found_by[place], self.pending[place], self.known[place])
            for place in self.level
        )
        named = (LabelLine(label, operation_to_message(owed.operations[label])) for label in labels)
        steps = zip(owed.sources[first:], owed.moves[first:], owed.labels[first:], owed.targets[first:], strict=True)
        return level_file.write(Path(path), chain(states, named, starmap(StepLine, steps)))

    def read_level(self, paths: Sequence[str]) -> None:
        """Take in the next level that was kept: own states, and a share of the steps."""
        states: list[StateLine] = []
        for line in chain.from_iterable(level_file.read(Path(path)) for path in paths):
            if isinstance(line, StateLine):
                digest = digest_of_encoding(line.encoded)
                if digest % self.owners == self.place:
                    states.append(line)
                    self.digest = (self.digest + digest) % MODULUS
            elif isinstance(line, LabelLine):
                kinds = self.graph.variant.transitions
                self.owed.operations[line.label] = operation_from_message(kinds, line.message)
            elif line.source % self.owners == self.place:
                self.owed.append(line.source, line.move, line.label)
                self.owed.targets.append(line.target)
        self._take_level(sorted(states))

    def carry(self, transitions: int, broken: Mapping[str, Where], coverage: Coverage) -> None:
        """What was seen before the checkpoint, by all."""
        self.transitions += transitions
        self.carried = coverage
        for name, at in broken.items():
            self.judge.note(name, at)
        self._kept_steps = len(self.owed.sources)
        self._kept_labels = set(self.owed.operations)

    def _take_level(self, states: Sequence[StateLine]) -> None:
        if states:
            self.begins.append((states[0].number, len(self.known)))
        self.level = list(range(len(self.known), len(self.known) + len(states)))
        for place, line in zip(self.level, states, strict=True):
            self.known.append(line.encoded)
            self.index[line.encoded] = place
            self.numbers.append(line.number)
            self.found_by.append(line.at)
            self.pending.append(line.pending)
        self.settled = len(self.known)

    # One state ---------------------------------------------------------------------------------------------------

    def _all(self) -> range:
        return range(self.owners)

    def _expand(self, place: int, out: list[list[Arrival]]) -> None:
        """Take every operation of the state's alphabet."""
        graph, judge, number, own = self.graph, self.judge, self.numbers[place], self.known[place]
        state = self.decode(own)
        before = graph.view(state)
        labelled = bool(self.pending[place])
        owed = labelled and graph.variant.continuation(graph.config, state) is not None
        for move, (operation, after, outcome) in enumerate(graph.moves(state)):
            if move >= MOVES:
                raise AssertionError(f"a state has more than {MOVES} moves")
            self.transitions += 1
            at = where(number, move)
            encoded, digest, view = self.form(after)
            judge.step(at, before, operation, outcome, view)
            if encoded != own:
                label = self._label(operation) if labelled and (owed or operation.kind is Kind.INTERNAL) else 0
                out[digest % self.owners].append((encoded, digest, at, label))

    def _form(self, state: Any) -> Form:
        """By what a state is known."""
        encoded = encoding(self.graph.canonical(state))
        return encoded, digest_of_encoding(encoded), self.graph.view(state)

    def _label(self, operation: Operation) -> int:
        """A name for the operation with its fields, the same for every owner."""
        label = self._labels.get(operation)
        if label is None:
            label = digest_of_encoding(encoding(operation_to_message(operation))) or 1
            if self.owed.operations.setdefault(label, operation) != operation:
                raise AssertionError("two operations have one label")
            self._labels[operation] = label
        return label

    def _owe(self, at: Where, label: int, place: int) -> None:
        self.owed.append(*divmod(at, MOVES), label)
        self._unnumbered.append(place)
