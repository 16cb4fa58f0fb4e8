"""What is walked where a release's whole scheduler serves: requests come, are cancelled, and steps are made.

What must hold is named as in `scheduler` and `kv_blocks`; the walk of `kv_blocks`' calls is `walk`. Every episode ends
with steps until nothing is left to do, so that a request that is never served is seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from cacheproof.foundation.console import Show
from cacheproof.model.protocol import shortened as shortened_text
from cacheproof.model.target import TargetError
from cacheproof.targets.prefixes import episodes
from cacheproof.targets.prefixes.episodes import Episode, Found, Walked, driven
from cacheproof.targets.prefixes.ledger import Wrong
from cacheproof.targets.prefixes.peer import Call, Child

CALLS_OF_AN_EPISODE = 40
STEPS_TO_CALLS = 4
"""How much likelier a step is than any other call."""
CHILDREN = 100
"""The number of a request's first child is its own and this; of its second, twice this, and so on."""
ROUNDS_PER_TOKEN = 8
"""Requests are given up as circling when serving them takes so many steps for each of their tokens."""
STEP = Call("step", -1)


@dataclass(frozen=True, slots=True)
class Served:
    """Where the blocks are, and which requests hold some, run, wait, and have all of their output."""

    free: tuple[int, ...]
    cached: tuple[int, ...]
    """Blocks that nobody holds and that can be found."""
    held: tuple[int, ...]
    holders: tuple[int, ...]
    running: tuple[int, ...]
    waiting: tuple[int, ...]
    delivered: tuple[int, ...]
    found: tuple[int, ...]
    """For each of those in their order, how many blocks another request with all of its tokens would find."""
    wrong: tuple[int, ...]
    """The request and the place of the first token that was read, or given, and is not the request's; or nothing."""


class Planned(NamedTuple):
    """What a step schedules."""

    requests: int
    tokens: int
    fewest: int
    """Tokens of the request with the fewest."""


class Reply(NamedTuple):
    """How a call ended, what it scheduled if it did, and what is shown after it; nothing after one that hangs."""

    code: str
    planned: Planned | None
    shown: Served | None
    failure: str = ""
    """What the release said of it, where it failed."""


class Server(Protocol):
    """An engine, reset for each run."""

    def reset(self, config: Mapping[str, Any]) -> Served:
        """Begin with `blocks` blocks, `token_budget` tokens and `running` requests a step, and these `prompts`."""
        ...

    def ask(self, call: Call) -> Reply:
        """A request arrives or is cancelled, or a step is made."""
        ...


class ChildServer(Child):
    """A child process that drives a release's scheduler."""

    def reset(self, config: Mapping[str, Any]) -> Served:
        return _served(self.begun(config))

    def ask(self, call: Call) -> Reply:
        answer = self.called(call)
        values = answer.get("values", ())
        shown = None if answer["code"] == "diverged" else _served(answer)
        planned = Planned(*values) if len(values) == len(Planned._fields) else None
        return Reply(answer["code"], planned, shown, str(answer.get("failure", "")))


def _served(answer: Mapping[str, Any]) -> Served:
    try:
        return Served(*(tuple(answer[name]) for name in Served.__dataclass_fields__))
    except (KeyError, TypeError) as error:
        raise TargetError(f"the driver does not show what it should: {error}") from error


