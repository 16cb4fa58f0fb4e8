"""The scheduler's tensor code equals the specification: triple by triple in small scopes, and on random loads."""

from __future__ import annotations

import pytest
import torch
from tests.impl.scheduler_runs import Extent, Lockstep, Tensors, bounded, crowded, of_sort, pictured

from cacheimpl import scheduler
from cacheimpl.writing import COPYING, IN_PLACE
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scopes_of
from cacheproof.search.tasks import MOST_IN_PYTHON
from cacheproof.search.tensor import compare
from cacheproof.tensor_models import model_of
from cacheproof.tensor_models import scheduler as target
from cachespec.kernel import ABSENT, DONE, PRESENT, REFUSED, TOO_LARGE, Code
from cachespec.scheduler import Abort, Add, Config, Schedule, Update

torch.set_num_threads(1)

SCOPES = {scope.name: scope for scope in scopes_of(component_named("scheduler"))}
SMALL = (
    "repeated-item",
    "blocked-item",
    "full-hit",
    "overcommit",
    "read-in-flight",
    "two-chunks-in-flight",
    "aligned",
    "whole-items",
    "threshold",
    "external",
    "deferred",
    "drafts",
    "limits-of-chunks",
    "limits-of-steps",
    "limits-of-parts",
    "limits-of-length",
    "uncut-and-preempted",
    "infeasible-blocks",
    "infeasible-item",
    "adapters",
    "stops",
    "stops-ahead",
    "least-output",
    "pipelined-drafts",
    "pipelined-late-drafts",
    "running-resets-with-priorities",
    "grammars",
    "failed-load",
    "failed-and-shared",
    "failed-step-ahead",
    "loads",
    "loads-without-room",
    "longer-turns",
    "sessions-without-room",
    "sessions-beyond-the-model",
    "encoder-decoder-ahead",
    "outputs-elsewhere-and-room",
    "pooling",
    "pooling-uncut",
)
LARGE = sorted(
    name
    for name in set(SCOPES) - {*SMALL, "worked-example"}
    if (SCOPES[name].expectation("normative").states or 0) <= MOST_IN_PYTHON
)


@pytest.mark.parametrize("scope", SMALL)
def test_every_triple_is_the_specifications(scope: str) -> None:
    refinement = compare(model_of(component_named("scheduler"), SCOPES[scope].config))
    assert refinement.difference is None
    assert refinement.triples >= 7


@pytest.mark.nightly
@pytest.mark.parametrize("scope", LARGE)
def test_every_triple_of_larger_scopes_is_the_specifications(scope: str) -> None:
    refinement = compare(model_of(component_named("scheduler"), SCOPES[scope].config))
    assert refinement.difference is None
    assert refinement.triples >= 10


# Random loads -------------------------------------------------------------------------------------------------------


