"""`exec:COMMAND`: an implementation in any language, in a child process that speaks the line protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cacheproof.errors import InputError
from cacheproof.protocol import RESERVED, VERSION, RefusedError, decode, encode, shortened
from cacheproof.registry import AnyComponent, AnyVariant
from cacheproof.targets.pipe import ChildProcess
from cacheproof.targets.target import TargetError
from cacheproof.wire import (
    Message,
    config_to_message,
    observations_from_message,
    operation_to_message,
    outcome_from_message,
)
from cachespec.kernel import Observation, Operation, Outcome

SECONDS_TO_ANSWER = 10.0
SECONDS_TO_START = 30.0
"""For the first answer: an interpreter and its imports may take their time."""


class ChildTarget:
    """Starts the command at the first `reset`, and again at the `reset` after a failure.

    Every failure of the conversation is a TargetError that names what happened and what had been asked; the child is
    then gone. What the child calls an error is one too: an assertion inside the implementation is not an error but an
    outcome, `failed`, and a call that never returns is `diverged` where the child can tell.
    """

    def __init__(
        self,
        command: str,
        component: AnyComponent,
        variant: AnyVariant,
        *,
        seconds: float = SECONDS_TO_ANSWER,
        seconds_to_start: float = SECONDS_TO_START,
    ) -> None:
        self._command = command
        self._component = component
        self._variant = variant
        self._seconds = seconds
        self._seconds_to_start = max(seconds, seconds_to_start)
        self._child: ChildProcess | None = None
        self._config: Any = None
        self._observations: Mapping[str, Observation] = {}

    def reset(self, config: Any) -> None:
        if self._child is None:
            self._start()
            self._config = None
        if config == self._config:
            answer = self._ask({"do": "reset"}, "state")
        else:
            named = {"component": self._component.name, "variant": self._variant.tag}
            answer = self._ask({"do": "init", **named, **config_to_message(config)}, "state")
        self._config = config
        self._take_observations(answer)

    def apply(self, operation: Operation) -> Outcome:
        answer = self._ask({"do": "apply", **operation_to_message(operation)}, "outcome")
        try:
            outcome = outcome_from_message(answer)
        except InputError as error:
            raise self._failed(str(error)) from None
        self._take_observations(answer)
        return outcome

    def observe(self) -> Mapping[str, Observation]:
        return self._observations

    def close(self) -> None:
        if self._child is not None:
            self._child.leave(encode({"do": "bye"}))
            self._child = None

    def _start(self) -> None:
        self._child = ChildProcess(self._command)
        answer = self._ask({"do": "hello", "protocol": VERSION}, "hello", self._seconds_to_start)
        if answer.get("protocol") != VERSION:
            spoken = shortened(repr(answer.get("protocol")))
            raise self._failed(f"the child speaks protocol {spoken}, not {VERSION!r}")

    def _ask(self, message: Message, wanted: str, seconds: float | None = None) -> Message:
        """The answer of the wanted sort, without that mark."""
        if self._child is None:
            raise TargetError("the child is not running: it failed before")
        asked = " ".join(str(message[key]) for key in ("do", "op") if key in message)
        try:
            answer = decode(self._child.ask(encode(message), self._seconds if seconds is None else seconds))
        except (TargetError, RefusedError) as error:
            said = "the child's answer is " if isinstance(error, RefusedError) else ""
            raise self._failed(f"asked to {asked}: {said}{error}") from None
        kind = answer.pop("answer", None)
        if kind == "error":
            told = f"{answer.get('error')}: {answer.get('text')}"
            raise self._failed(f"asked to {asked}: the child refused; {shortened(told)}")
        if kind != wanted:
            raise self._failed(f"asked to {asked}: the child's answer is {shortened(repr(kind))}, not '{wanted}'")
        return answer

    def _take_observations(self, answer: Message) -> None:
        try:
            self._observations = observations_from_message(
                {name: value for name, value in answer.items() if name not in RESERVED}
            )
        except InputError as error:
            raise self._failed(str(error)) from None

    def _failed(self, text: str) -> TargetError:
        """The child is ended; the error says why."""
        if self._child is not None:
            self._child.kill()
            self._child = None
        return TargetError(text)
