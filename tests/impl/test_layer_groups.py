"""Groups of layers on tensors: long runs, random groups, recorded graphs, writing in place, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
import torch
from tests.impl.layer_groups_bugs import CROWDED
from torch.fx.experimental.proxy_tensor import make_fx

from cacheimpl import layer_groups as tensors
from cacheimpl.answer import Code
from cacheimpl.layer_groups import Kind, LayerGroupsError, Layers, Reach
from cacheproof.lockstep.campaign import lockstep
from cacheproof.model.configurations import configurations
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.search.tensor import compare
from cacheproof.search.tensor.frontier import Expansion
from cacheproof.search.tensor.keys import distinct
from cacheproof.targets.tensor import TensorTarget
from cacheproof.tensor_models import model_of
from cacheproof.tensor_models.model import TensorModel
from cachespec.layer_groups import Config

torch.set_num_threads(1)

COMPONENT = component_named("layer_groups")


def crowded() -> Config:
    """A configuration that the specification takes."""
    assert COMPONENT.invalid(CROWDED) is None
    return CROWDED


@pytest.mark.parametrize("seed", range(3))
def test_long_runs_are_the_specifications(seed: int) -> None:
    target = TensorTarget(COMPONENT)
    found = lockstep(COMPONENT, COMPONENT.normative, crowded(), target, steps=1500, seed=seed, restart_every=500)
    assert (found.finding, found.tally.steps) == (None, 1500)


def test_random_groups_are_the_specifications() -> None:
    kinds: set[int] = set()
    for config in islice(configurations(COMPONENT, 5, lambda _: True), 24):
        assert compare(model_of(COMPONENT, config), limit_triples=150).difference is None
        kinds |= set(config.kinds)
    assert kinds == set(range(5))


# Graphs -------------------------------------------------------------------------------------------------------------


def reachable(model: TensorModel, depth: int) -> list[Any]:
    """Some states up to so many steps away."""
    expansion = Expansion(model)
    keys = expansion.start()
    for _ in range(depth):
        keys = distinct(torch.cat([keys, *(edges.target for edges in expansion.edges(keys))])).words[:200]
    states = model.layout.unpack(keys)
    return [type(states)(*(values[place] for values in states)) for place in range(0, len(keys), 7)]


def flat(result: Any) -> list[torch.Tensor]:
    state, answer = result
    return [*state, *answer]


@pytest.mark.parametrize("scope", ["three-kinds", "drafting", "encoder"])
def test_a_call_is_recorded_once_and_repeated_in_every_state(scope: str) -> None:
    """So no shape depends on a value, and no value is read on the host."""
    model = model_of(COMPONENT, scope_named(COMPONENT, scope).config)
    states = reachable(model, 5)
    assert len(states) > 10
    for kind, operations in model.by_kind().items():
        function: Callable[..., Any] = model.operations[kind].function
        for operands in model.operands(operations)[:3]:

            def call(*leaves: torch.Tensor, function: Any = function, count: int = len(operands)) -> Any:
                cut = len(leaves) - count
                return function(model.parameters, type(model.initial)(*leaves[:cut]), *leaves[cut:])

            given = operands.unbind(0)
            graph = make_fx(call)(*(leaf.clone() for leaf in (*model.initial, *given)))
            for state in states:
                assert all(map(torch.equal, flat(graph(*state, *given)), flat(call(*state, *given))))


# In place -----------------------------------------------------------------------------------------------------------


class Walk:
    """One engine whose calls are made by the functions that write."""

    def __init__(self, model: TensorModel, write: tensors.Writing) -> None:
        self.model, self.write = model, write
        self.pool: tensors.Pool = type(model.initial)(*(values.clone() for values in model.initial))

    def make(self, name: str, *operands: int) -> list[int]:
        """One call: the code, and the tokens of the hit if there are some."""
        given = [torch.tensor(operand) for operand in operands]
        result = getattr(tensors, name)(self.model.parameters, self.pool, *given, write=self.write)
        if isinstance(result, tensors.Pool):
            self.pool = result
            return []
        self.pool, *answers = result
        return [int(one) for one in answers]


HISTORY = {"this_step", "bytes"}


def test_a_pool_that_is_changed_in_place_is_the_same() -> None:
    model, draw = model_of(COMPONENT, crowded()), random.Random(3)  # not a secret
    copying, *others = (Walk(model, write) for write in (tensors.COPYING, tensors.IN_PLACE, tensors.SERVING))
    addresses = [[values.data_ptr() for values in walk.pool[:1]] for walk in others]
    codes: set[int] = set()
    for _ in range(600):
        request = draw.randrange(len(CROWDED.lengths))
        runs = int(copying.pool.scheduled[request]) > 0
        calls: list[tuple[Any, ...]] = [("new_step",), ("reset_prefix_cache",), ("free_request", request)]
        if int(copying.pool.flying[request]) <= CROWDED.ahead:
            slots = ("allocate_running" if runs else "allocate_new", request, 0, draw.choice((1, 2, 4)))
            calls += [slots] * 4
        call = draw.choice([*calls, *[("commit", request)] * 3])
        answers = [walk.make(*call) for walk in (copying, *others)]
        assert answers[1:] == answers[:1] * 2, call
        codes |= set(answers[0][:1])
        for walk in others:
            for name, ours, theirs in zip(walk.pool._fields, *map(normal(model), (walk, copying)), strict=True):
                assert torch.equal(ours, theirs) or (walk is others[1] and name in HISTORY), (call, name)
    assert codes == {int(code) for code in (Code.DONE, Code.REFUSED, Code.TOO_LARGE, Code.ABSENT, Code.STALE)}
    assert addresses == [[values.data_ptr() for values in walk.pool[:1]] for walk in others]


def normal(model: TensorModel) -> Callable[[Walk], Any]:
    """Of a walk its normal state, in which what nothing is read from is fixed."""
    return lambda walk: model.layout.normal(walk.pool)


# Refusals -----------------------------------------------------------------------------------------------------------

FULL = Layers(Reach(), 2)
WRONG: dict[str, tuple[list[Layers], int]] = {
    "there must be a group": ([], 2),
    "hash_size must be positive": ([FULL], 0),
    "group 0: size must be a multiple of hash_size": ([FULL], 4),
    "group 1: a sliding window must have 2 tokens at least, not 1": ([FULL, Layers(Reach(Kind.WINDOW, 1), 2)], 2),
    "group 0: a chunk must be a multiple of size, not 3": ([Layers(Reach(Kind.CHUNK, 3), 2)], 2),
    "group 1: chunked local attention needs blocks of one size": ([FULL, Layers(Reach(Kind.CHUNK, 4), 4)], 2),
    "group 0: hits within a state's block are not there": ([Layers(Reach(Kind.STATE), 4)], 2),
    "group 0: encoder tokens are for cross attention": ([FULL._replace(encoder=3)], 2),
    "group 1: encoder tokens are for cross attention": ([FULL, Layers(Reach(Kind.CROSS), 2)], 2),
    "group 0: no draft layers beside": ([FULL._replace(drafting=True), Layers(Reach(Kind.CROSS), 2, 3)], 2),
    "group 0: size must be hash_size for draft layers": ([FULL._replace(drafting=True)], 1),
}


@pytest.mark.parametrize("message", WRONG)
def test_groups_that_are_not_there_are_refused_by_name(message: str) -> None:
    groups, hash_size = WRONG[message]
    one = torch.tensor([4])
    with pytest.raises(LayerGroupsError, match=message):
        tensors.configuration(groups, torch.tensor([[0, 1]]), one, one, hash_size=hash_size, count=2)
