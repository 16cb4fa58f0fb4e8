"""`python:MODULE:FACTORY`: an implementation in this process, guarded so that its errors are told from ours.

What a factory may return is said in `cacheproof.implementation`.
"""

from __future__ import annotations

import operator
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from cacheproof.foundation.errors import shortened
from cacheproof.implementation import Factory
from cacheproof.model.declaration import Declaration, declared_by
from cacheproof.model.features import operation_feature
from cacheproof.model.registry import AnyComponent
from cacheproof.model.target import TargetError
from cachespec.kernel import DONE, FAILED, HIT, MISS, Code, Observation, Operation, Outcome

CODES = {code.value: code for code in Code}
WITHOUT_ORDER = (set, frozenset, str, bytes, Mapping)


class InProcessTarget:
    """Whatever the factory makes for a configuration, as a target.

    An AssertionError in a call is an answer of the implementation: `failed`. Any other exception, or an answer that is
    none, is an error of the driver. A call that never returns cannot be ended here.
    """

    def __init__(self, factory: Factory, component: AnyComponent) -> None:
        self._factory = factory
        self._component = component
        self._operations = {kind.wire_name() for kind in component.operations}
        self._names: tuple[str, ...] = ()
        self._made: Any = None
        self._whole = False
        """Whether the object has `apply`, rather than a method for each operation."""

    def declaration(self) -> Declaration:
        """What the factory has as attributes, named as the fields of `hello`.

        A class with a method for each operation declares those that it has, unless it says otherwise.
        """
        said = declared_by(self._component, self._factory)
        if said.features or not isinstance(self._factory, type) or callable(getattr(self._factory, "apply", None)):
            return said
        kinds = [
            kind for kind in self._component.operations if callable(getattr(self._factory, kind.wire_name(), None))
        ]
        return replace(said, features=frozenset(operation_feature(self._component, kind) for kind in kinds))

    def reset(self, config: Any) -> None:
        if self._made is None or not (self._whole and callable(getattr(self._made, "reset", None))):
            self.close()
            self._made = _guarded("be made", lambda: self._factory(config), assertions=False)
            self._whole = callable(getattr(self._made, "apply", None))
            self._names = self._shown_names(config)
            if not self._whole and not any(callable(getattr(self._made, name, None)) for name in self._operations):
                raise TargetError(
                    f"{_named(self._made)} has neither apply(operation) nor a method named as an operation of "
                    f"{self._component.name}: {', '.join(sorted(self._operations))}"
                )
        if self._whole and callable(getattr(self._made, "reset", None)):
            _guarded("reset", lambda: self._made.reset(config), assertions=False)

    def apply(self, operation: Operation) -> Outcome:
        name = operation.wire_name()
        try:
            answer = _guarded(f"apply {name}", lambda: self._called(operation))
        except AssertionError:
            return FAILED
        outcome = as_outcome(answer)
        if outcome is None:
            raise TargetError(
                f"asked to apply {name}: {shortened(repr(answer))} is not an answer; return a code such as 'done', or "
                "a code and its integers as in ('done', (1, 2))"
            )
        return outcome

    def observe(self) -> Mapping[str, Observation]:
        shown = _guarded("observe", self._shown, assertions=False)
        if not isinstance(shown, Mapping):
            raise TargetError(f"observe() returned {shortened(repr(shown))}, where names and values were expected")
        return {name: _observation(name, value) for name, value in shown.items()}

    def close(self) -> None:
        made, self._made = self._made, None
        if callable(getattr(made, "close", None)) and "close" not in self._operations:
            _guarded("close", made.close, assertions=False)

    def _called(self, operation: Operation) -> Any:
        if self._whole:
            return self._made.apply(operation)
        name = operation.wire_name()
        method = getattr(self._made, name, None)
        if not callable(method):
            raise TargetError(
                f"{_named(self._made)} has no method '{name}': write it, or leave the operation out (--without {name})"
            )
        return method(*(getattr(operation, field.name) for field in fields(operation)))

    def _shown(self) -> Any:
        if callable(getattr(self._made, "observe", None)):
            return self._made.observe()
        values = {name: getattr(self._made, name) for name in self._names}
        return {name: value() if callable(value) else value for name, value in values.items()}

    def _shown_names(self, config: Any) -> tuple[str, ...]:
        """The observables that the object has under their own names; one that is named as an operation is the call."""
        variant = self._component.normative
        known = self._component.observe(config, variant.view(config, variant.start(config)))
        return tuple(name for name in known if name not in self._operations and hasattr(self._made, name))


def as_outcome(answer: Any) -> Outcome | None:
    """The outcome that an answer means, or None where it means nothing."""
    if answer is None or isinstance(answer, bool):
        return {None: DONE, True: HIT, False: MISS}[answer]
    code, values = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, ())
    known = code if isinstance(code, Code) else CODES.get(code) if isinstance(code, str) else None
    integers = _integers(values)
    return None if known is None or integers is None else Outcome(known, integers)


def _integers(values: Any) -> tuple[int, ...] | None:
    """The integers in their order; None where there is something else, or no order."""
    if isinstance(values, WITHOUT_ORDER) or not isinstance(values, Iterable):
        return None
    found = tuple(_integer(value) for value in values)
    return tuple(value for value in found if value is not None) if None not in found else None


def _integer(value: Any) -> int | None:
    """An integer, also one of another library; a truth value is none."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def _observation(name: str, value: Any) -> Observation:
    single = _integer(value)
    if single is not None:
        return single
    several = _integers(value)
    if several is None:
        raise TargetError(
            f"{name} must be an integer or integers in their order, as in a list, not {shortened(repr(value))}"
        )
    return several


def _named(made: object) -> str:
    return f"what the factory made ({type(made).__name__})"


def _guarded(asked: str, call: Callable[[], Any], *, assertions: bool = True) -> Any:
    """The call, its errors told as those of the driver; with `assertions`, an assertion passes as an answer."""
    try:
        return call()
    except TargetError:
        raise
    except AssertionError as error:
        if assertions:
            raise
        raise _as_error(asked, error) from error
    except Exception as error:
        raise _as_error(asked, error) from error


def _as_error(asked: str, error: Exception) -> TargetError:
    """What went wrong, and the line of the implementation where it did."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if frame.filename != __file__]
    where = f" ({Path(inside[-1].filename).name}, line {inside[-1].lineno})" if inside else ""
    return TargetError(f"asked to {asked}: {type(error).__name__}; {shortened(str(error))}{where}")
