"""The oracle: the specification answers the line protocol, one answer for every line, whatever the line is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from cacheproof.foundation.errors import InputError, shortened
from cacheproof.foundation.limits import SMALLER, TooSlowError, within
from cacheproof.model.features import REFUSALS, operation_feature
from cacheproof.model.naming import names_in, wrong_operation
from cacheproof.model.protocol import (
    DEEPEST,
    EARLIER,
    LONGEST_LINE_BYTES,
    VERSION,
    Fault,
    RefusedError,
    agreed,
    decode,
    encode,
)
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named, components, variant_named
from cacheproof.model.wire import (
    Message,
    config_from_message,
    observations_to_message,
    operation_from_message,
    outcome_to_message,
)
from cachespec import SPECIFICATION_VERSION, __version__
from cachespec.kernel import NORMATIVE

MOST_DIGITS, LONGEST_NAME = 22, 100
"""More than an integer, and a name with what is around it, have in an answer."""


class Oracle:
    """One conversation: at most one component, in one configuration, in one state."""

    def __init__(self) -> None:
        self._component: AnyComponent | None = None
        self._variant: AnyVariant | None = None
        self._config: Any = None
        self._state: Any = None
        self._names: Mapping[str, frozenset[int]] = {}
        self._longest_answer = LONGEST_LINE_BYTES
        self.ended = False
        self._requests: Mapping[str, Callable[[Message], Message]] = {
            "hello": self._hello,
            "init": self._init,
            "apply": self._apply,
            "observe": self._observe,
            "reset": self._reset,
            "bye": self._bye,
        }

    def answer(self, line: bytes) -> Message:
        """The answer to one line; a line that is refused changes nothing."""
        try:
            return self._answer(decode(line))
        except RefusedError as error:
            return error.as_message()
        except InputError as error:
            return RefusedError(Fault.WRONG_FIELD, str(error)).as_message()
        except TooSlowError as error:
            return RefusedError(Fault.NO_ANSWER, str(error)).as_message()
        except MemoryError:
            return RefusedError(Fault.NO_ANSWER, f"more memory than an answer has: {SMALLER}").as_message()
        except Exception as error:  # noqa: BLE001  # whatever the specification does, the conversation goes on
            text = f"the specification failed: {type(error).__name__}: {error}"
            return RefusedError(Fault.NO_ANSWER, text).as_message()

    def _answer(self, message: Message) -> Message:
        name = message.pop("do", None)
        request = self._requests.get(name) if isinstance(name, str) else None
        if request is None:
            known = ", ".join(self._requests)
            raise RefusedError(Fault.UNKNOWN_REQUEST, f"'do' must be one of {known}, not {shortened(repr(name))}")
        return request(message)

    def _hello(self, message: Message) -> Message:
        """Fields that this version does not know are not looked at: a later one may have them."""
        given = message.get("protocol")
        version = agreed(given)
        if version is None:
            wrong = f"this is protocol {VERSION}, not {shortened(repr(given))}"
            raise RefusedError(Fault.UNKNOWN_REQUEST, wrong)
        self._longest_answer = _bytes(message)
        greeting = {"answer": "hello", "protocol": version, "components": sorted(components())}
        if version == EARLIER:
            _nothing_else("hello", {key: value for key, value in message.items() if key != "protocol"})
            return greeting
        return {
            **greeting,
            "implementation": f"cacheproof {__version__}",
            "spec": SPECIFICATION_VERSION,
            "features": [REFUSALS, *_operations(message)],
            "longest_line": LONGEST_LINE_BYTES,
            "deepest": DEEPEST,
        }

    def _init(self, message: Message) -> Message:
        component = component_named(_text(message.pop("component", None), "component"))
        variant = variant_named(component, _text(message.pop("variant", NORMATIVE), "variant"))
        config = config_from_message(component, message)
        state, names = variant.start(config), names_in(component, config)
        answer = self._fitting({"answer": "state", **_observables(component, variant, config, state)})
        self._component, self._variant, self._config = component, variant, config  # nothing failed: it is taken
        self._state, self._names = state, names
        return answer

    def _apply(self, message: Message) -> Message:
        component, variant = self._chosen()
        operation = operation_from_message(component.operations, message)
        wrong = wrong_operation(component, self._config, operation, self._names)
        if wrong is not None:
            raise RefusedError(Fault.WRONG_FIELD, wrong)
        after, outcome = variant.call(self._config, self._state, operation)
        shown = _observables(component, variant, self._config, after)
        answer = self._fitting({"answer": "outcome", **outcome_to_message(outcome), **shown})
        self._state = after
        return answer

    def _observe(self, message: Message) -> Message:
        _nothing_else("observe", message)
        component, variant = self._chosen()
        return self._fitting({"answer": "state", **_observables(component, variant, self._config, self._state)})

    def _reset(self, message: Message) -> Message:
        _nothing_else("reset", message)
        _, variant = self._chosen()
        self._state = variant.start(self._config)
        return self._observe({})

    def _bye(self, message: Message) -> Message:
        _nothing_else("bye", message)
        self.ended = True
        return {"answer": "bye"}

    def _chosen(self) -> tuple[AnyComponent, AnyVariant]:
        if self._component is None or self._variant is None:
            raise RefusedError(Fault.OUT_OF_TURN, "there is no component yet: 'init' comes first")
        return self._component, self._variant

    def _fitting(self, answer: Message) -> Message:
        """The answer, if it is no longer than the other side reads; it is only encoded for that where it may be."""
        integers = sum(len(value) if isinstance(value, list) else 1 for value in answer.values())
        if integers * MOST_DIGITS + len(answer) * LONGEST_NAME > self._longest_answer:
            length = len(encode(answer))
            if length > self._longest_answer:
                long = f"the answer would have {length} bytes, and the asking side reads {self._longest_answer}"
                raise RefusedError(Fault.TOO_LONG, long)
        return answer


def _observables(component: AnyComponent, variant: AnyVariant, config: Any, state: Any) -> Message:
    return observations_to_message(component.observe(config, variant.view(config, state)))


def serve(source: BinaryIO, sink: BinaryIO, seconds: float | None = None) -> None:
    """Answer every line until `bye` or the end of the input; `seconds` is what an answer may take."""
    oracle = Oracle()
    while not oracle.ended:
        line = source.readline(LONGEST_LINE_BYTES + 1)
        if not line:
            return
        if len(line) > LONGEST_LINE_BYTES:
            _skip_rest(source, line)
            too_long = RefusedError(Fault.TOO_LONG, f"a line has at most {LONGEST_LINE_BYTES} bytes: it was skipped")
            answer = too_long.as_message()
        else:
            answer = _answer_within(oracle, line, seconds)
        sink.write(encode(answer))
        sink.flush()


def _answer_within(oracle: Oracle, line: bytes, seconds: float | None) -> Message:
    try:
        with within(seconds):
            return oracle.answer(line)
    except TooSlowError as error:  # it came when the answer was about to be given
        return RefusedError(Fault.NO_ANSWER, str(error)).as_message()


def _bytes(message: Message) -> int:
    given = message.get("longest_line", LONGEST_LINE_BYTES)
    if not isinstance(given, int) or given < 1:
        raise RefusedError(Fault.WRONG_FIELD, f"'longest_line' is a number of bytes, not {shortened(repr(given))}")
    return min(given, LONGEST_LINE_BYTES)


def _skip_rest(source: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = source.readline(LONGEST_LINE_BYTES)


def _nothing_else(request: str, message: Message) -> None:
    if message:
        raise RefusedError(Fault.WRONG_FIELD, f"{request} does not take {shortened(', '.join(sorted(message)))}")


def _operations(message: Message) -> list[str]:
    """The operations of the component that a greeting asks for, as features."""
    if "component" not in message:
        return []
    component = component_named(_text(message["component"], "component"))
    return [operation_feature(component, kind) for kind in component.operations]


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise RefusedError(Fault.WRONG_FIELD, f"'{key}' must be a string, not {shortened(repr(value))}")
    return value
