"""`python:MODULE:FACTORY`: an implementation in this process, guarded so that its errors are told from ours.

What a factory may return is said in `cacheproof.implementation`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from inspect import isroutine
from typing import Any

from cacheproof.foundation.errors import InputError, shortened
from cacheproof.foundation.misspelt import UnknownNameError, did_you_mean, nearest
from cacheproof.implementation import Factory
from cacheproof.model.declaration import DECLARED, Declaration, declared_by
from cacheproof.model.features import is_observable, operation_feature
from cacheproof.model.recording import recording
from cacheproof.model.registry import AnyComponent
from cacheproof.model.target import Failure, TargetError
from cacheproof.targets.crash import traceback_of, where
from cachespec.kernel import DONE, FAILED, HIT, MISS, Code, Observation, Operation, Outcome

CODES = {code.value: code for code in Code}
WITHOUT_ORDER = (set, frozenset, str, bytes, Mapping)
HOOKS = frozenset({"apply", "observe", "reset", "close", "declaration", *DECLARED})
"""The public names of an adapter beside the operations and the observables."""


class InProcessTarget:
    """Whatever the factory makes for a configuration, as a target.

    An AssertionError in a call is an answer of the implementation: `failed`. Any other exception is a crash. An answer
    that is none is an error of the driver. A call that never returns cannot be ended here.
    """

    def __init__(self, factory: Factory, component: AnyComponent) -> None:
        self._factory = factory
        self._component = component
        self._operations = {kind.wire_name() for kind in component.operations}
        self._observables = set(component.observables)
        self._own = frozenset(getattr(factory, "own", ()))
        """Observables that only the implementation has: they are not looked at."""
        self._names: tuple[str, ...] = ()
        self._made: Any = None
        self._whole = False
        """Whether the object has `apply`, rather than a method for each operation."""
        self.read: set[str] = set()
        """The fields of the configuration that the implementation has read."""
        self.remark = ""
        """The assertion by which the last call failed."""

    def declaration(self) -> Declaration:
        """What the factory has as attributes, named as the fields of `hello`.

        A class with a method for each operation declares those that it has, unless it says otherwise.
        """
        said = declared_by(self._component, self._factory, claims=())
        if not isinstance(self._factory, type) or callable(getattr(self._factory, "apply", None)):
            return said
        check_names(self._component, self._factory)
        if said.features:
            return said
        kinds = [
            kind for kind in self._component.operations if callable(getattr(self._factory, kind.wire_name(), None))
        ]
        return replace(said, features=frozenset(operation_feature(self._component, kind) for kind in kinds))

    def reset(self, config: Any) -> None:
        if self._made is None or not (self._whole and callable(getattr(self._made, "reset", None))):
            self.close()
            given = self._recording(config)
            self._made = guarded("be made", lambda: self._factory(given))
            self._whole = callable(getattr(self._made, "apply", None))
            self._names = self._shown_names(config)
            if not self._whole:
                check_names(self._component, type(self._made))
            if not self._whole and not any(callable(getattr(self._made, name, None)) for name in self._operations):
                raise TargetError(
                    f"{_named(self._made)} has neither apply(operation) nor a method named as an operation of "
                    f"{self._component.name}: {', '.join(sorted(self._operations))}"
                )
        if self._whole and callable(getattr(self._made, "reset", None)):
            given = self._recording(config)
            guarded("reset", lambda: self._made.reset(given))

    def apply(self, operation: Operation) -> Outcome:
        name = operation.wire_name()
        self.remark = ""
        try:
            answer = guarded(f"apply {name}", lambda: self._called(operation), calls=True)
        except AssertionError as error:
            self.remark = shortened(f"AssertionError {error}".strip()) + where(error, __file__)
            return FAILED
        outcome = as_outcome(answer)
        if outcome is None:
            raise TargetError(
                f"asked to apply {name}: {shortened(repr(answer))} is not an answer; return a code such as 'done', or "
                "a code and its integers as in ('done', (1, 2))"
            )
        return outcome

    def observe(self) -> Mapping[str, Observation]:
        shown = guarded("observe", self._shown, failure=Failure.RAISED)
        if not isinstance(shown, Mapping):
            raise TargetError(f"observe() returned {shortened(repr(shown))}, where names and values were expected")
        for name in (set(shown) - self._observables - self._own) if self._observables else ():
            if not is_observable(self._component, name):
                meant = did_you_mean(name, sorted(self._observables))
                raise UnknownNameError(f"{self._component.name} has no observable '{name}'{meant}")
            self._observables.add(name)
        return {name: _observation(name, value) for name, value in shown.items() if name not in self._own}

    def close(self) -> None:
        made, self._made = self._made, None
        if callable(getattr(made, "close", None)) and "close" not in self._operations:
            guarded("close", made.close)

    def _recording(self, config: Any) -> Any:
        return recording(config, self.read) if hasattr(config, "_fields") else config

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
    integers = integers_in(values)
    return None if known is None or integers is None else Outcome(known, integers)


def integers_in(values: Any) -> tuple[int, ...] | None:
    """The integers in their order; None where there is something else, or no order."""
    if isinstance(values, WITHOUT_ORDER) or not isinstance(values, Iterable):
        return None
    found = tuple(integer_in(value) for value in values)
    return tuple(value for value in found if value is not None) if None not in found else None


def integer_in(value: Any) -> int | None:
    """An integer, also one of another library; a truth value is none."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def _observation(name: str, value: Any) -> Observation:
    single = integer_in(value)
    if single is not None:
        return single
    several = integers_in(value)
    if several is None:
        raise TargetError(
            f"{name} must be an integer or integers in their order, as in a list, not {shortened(repr(value))}"
        )
    return several


def _named(made: object) -> str:
    return f"what the factory made ({type(made).__name__})"


def check_names(component: AnyComponent, kind: type) -> None:
    """Raises UnknownNameError for a public name of an adapter's class that neither the component nor an adapter has.

    Of an inherited name and of a property that is only known if it is like an operation or an observable that the
    class lacks: what else they are for is the implementation's own affair.
    """
    known = {operation.wire_name() for operation in component.operations} | set(component.observables) | HOOKS
    lacking = sorted(name for name in known if not hasattr(kind, name))
    strange = (name for name in dir(kind) if not name.startswith("_") and name not in known)
    for name in sorted(name for name in strange if not is_observable(component, name)):
        own = isroutine(vars(kind).get(name)) or isinstance(vars(kind).get(name), staticmethod | classmethod)
        if own or nearest(name, lacking) is not None:
            meant = did_you_mean(name, lacking if nearest(name, lacking) is not None else sorted(known - HOOKS))
            helper = f"begin the name of a helper with '_': '_{name}'"
            raise UnknownNameError(f"{kind.__name__}.{name} is nothing that {component.name} has{meant}; {helper}")


def guarded(
    asked: str, call: Callable[[], Any], *, calls: bool = False, failure: Failure = Failure.DRIVER_FAILED
) -> Any:
    """The call, its errors told as those of the driver; with `calls`, an assertion passes as an answer."""
    try:
        return call()
    except (TargetError, InputError):
        raise
    except AssertionError as error:
        if calls:
            raise
        raise _as_error(asked, error, failure) from error
    except Exception as error:
        raise _as_error(asked, error, Failure.RAISED if calls else failure) from error


def _as_error(asked: str, error: Exception, failure: Failure) -> TargetError:
    """What went wrong, and the line of the implementation where it did."""
    said = f"{type(error).__name__}; {shortened(str(error))}{where(error, __file__)}"
    return TargetError(f"asked to {asked}: {said}", failure, traceback_of(error, __file__))
