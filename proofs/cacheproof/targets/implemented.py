"""Which components have an implementation of ours, and of what form: found by the names of modules.

Nothing is imported for that: torch is an extra, and slow to import.
"""

from __future__ import annotations

from enum import Enum

from cacheproof.foundation.discover import module_names
from cacheproof.model.registry import components

CLASSES = f"{__package__}.tensor"
OPERATIONS = "cacheproof.tensor_models"


class Form(Enum):
    """What the target `torch` is for a component."""

    OPERATIONS = "operations on tensors"
    """Pure functions of a state, which the tensor explorer lifts."""
    FACE = "classes on the host"
    """Held to the specification call by call."""


def form_of(component: str) -> Form | None:
    """What there is for the component, or None where nothing of ours implements it by itself."""
    return _forms().get(component)


def has_bursts(component: str) -> bool:
    """Whether the target `torch` makes many calls of the component at once."""
    return component in module_names(f"{CLASSES}.bursts")


def without_implementation(component: str) -> str:
    """One line for who asks for `torch` where there is none."""
    there = ", ".join(sorted(_forms()))
    return (
        f"{component} is specified, and nothing of ours implements it by itself: the target torch is there for {there}"
    )


def _forms() -> dict[str, Form]:
    return {
        **dict.fromkeys(module_names(f"{CLASSES}.on_host"), Form.FACE),
        **{name: Form.OPERATIONS for name in module_names(OPERATIONS) if name in components()},
    }
