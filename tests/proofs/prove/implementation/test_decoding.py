"""What the prover takes a state of tensors for is what the explorer takes it for; and the invariant holds in it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
import torch
import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.implementation.cells import every, known, term
from cacheproof.prove.implementation.correspondence import Correspondence
from cacheproof.prove.implementation.finite import FiniteMap, FiniteQueue, FiniteUnits, cell_of
from cacheproof.prove.implementation.finite_copies import FiniteCopies
from cacheproof.prove.implementation.finite_lists import FiniteLine, FiniteList
from cacheproof.prove.implementation.tensors import of
from cacheproof.prove.session import CORRESPONDENCES
from cacheproof.tensor_models import TensorRun
from cachespec.kernel import FrozenMap, FrozenQueue
from cachespec.kv_blocks.configuration import Config as Blocks
from cachespec.lru import Config as Keys
from cachespec.ring import Config as Chunks

STEPS = 200
LENGTHS = {"scheduler": 10}
"""Steps of one run, where a run ends: requests that are gone do not come back. There are more runs then."""
CONFIGS: Mapping[str, Any] = {
    "lru": Keys(capacity=3, sizes=(1, 2, 1), lookups=STEPS, pins=2),
    "encoder_cache": CORRESPONDENCES["encoder_cache"][0].config._replace(
        capacity=3, requests=((0, 1), (1, 0)), claims=((1, 2), (2, 1)), failures=1
    ),
    "kv_blocks": Blocks(
        *(2, 2, ((0, 1), (0, 1)), (4, 4)),
        hashes=(0, 0),
        limit=4,
        steps=(1, 2),
        rollbacks=1,
        evictions=1,
        resets=1,
        disciplined=0,
    ),
    "mirror": CORRESPONDENCES["mirror"][0].config._replace(
        capacity=2,
        sizes=(1, 2, 1),
        items=2,
        senders=2,
        outstanding=2,
        processing=2,
        reorder=1,
        drop=1,
        duplicate=1,
        reset=1,
        restart=1,
        cancel=1,
    ),
    "layer_groups": CORRESPONDENCES["layer_groups"][1].config._replace(
        blocks=6, chains=((0, 1), (0, 1)), lengths=(2, 2), prompts=(2, 1), external=1, steps=(1,)
    ),
    "ring": Chunks(capacity=7, modulus=2, sizes=(1, 2), clears=1, revocations=1, restarts=1),
}


def frozen(value: Any) -> Any:
    """A state of known cells as the ordinary containers have it."""
    if type(value) in (FiniteMap, FiniteUnits):
        return FrozenMap.of((key, frozen(value.values[key])) for key, there in value.members.items() if fixed(there))
    if type(value) is FiniteQueue:
        ranks = sorted((fixed(rank), key) for key, rank in value.ranks.items() if fixed(rank) >= 0)
        return FrozenQueue((key, fixed(value.weights[key])) for _, key in ranks)
    if type(value) is FiniteCopies:
        kinds: dict[Any, list[tuple[int, int]]] = {}
        for one, rank in value.ranks.items():
            if fixed(rank) >= 0:
                kinds.setdefault(frozen(value.kinds[one]), []).append((fixed(rank), one))
        return FrozenMap.of((kind, tuple(one for _, one in sorted(members))) for kind, members in kinds.items())
    if type(value) is FiniteLine:
        ranks = sorted((fixed(rank), name) for name, rank in enumerate(value.ranks) if fixed(rank) >= 0)
        return tuple(frozen(value.entry(name)) for _, name in ranks)
    if type(value) is FiniteList:
        return tuple(map(frozen, value.rows[: fixed(value.count)]))
    if isinstance(value, tuple):
        return type(value)(*map(frozen, value)) if hasattr(value, "_fields") else tuple(map(frozen, value))
    return fixed(cell_of(value))


def fixed(cell: Any) -> Any:
    """A cell in which nothing is unknown, as a number or truth value."""
    return known(z3.simplify(term(cell)))


def roomy(config: Any) -> Any:
    """An engine in which each request of the scheduler can be served."""
    return config._replace(kv_blocks=2, encoder_compute=2, encoder_capacity=2)


SHAPES = [
    *((name, 0, config) for name, config in CONFIGS.items()),
    *(("scheduler", number, roomy(one.config)) for number, one in enumerate(CORRESPONDENCES["scheduler"])),
]


def test_every_component_has_a_run() -> None:
    assert {name for name, *_ in SHAPES} == set(CORRESPONDENCES)


@pytest.mark.parametrize(
    ("name", "number", "config"),
    [
        pytest.param(*shape, id=f"{shape[0]}-{shape[1]}", marks=[pytest.mark.nightly] if shape[1] > 0 else [])
        for shape in SHAPES
    ],
)
def test_states_of_runs_are_decoded_alike_and_in_form(name: str, number: int, config: Any) -> None:
    one: Correspondence = CORRESPONDENCES[name][number]
    model = one.model(config)
    draw = random.Random(1)
    calls = [some for some in model.by_kind().values() if some]
    seen = set()
    for step in range(8 * STEPS if name in LENGTHS else STEPS):
        if step % LENGTHS.get(name, STEPS) == 0:
            run = TensorRun(model)
        (some,) = draw.choices(calls, weights=[min(len(some), 8) for some in calls])
        call = draw.choice(some)
        kind = model.operations[type(call)]
        if not kind.enabled(model.parameters, run.state, *map(torch.tensor, kind.operands(call))):
            continue
        run.apply(call)
        cells = type(run.state)(*map(of, run.state))
        row = model.rows(type(run.state)(*(tensor.unsqueeze(0) for tensor in run.state)))[0]
        expected = one.compared(model.decode(row))
        assert frozen(one.compared(one.decode(config, cells))) == expected
        assert fixed(every((*one.invariant(config, cells), *one.assumed(cells)))) is True
        seen.add(expected)
    assert len(seen) > STEPS // 20
