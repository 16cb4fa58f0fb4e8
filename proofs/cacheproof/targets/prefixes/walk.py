"""Random walks of a peer, beside the ledger, and beside the specification as long as nothing had to be evicted.

It is no `lockstep.pair`: peers show pages under their own numbers, so counts are compared, and not states.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from cacheproof.foundation.console import Show
from cacheproof.model.declaration import EVICTION_ORDER
from cacheproof.model.registry import component_named
from cacheproof.model.wire import config_from_message
from cacheproof.targets.prefixes import episodes
from cacheproof.targets.prefixes.episodes import Episode, Found, Walked, driven
from cacheproof.targets.prefixes.ledger import Ledger, Wrong
from cacheproof.targets.prefixes.peer import Answer, Call, Peer, Shown
from cachespec.kernel import Code
from cachespec.kv_blocks import AllocateSlots, Commit, FreeRequest, GetComputedBlocks, Withdraw

RESTART_EVERY = 60
"""Calls of an episode, at most."""
LOOK_UP_EVERY = 2


class Counts(NamedTuple):
    """How many pages are free, can be found, and can be found and are held."""

    free: int
    cached: int
    locked: int


class Beside:
    """The specification's own pool, with its own numbers of blocks; counts can be compared, pages cannot.

    It never merges two blocks with the same content, so it needs more of them; it has so many that none that could be
    found is ever taken. What is compared does not depend on how many there are.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        component = component_named("kv_blocks")
        self._variant = component.normative
        self._lengths = list(config["lengths"])
        self._blocks = int(config["blocks"])
        pages = max(-(-length // int(config["block_size"])) for length in self._lengths)
        known = {name: value for name, value in config.items() if name in component.config._fields}
        self._config = config_from_message(component, {**known, "blocks": pages * (RESTART_EVERY + 1)})
        self._state = self._variant.start(self._config)

    def hits(self, request: int) -> int:
        """How many blocks the request finds."""
        return len(self._looked_up(request))

    def counts(self) -> Counts:
        """How many pages there would be of each sort where equal contents are one page, and nothing was evicted."""
        view = self._variant.view(self._config, self._state)
        registered = dict(view.registered)
        held = {block for _, table in view.tables for block in table}
        cached = set(registered.values())
        own = sum(block not in registered for block in held)
        locked = {registered[block] for block in held if block in registered}
        return Counts(self._blocks - len(cached) - own, len(cached), len(locked))

    def follow(self, call: Call, *, written: bool) -> None:
        """The same call on this side."""
        request, length = call.request, self._lengths[call.request]
        if call.name == "admit":
            hits = self._looked_up(request)
            self._do(AllocateSlots(request, 0, length - len(hits) * self._config.block_size, hits))
        elif call.name == "commit":
            self._do(Commit(request, length))
        elif call.name == "finish":
            self._do(FreeRequest(request) if written else Withdraw(request))

    def _looked_up(self, request: int) -> tuple[int, ...]:
        question = GetComputedBlocks(request, self._lengths[request])
        self._state, outcome = self._variant.call(self._config, self._state, question)
        found: tuple[int, ...] = outcome.values
        return found

    def _do(self, operation: Any) -> None:
        self._state, outcome = self._variant.call(self._config, self._state, operation)
        assert outcome.code is Code.DONE, f"{operation} is {outcome.code} in a pool that has room for all"


class _Episode(Episode):
    """With the ledger and the specification beside it."""

    def __init__(self, peer: Peer, config: Mapping[str, Any]) -> None:
        self.ledger = Ledger(config, ordered=EVICTION_ORDER in peer.claims)
        self.beside = Beside(config)
        self.compared = 0
        self._peer, self._config = peer, config
        super().__init__()

    def begin(self) -> Wrong | None:
        return self.ledger.begin(self._peer.reset(self._config))

    def offered(self) -> list[Call]:
        return self.ledger.offered()

    def chosen(self, source: random.Random) -> Call:
        """Look-ups now and then: they are offered always, and change nothing but recency."""
        offered = self.offered()
        changing = [call for call in offered if call.name != "lookup"]
        return source.choice(offered if source.randrange(LOOK_UP_EVERY) == 0 else changing)

    def taken(self, call: Call) -> Wrong | None:
        """On all sides."""
        written = call.request in self.ledger.written
        answer = self._peer.ask(call)
        self.made += 1
        wrong = self.ledger.take(call, answer)
        if wrong is None and not self.ledger.evicted:
            self.compared += 1
            wrong = self._beside(call, answer, written=written)
        return wrong

    def count(self, walked: Walked) -> None:
        super().count(walked)
        walked.beside += self.compared
        walked.evictions += self.ledger.evicted

    def _beside(self, call: Call, answer: Answer, *, written: bool) -> Wrong | None:
        """What the specification counts otherwise. What is refused for want of room is not asked of it."""
        if call.name == "lookup" and len(answer.pages) != self.beside.hits(call.request):
            expected = self.beside.hits(call.request)
            return "KV-7/longest", f"{len(answer.pages)} pages are found, {expected} by the specification"
        if answer.code != "refused":
            self.beside.follow(call, written=written)
        shown, expected_counts = answer.shown, self.beside.counts()
        assert shown is not None
        counted = Counts(len(shown.free), len(shown.cached), self._locked(shown))
        if counted == expected_counts:
            return None
        return "KV-2", f"pages are {counted._asdict()}, and by the specification {expected_counts._asdict()}"

    def _locked(self, shown: Shown) -> int:
        """The cached pages that requests use, as the implementation counts them, or else by the ledger."""
        if shown.protected is not None:
            return shown.protected // self.ledger.size
        return len({page for table in self.ledger.tables.values() for page in table} & set(shown.cached))


def walk(
    peer: Peer,
    config: Mapping[str, Any],
    *,
    steps: int,
    seed: int,
    progress: Show | None = None,
) -> Walked:
    """Walk for so many steps, and shorten the first finding. Ctrl-C ends it with what is known."""
    begin = partial(_Episode, peer, config)
    return driven(begin, most=RESTART_EVERY, steps=steps, seed=seed, progress=progress)


def replayed(peer: Peer, config: Mapping[str, Any], calls: Sequence[Call]) -> Found | None:
    """The first finding of these calls; those that are not offered when their turn comes are left out."""
    return episodes.replayed(partial(_Episode, peer, config), calls)
