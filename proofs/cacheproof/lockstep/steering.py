"""Which call a driver makes next: one that is likely to lead to what was not seen yet.

The specification is asked what some of the offered calls would do, which costs the target nothing. Calls that change
something, lead to a new state or end in a rare way are drawn more often than others. How rare a way is, is counted
over the run, alone and behind the call before. Each episode has its own weights of the operations (a *swarm*), so that
some episodes are without `clear`, say, and others are full of it. Some have settings of their own, too: a few values of
the scope's configuration, or most of them, are drawn. Faults come in bursts.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from cacheproof.lockstep.pair import Pair
from cachespec.kernel import Code, Kind, Observation, Operation

WEIGHTS = {Kind.CALL: (0, 1, 3, 9), Kind.INTERNAL: (1, 3, 9), Kind.FAULT: (0, 1, 3)}
"""The weights that an operation may be given for an episode."""
CANDIDATES = 6
"""How many calls the specification tries before one of them is made."""
UNCHANGED, KNOWN = 0.08, 0.3
"""The weight of a call that changes nothing, and of one that leads to a known state. One to a new state weighs 1."""
BURST_BEGINS, LONGEST_BURST = 0.06, 4
"""How often a burst of faults begins, and how many faults it may have."""
IN_BURST, OUTSIDE = 10.0, 0.01
"""The weight of a fault during a burst, and between bursts. Most faults change the state, so without this weight they
would be preferred to calls."""
AROUND, LARGEST_SETTINGS = 0.4, (1 << 32) - 1
"""The share of the episodes whose settings are not those of their scope, and the largest number of such settings."""
LENGTHS = (30, 60, 100)
"""Calls in an episode."""
LEAST_TURN = 0.15
"""The share of a scope in which the last episode led to no new state, beside one in which every call did."""


class Steering:
    """Draws scopes, and calls within them. `pairs` are the scopes of one run, which share its knowledge."""

    def __init__(self, pairs: Sequence[Pair], source: random.Random) -> None:
        self.pairs = pairs
        self.source = source
        self.weights: dict[type[Operation], int] = {}
        self.length = 0
        self._waiting: list[int] | None = None
        self._met: Counter[Hashable] = Counter()
        self._states: dict[Hashable, set[int]] = {}
        """Digests of the states that each configuration has led to."""
        self._burst = 0
        self._news: dict[int, float] = {}
        """For each scope, the share of the calls of its last episode that led to a new state."""
        self._episode, self._calls, self._new, self._around = 0, 0, 0, False
        self._shown: tuple[Any, Mapping[str, Observation]] | None = None

    def begin(self, set_aside: Collection[int] = ()) -> int:
        """The number of the scope whose turn has come; the next episode is in it.

        First each scope has a turn. Then those have more turns in which the last episode led to new states.
        """
        if not self._around:
            self._news[self._episode] = self._new / max(1, self._calls)
        left = [number for number in range(len(self.pairs)) if number not in set_aside]
        if self._waiting is None:
            self._waiting = self.source.sample(left, len(left))
        self._waiting = [number for number in self._waiting if number not in set_aside]
        if self._waiting:
            self._episode = self._waiting.pop()
        else:
            self._episode = self.source.choices(left, [LEAST_TURN + self._news.get(number, 0.0) for number in left])[0]
        self.length, self._burst, self._calls, self._new = self.source.choice(LENGTHS), 0, 0, 0
        self._around = False
        kinds = self.pairs[0].subject.component.operations
        self.weights = {kind: self.source.choice(WEIGHTS[kind.kind]) for kind in kinds}
        return self._episode

    def settings(self) -> int:
        """The settings of the episode that begins: 0 for those of its scope, or the number of some around them."""
        self._around = self.source.random() < AROUND
        return self.source.randint(1, LARGEST_SETTINGS) if self._around else 0

    def choose(self, number: int, *, first: bool = False) -> int:
        """The place of the next call among those that the scope offers now; behind them all, the episode is over."""
        pair = self.pairs[number]
        offered = pair.offered
        if len(pair.operations) >= self.length and not first:
            return len(offered)
        if len(offered) == 1:
            return 0
        candidates = self._candidates(offered)
        worths = [self._worth(pair, offered[place]) for place in candidates]
        if max(worths) <= UNCHANGED:
            calls = [place for place, one in enumerate(offered) if self._burst > 0 or one.kind is not Kind.FAULT]
            others = self.source.sample(calls, min(CANDIDATES, len(calls)))
            candidates += others
            worths += [self._worth(pair, offered[place]) for place in others]
        return self.source.choices(candidates, worths)[0]

    def note(self, number: int) -> None:
        """The call that was just made, and where it led to."""
        pair = self.pairs[number]
        if pair.latest is None:
            return
        before, outcome = pair.latest
        *earlier, call = pair.operations[-2:]
        situation = self._situation(pair, before, call, outcome.code, pair.state)
        self._met[situation] += 1
        self._met[_behind(earlier, call), situation] += 1
        known = self._known(pair)
        self._calls += 1
        self._new += hash(pair.state) not in known
        known.add(hash(pair.state))

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

    def _worth(self, pair: Pair, operation: Operation) -> float:
        after, outcome = pair.subject.variant.call(pair.subject.config, pair.state, operation)
        if outcome.code is Code.DIVERGED:
            return UNCHANGED
        situation = self._situation(pair, pair.state, operation, outcome.code, after)
        times, times_here = self._met[situation], self._met[_behind(pair.operations[-1:], operation), situation]
        rare: float = (1 + times) ** -0.25 / (1 + times_here)
        if after == pair.state:
            return UNCHANGED * rare
        return rare * (KNOWN if hash(after) in self._known(pair) else 1.0)

    def _known(self, pair: Pair) -> set[int]:
        return self._states.setdefault(pair.subject.config, set())

    def _situation(self, pair: Pair, before: Any, call: Operation, code: Code, after: Any) -> Hashable:
        """The call, how it ended, and which observables it made larger or smaller."""
        if before == after:
            return type(call), code
        old, new = self._observed(pair, before), self._observed(pair, after, keep=False)
        return type(call), code, tuple(_grown(old[name], value) for name, value in new.items())

    def _observed(self, pair: Pair, state: Any, *, keep: bool = True) -> Mapping[str, Observation]:
        """What a state shows; that of the state before several candidates is made once."""
        if self._shown is not None and self._shown[0] is state:
            return self._shown[1]
        subject = pair.subject
        shown = subject.component.observe(subject.config, subject.variant.view(subject.config, state))
        if keep:
            self._shown = state, shown
        return shown


def _grown(old: Observation, new: Observation) -> Hashable:
    """Whether a number or a list became larger, smaller or another one of the same size."""
    if isinstance(old, int) or isinstance(new, int):
        return (new > old) - (new < old)  # type: ignore[operator]  # both are numbers
    return old != new, (len(new) > len(old)) - (len(new) < len(old))


def _behind(earlier: Sequence[Operation], call: Operation) -> Hashable:
    """Which call was made before, and whether it was about the same: the same request or key, say."""
    if not earlier:
        return None
    return type(earlier[0]), _about(earlier[0]) == _about(call)


def _about(call: Operation) -> Hashable:
    """The first argument, which names what the call is about; none if it has no argument."""
    first = next(iter(fields(call)), None)
    return None if first is None else getattr(call, first.name)
