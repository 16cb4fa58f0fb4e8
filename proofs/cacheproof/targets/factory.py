"""The text of a target, as it is written on the command line, and the target that it means."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

from cacheproof.foundation.errors import InputError, MissingExtraError
from cacheproof.implementation import Factory
from cacheproof.model.protocol import shortened
from cacheproof.model.registry import AnyComponent, AnyVariant, variant_named
from cacheproof.model.target import Target
from cacheproof.targets.child import SECONDS_TO_ANSWER, ChildTarget
from cacheproof.targets.process import InProcessTarget
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.targets.vllm.opening import open_target as open_release

FORMS = (
    "spec:VARIANT, torch[:DEVICE], exec:COMMAND, python:MODULE:FACTORY, vllm==VERSION[:readers-apart], "
    "vllm@PATH[:readers-apart], sglang==VERSION (conform only), transformers==VERSION (conform only)"
)
"""Every form of a target, for help texts and errors."""


def open_target(text: str, component: AnyComponent, variant: AnyVariant, seconds: float = SECONDS_TO_ANSWER) -> Target:
    """The target of one component that a text names.

    `variant` is what it will be compared with; a child process is told of it. `seconds` bounds each answer of a child
    process. Raises InputError for a text that means nothing, MissingExtraError where an extra is missing.
    """
    form, _, rest = text.partition(":")
    if text.startswith(("vllm==", "vllm@")):
        return open_release(text, component, variant, seconds)
    if form == "spec":
        return SpecificationTarget(component, variant_named(component, rest))
    if form == "exec":
        return ChildTarget(rest, component, variant, seconds=seconds, claims=())
    if form == "python":
        return InProcessTarget(factory_named(rest), component)
    if form == "torch":
        return _torch(rest or "cpu", component, variant)
    raise InputError(f"unknown target '{text}': a target is one of {FORMS}")


def factory_named(text: str) -> Factory:
    """The callable that `MODULE:NAME` names; it takes a configuration and returns an implementation.

    The module is looked for in the working directory as well, as `python -m` does.
    """
    module_name, _, name = text.partition(":")
    if not module_name or not name:
        raise InputError(f"'python:{text}' is not python:MODULE:FACTORY")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise InputError(f"cannot import '{module_name}': {type(error).__name__}: {shortened(str(error))}") from error
    factory = getattr(module, name, None)
    if not callable(factory):
        raise InputError(f"'{module_name}' has no callable '{name}'")
    made: Factory = factory
    return made


def _torch(device: str, component: AnyComponent, variant: AnyVariant) -> Target:
    """Our own implementation; torch is imported only where it is asked for."""
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("torch", "the target 'torch'")
    from cacheproof.targets import tensor  # noqa: PLC0415  # torch is an extra

    return tensor.open_target(component, device, variant.tag)
