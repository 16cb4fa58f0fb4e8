"""Triton kernels beside the tensor functions that specify them: on a CPU in Triton's interpreter."""

from __future__ import annotations

import ast
import inspect
import random
import time
from collections.abc import Callable
from itertools import permutations

import torch
from torch import Tensor

from cacheimpl import kv_blocks
from cacheimpl.kv_blocks import Config, Pool, Serving, Step, nobody
from cacheimpl.writing import IN_PLACE
from cacheproof.device.listing import Asked, Found
from cacheproof.device.tensor.comparing import alike
from cacheproof.device.tensor.loads import SPARE, shared_prefixes
from cacheproof.device.tensor.recorded import SMALL_STEPS, Pair, run
from cacheproof.foundation.console import Show
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.model.scope import Scope, scopes_of
from cacheproof.search.tensor.search import TensorSearch
from cacheproof.tensor_models import model_of
from cachespec.kernel import NORMATIVE

STEPS = 4000
SIZES = ((256, None), (2048, None))
"""Turns of a step on a device, and of one program: in one launch, and in two"""
SIZES_ON_A_CPU = ((12, None), (12, 4))
LOOK_UPS, SMALL_LOOK_UPS = 2000, 20
SECONDS = 60.0
"""No scope is begun after so many"""
SMALL_STATES = 16
"""A small run leaves out scopes of more states"""


def is_installed(found: Found, what: str) -> bool:
    """Whether there are kernels here; if not, `what` is reported as left out."""
    try:
        import triton  # noqa: F401, PLC0415  # an extra
    except ModuleNotFoundError:
        found.leave_out(what, "the extra 'triton' is not installed")
        return False
    return True


def fused(tile: int | None = None, *, history: bool = False) -> Callable[[Serving, int, int], Callable[[Tensor], Step]]:
    """Makes the fused step of an engine."""
    from cacheimpl.kernels import FusedStep  # noqa: PLC0415  # triton is an extra

    def made(engine: Serving, turns: int, most: int) -> Callable[[Tensor], Step]:
        return FusedStep(engine.config, engine.pool, turns, most=most, history=history, tile=tile)

    return made


def decode_steps(asked: Asked, found: Found, show: Show) -> None:
    """Random loads, half of the steps in one launch and half in two."""
    if not is_installed(found, "fused decode steps"):
        return
    torch.set_num_threads(1)
    steps = SMALL_STEPS if asked.small else STEPS
    for number, (turns, tile) in enumerate(SIZES if asked.on_cuda else SIZES_ON_A_CPU):
        part = Found()
        run(Pair(asked, turns, fused(tile)), steps, part, lambda done: show(f"fused-decode: {done:,} steps"))
        found.count("steps in one launch" if number == 0 else "steps in two launches", part.counts["steps"])
        for what in ("requests served", "requests that remained"):
            found.count(what, part.counts[what])


# Look-ups -----------------------------------------------------------------------------------------------------------


def look_ups(asked: Asked, found: Found, show: Show) -> None:
    """Bursts of requests that begin alike, in pools in which any blocks hold any contents, in copies and with gaps."""
    if not is_installed(found, "fused look-ups"):
        return
    from cacheimpl.kernels import FusedLookUp  # noqa: PLC0415  # triton is an extra

    torch.set_num_threads(1)
    draw = random.Random(asked.seed)  # noqa: S311  # not a secret
    requests, turns = (256, 64) if asked.on_cuda else (12, 4)
    wanted = SMALL_LOOK_UPS if asked.small else LOOK_UPS
    config = shared_prefixes(requests, 8, 4, draw, asked.device)
    contents, blocks = config.hashes.shape[0] - 1, requests * 12
    pool = kv_blocks.empty(config, blocks)
    look_up = FusedLookUp(config, pool, turns)
    while found.counts.get("look-ups", 0) < wanted:
        show(f"fused-look-up: {found.counts.get('look-ups', 0):,} look-ups")
        for field, values in (
            (pool.carried, [draw.randrange(-1, contents) for _ in range(blocks)]),
            (pool.stamp, draw.sample(range(2 * blocks), blocks)),
        ):
            field[:-1] = torch.tensor(values, device=asked.device)
        rows = torch.tensor(draw.sample(range(requests), turns), device=asked.device)
        tokens = torch.tensor([draw.randint(1, int(config.limit)) for _ in range(turns)], device=asked.device)
        hits = kv_blocks.get_computed_blocks(config, pool, rows, tokens)
        alike(f"look-up {found.counts.get('look-ups', 0)}", look_up(rows, tokens), hits)
        found.count("look-ups", turns)
        found.count("hits", int(hits.lengths.sum()))


