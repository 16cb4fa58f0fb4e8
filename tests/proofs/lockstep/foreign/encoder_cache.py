"""An encoder cache that counts references, as other projects write one, and bugs that are planted in it."""

from __future__ import annotations

from collections import OrderedDict

from tests.planting import Change

from cachespec.encoder_cache.configuration import Config

CACHE = "encoder_cache"
Held = tuple[int, int]


class EncoderCache:
    """Entries by content; `users` are the inputs that hold each."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.free = self.freeable = config.capacity
        self.size: dict[int, int] = {}
        self.users: dict[int, list[Held]] = {}
        self.unused: OrderedDict[int, int] = OrderedDict()  # idle for the longest time first
        self.evicted: list[int] = []
        self.attempts: list[Held] = []

    def _what(self, request: int, position: int) -> int:
        return self.config.requests[request][position]

    def _claim(self, request: int, position: int) -> int:
        claims = self.config.claims
        return claims[request][position] if claims else self.config.sizes[self._what(request, position)]

    def check_and_update(self, request: int, position: int) -> str:
        content, me = self._what(request, position), (request, position)
        if content not in self.size:
            return "miss"
        if self.size[content] != self._claim(request, position):
            return "refused"
        if me in self.users[content]:
            return "hit"
        if content in self.unused:
            self.freeable -= self.unused.pop(content)
        self.users[content].append(me)
        self.attempts.append(me)
        return "hit"

    def can_allocate(self, request: int, position: int, budget: int, pending: int) -> str:
        size = self._claim(request, position)
        if size > budget or size + pending > self.freeable:
            return "refused"
        while size + pending > self.free:
            self._evict()
        return "done"

    def _evict(self) -> None:
        content, size = self.unused.popitem(last=False)
        del self.size[content], self.users[content]
        self.free += size
        self.evicted.append(content)

    def allocate(self, request: int, position: int) -> str:
        content, size = self._what(request, position), self._claim(request, position)
        if content in self.size:
            return "present"
        if size > self.free:
            return "refused"
        self.size[content], self.users[content] = size, [(request, position)]
        self.free -= size
        self.freeable -= size
        if content in self.evicted:
            self.evicted.remove(content)
        self._admit(request)
        return "done"

    def _admit(self, request: int) -> None:
        self.attempts = [me for me in self.attempts if me[0] != request]

    def free_input(self, request: int, position: int) -> str:
        return "done" if self._let_go((request, position)) else "absent"

    def _let_go(self, me: Held) -> bool:
        content = self._what(*me)
        if me not in self.users.get(content, []):
            return False
        self.users[content].remove(me)
        self.attempts = [other for other in self.attempts if other != me]
        if not self.users[content]:
            self.unused[content] = self.size[content]
            self.freeable += self.size[content]
        return True

    def free_request(self, request: int) -> None:
        for position in range(len(self.config.requests[request])):
            self._let_go((request, position))
        self._admit(request)

    def cached_inputs(self, request: int) -> tuple[str, list[int]]:
        contents = self.config.requests[request]
        held = [at for at, content in enumerate(contents) if (request, at) in self.users.get(content, [])]
        return "done", held

    def abandon(self, request: int, cause: int) -> None:
        for me in sorted(me for me in self.attempts if me[0] == request):
            self._let_go(me)
        self._admit(request)

    def report(self) -> tuple[str, list[int]]:
        reported, self.evicted, self.attempts = self.evicted, [], []
        return "done", reported

    def reset(self) -> None:
        for request in range(len(self.config.requests)):
            self.free_request(request)
        while self.unused:
            self._evict()
        self.evicted, self.attempts = [], []

    def observe(self) -> dict[str, int]:
        return {"free": self.free, "freeable": self.freeable}


FACTORY = EncoderCache
BUGS = {
    "the last reference is not the last": Change(
        EncoderCache._let_go, "if not self.users[content]:\n    $body", "if len(self.users[content]) <= 1:\n    $body"
    ),
    "a held entry stays evictable": Change(
        EncoderCache.check_and_update,
        "self.freeable -= self.unused.pop(content)",
        "self.freeable -= self.unused[content]",
    ),
    "an eviction does not tell the workers": Change(EncoderCache._evict, "self.evicted.append(content)", "pass"),
    "the newest unused entry goes first": Change(EncoderCache._evict, "last=False", "last=True"),
    "an entry allocated again is still reported": Change(
        EncoderCache.allocate, "if content in self.evicted:\n    $body", "pass"
    ),
    "what is pending is not counted": Change(
        EncoderCache.can_allocate, "size + pending > self.freeable", "size > self.freeable"
    ),
    "no room is made for what is pending": Change(
        EncoderCache.can_allocate, "size + pending > self.free", "size > self.free"
    ),
    "the budget is not asked": Change(EncoderCache.can_allocate, "size > budget or $x", "$x"),
    "a budget cannot be used up": Change(EncoderCache.can_allocate, "size > budget", "size >= budget"),
    "another size is a hit": Change(
        EncoderCache.check_and_update, "self.size[content] != self._claim(request, position)", "False"
    ),
    "a second look holds twice": Change(EncoderCache.check_and_update, "me in self.users[content]", "False"),
    "an allocation does not ask for room": Change(EncoderCache.allocate, "size > self.free", "False"),
    "an entry that fits exactly is refused": Change(
        EncoderCache.allocate, "size > self.free", "size >= self.free and self.size"
    ),
    "an admitted request can be abandoned": Change(EncoderCache.allocate, "self._admit(request)", "pass"),
    "an abandoned request keeps its pins": Change(
        EncoderCache.abandon, "self._let_go(me)", "self.users[self._what(*me)]"
    ),
    "a request that ends frees its first input only": Change(
        EncoderCache.free_request, "range(len(self.config.requests[request]))", "range(1)"
    ),
    "a report keeps what it told": Change(
        EncoderCache.report,
        "reported, self.evicted, self.attempts = self.evicted, [], []",
        "reported, self.attempts = self.evicted, []",
    ),
    "a report does not end attempts": Change(
        EncoderCache.report,
        "reported, self.evicted, self.attempts = self.evicted, [], []",
        "reported, self.evicted = self.evicted, []",
    ),
    "a reset is reported": Change(EncoderCache.reset, "self.evicted, self.attempts = [], []", "self.attempts = []"),
    "an evicted entry's slots leak after the second eviction": Change(
        EncoderCache._evict, "self.free += size", "self.free += size if len(self.evicted) < 1 else 0"
    ),
}
