"""Operations of every component, lifted over many states: the device beside the CPU, tensor for tensor.

Walkers start where a component starts. In each step every walker that may takes one operation of a kind that was drawn;
both sides are given the same draws. What is compared is the normal state, in which what nothing is read from is fixed,
every guard, and every answer.
"""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from cacheproof.device.listing import Asked, Found
from cacheproof.device.tensor.comparing import alike, other_side
from cacheproof.foundation.console import Show
from cacheproof.model.registry import AnyComponent, component_named
from cacheproof.model.scope import DEFAULT, Scope, scopes_of
from cacheproof.model.target import TargetError
from cacheproof.tensor_models import MODELS, model_of
from cacheproof.tensor_models.model import TensorModel
from cachespec.kernel import NORMATIVE, Operation

WALKERS, STEPS, SCOPES = 256, 60, 3
SMALL_WALKERS, SMALL_STEPS, SMALL_SCOPES = 256, 24, 3


def lockstep(asked: Asked, found: Found, show: Show) -> None:
    """Some scopes of each component, those first that have the most states."""
    torch.set_num_threads(1)
    for name in MODELS:
        component = component_named(name)
        for scope in chosen(component, SMALL_SCOPES if asked.small else SCOPES):
            show(f"components: {name} {scope.name}")
            walk(asked, found, component, scope)


def chosen(component: AnyComponent, count: int) -> list[Scope]:
    """The default scopes of the normative variant with the most transitions, of those that the tensor code has."""
    known = [one for one in scopes_of(component) if one.set == DEFAULT and NORMATIVE in one.variants]
    largest_first = sorted(known, key=lambda one: -(one.expectation(NORMATIVE).transitions or 0))
    return list(islice((one for one in largest_first if _is_there(component, one)), count))


def _is_there(component: AnyComponent, scope: Scope) -> bool:
    try:
        model_of(component, scope.config)
    except TargetError:  # a setting that the tensor code does not have
        return False
    return True


def walk(asked: Asked, found: Found, component: AnyComponent, scope: Scope) -> None:
    """All walkers, step by step."""
    walkers, steps = (SMALL_WALKERS, SMALL_STEPS) if asked.small else (WALKERS, STEPS)
    draw = random.Random(f"{asked.seed} {component.name} {scope.name}")  # noqa: S311  # not a secret
    here = Side(model_of(component, scope.config), walkers)
    there = Side(model_of(component, scope.config, asked.device), walkers)
    kinds = {kind: instances for kind, instances in here.model.by_kind().items() if instances}
    for step in range(steps):
        kind = draw.choice(list(kinds))
        operations = tuple(draw.choice(kinds[kind]) for _ in range(walkers))
        allowed, code, values, length = here.take(operations)
        with other_side(asked):
            theirs = there.take(operations)
        where = f"{component.name} {scope.name}, step {step}, {kind.wire_name()}"
        alike(where, theirs, (allowed, code, values, length))
        alike(where, there.normal(), here.normal())
        found.count("calls compared", int(allowed.sum()))
        found.count("states compared", walkers)


class Side:
    """The states of all walkers on one device."""

    def __init__(self, model: TensorModel, walkers: int) -> None:
        self.model = model
        self.states: Any = type(model.initial)(
            *(values.expand(walkers, *values.shape).clone() for values in model.initial)
        )

    def take(self, operations: tuple[Operation, ...]) -> tuple[Tensor, ...]:
        """Each walker its operation, if it may: who might, and what they were answered; 0 in the place of others."""
        model = self.model
        operation = model.operations[type(operations[0])]
        operands = model.operands(operations)

        def one(state: Any, given: Tensor) -> tuple[Any, ...]:
            allowed = operation.enabled(model.parameters, state, *given.unbind(0))
            after, answer = operation.function(model.parameters, state, *given.unbind(0))
            kept = type(state)(*(torch.where(allowed, new, old) for new, old in zip(after, state, strict=True)))
            shown = (torch.where(allowed, value, 0) for value in answer)
            return kept, allowed, *shown

        self.states, allowed, code, values, length = torch.func.vmap(one)(self.states, operands)
        return allowed, code, values, length

    def normal(self) -> Any:
        """The normal states."""
        return self.model.layout.normalised(self.states)