class Book:
    """One run: who has come, who was cancelled, and what must hold after each call."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self.arrived: list[int] = []
        self.cancelled: set[int] = set()
        self.shown: Served | None = None

    def offered(self) -> list[Call]:
        """What may come now. A request is cancelled only while its output is not complete."""
        calls = [STEP] * STEPS_TO_CALLS
        for request in range(len(self._config["prompts"])):
            if request not in self.arrived:
                calls.append(Call("arrive", request))
            elif self._config["cancellations"] and request not in self.cancelled and request in self.unserved():
                calls.append(Call("cancel", request))
        return calls

    def due(self) -> Counter[int]:
        """Whose output is to be delivered, children's included."""
        children = self._config["children"]
        found = (one + CHILDREN * child for one in self.arrived for child in range(children[one] + 1))
        return Counter(one for one in found if one not in self.cancelled)

    def unserved(self) -> set[int]:
        """Who has not been served, and was not cancelled."""
        assert self.shown is not None
        return set(self.due()) - set(self.shown.delivered)

    def take(self, call: Call, reply: Reply) -> Wrong | None:
        """Note the call and its answer; the first thing that is wrong with it, or with what is shown."""
        if reply.shown is None:
            return "KV-8/answered", f"{call} does not return"
        if reply.code not in ("done", "miss"):
            said = f": {shortened_text(reply.failure)}" if reply.failure else ""
            return "KV-8/answered", f"{call} ends as {reply.code}{said}"
        if call.name == "arrive":
            self.arrived.append(call.request)
        elif call.name == "cancel":
            self.cancelled.add(call.request)
        self.shown = reply.shown
        return next(self._wrong(reply), None)

    def begin(self, shown: Served) -> Wrong | None:
        """What is wrong with the initial state."""
        self.shown = shown
        return next(self._wrong(Reply("done", None, shown)), None)

    def _wrong(self, reply: Reply) -> Iterator[Wrong]:
        shown = reply.shown
        assert shown is not None
        if shown.wrong:
            request, place = shown.wrong
            yield "KV-7", f"request {request} reads, or is given, at place {place} what is not its own"
        places = Counter((*shown.free, *shown.cached, *shown.held))
        if twice := sorted(block for block, count in places.items() if count > 1):
            yield "KV-2", f"blocks {twice} are free, cached or held, and not exactly one of these, once"
        if lost := sorted(set(range(self._config["blocks"])) ^ set(places)):
            yield "KV-2", f"blocks {lost} are nowhere, or there are no such blocks"
        if strange := sorted(set(shown.holders) - set(shown.running)):
            yield "SCH-5/blocks", f"requests {strange} hold blocks, and do not run"
        if both := sorted(set(shown.running) & set(shown.waiting)):
            yield "SCH-6", f"requests {both} wait and run"
        if extra := Counter(shown.delivered) - self.due() - Counter(self.cancelled):
            yield "SCH-2/finished", f"requests {sorted(extra)} are delivered more often than they were asked for"
        if self._config["kept"]:
            yield from self._unfound(shown)
        if reply.planned is not None:
            yield from self._planned(reply.planned)

    def _unfound(self, shown: Served) -> Iterator[Wrong]:
        """Who was served has all of its tokens but the last computed, and there was no need to evict anything."""
        for request, found in zip(shown.delivered, shown.found, strict=True):
            base = request % CHILDREN
            computed = len(self._config["prompts"][base]) + int(self._config["outputs"][base]) - 1
            full = computed // int(self._config["block_size"])
            if found != full:
                yield "KV-7/longest", f"request {request} filled {full} blocks, and {found} of them can be found"

    def _planned(self, planned: Planned) -> Iterator[Wrong]:
        if planned.fewest < 1:
            yield "SCH-1", f"a step has {planned.tokens} tokens, of {planned.requests} requests, one of them with none"
        if planned.tokens > self._config["token_budget"]:
            yield "SCH-1/budget", f"a step has {planned.tokens} tokens, and a budget of {self._config['token_budget']}"
        if planned.requests > self._config["running"]:
            yield "SCH-1/running", f"a step has {planned.requests} requests, and {self._config['running']} may run"


class _Episode(Episode):
    """With the book beside it, and steps at its end until everybody is served."""

    def __init__(self, server: Server, config: Mapping[str, Any]) -> None:
        self.book = Book(config)
        self._server, self._config = server, config
        super().__init__()

    def begin(self) -> Wrong | None:
        return self.book.begin(self._server.reset(self._config))

    def offered(self) -> list[Call]:
        return self.book.offered()

    def taken(self, call: Call) -> Wrong | None:
        return self._asked(call)[0]

    def end(self) -> Wrong | None:
        """Who is not served is the finding."""
        config = self._config
        tokens = sum(len(p) + o for p, o in zip(config["prompts"], config["outputs"], strict=True)) + 1
        most, idle = tokens * ROUNDS_PER_TOKEN * (1 + max(config["children"])), 0
        while self.book.unserved():
            before = self.book.shown
            wrong, scheduled = self._asked(STEP)
            if wrong is not None:
                return wrong
            idle = 0 if scheduled or self.book.shown != before else idle + 1
            most -= 1
            left = f"requests {sorted(self.book.unserved())} are not served"
            if idle > 2 * len(config["prompts"]):
                return "SCH-8", f"{left}, and {idle} steps schedule nothing and change nothing"
            if not most:
                return "SCH-8", f"{left}, however many steps are made"
        return None

    def _asked(self, call: Call) -> tuple[Wrong | None, bool]:
        reply = self._server.ask(call)
        self.made += 1
        return self.book.take(call, reply), reply.planned is not None


def serve(
    server: Server,
    config: Mapping[str, Any],
    *,
    steps: int,
    seed: int,
    progress: Show | None = None,
) -> Walked:
    """Walk for so many calls, and shorten the first finding. Ctrl-C ends it with what is known."""
    begin = partial(_Episode, server, config)
    return driven(begin, most=CALLS_OF_AN_EPISODE, steps=steps, seed=seed, progress=progress)


def replayed(server: Server, config: Mapping[str, Any], calls: Sequence[Call]) -> Found | None:
    """The first finding of these calls and of what is left to do; what is not offered in its turn is left out."""
    return episodes.replayed(partial(_Episode, server, config), calls)
