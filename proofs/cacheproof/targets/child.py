"""`exec:COMMAND`: an implementation in any language, in a child process that speaks the line protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cacheproof.foundation.errors import InputError, shortened
from cacheproof.foundation.misspelt import UnknownNameError
from cacheproof.model.declaration import CLAIMS, Declaration, declaration_from
from cacheproof.model.features import observables_in
from cacheproof.model.protocol import LONGEST_LINE_BYTES, RESERVED, VERSION, RefusedError, agreed, decode, encode
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.target import Failure, TargetError
from cacheproof.model.wire import (
    Message,
    config_to_message,
    observations_from_message,
    operation_to_message,
    outcome_from_message,
)
from cacheproof.targets.pipe import ChildProcess
from cachespec import SPECIFICATION_VERSION
from cachespec.kernel import Code, Observation, Operation, Outcome

SECONDS_TO_ANSWER = 10.0
SECONDS_TO_START = 30.0
"""For the first answer: an interpreter and its imports may take their time."""


class ChildTarget:
    """Starts the command at the first `reset`, and again at the `reset` after a failure.

    Every failure of the conversation is a TargetError that names what happened and what had been asked; the child is
    then gone. What the child calls an error is one too: an assertion inside the implementation is not an error but an
    outcome, `failed`, and a call that never returns is `diverged` where the child can tell.

    `claims` are claimed for the child, whatever it says itself.
    """

    def __init__(
        self,
        command: str,
        component: AnyComponent,
        variant: AnyVariant,
        *,
        seconds: float = SECONDS_TO_ANSWER,
        seconds_to_start: float = SECONDS_TO_START,
        claims: tuple[str, ...] = CLAIMS,
    ) -> None:
        self._command = command
        self._component = component
        self._variant = variant
        self._seconds = seconds
        self._claims = claims
        self._seconds_to_start = max(seconds, seconds_to_start)
        self._child: ChildProcess | None = None
        self._config: Any = None
        self._observations: Mapping[str, Observation] = {}
        self._declared = Declaration()
        self.remark = ""
        """What the child said of the last call beside its outcome."""

    def declaration(self) -> Declaration:
        """What the child said of itself when it was greeted; it is started for that."""
        if self._child is None:
            self._start()
        return self._declared

    def reset(self, config: Any) -> None:
        if self._child is None:
            self._start()
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
            raise self._failed(str(error), Failure.GARBAGE) from None
        self.remark = str(answer.pop("remark", ""))
        self._take_observations(answer)
        return outcome

    def offer(self, message: Message) -> Message:
        """The child's whole answer to a message as it stands, an error too: after that it is asked the next one."""
        answer = self._exchange(message, " ".join(str(message[key]) for key in ("do", "op") if key in message))
        if message.get("do") == "init":
            self._config = None
        return answer

    def observe(self) -> Mapping[str, Observation]:
        return self._observations

    def close(self) -> None:
        if self._child is not None:
            self._child.leave(encode({"do": "bye"}))
            self._child = None

    def _start(self) -> None:
        self._child, self._config, self._declared = ChildProcess(self._command), None, Declaration()
        greeting = {"do": "hello", "protocol": VERSION, "spec": SPECIFICATION_VERSION}
        more = {"component": self._component.name, "longest_line": LONGEST_LINE_BYTES}
        answer = self._ask({**greeting, **more}, "hello", self._seconds_to_start)
        if agreed(answer.get("protocol")) is None:
            spoken = shortened(repr(answer.get("protocol")))
            raise self._failed(f"the child speaks protocol {spoken}, not {VERSION!r}", Failure.WRONG_VERSION)
        try:
            said = declaration_from(self._component, answer)
            self._declared = replace(said, claims=(*said.claims, *self._claims))
        except UnknownNameError as error:
            self.close()
            raise InputError(f"'{self._command}' declares in hello what there is not: {error}") from None
        except InputError as error:
            raise self._failed(f"asked to hello: the child says what cannot be: {error}", Failure.GARBAGE) from None

    def _ask(self, message: Message, wanted: str, seconds: float | None = None) -> Message:
        """The answer of the wanted sort, without that mark."""
        asked = " ".join(str(message[key]) for key in ("do", "op") if key in message)
        answer = self._exchange(message, asked, seconds)
        kind = answer.pop("answer", None)
        if kind == "error":
            told = f"{answer.get('error')}: {answer.get('text')}"
            raise self._failed(f"asked to {asked}: the child refused; {shortened(told)}", Failure.REFUSED)
        if kind != wanted:
            wrong = f"asked to {asked}: the child's answer is {shortened(repr(kind))}, not '{wanted}'"
            raise self._failed(wrong, Failure.GARBAGE)
        return answer

    def _exchange(self, message: Message, asked: str, seconds: float | None = None) -> Message:
        """The answer, whatever sort it is of."""
        if self._child is None:
            raise TargetError("the child is not running: it failed before")
        line = encode(message)
        if len(line) > self._declared.longest_line:
            most = self._declared.longest_line
            long = f"asked to {asked}: the line has {len(line)} bytes, and the child takes {most}"
            raise self._failed(long, Failure.TOO_LONG)
        try:
            return decode(self._child.ask(line, self._seconds if seconds is None else seconds))
        except TargetError as error:
            raise self._failed(f"asked to {asked}: {error}", error.failure, error.details) from None
        except RefusedError as error:
            raise self._failed(f"asked to {asked}: the child's answer is {error}", Failure.GARBAGE) from None

    def _take_observations(self, answer: Message) -> None:
        shown = {name: value for name, value in answer.items() if name not in RESERVED | self._declared.own}
        try:
            if answer.get("code") != Code.DIVERGED.value:
                self._check_declared(shown)
            self._observations = observations_from_message(shown)
        except InputError as error:
            raise self._failed(str(error), Failure.GARBAGE) from None

    def _check_declared(self, shown: Mapping[str, Any]) -> None:
        """Who names observables shows these and no others."""
        named = observables_in(self._component, self._declared.features)
        if named is not None and set(shown) != named:
            one = min(set(shown) ^ named)
            what = "does not show" if one in named else "shows"
            raise InputError(f"the child {what} {one}, unlike what it said in hello")

    def _failed(self, text: str, failure: Failure, details: str = "") -> TargetError:
        """The child is ended; the error says why."""
        if self._child is not None:
            self._child.kill()
            self._child = None
        return TargetError(text, failure, details)
