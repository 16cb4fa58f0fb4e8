"""The tensor code of each component, as checkers see it: found by the name of a module.

What the explorer lifts with `torch.func.vmap` and what the target `torch` performs call by call are the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import torch

from cacheproof.foundation.discover import discover
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import AnyComponent, components
from cacheproof.tensor_models.model import TensorModel, outcome_of
from cachespec.kernel import NORMATIVE, UNSUPPORTED, Observation, Operation, Outcome

Make = Callable[..., TensorModel]
"""The function `model(config, device)` of a component's module; `model(config, device, era)` where it has `ERAS`."""


MODELS: Mapping[str, Make] = discover(__name__, "model", FunctionType, among=components)
"""The tensor code of each component that has some: its module here has the component's name."""

ERAS = discover(__name__, "ERAS", tuple, optional=True, among=components)
"""The variants, by tag, for which a component has tensor code on request beside the normative one."""


def without_tensor_code(component: AnyComponent, variant: str = NORMATIVE) -> str | None:
    """Why there is no tensor code of this variant to run, or None where there is."""
    if component.name not in MODELS:
        return f"{component.name} has no tensor code: there is some of {', '.join(MODELS)}"
    if variant == NORMATIVE or variant in (there := ERAS.get(component.name, ())):
        return None
    others = f", and on request of {', '.join(there)}" if there else ""
    return f"the tensor code of {component.name} is that of the normative variant{others}, not of {variant}"


def model_of(component: AnyComponent, config: Any, device: str = "cpu", variant: str = NORMATIVE) -> TensorModel:
    """The tensor code of a component in one configuration; of an era where it is asked for by its tag."""
    if (reason := without_tensor_code(component, variant)) is not None:
        raise InputError(reason)
    if (wrong := component.invalid(config)) is not None:
        raise InputError(f"{component.name}: {wrong}")
    asked = () if variant == NORMATIVE else (variant,)
    return MODELS[component.name](config, checked_device(device), *asked)


def checked_device(device: str) -> str:
    """The device, if torch knows it, it is there, and values can be read from it."""
    try:
        torch.zeros((), device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"torch cannot use the device '{device}': {str(error).splitlines()[0]}") from None
    return device


class TensorRun:
    """One engine, stepped one operation at a time by the functions that the explorer lifts.

    `alone`: where an operation takes several of their calls, no more of them than are needed, as an engine makes them.
    """

    def __init__(self, model: TensorModel, *, alone: bool = False) -> None:
        self.model, self.state, self.alone = model, model.initial, alone

    def apply(self, operation: Operation) -> Outcome:
        """Perform one whole call."""
        kind = self.model.operations.get(type(operation))
        if kind is None:
            return UNSUPPORTED
        operands = torch.tensor(kind.operands(operation), dtype=torch.int64, device=self.model.device)
        function = (kind.alone if self.alone else None) or kind.function
        self.state, answer = function(self.model.parameters, self.state, *operands.unbind(0))
        return outcome_of(int(answer.code), answer.values.tolist(), int(answer.length))

    def observe(self) -> Mapping[str, Observation]:
        """The observables."""
        model = self.model
        columns = (values.to(torch.int64).tolist() for values in self.state)
        row = dict(zip(self.state._fields, columns, strict=True))
        decoded = model.decode(row)
        return model.component.observe(model.config, model.variant.view(model.config, decoded))
