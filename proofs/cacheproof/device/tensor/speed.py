"""Figures: how long steps take on this device. Each is the median of several repeats, with the least and the most.

On a device time is by the clock, from the first launch until the device has done the last, over the steps: what an
engine waits for. On a CPU it is the processor time of one thread, as in `bench`.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from cacheimpl import kv_blocks
from cacheimpl import scheduler as tensors
from cacheimpl.arena import Chunk, EncoderArena
from cacheimpl.captured import CapturedDecode, CapturedRounds
from cacheimpl.kv_blocks import Serving
from cacheimpl.scheduler import Extent
from cacheimpl.scheduler.engine import Scheduler
from cacheimpl.scheduler.settings import Settings
from cacheimpl.writing import IN_PLACE, SERVING
from cacheproof.bench.tensor.prompts import Engine
from cacheproof.device.listing import FIGURES, Asked, Found, figure_named
from cacheproof.device.tensor.fused import fused, is_installed
from cacheproof.device.tensor.machine import machine
from cacheproof.device.tensor.recorded import leaves
from cacheproof.foundation.console import Show
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scopes_of
from cacheproof.search.tensor.frontier import Expansion
from cacheproof.search.tensor.search import TensorSearch
from cacheproof.tensor_models import model_of
from cachespec.kernel import NORMATIVE
from cachespec.lru.configuration import Config as Cache

RUNNING, SMALL_RUNNING = (256, 1024, 4096, 16_384, 65_536), (16,)
REPEATS, SMALL_REPEATS = 7, 2
STEPS, SMALL_STEPS = 64, 4
RUNNING_IN_ROUNDS, STEPS_IN_ROUNDS = (256, 1024, 4096, 16_384), 16
DECODING = Extent(width=1, wide=0, admissions=0, rounds=1, fills=1, releases=1, items=False)
"""Of a round in which every request computes one token"""
BLOCK_SIZE, PROMPT = 16, 64
MICROSECONDS = 1e6
STATES_AT_ONCE = 1 << 16
KEYS = 10
"""Of the cache by recency: hundreds of thousands of states, so that frontiers are large."""
IN_A_ROW = 8
"""Stores, or gathers, that are timed together"""
SECONDS_OF_EXPLORATION, SMALL_SECONDS = 20.0, 1.0


class DeviceClock:
    """What was measured goes to `found`, with goals where this is the machine that they are for."""

    def __init__(self, asked: Asked, found: Found) -> None:
        self.asked, self.found = asked, found
        self.device, self.name = torch.device(asked.device), str(machine(asked.device)["device"])
        self.now = time.perf_counter if self.device.type == "cuda" else time.process_time
        self.repeats = SMALL_REPEATS if asked.small else REPEATS

    def wait(self) -> None:
        """Until the device has nothing left to do."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def seconds(self, work: Callable[[], object], before: Callable[[], object] = lambda: None) -> list[float]:
        """Of each repeat; what comes `before` is not timed. The first one is not counted."""
        measured = []
        for _ in range(1 + self.repeats):
            before()
            self.wait()
            started = self.now()
            work()
            self.wait()
            measured.append(max(self.now() - started, 1e-9))
        return measured[1:]

    def keep(self, name: str, size: str, values: Iterable[float]) -> float:
        """The figure; returns its median."""
        figure, known = figure_named(name), list(values)
        median = statistics.median(known)
        self.found.figures.append(
            {
                "name": name,
                "size": size,
                "unit": figure.unit,
                "median": median,
                "least": min(known),
                "most": max(known),
                "repeats": len(known),
                "goal": None if self.asked.small else figure.goal,
                "met": None if self.asked.small else figure.met(median, self.name),
            }
        )
        return median

    def leave_out(self, check: str) -> None:
        """What means nothing here."""
        if self.device.type != "cuda":
            for figure in FIGURES:
                if figure.check == check and figure.needs_cuda:
                    self.found.leave_out(figure.name, "it needs a CUDA device")


# Decode steps -------------------------------------------------------------------------------------------------------


def decode(asked: Asked, found: Found, show: Show) -> None:
    """At growing numbers of running requests, each repeat from the same pool."""
    torch.set_num_threads(1)
    clock = DeviceClock(asked, found)
    steps = SMALL_STEPS if asked.small else STEPS
    for running in SMALL_RUNNING if asked.small else RUNNING:
        show(f"decode-speed: {running:,} running")
        with torch.inference_mode():
            _decode(clock, running, steps)
    clock.leave_out("decode-speed")


