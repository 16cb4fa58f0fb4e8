"""The text of a target, as it is written on the command line, and the target that it means."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from cacheproof.errors import InputError, MissingExtraError
from cacheproof.registry import AnyComponent, AnyVariant, variant_named
from cacheproof.targets.child import SECONDS_TO_ANSWER, ChildTarget
from cacheproof.targets.process import InProcessTarget
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.targets.target import Target

FORMS = "spec:VARIANT, torch[:DEVICE], exec:COMMAND, python:MODULE:FACTORY, vllm==VERSION"


def open_target(text: str, component: AnyComponent, variant: AnyVariant, seconds: float = SECONDS_TO_ANSWER) -> Target:
    """The target of one component that a text names.

    `variant` is what it will be compared with; a child process is told of it. `seconds` bounds each answer of a child
    process. Raises InputError for a text that means nothing, MissingExtraError where an extra is missing.
    """
    form, _, rest = text.partition(":")
    if text.startswith("vllm=="):
        return _released(text.removeprefix("vllm=="), component, variant, seconds)
    if form == "spec":
        return SpecificationTarget(component, variant_named(component, rest))
    if form == "exec":
        return ChildTarget(rest, component, variant, seconds=seconds)
    if form == "python":
        return InProcessTarget(_factory(rest), component.name)
    if form == "torch":
        return _torch(rest or "cpu", component)
    raise InputError(f"unknown target '{text}': a target is one of {FORMS}")


def _factory(text: str) -> Callable[[str], Any]:
    """The callable that `MODULE:NAME` names; it takes the component's name and returns a target."""
    module_name, _, name = text.partition(":")
    if not module_name or not name:
        raise InputError(f"'python:{text}' is not python:MODULE:FACTORY")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise InputError(f"cannot import '{module_name}': {type(error).__name__}: {error}") from error
    factory = getattr(module, name, None)
    if not callable(factory):
        raise InputError(f"'{module_name}' has no callable '{name}'")
    made: Callable[[str], Any] = factory
    return made


def _torch(device: str, component: AnyComponent) -> Target:
    """Our own implementation; torch is imported only where it is asked for."""
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("torch", "the target 'torch'")
    made: Target = _opener("cacheproof.targets.tensor")(component, device)
    return made


def _released(version: str, component: AnyComponent, variant: AnyVariant, seconds: float) -> Target:
    """The released package's own classes, in an environment of their own."""
    made: Target = _opener("cacheproof.targets.vllm")(version, component, variant, seconds)
    return made


def _opener(module: str) -> Callable[..., Any]:
    """The function `open_target` of a module that only some need."""
    opener: Callable[..., Any] = importlib.import_module(module).open_target
    return opener