def extents(config: Config, seed: int) -> Extent:
    """Narrow or wide: it decides what a call costs, and not what comes of it."""
    requests, positions = len(config.prompts), -(-config.max_model_len // config.block_size)
    return Extent(
        width=1 + seed % 2,
        wide=(0, 1, 3)[seed % 3] if requests > 2 else 0,
        admissions=(1, 2, requests)[seed % 3],
        rounds=1 + seed % 2,
        fills=positions,
        releases=(1, requests)[seed % 2],
        new=(None, 1, requests)[seed % 3],
        full=(None, requests * positions)[seed // 2 % 2],
    )


def played_with_pictures(requests: int, seeds: range, steps: int, every: int) -> dict[str, int]:
    """What has happened where steps encode, and all or half of the requests arrive together."""
    seen: dict[str, int] = {}
    for seed in seeds:
        config = pictured(requests, seed)
        run = Lockstep(config, extents(config, seed), seed, (COPYING, IN_PLACE)[seed % 2])
        run.play(steps, every, together=requests if seed % 3 else requests // 2)
        for what, count in run.seen.items():
            seen[what] = seen.get(what, 0) + count
    return seen


def played(requests: int, seeds: range, steps: int, every: int, room: float, *, together: int = 0) -> dict[str, int]:
    """What has happened on these runs. The first `together` requests arrive before anything else."""
    seen: dict[str, int] = {}
    for seed in seeds:
        config = crowded(requests, seed, room=room)
        run = Lockstep(config, extents(config, seed), seed, (COPYING, IN_PLACE)[seed % 2])
        run.play(steps, every, together=together)
        for what, count in run.seen.items():
            seen[what] = seen.get(what, 0) + count
    return seen


def test_random_runs_are_the_specifications() -> None:
    seen = played(6, range(12), 300, 1, 0.4)
    assert set(seen) >= {"preempted", "hits", "encoded", "shared items", "rounds at once"}
    assert seen["rounds"] > seen["rounds at once"] > 50


def test_random_runs_of_many_requests_are_the_specifications() -> None:
    seen = played(64, range(10, 12), 120, 40, 0.15)
    assert seen["admitted"] > 64
    assert seen["rounds"] > seen["rounds at once"] > 10


def played_with_bounds(requests: int, seeds: range, steps: int, every: int) -> dict[str, int]:
    """What has happened where stop tokens, adapters, grammars and the like bound the steps."""
    seen: dict[str, int] = {}
    for seed in seeds:
        config = bounded(crowded(requests, seed, room=0.3), seed)
        run = Lockstep(config, extents(config, seed), seed, (COPYING, IN_PLACE)[seed % 2])
        run.play(steps, every, together=requests if seed % 3 else requests // 2)
        for what, count in run.seen.items():
            seen[what] = seen.get(what, 0) + count
    return seen


def test_random_runs_with_bounds_are_the_specifications() -> None:
    seen = played_with_bounds(6, range(16), 300, 1)
    assert set(seen) >= {"preempted", "hits", "passed over"}


def test_random_runs_with_an_encoder_connector_are_the_specifications() -> None:
    seen: dict[str, int] = {}
    for seed in range(16):
        config = of_sort("from_a_connector", (pictured, crowded)[seed % 2](6, seed), seed)
        run = Lockstep(config, extents(config, seed), seed, (COPYING, IN_PLACE)[seed % 2])
        run.play(200)
        for what, count in run.seen.items():
            seen[what] = seen.get(what, 0) + count
    assert min(seen[what] for what in ("loaded", "loaded one at a time", "encoded", "preempted")) > 0


@pytest.mark.nightly
@pytest.mark.parametrize(("requests", "seeds"), [(3, 300), (6, 300), (24, 60)])
def test_long_random_runs_with_bounds_are_the_specifications(requests: int, seeds: int) -> None:
    seen = played_with_bounds(requests, range(100, 100 + seeds), 400, 10)
    assert set(seen) >= {"preempted", "several victims", "hits", "passed over"}


def test_random_runs_with_pictures_are_the_specifications() -> None:
    seen = played_with_pictures(6, range(12), 300, 1)
    assert seen["encoding at once"] > 0
    assert seen["dropped"] > 0


@pytest.mark.nightly
@pytest.mark.parametrize(("requests", "seeds"), [(3, 400), (6, 200), (24, 40)])
def test_long_random_runs_with_pictures_are_the_specifications(requests: int, seeds: int) -> None:
    seen = played_with_pictures(requests, range(100, 100 + seeds), 400, 10)
    assert seen["encoding and evicting at once"] > 0


@pytest.mark.nightly
@pytest.mark.parametrize(("requests", "seeds", "steps", "room"), [(6, 300, 400, 0.4), (64, 20, 600, 0.15)])
def test_long_random_runs_are_the_specifications(requests: int, seeds: int, steps: int, room: float) -> None:
    seen = played(requests, range(100, 100 + seeds), steps, 10, room)
    assert set(seen) >= {"preempted", "several victims", "hits", "encoded", "shared items", "dropped"}


@pytest.mark.nightly
def test_random_runs_of_thousands_are_the_specifications() -> None:
    seen = played(1024, range(3), 1600, 100, 0.1, together=1024)
    assert seen["admitted"] > 1024


# Size ---------------------------------------------------------------------------------------------------------------


def decoding(requests: int, outputs: int = 3) -> Config:
    """Text only, room for all, and a budget for one token of each or for all prompts at once."""
    return Config(
        block_size=4,
        kv_blocks=3 * requests,
        token_budget=8 * requests,
        encoder_compute=1,
        encoder_capacity=1,
        max_running=requests,
        max_model_len=12,
        prompts=(7,) * requests,
        outputs=(outputs,) * requests,
    )


@pytest.mark.parametrize("requests", [2, 3, 64, 4096])
def test_the_same_functions_serve_any_number(requests: int) -> None:
    run = Tensors(
        decoding(requests), Extent(width=1, wide=0, admissions=requests, rounds=1, fills=3, releases=requests)
    )
    run.state = run.state._replace(waiting=run.tables.rows)
    everybody = tuple(range(requests))
    found = run.apply(Schedule())
    assert found.code is Code.DONE
    assert found.values == tuple(part for one in everybody for part in (one, 0, 7))
    assert run.apply(Update(0)) == DONE
    found = run.apply(Schedule())
    assert found.values == tuple(part for one in everybody for part in (one, 7, 1))
    assert run.calls == 0
    assert int(run.state.kv.free) == requests
    assert run.apply(Update(0)) == DONE
    run.apply(Schedule())
    assert run.apply(Update(0)).values == everybody
    assert int(run.state.kv.free) == 3 * requests
    assert not bool((run.state.running >= 0).any())


def test_what_is_explored_is_what_serves() -> None:
    assert vars(target)["tensors"] is scheduler


# Misuse -------------------------------------------------------------------------------------------------------------


def test_what_is_refused_changes_nothing() -> None:
    config = decoding(3)._replace(prompts=(7, 12, 7), outputs=(3, 3, 3))
    run = Tensors(config, Extent(1, 1, 3, 1, 3, 3), COPYING)
    assert run.apply(Update(0)) == ABSENT
    assert run.apply(Abort(0)) == ABSENT
    assert run.apply(Add(1)) == TOO_LARGE
    assert run.apply(Add(0)) == DONE
    for op, answer in ((Add(0), PRESENT), (Abort(2), ABSENT)):
        before = run.decoded()
        assert run.apply(op) == answer
        assert run.decoded() == before
    run.apply(Schedule())
    before = run.decoded()
    assert run.apply(Schedule()) == REFUSED
    assert run.decoded() == before
