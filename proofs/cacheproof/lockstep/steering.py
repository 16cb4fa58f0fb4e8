"""Which call a driver makes next: one that is likely to lead to what was not seen yet.

The specification is asked what some of the offered calls would do, which costs the target nothing. Calls that change
something, lead to a new state or end in a rare way are drawn more often than others. How rare a way is, is counted
over the run, alone and behind the call before. Each episode has its own weights of the operations (a *swarm*), so that
some episodes are without `clear`, say, and others are full of it. Faults come in bursts.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import fields

from cacheproof.lockstep.pair import Pair
from cachespec.kernel import Code, Kind, Operation

WEIGHTS = {Kind.CALL: (0, 1, 3, 9), Kind.INTERNAL: (1, 3, 9), Kind.FAULT: (0, 1, 3)}
"""How likely an operation may be in an episode."""
CANDIDATES = 6
"""So many calls are tried on the specification's side, and one of them is made."""
UNCHANGED, KNOWN = 0.08, 0.3
"""The worth of a call that changes nothing, and of one that leads to a known state, beside one that leads to a new."""
BURST_BEGINS, LONGEST_BURST = 0.06, 4
"""How often a burst of faults begins, and how many faults it may have."""
IN_BURST, OUTSIDE = 10.0, 0.01
"""The weight of a fault in a burst, and outside: faults change something, and would be chosen before all calls."""
LENGTHS = (30, 60, 100)
"""Calls in an episode."""


class Steering:
    """Draws scopes, and calls within them. `pairs` are the scopes of one run, which share its knowledge."""

    def __init__(self, pairs: Sequence[Pair], source: random.Random) -> None:
        self.pairs = pairs
        self.source = source
        self.weights: dict[type[Operation], int] = {}
        self.length = 0
        self._waiting: list[int] = []
        self._met: Counter[Hashable] = Counter()
        self._states: list[set[int]] = [set() for _ in pairs]
        self._burst = 0

    def begin(self, set_aside: Collection[int] = ()) -> int:
        """The number of the scope whose turn has come; the next episode is in it."""
        self._waiting = [number for number in self._waiting if number not in set_aside]
        if not self._waiting:
            left = [number for number in range(len(self.pairs)) if number not in set_aside]
            self._waiting = self.source.sample(left, len(left))
        self.length, self._burst = self.source.choice(LENGTHS), 0
        kinds = self.pairs[0].subject.component.operations
        self.weights = {kind: self.source.choice(WEIGHTS[kind.kind]) for kind in kinds}
        return self._waiting.pop()

    def choose(self, number: int, *, first: bool = False) -> int:
        """The place of the next call among those that the scope offers now; behind them all, the episode is over."""
        pair = self.pairs[number]
        offered = pair.offered
        if len(pair.operations) >= self.length and not first:
            return len(offered)
        if len(offered) == 1:
            return 0
        candidates = self._candidates(offered)
        worths = [self._worth(number, pair, offered[place]) for place in candidates]
        if max(worths) <= UNCHANGED:
            calls = [place for place, one in enumerate(offered) if self._burst > 0 or one.kind is not Kind.FAULT]
            others = self.source.sample(calls, min(CANDIDATES, len(calls)))
            candidates += others
            worths += [self._worth(number, pair, offered[place]) for place in others]
        return self.source.choices(candidates, worths)[0]

    def note(self, number: int) -> None:
        """The call that was just made, and where it led to."""
        pair = self.pairs[number]
        if pair.latest is None:
            return
        before, outcome = pair.latest
        *earlier, call = pair.operations[-2:]
        situation = (type(call), outcome.code, before != pair.state)
        self._met[situation] += 1
        self._met[_behind(earlier, call), situation] += 1
        self._states[number].add(hash(pair.state))

    def _candidates(self, offered: tuple[Operation, ...]) -> list[int]:
        """Places of some calls: first the operation is drawn, by the weights of this episode, then its arguments."""
        places: dict[type[Operation], list[int]] = {}
        for place, operation in enumerate(offered):
            places.setdefault(type(operation), []).append(place)
        self._burst = self._burst - 1 if self._burst > 0 else self._begins()
        kinds = list(places)
        weights = [self._weight(kind) for kind in kinds]
        if not any(weights):
            weights = [1.0] * len(kinds)
        drawn = self.source.choices(kinds, weights, k=CANDIDATES)
        return list(dict.fromkeys(self.source.choice(places[kind]) for kind in drawn))

    def _begins(self) -> int:
        return self.source.randint(1, LONGEST_BURST) if self.source.random() < BURST_BEGINS else 0

    def _weight(self, kind: type[Operation]) -> float:
        weight = float(self.weights[kind])
        if kind.kind is Kind.FAULT:
            return weight * (IN_BURST if self._burst > 0 else OUTSIDE)
        return weight

    def _worth(self, number: int, pair: Pair, operation: Operation) -> float:
        after, outcome = pair.subject.variant.call(pair.subject.config, pair.state, operation)
        if outcome.code is Code.DIVERGED:
            return UNCHANGED
        changed = after != pair.state
        situation = (type(operation), outcome.code, changed)
        times, times_here = self._met[situation], self._met[_behind(pair.operations[-1:], operation), situation]
        rare: float = (1 + times) ** -0.25 / (1 + times_here)
        if not changed:
            return UNCHANGED * rare
        return rare * (KNOWN if hash(after) in self._states[number] else 1.0)


def _behind(earlier: Sequence[Operation], call: Operation) -> Hashable:
    """Which call was made before, and whether it was about the same: the same request or key, say."""
    if not earlier:
        return None
    return type(earlier[0]), _about(earlier[0]) == _about(call)


def _about(call: Operation) -> Hashable:
    """The first argument, which names what the call is about; none if it has no argument."""
    first = next(iter(fields(call)), None)
    return None if first is None else getattr(call, first.name)
