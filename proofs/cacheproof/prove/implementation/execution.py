"""A state that the solver has found, run on both: the real tensor code and the specification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cacheproof.prove.implementation.cells import evaluated
from cacheproof.prove.implementation.correspondence import concrete, concrete_tensor
from cacheproof.tensor_models.model import outcome_of

if TYPE_CHECKING:
    from cacheproof.prove.implementation.prover import Step


@dataclass(frozen=True, slots=True)
class Executed:
    """One step in numbers."""

    config: Any
    before: Any
    operation: Any
    specified: tuple[Any, Any]
    """State and outcome of the specification."""
    computed: tuple[Any, Any] | str
    """Those of the tensor code; the error, where it raised one."""
    after: tuple[Tensor, ...]
    """The tensors after the step; none where it raised an error."""
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
    kind = model.operations[type(operation)]
    before = type(model.initial)(*(concrete_tensor(found, tensor) for tensor in step.before))
    operands = [torch.tensor(number) for number in kind.operands(operation)]
    state = model.decode(_row(before))
    specified: tuple[Any, Any] = model.variant.call(config, state, operation)
    try:
        after, answer = kind.function(model.parameters, before, *operands)
        ended = outcome_of(int(answer.code), answer.values.tolist(), int(answer.length))
        computed: tuple[Any, Any] | str = (model.decode(_row(after)), ended)
        expected = [concrete_tensor(found, tensor) for tensor in step.after]
        followed = all(torch.equal(mine, its) for mine, its in zip(after, expected, strict=True))
        followed = followed and int(answer.code) == evaluated(found, step.code)
    except (IndexError, RuntimeError) as error:
        computed, after, followed = f"{type(error).__name__}: {str(error).splitlines()[0]}", (), True
    return Executed(config, state, operation, specified, computed, after, followed)


def _row(state: Any) -> dict[str, Any]:
    return {name: values.to(torch.int64).tolist() for name, values in zip(state._fields, state, strict=True)}
