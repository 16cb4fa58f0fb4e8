"""`torch[:DEVICE]`: our own implementation on tensors, held to the specification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import torch

from cacheproof.foundation.discover import discover
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import AnyComponent
from cacheproof.model.target import Target, once_reset
from cacheproof.targets.implemented import Form, form_of, without_implementation
from cacheproof.tensor_models import ERAS, TensorRun, checked_device, model_of, without_tensor_code
from cacheproof.tensor_models.model import TensorModel
from cachespec.kernel import NORMATIVE, Observation, Operation, Outcome

FACES: Mapping[str, Callable[..., Target]] = discover(f"{__name__}.on_host", "open_face", FunctionType)
"""The targets that are classes on the host, opened for the normative variant or for an era."""
ERAS_OF_FACES = discover(f"{__name__}.on_host", "ERAS", tuple, optional=True)


def eras_of(component: str) -> tuple[str, ...]:
    """The variants, by tag, that our implementation of a component has on request beside the normative one."""
    return (ERAS_OF_FACES if form_of(component) is Form.FACE else ERAS).get(component, ())


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
    return FACES[component.name](*asked)


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
