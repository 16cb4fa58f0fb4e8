"""`torch[:DEVICE]`: our own implementation on tensors, held to the specification."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from cacheproof.errors import InputError
from cacheproof.registry import AnyComponent, components
from cacheproof.targets.implemented import Form, form_of, without_implementation
from cacheproof.targets.target import Target, once_reset
from cacheproof.targets.tensor.model import TensorModel, outcome_of
from cachespec.kernel import NORMATIVE, UNSUPPORTED, Observation, Operation, Outcome

Make = Callable[..., TensorModel]
"""The function `model(config, device)` of a component's module; `model(config, device, era)` where it has `ERAS`."""


class Models(Mapping[str, Make]):
    """The tensor code of each component that has one: whatever module here has the component's name.

    Only the module that is asked for is imported.
    """

    def __getitem__(self, name: str) -> Make:
        if name not in self:
            raise KeyError(name)
        found: Make = importlib.import_module(f"{__name__}.{name}").model
        return found

    def __contains__(self, name: object) -> bool:
        return name in set(self)

    def __iter__(self) -> Iterator[str]:
        known = components()
        return iter(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name in known))

    def __len__(self) -> int:
        return len(list(iter(self)))


MODELS = Models()


def eras_of(component: str) -> tuple[str, ...]:
    """The variants, by tag, that our implementation of a component has on request beside the normative one."""
    form = form_of(component)
    if form is None:
        return ()
    where = __name__ if form is Form.OPERATIONS else f"{__name__}.faces"
    found: tuple[str, ...] = getattr(importlib.import_module(f"{where}.{component}"), "ERAS", ())
    return found


def without_tensor_code(component: AnyComponent, variant: str = NORMATIVE) -> str | None:
    """Why there is no tensor code of this variant to run, or None where there is."""
    if component.name not in MODELS:
        return f"{component.name} has no tensor code: there is some of {', '.join(MODELS)}"
    if variant == NORMATIVE or variant in (there := eras_of(component.name)):
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


def open_target(component: AnyComponent, device: str = "cpu", variant: str = NORMATIVE) -> Target:
    """The tensor code of a component on a device, or its classes; raises `InputError` where there is neither.

    What it will be compared with is a variant: if that is an era which the implementation has on request, it is asked
    for. With any other the normative implementation is compared.
    """
    form = form_of(component.name)
    if form is None:
        raise InputError(without_implementation(component.name))
    asked = () if variant == NORMATIVE or variant not in eras_of(component.name) else (variant,)
    if form is Form.OPERATIONS:
        return TensorTarget(component, device, *asked)
    if device != "cpu":
        raise InputError(f"{component.name} runs on the host: its target is torch, without a device")
    torch.set_num_threads(1)
    face: Target = importlib.import_module(f"{__name__}.faces.{component.name}").open_face(*asked)
    return face


class TensorTarget:
    """`torch[:DEVICE]` as something to be held to the specification."""

    def __init__(self, component: AnyComponent, device: str = "cpu", variant: str = NORMATIVE) -> None:
        if (reason := without_tensor_code(component, variant)) is not None:
            raise InputError(reason)
        torch.set_num_threads(1)
        self._component, self._device, self._variant = component, checked_device(device), variant
        self._run: TensorRun | None = None
        self._model: TensorModel | None = None

    def reset(self, config: Any) -> None:
        if self._model is None or self._model.config != config:
            self._model = model_of(self._component, config, self._device, self._variant)
        self._run = TensorRun(self._model, alone=True)

    def apply(self, operation: Operation) -> Outcome:
        with torch.inference_mode():
            return self._running().apply(operation)

    def observe(self) -> Mapping[str, Observation]:
        return self._running().observe()

    def close(self) -> None:
        self._run = self._model = None

    def _running(self) -> TensorRun:
        return once_reset(self._run)
