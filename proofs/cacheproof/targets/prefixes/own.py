"""Prefix caches of users: `python:MODULE:NAME` in this process, and `exec:COMMAND` in a child process.

In Python the factory takes a `Requests` and returns an object with `lookup`, `admit`, `commit` and `finish`, each with
the number of a request, and with `free` and `cached`, as attributes or methods. docs/prefix_caches.md is its page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import shortened
from cacheproof.model.declaration import checked_claims
from cacheproof.model.target import TargetError
from cacheproof.targets.factory import factory_named
from cacheproof.targets.prefixes.configurations import CONFIGURATIONS
from cacheproof.targets.prefixes.conformance import Held, walked_in
from cacheproof.targets.prefixes.peer import Answer, Call, ChildPeer, Shown
from cacheproof.targets.process import guarded, integer_in, integers_in

COMPONENT = "prefix_cache"
"""What a child process is asked for."""
FORMS = ("python:", "exec:")
COUNTS = ("evictable", "protected", "available")
UNHASHED = 1 << 30
"""Tokens of a page that is never full; each request has its own."""


class Requests(NamedTuple):
    """The pages that there are, and the requests that come."""

    block_size: int
    """Tokens in a page."""
    blocks: int
    """Pages in the pool."""
    tokens: tuple[tuple[int, ...], ...]
    """For each request, its tokens. Requests share pages that are full of the same tokens, behind equal pages."""


def tokens_of(config: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
    """The tokens of each request: a full page has tokens that name its content."""
    size, found = int(config["block_size"]), []
    for number, (chain, length) in enumerate(zip(config["chains"], config["lengths"], strict=True)):
        tokens = [content * size + place for content in chain for place in range(size)][:length]
        found.append((*tokens, *[UNHASHED + number] * (length - len(tokens))))
    return tuple(found)


class InProcessPeer:
    """An object of Python, made anew for each run. Its AssertionError is an answer: `failed`."""

    def __init__(self, factory: Callable[[Requests], Any]) -> None:
        self._factory = factory
        self._made: Any = None
        self.claims = checked_claims(tuple(getattr(factory, "claims", ())))

    def reset(self, config: Mapping[str, Any]) -> Shown:
        requests = Requests(int(config["block_size"]), int(config["blocks"]), tokens_of(config))
        self._made = guarded("be made", lambda: self._factory(requests))
        return self._shown()

    def ask(self, call: Call) -> Answer:
        method = getattr(self._made, call.name, None)
        if not callable(method):
            raise TargetError(f"what the factory made ({type(self._made).__name__}) has no method '{call.name}'")
        try:
            returned = guarded(call.name, lambda: method(call.request), calls=True)
        except AssertionError:
            return Answer("failed", (), self._shown())
        if returned is None and call.name == "admit":
            return Answer("refused", (), self._shown())
        pages = () if call.name == "finish" else _pages(call.name, returned)
        code = ("hit" if pages else "miss") if call.name == "lookup" else "done"
        return Answer(code, pages, self._shown())

    def close(self) -> None:
        """Nothing is held."""

    def _shown(self) -> Shown:
        counts = {name: integer_in(self._attribute(name)) for name in COUNTS if hasattr(self._made, name)}
        return Shown(_pages("free", self._attribute("free")), _pages("cached", self._attribute("cached")), **counts)

    def _attribute(self, name: str) -> Any:
        if not hasattr(self._made, name):
            raise TargetError(f"what the factory made ({type(self._made).__name__}) has no '{name}': a list of pages")
        value = getattr(self._made, name)
        return guarded(name, value) if callable(value) else value


class OwnChild(ChildPeer):
    """A child process that speaks the line protocol; it gets the tokens of the requests as well."""

    def reset(self, config: Mapping[str, Any]) -> Shown:
        return super().reset({**config, "tokens": [list(tokens) for tokens in tokens_of(config)]})


@dataclass(frozen=True, slots=True)
class OwnCache:
    """A prefix cache of a user, as it is named on the command line."""

    name: str

    def held(self, *, steps: int, seed: int, progress: Show | None = None) -> Iterator[Held]:
        """The cache in each configuration, with its part of the steps."""
        peer = self._peer()
        try:
            yield from walked_in(peer, COMPONENT, CONFIGURATIONS, steps=steps, seed=seed, progress=progress)
        finally:
            peer.close()

    def _peer(self) -> InProcessPeer | OwnChild:
        form, _, rest = self.name.partition(":")
        if form == "exec":
            return OwnChild(rest, COMPONENT)
        return InProcessPeer(factory_named(rest))


def is_own(target: str) -> bool:
    """Whether a text names a prefix cache of a user, and no release."""
    return target.startswith(FORMS)


def _pages(name: str, value: Any) -> tuple[int, ...]:
    pages = integers_in(value)
    if pages is None:
        raise TargetError(f"{name} must be a list of pages, which are integers, not {shortened(repr(value))}")
    return pages
