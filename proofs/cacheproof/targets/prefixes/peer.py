"""What is walked: something that has prefixes in pages, and is asked four calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from cacheproof.foundation.errors import InputError, shortened
from cacheproof.model.declaration import checked_claims
from cacheproof.model.protocol import RefusedError, decode, encode
from cacheproof.model.target import TargetError
from cacheproof.targets.pipe import ChildProcess

SECONDS_TO_ANSWER = 60.0
SECONDS_TO_START = 120.0


class Call(NamedTuple):
    """A call about a request, as `admit`; or about none, as `step`."""

    name: str
    request: int

    def __str__(self) -> str:
        return f"{self.name}({self.request})" if self.request >= 0 else self.name


@dataclass(frozen=True, slots=True)
class Shown:
    """Pages, and what the implementation itself counts, in slots; None if it does not count it."""

    free: tuple[int, ...]
    cached: tuple[int, ...]
    evictable: int | None = None
    protected: int | None = None
    available: int | None = None


class Answer(NamedTuple):
    """How a call ended, the pages that it returned, and what is shown after it; nothing after one that hangs."""

    code: str
    pages: tuple[int, ...]
    shown: Shown | None


class Peer(Protocol):
    """An implementation, reset for each run."""

    @property
    def claims(self) -> tuple[str, ...]:
        """With `eviction_order`, the least recently used page is evicted first."""
        ...

    def reset(self, config: Mapping[str, Any]) -> Shown:
        """Begin with `blocks` free pages of `block_size` slots, and requests of these `chains` and `lengths`."""
        ...

    def ask(self, call: Call) -> Answer:
        """Perform a call."""
        ...


class Child:
    """A child process that drives one of a release's caches. `claims` are claimed for it."""

    def __init__(
        self, command: str, component: str, claims: tuple[str, ...] = (), *, seconds: float = SECONDS_TO_ANSWER
    ) -> None:
        self._component = component
        self._child = ChildProcess(command)
        self._seconds = seconds
        said = self._said({"do": "hello", "protocol": "1.0", "component": component}, SECONDS_TO_START)
        self.claims = (*claims, *checked_claims(tuple(map(str, said.get("claims", ())))))

    def begun(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """What is shown at the beginning. Raises TargetError where the driver fails."""
        return self._said({"do": "init", "component": self._component, **config}, self._seconds)

    def called(self, call: Call) -> dict[str, Any]:
        """How the call ended, and what is shown after it. Raises TargetError where the driver fails."""
        return self._said({"do": "apply", "op": call.name, "request": call.request}, self._seconds)

    def close(self) -> None:
        """Say goodbye, and see to it that the child ends."""
        self._child.leave(encode({"do": "bye"}))

    def _said(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        try:
            answer = decode(self._child.ask(encode(message), seconds))
        except (RefusedError, InputError) as error:
            raise TargetError(f"the driver's answer is none: {error}") from error
        if answer.get("answer") == "error":
            raise TargetError(f"the driver failed: {shortened(str(answer.get('text')))}")
        return answer


class ChildPeer(Child):
    """A release that is asked the four calls."""

    def reset(self, config: Mapping[str, Any]) -> Shown:
        return _shown(self.begun(config))

    def ask(self, call: Call) -> Answer:
        answer = self.called(call)
        hangs = answer["code"] == "diverged"
        return Answer(answer["code"], tuple(answer.get("values", ())), None if hangs else _shown(answer))


def _shown(answer: Mapping[str, Any]) -> Shown:
    try:
        sizes = {name: int(answer[name]) for name in ("evictable", "protected", "available") if name in answer}
        return Shown(tuple(answer["free"]), tuple(answer["cached"]), **sizes)
    except (KeyError, TypeError, ValueError) as error:
        raise TargetError(f"the driver does not show what it should: {error}") from error