# Scopes -------------------------------------------------------------------------------------------------------------


def scopes(asked: Asked, found: Found, show: Show) -> None:
    """Every state of the default scopes, and in each every burst of distinct requests."""
    if not is_installed(found, "fused steps in every state"):
        return
    torch.set_num_threads(1)
    every_state(asked, found, show, SMALL_STATES if asked.small else None, SECONDS)


def every_state(asked: Asked, found: Found, show: Show, most: int | None, seconds: float | None) -> None:
    """Scopes of at most so many states; none is begun after so many seconds.

    The kernel is given one of the states that agree in all that it reads: in them it does the same.
    """
    started = time.monotonic()
    for scope in default_scopes():
        states = scope.expectation(NORMATIVE).states
        if most is not None and (states is None or states > most):
            found.leave_out(f"fused steps in the scope {scope.name}", "this is a small run")
            continue
        if seconds is not None and time.monotonic() - started > seconds:
            found.leave_out(f"fused steps in the scope {scope.name}", f"the others took {seconds:.0f} seconds")
            continue
        config, pools, count = reachable(scope, asked.device)
        found.count("states", count)
        for number, pool in enumerate(pools):
            if number % 64 == 0:
                show(f"fused-scopes: {scope.name}, {number:,} of {len(pools):,} states that differ for it")
            found.count("states that differ for the kernel")
            for rows in bursts(config):
                one_burst(f"{scope.name}, state {number}, requests {rows}", config, pool, rows, found)
        found.count("scopes")


def default_scopes() -> list[Scope]:
    """Those of the KV blocks."""
    component = component_named("kv_blocks")
    return [one for one in scopes_of(component) if one.set == "default" and NORMATIVE in one.variants]


def reachable(scope: Scope, device: str) -> tuple[Config, list[Pool], int]:
    """The configuration of a scope, one of each set of states that the kernel reads alike, and the number of states."""
    model = model_of(component_named("kv_blocks"), scope.config, device)
    search = TensorSearch(model, Plan(symmetry=scope.plan.symmetry), judged=False)
    search.run()
    states = model.layout.unpack(torch.cat(search.levels))
    count = states.free.shape[0]
    seen = torch.cat([getattr(states, name).reshape(count, -1).long() for name in fields_read()], 1)
    kinds = torch.unique(seen, dim=0, return_inverse=True)[1]
    first = torch.full((int(kinds.max()) + 1,), count, device=kinds.device)
    first = first.scatter_reduce(0, kinds, torch.arange(count, device=kinds.device), "amin")
    chosen = [field.index_select(0, first).unbind(0) for field in states]
    return model.parameters, [Pool(*values) for values in zip(*chosen, strict=True)], count


def fields_read() -> list[str]:
    """The fields of the pool that the decode kernel loads from, by its source."""
    from cacheimpl.kernels.decoding import decode_turns  # noqa: PLC0415  # triton is an extra

    tree = ast.parse(inspect.getsource(decode_turns))
    loads = [
        call.args[0] for call in ast.walk(tree) if isinstance(call, ast.Call) and ast.unparse(call.func) == "tl.load"
    ]
    named = {name.id for pointer in loads for name in ast.walk(pointer) if isinstance(name, ast.Name)}
    return [name for name in Pool._fields if name in named]


def bursts(config: Config) -> list[tuple[int, ...]]:
    """Distinct requests in any order."""
    requests = range(config.lengths.shape[0] - 1)
    return [rows for count in requests for rows in permutations(requests, count + 1)]


def one_burst(where: str, config: Config, pool: Pool, rows: tuple[int, ...], found: Found) -> None:
    """The same with both forms: with room for a block of each request, and for one block."""
    from cacheimpl.kernels import FusedStep  # noqa: PLC0415  # triton is an extra

    padding = [nobody(pool)] * (config.lengths.shape[0] - len(rows))
    requests = torch.tensor([*rows, *padding], device=pool.tables.device)
    for most in (None, 1):
        ours, theirs = (Pool(*(values.clone() for values in pool)) for _ in range(2))
        theirs, wanted = kv_blocks.step(config, theirs, requests, most=most, write=IN_PLACE)
        step = FusedStep(config, ours, len(requests), most=most, history=True)(requests)
        alike(where, step, wanted)
        alike(where, ours, theirs, SPARE)
        found.count("steps")
