"""`python:MODULE:FACTORY`: an implementation in this process, guarded so that its errors are told from ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cacheproof.protocol import shortened
from cacheproof.targets.target import Target, TargetError
from cachespec.kernel import FAILED, Observation, Operation, Outcome


class InProcessTarget:
    """Whatever the factory makes for a component, as a target.

    An AssertionError in a call is an answer of the implementation: `failed`. Any other exception, or an answer that is
    not an `Outcome` or not observables, is an error of the driver. A call that never returns cannot be ended here.
    """

    def __init__(self, factory: Callable[[str], Target], component: str) -> None:
        self._target: Target = _guarded("be made", lambda: factory(component))

    def reset(self, config: Any) -> None:
        _guarded("reset", lambda: self._target.reset(config))

    def apply(self, operation: Operation) -> Outcome:
        try:
            outcome = _guarded(f"apply {operation.wire_name()}", lambda: self._target.apply(operation))
        except AssertionError:
            return FAILED
        if not isinstance(outcome, Outcome):
            raise TargetError(f"asked to apply {operation.wire_name()}: {shortened(repr(outcome))} is not an Outcome")
        return outcome

    def observe(self) -> Mapping[str, Observation]:
        shown = _guarded("observe", self._target.observe)
        for name, value in shown.items():
            if not _is_observation(value):
                raise TargetError(f"{name} must be an integer or a tuple of integers, not {shortened(repr(value))}")
        return dict(shown)

    def close(self) -> None:
        _guarded("close", self._target.close)


def _guarded(asked: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (AssertionError, TargetError):
        raise
    except Exception as error:
        raise TargetError(f"asked to {asked}: {type(error).__name__}; {shortened(str(error))}") from error


def _is_observation(value: Any) -> bool:
    items = value if isinstance(value, tuple) else (value,)
    return all(isinstance(item, int) and not isinstance(item, bool) for item in items)
