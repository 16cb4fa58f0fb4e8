"""A state that the solver has found, run on both: the real tensor code and the specification."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cacheimpl.answer import UNANSWERED
from cacheproof.prove.implementation.actions import Burst, Turn, function_of, sequential, turns_of
from cacheproof.prove.implementation.cells import evaluated
from cacheproof.prove.implementation.correspondence import concrete, concrete_tensor
from cacheproof.prove.implementation.step import Step
from cacheproof.tensor_models.model import outcome_of
from cachespec.kernel import Outcome


@dataclass(frozen=True, slots=True)
class Executed:
    """One step in numbers."""

    config: Any
    before: Any
    operation: Any
    specified: tuple[Any, Any]
    """State and outcome of the specification."""
    computed: tuple[Any, Any] | str
    """The tensors after the step; the error, if it raised one."""
    after: tuple[Tensor, ...]
    """The tensors after the step; none if it raised an error."""
    as_followed: bool
    """Whether torch did what the interpreter had it do."""

    @property
    def alike(self) -> bool:
        """Whether both ended alike."""
        return self.specified == self.computed

    def shown(self, what: str) -> str:
        """As a person reads it."""
        lines = [f"{what} fails:", f"config: {self.config}", f"before: {self.before}", f"operation: {self.operation}"]
        lines += [f"specification: {self.specified[1]} {self.specified[0]}"]
        both = self.computed
        lines += [f"tensors: {both if isinstance(both, str) else f'{both[1]} {both[0]}'}"]
        if self.alike:
            lines.append(f"decoded they are alike, and the tensors are not in form: {_row(self.after)}")
        if not self.as_followed:
            lines.append(
                "torch chose otherwise here than the counterexample needs: it is one of several allowed results"
            )
        return "\n".join(lines)


def executed(step: Step, found: Any) -> Executed:
    """The step in the numbers of a model of the solver."""
    one = step.correspondence
    config, operation = concrete(found, step.config), concrete(found, step.operation)
    model = one.model(config)
    before = type(model.initial)(*(concrete_tensor(found, tensor) for tensor in step.before))
    operands = [torch.tensor(number) for number in one.operands_of(model, operation)]
    state = model.decode(_row(before))
    after: tuple[Tensor, ...] = ()
    try:
        after, ended = function_of(model, operation)(model.parameters, before, *operands)
        turns = turns_of(*(tensor.flatten().tolist() for tensor in ended))
        computed: tuple[Any, Any] | str = (model.decode(_row(after)), tuple(map(_outcome, turns)))
        expected = [concrete_tensor(found, tensor) for tensor in step.after]
        followed = all(torch.equal(mine, its) for mine, its in zip(after, expected, strict=True))
        followed = followed and turns == tuple(_evaluated(found, turn) for turn in step.turns)
    except (IndexError, RuntimeError) as error:
        turns = tuple(Turn(0, (), 0) for _ in step.turns)
        computed, followed = f"{type(error).__name__}: {str(error).splitlines()[0]}", True
    specified = sequential(partial(model.variant.call, config), state, operation, turns)
    shown = operation.calls(state) if type(operation) is Burst else operation
    return Executed(config, state, shown, specified, computed, after, followed)


def _evaluated(found: Any, turn: Turn) -> Turn:
    """The turn in the numbers of a model."""
    values = tuple(evaluated(found, value) for value in turn.values)
    return Turn(evaluated(found, turn.code), values, evaluated(found, turn.length))


def _outcome(turn: Turn) -> Outcome | None:
    return None if turn.code == UNANSWERED else outcome_of(turn.code, turn.values, turn.length)


def _row(state: Any) -> dict[str, Any]:
    return {name: values.to(torch.int64).tolist() for name, values in zip(state._fields, state, strict=True)}