def _decode(clock: DeviceClock, running: int, steps: int) -> None:
    engine, rows = decoding(running, steps, clock.asked.device)
    most = max(1, 2 * running // BLOCK_SIZE)
    before = [values.clone() for values in engine.pool]
    size = f"{running:,} running"

    def again() -> None:
        for values, was in zip(engine.pool, before, strict=True):
            values.copy_(was)

    def measure(name: str, step: Callable[[], object]) -> None:
        seconds = clock.seconds(lambda: [step() for _ in range(steps)], again)
        clock.keep(name, size, (MICROSECONDS * one / steps for one in seconds))

    def eager() -> Tensor:
        return engine.decode(rows, most=most).served

    measure("decode-eager", eager)
    if clock.device.type == "cuda":
        again()
        recorded = CapturedDecode(engine, running, most=most)
        recorded.load(rows)
        measure("decode-recorded", recorded.step)
        measure("decode-recorded-read", lambda: int(recorded.step().remaining))
    if int(eager()) != running:
        raise RuntimeError("a decode step of this measurement serves everybody")
    clock.found.count("steps measured", steps * clock.repeats)


def in_kernels(asked: Asked, found: Found, show: Show) -> None:
    """Decode steps and rounds as graphs of Triton kernels."""
    clock, steps = DeviceClock(asked, found), SMALL_STEPS if asked.small else STEPS
    clock.leave_out("fused-speed")
    if clock.device.type != "cuda" or not is_installed(found, "decode-fused"):
        return
    for running in SMALL_RUNNING if asked.small else RUNNING:
        show(f"fused-speed: {running:,} running")
        engine, rows = decoding(running, steps, asked.device)
        most = max(1, 2 * running // BLOCK_SIZE)
        recorded = CapturedDecode(engine, running, most=most, step=fused()(engine, running, most))
        recorded.load(rows)
        before = [values.clone() for values in engine.pool]

        def again(engine: Serving = engine, before: list[Tensor] = before) -> None:
            for values, was in zip(engine.pool, before, strict=True):
                values.copy_(was)

        def some(recorded: CapturedDecode = recorded) -> None:
            for _ in range(steps):
                recorded.step()

        seconds = clock.seconds(some, again)
        clock.keep("decode-fused", f"{running:,} running", (MICROSECONDS * one / steps for one in seconds))
    from cacheimpl.kernels import FusedRound  # noqa: PLC0415  # triton is an extra

    for running in SMALL_RUNNING if asked.small else RUNNING_IN_ROUNDS:
        show(f"fused-speed: {running:,} running, rounds")
        steps = SMALL_STEPS if asked.small else STEPS_IN_ROUNDS
        scheduler = decoding_scheduler(running, steps, asked.device)
        rounds_in_kernels = CapturedRounds(scheduler.config, scheduler.state, DECODING, fused=FusedRound)
        clock.keep("round-fused", f"{running:,} running", _recorded_rounds(clock, rounds_in_kernels, steps))


def compiled(asked: Asked, found: Found, show: Show) -> None:
    """The same step through `torch.compile`, beside the eager one, each repeat in turn."""
    torch.set_num_threads(1)
    clock, steps = DeviceClock(asked, found), SMALL_STEPS if asked.small else STEPS
    for running in SMALL_RUNNING if asked.small else RUNNING[:3]:
        show(f"compile-speed: {running:,} running")
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of cached functions that it looks into
            _compiled(clock, running, steps)


def _compiled(clock: DeviceClock, running: int, steps: int) -> None:
    engine, rows = decoding(running, steps, clock.asked.device)
    most = max(1, 2 * running // BLOCK_SIZE)
    before = [values.clone() for values in engine.pool]
    after: list[Iterable[Tensor]] = [[*engine.pool]]

    def again() -> None:
        for values, was in zip(engine.pool, before, strict=True):
            values.copy_(was)
        after[0] = [*engine.pool]

    def step(pool: Iterable[Tensor]) -> tuple[Iterable[Tensor], kv_blocks.Step]:
        # In a list: torch.compile of torch 2.11 gives a pool back without its tensors.
        after, stepped = kv_blocks.step(engine.config, kv_blocks.Pool(*pool), rows, most=most, write=SERVING)
        return [*after], stepped

    for name, function in (("step-eager", step), ("step-compiled", torch.compile(step, fullgraph=True))):

        def some(function: Callable[[Iterable[Tensor]], tuple[Iterable[Tensor], object]] = function) -> None:
            for _ in range(steps):
                after[0] = function(after[0])[0]

        seconds = clock.seconds(some, again)
        clock.keep(name, f"{running:,} running", (MICROSECONDS * one / steps for one in seconds))
    clock.found.count("steps measured", 2 * steps * clock.repeats)


def decoding(running: int, steps: int, device: str) -> tuple[Serving, Tensor]:
    """Requests whose prompts are computed, one in sixteen of which needs a block in each step."""
    limit = PROMPT + BLOCK_SIZE + steps + 8
    cells = -(-limit // BLOCK_SIZE)
    contents = torch.arange(running * cells, device=device).reshape(running, cells)
    lengths = torch.full((running,), limit, device=device)
    config = kv_blocks.configuration(contents, lengths, block_size=BLOCK_SIZE, limit=limit, count=running * cells)
    engine = Serving(config, running * cells, checked=False)
    rows = torch.arange(running, device=device)
    tokens, width = PROMPT + rows % BLOCK_SIZE, PROMPT // BLOCK_SIZE + 2
    engine.allocate_slots(rows, torch.zeros_like(tokens), tokens, width=width)
    engine.commit(rows, tokens, width=width)
    return engine, rows


# Rounds of the scheduler --------------------------------------------------------------------------------------------


class Asking:
    """A request with attributes as the scheduler reads them."""

    def __init__(self, number: int, prompt: int, outputs: int) -> None:
        self.request_id, self.max_tokens = str(number), outputs
        self.prompt_token_ids = [number * prompt + place for place in range(prompt + number % BLOCK_SIZE)]


def rounds(asked: Asked, found: Found, show: Show) -> None:
    """Every running request computes one token; nobody waits."""
    torch.set_num_threads(1)
    clock = DeviceClock(asked, found)
    for running in SMALL_RUNNING if asked.small else RUNNING_IN_ROUNDS:
        show(f"round-speed: {running:,} running")
        _rounds(clock, running)
    clock.leave_out("round-speed")


def _rounds(clock: DeviceClock, running: int) -> None:
    steps = SMALL_STEPS if clock.asked.small else STEPS_IN_ROUNDS
    scheduler = decoding_scheduler(running, steps, clock.asked.device)
    config, extent = scheduler.config, DECODING
    recorded = CapturedRounds(config, scheduler.state, extent)
    state, again = recorded.state, kept(recorded)
    none = torch.zeros_like(config.prompts)

    def eager() -> None:
        current = state
        for _ in range(steps):
            current, code = tensors.schedule(config, current, extent=extent, write=IN_PLACE)
            int(code)
            current, code = tensors.update(config, current, none, extent=extent, write=IN_PLACE)
            int(code)

    size = f"{running:,} running"
    clock.keep("round-eager", size, (MICROSECONDS * one / steps for one in clock.seconds(eager, again)))
    if clock.device.type == "cuda":
        again()
        clock.keep("round-recorded", size, _recorded_rounds(clock, recorded, steps))
    clock.found.count("steps measured", steps * clock.repeats)


def _recorded_rounds(clock: DeviceClock, recorded: CapturedRounds, steps: int) -> Iterable[float]:
    """Us of a round and its update, each of which is read back, of each repeat."""
    again = kept(recorded)
    recorded.prepare("schedule", "update")

    def graphs() -> None:
        for _ in range(steps):
            recorded.schedule().summary.tolist()
            recorded.update().summary.tolist()

    return [MICROSECONDS * one / steps for one in clock.seconds(graphs, again)]


def kept(recorded: CapturedRounds) -> Callable[[], None]:
    """Brings the state back that there is now."""
    before = [values.clone() for values in leaves(recorded.state)]

    def again() -> None:
        for values, was in zip(leaves(recorded.state), before, strict=True):
            values.copy_(was)

    return again


def decoding_scheduler(running: int, steps: int, device: str) -> Scheduler:
    """All prompts are computed, in one large step."""
    limit = PROMPT + BLOCK_SIZE + steps + 8
    scheduler = Scheduler(
        Settings(
            block_size=BLOCK_SIZE,
            num_gpu_blocks=running * -(-limit // BLOCK_SIZE),
            max_num_batched_tokens=running * (PROMPT + BLOCK_SIZE),
            max_num_seqs=running,
            max_model_len=limit,
            max_requests=running,
        ),
        device,
    )
    for number in range(running):
        scheduler.add_request(Asking(number, PROMPT, steps + 4))
    scheduler.schedule()
    scheduler.update_from_output()
    return scheduler


# A burst of prompts -------------------------------------------------------------------------------------------------


def burst(asked: Asked, found: Found, show: Show) -> None:
    """Prompts that are on the device already: named by their contents, looked for, given slots, registered."""
    torch.set_num_threads(1)
    clock = DeviceClock(asked, found)
    requests, tokens = (8, 256) if asked.small else (256, 8192)
    engine = Engine(requests, tokens, BLOCK_SIZE, requests * tokens // BLOCK_SIZE, asked.device)
    prompts = torch.empty((requests, tokens), dtype=torch.int32, device=asked.device)
    draw = torch.Generator().manual_seed(asked.seed)

    def fresh() -> None:
        engine.free()
        prompts.copy_(torch.randint(0, 100_000, prompts.shape, dtype=torch.int32, generator=draw))

    def serve() -> None:
        engine.name(prompts)
        hits, taken = engine.admit()
        if int(hits.sum()) or int(taken.sum()) != requests * tokens // BLOCK_SIZE:
            raise RuntimeError("a burst of this measurement is given all of its blocks, and finds none")

    show(f"burst-speed: {requests:,} prompts of {tokens:,} tokens")
    with torch.inference_mode():
        seconds = clock.seconds(serve, fresh)
    size = f"{requests:,} prompts of {tokens:,} tokens"
    clock.keep("burst", size, (MICROSECONDS * one / requests for one in seconds))
    found.count("bursts measured", clock.repeats)


# Encoder outputs ----------------------------------------------------------------------------------------------------


def arena(asked: Asked, found: Found, show: Show) -> None:
    """Outputs of several hundred rows, all of them stored, and all of them gathered.

    Several calls in a row are timed together, as steps that are scheduled ahead make them. No call reads from
    the device, so the host prepares one while the device does the one before.
    """
    torch.set_num_threads(1)
    clock = DeviceClock(asked, found)
    outputs, rows, hidden = (8, 16, 32) if asked.small else (512, 512, 4096) if asked.on_cuda else (64, 256, 1024)
    count = outputs * rows
    made = torch.ones((count, hidden), dtype=torch.bfloat16, device=asked.device)
    target = torch.empty_like(made)
    worker = EncoderArena(count, hidden, dtype=made.dtype, device=asked.device)
    names, lengths = [str(number) for number in range(outputs)], [rows] * outputs
    chunks = [Chunk(name, 0, rows) for name in names]
    moved = 2 * made.numel() * made.element_size()
    size = f"{outputs:,} outputs of {rows:,} rows of {hidden:,} bfloat16, {moved / 2e9:.3g} GB"
    show(f"arena-speed: {size}")
    worker.store(made, names, lengths)

    def store() -> None:
        worker.drain(names)
        worker.store(made, names, lengths)

    works: dict[str, Callable[[], object]] = {
        "copy": lambda: target.copy_(made),
        "gather": lambda: worker.gather(chunks),
        "store": store,
    }

    def in_a_row(work: Callable[[], object]) -> Callable[[], object]:
        return lambda: [work() for _ in range(IN_A_ROW)]

    rates = {
        name: [IN_A_ROW * moved / one / 1e9 for one in clock.seconds(in_a_row(work))] for name, work in works.items()
    }
    for name, values in rates.items():
        clock.keep(name, size, values)
    copied = statistics.median(rates["copy"])
    for name in ("gather", "store"):
        clock.keep(f"{name}-share", size, (100 * rate / copied for rate in rates[name]))
    found.count("bytes moved", IN_A_ROW * moved * clock.repeats * len(works))


# Exploration --------------------------------------------------------------------------------------------------------


def exploration(asked: Asked, found: Found, show: Show) -> None:
    """A large cache by recency, and the largest scope of the KV blocks; for some seconds, without properties."""
    clock = DeviceClock(asked, found)
    limit = SMALL_SECONDS if asked.small else SECONDS_OF_EXPLORATION
    keys = 4 if asked.small else KEYS
    subjects = [("lru", f"{keys} keys", Cache(capacity=keys - 3, sizes=(1,) * keys, lookups=0), False)]
    largest = max(
        (one for one in scopes_of(component_named("kv_blocks")) if NORMATIVE in one.variants),
        key=lambda one: one.expectation(NORMATIVE).states or 0,
    )
    subjects.append(("kv_blocks", largest.name, largest.config, largest.plan.symmetry))
    for name, scope, config, symmetry in subjects:
        show(f"exploration-speed: {name} {scope}")
        model = model_of(component_named(name), config, asked.device)
        search = TensorSearch(model, Plan(symmetry=symmetry, limit_seconds=limit), judged=False)
        if asked.on_cuda:
            search.expansion = Expansion(model, STATES_AT_ONCE)
        clock.wait()
        started = clock.now()
        explored = search.run()
        clock.wait()
        seconds = max(clock.now() - started, 1e-9)
        clock.keep("states", f"{name} {scope}, {explored.states:,} states", [explored.states / seconds])
        found.count("states", explored.states)
