"""`scheduler`: any state of requests whose numbers are those of the shape. What the workers have is in no tensor."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields
from typing import Any

from cacheimpl.encoder_cache.state import NO_INPUT
from cacheimpl.scheduler.layout import nested
from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.budgets import any_budgets, are_positive, initial, parameters, without_budgets
from cacheproof.prove.implementation.cells import Cell
from cacheproof.prove.implementation.correspondence import Correspondence, number
from cacheproof.prove.implementation.correspondences import encoder_cache, kv_blocks
from cacheproof.prove.implementation.encodings import dense_ranks, within
from cacheproof.prove.implementation.finite import FiniteMap, FiniteSequence, cell_of, value_of
from cacheproof.prove.implementation.finite_lists import FiniteLine, FiniteList
from cacheproof.prove.implementation.tensors import CellTensor
from cachespec.kernel import FROZEN, Operation
from cachespec.kv_blocks import rolling_back, transitions
from cachespec.kv_blocks.configuration import NOTHING as NO_CONTENT
from cachespec.scheduler import configuration, parts, requests, rounds, transfers
from cachespec.scheduler import operations as calls
from cachespec.scheduler.configuration import CONTENT, LENGTH, Config
from cachespec.scheduler.state import (
    ABANDONED,
    LOADED,
    LOADING,
    LOADS_IN_STEP,
    SENDING,
    Plan,
    Scheduled,
    State,
    Transfer,
)
from cachespec.scheduler.worker import initial_worker

BLOCK_SIZE = kv_blocks.BLOCK_SIZE


def blocks_of(config: Config) -> Any:
    """The KV blocks of this engine; each content is its own hash. Behind the full blocks of a request is nothing."""
    blocks = configuration.kv_config(without_budgets(config))
    positions = -(-config.max_model_len // config.block_size)
    chains = tuple((*chain, *(NO_CONTENT,) * (positions - len(chain))) for chain in blocks.chains)
    count = 1 + max(content for chain in chains for content in chain)
    return blocks._replace(chains=chains, hashes=tuple(range(count)))


def readable_blocks(config: Config) -> Any:
    """The KV blocks of this engine, with tuples that are read at unknown positions too."""
    blocks = configuration.kv_config(without_budgets(config))
    chains = tuple(map(FiniteSequence, blocks.chains))
    return blocks._replace(chains=chains, lengths=FiniteSequence(blocks.lengths))


def items_of(config: Config) -> Any:
    """The encoder cache of this engine; each item claims its length. A row that has no item is padded."""
    rows = [configuration.items_of(config, request) for request in range(len(config.prompts))]
    width = max(1, *map(len, rows))
    claims = tuple((*(item[LENGTH] for item in row), *(0,) * (width - len(row))) for row in rows)
    contents = tuple((*(item[CONTENT] for item in row), *(NO_INPUT,) * (width - len(row))) for row in rows)
    return readable_items(config)._replace(requests=contents, claims=claims)


def readable_items(config: Config) -> Any:
    """The encoder cache of this engine, with any capacity."""
    cache = configuration.encoder_config(without_budgets(config))
    return cache._replace(capacity=config.encoder_capacity)


class Read:
    """The cells of a state, row by row."""

    def __init__(self, config: Config, values: Any) -> None:
        self.config = config
        self.state: Any = nested(values)
        self.requests = len(config.prompts)

    def row(self, name: str, plan: int) -> Sequence[Cell]:
        """Of a field of plans, those of one plan."""
        tensor = getattr(self.state, name)
        width = len(tensor.cells) // tensor.shape[0]
        one: Sequence[Cell] = tensor.cells[plan * width : (plan + 1) * width]
        return one

    def spots(self, name: str, plan: int, request: int) -> FiniteLine:
        """The items of a request that are set in a field."""
        flags = self.row(name, plan)
        width = len(flags) // self.requests
        return line_of(flags[request * width : (request + 1) * width])


def line_of(flags: Sequence[Cell]) -> FiniteLine:
    """The places of the flags that are set, ascending."""
    return FiniteLine(cells.choose(flag, cells.count(flags[:place]), -1) for place, flag in enumerate(flags))


def present(tensor: CellTensor) -> FiniteMap:
    """Rows with a value other than 0."""
    numbers = {row: cells.number(cell) for row, cell in enumerate(tensor.cells)}
    members = {row: cells.truth(cell) for row, cell in enumerate(tensor.cells)}
    return FiniteMap(members, {row: value_of(cell) for row, cell in numbers.items()})


def decode(config: Config, values: Any) -> State:
    """Ranks are lines; a request has a value in a map if it has one at all."""
    read = Read(config, values)
    state = read.state
    running = {request: cells.at_most(0, rank) for request, rank in enumerate(state.running.cells)}
    transfers = zip(state.transfer.cells, state.brought.cells, strict=True)
    plans: Any = FiniteList((plan_of(read, place) for place in range(state.turns.shape[0])), state.plans.cells[0])
    lines: Any = {name: FiniteLine(getattr(state, name).cells) for name in ("waiting", "running")}
    return State(
        kv=kv_blocks.decode(blocks_of(config), state.kv),
        encoder=encoder_cache.decode(items_of(config), state.encoder),
        **lines,
        computed=FiniteMap(running, {request: value_of(state.computed.cells[request]) for request in running}),
        produced=present(state.produced),
        proposed=present(state.proposed),
        compiling=present(state.compiling),
        queued=present(state.queued),
        gone=present(state.gone),
        leaving=present(state.leaving),
        transfers=FiniteMap(
            {request: cells.truth(phase) for request, phase in enumerate(state.transfer.cells)},
            {request: Transfer(*map(value_of, one)) for request, one in enumerate(transfers)},
        ),
        remote=present(state.remote),
        plans=plans,
        worker=initial_worker(FROZEN),
    )


def plan_of(read: Read, place: int) -> Plan:
    """One plan in flight."""
    columns = [read.row(name, place) for name in ("starts", "tokens", "drafts", "samples", "void")]

    def part(request: int) -> Scheduled:
        start, tokens, drafts, samples, void = (value_of(cells.number(column[request])) for column in columns)
        encode, relies = (read.spots(name, place, request) for name in ("encode", "relies"))
        return Scheduled(request, start, tokens, drafts, samples, encode, relies, void)  # type: ignore[arg-type]  # lines

    lines: Any = {name: FiniteLine(read.row(name, place)) for name in ("dropped", "preempted")}
    spots: Any = {name: line_of(read.row(field, place)) for name, field in (("finished",) * 2, ("brought", "fetched"))}
    scheduled: Any = FiniteLine(read.row("turns", place), part, lambda entry: entry.request)
    return Plan(scheduled=scheduled, **lines, **spots)


NOTHING = ("proposed", "queued", "drafts", "open")
"""Fields that are 0 everywhere: of settings that are off at all shapes, and of rounds in progress."""


def off(config: Config) -> Iterator[str]:
    """Fields that are 0 everywhere in this configuration."""
    yield from NOTHING
    yield from () if any(config.grammars) else ("compiling",)
    yield from () if any(config.encoder_connector) else ("remote", "fetched")
    yield from () if has_transfers(config) else ("transfer", "brought")


def has_transfers(config: Config) -> bool:
    """Whether loads of external KV end or fail, or the blocks of finished requests are sent."""
    return any(config.loads_later) or any(config.sends) or config.load_failures == 1


def invariant(config: Config, values: Any) -> Iterator[Cell]:
    """SCH-6 in terms of the tensors, with the invariants of the two caches."""
    read = Read(config, values)
    state = read.state
    yield from kv_blocks.invariant(blocks_of(config), state.kv)
    yield from encoder_cache.invariant(items_of(config), state.encoder)
    yield from of_the_outputs(config, state.encoder)
    yield from (
        cells.less(rank, 0)
        for queue in (state.encoder.freed, state.encoder.promised, state.encoder.attempted)
        for rank in queue.cells
    )
    yield from dense_ranks(state.running.cells)
    yield from dense_ranks(state.waiting.cells)
    yield from (cells.equal(cells.number(cell), 0) for name in off(config) for cell in getattr(state, name).cells)
    yield from (cells.equal(cell, -1) for cell in state.ending.cells)
    yield from within(state.remote.cells, 0, configuration.EXPECTED)
    for request in range(read.requests):
        yield from of_a_request(read, request)
    yield from within(state.plans.cells, 0, state.turns.shape[0])
    for place in range(state.turns.shape[0]):
        yield from of_a_plan(read, place)


def of_the_outputs(config: Config, cache: Any) -> Iterator[Cell]:
    """An entry has the length of the items that show it."""
    for length, resident, size in zip(items_of(config).sizes, cache.resident.cells, cache.sizes.cells, strict=True):
        yield cells.some((cells.inverse(resident), cells.equal(size, length) if length > 0 else False))


def of_a_request(read: Read, request: int) -> Iterator[Cell]:
    """It waits, or runs, or is gone, or has not arrived; only one that runs has computed anything or holds anything."""
    state, final = read.state, configuration.final_length(read.config, request)
    runs, waits = (cells.at_most(0, line.cells[request]) for line in (state.running, state.waiting))
    gone, computed, produced = (column.cells[request] for column in (state.gone, state.computed, state.produced))
    for one, other in ((runs, waits), (runs, gone), (waits, gone)):
        yield cells.inverse(cells.every((one, other)))
    yield cells.some((gone, cells.inverse(state.leaving.cells[request])))
    yield cells.some((waits, cells.inverse(state.compiling.cells[request])))
    yield from within([computed], 0, cells.choose(runs, final - 1, 0))
    live = cells.some((runs, waits))
    yield from within([produced], 0, cells.choose(live, final - 1 - read.config.prompts[request], 0))
    yield cells.some((runs, *moving(read, request), cells.equal(state.kv.blocks.cells[request], 0)))
    yield from of_its_slots(read, request, runs)
    if has_transfers(read.config):
        yield from of_a_transfer(read, request, waits, gone)
    width = state.encoder.held.shape[1]
    held = state.encoder.held.cells[request * width : (request + 1) * width]
    shown = len(configuration.items_of(read.config, request))
    yield from (cells.some((runs, cells.inverse(one))) for one in held[:shown])
    yield from map(cells.inverse, held[shown:])


def of_its_slots(read: Read, request: int, runs: Cell) -> Iterator[Cell]:
    """What a running request has computed has slots, and is written once the step in flight is executed."""
    state = read.state
    computed, written, planned = (
        column.cells[request] for column in (state.computed, state.kv.computed, state.kv.scheduled)
    )
    stands = cells.inverse(runs)
    yield cells.some((stands, cells.equal(planned, computed)))
    if state.turns.shape[0] > 1:
        return
    in_step = cells.equal(state.transfer.cells[request], LOADS_IN_STEP)
    counts = cells.every((cells.at_most(0, read.row("turns", 0)[request]), cells.inverse(read.row("void", 0)[request])))
    begun = cells.choose(counts, read.row("starts", 0)[request], computed)
    yield cells.some((stands, in_step, cells.equal(written, begun)))


def moving(read: Read, request: int) -> Iterator[Cell]:
    """Whether a transfer reads or writes the request's blocks."""
    return (cells.equal(read.state.transfer.cells[request], phase) for phase in (LOADING, LOADED, ABANDONED, SENDING))


def of_a_transfer(read: Read, request: int, waits: Cell, gone: Cell) -> Iterator[Cell]:
    """A request that waits for KV, or with it, has not run; loaded tokens have slots, and are not computed before.

    With loaded KV it has computed just those. The first step of a request loads only if `loads_later` is off.
    """
    phase, brought = (column.cells[request] for column in (read.state.transfer, read.state.brought))
    loading, loaded, abandoned, sending = moving(read, request)
    computed, planned = (column.cells[request] for column in (read.state.kv.computed, read.state.kv.scheduled))
    in_step = cells.equal(phase, LOADS_IN_STEP)
    known: list[Cell] = [loading, loaded, abandoned] if any(read.config.loads_later) else [in_step]
    known += [sending] if any(read.config.sends) else []
    yield cells.some((*known, cells.equal(phase, 0)))
    yield cells.some((cells.at_most(0, read.state.running.cells[request]), cells.inverse(in_step)))
    yield cells.some((waits, cells.inverse(cells.some((loading, loaded)))))
    yield cells.some((gone, cells.inverse(cells.some((abandoned, sending)))))
    loads = cells.some((loading, loaded, abandoned, in_step))
    yield from within([brought], 0, cells.choose(loads, read.config.prompts[request], 0))
    slots = cells.every((cells.at_most(computed, brought), cells.at_most(brought, planned)))
    yield cells.some((cells.inverse(loads), slots))
    yield cells.some((cells.inverse(loaded), cells.equal(computed, brought)))


def of_a_plan(read: Read, place: int) -> Iterator[Cell]:
    """Behind those in flight a plan says nothing; a request has numbers in it only if it has a part."""
    flies = cells.less(place, read.state.plans.cells[0])
    for name in ("turns", "preempted", "dropped"):
        ranks = read.row(name, place)
        yield from dense_ranks(ranks)
        yield from (cells.some((flies, cells.less(rank, 0))) for rank in ranks)
    for name in ("finished", "fetched"):
        yield from (cells.some((flies, cells.inverse(one))) for one in read.row(name, place))
    for request, rank in enumerate(read.row("turns", place)):
        has_part = cells.at_most(0, rank)
        for name in ("starts", "tokens", "samples", "void"):
            yield cells.some((has_part, cells.equal(cells.number(read.row(name, place)[request]), 0)))
        for name in ("starts", "tokens"):
            yield cells.at_most(0, read.row(name, place)[request])
        for name in ("encode", "relies"):
            spots = read.spots(name, place, request).ranks
            yield from (cells.some((has_part, cells.less(one, 0))) for one in spots)
        if read.state.turns.shape[0] == 1:
            yield from of_a_part(read, place, request, has_part)


def of_a_part(read: Read, place: int, request: int, has_part: Cell) -> Iterator[Cell]:
    """A part that counts is of a request that runs, and ends with what is computed: one plan is in flight at most."""
    state, prompt = read.state, read.config.prompts[request]
    starts, tokens, samples, void = (read.row(name, place)[request] for name in ("starts", "tokens", "samples", "void"))
    computed, known_length = state.computed.cells[request], cells.add(prompt, state.produced.cells[request])
    account = (
        cells.at_most(0, state.running.cells[request]),
        cells.less(0, tokens),
        cells.equal(cells.add(starts, tokens), computed),
        cells.at_most(computed, known_length),
        cells.equal(samples, cells.equal(computed, known_length)),
    )
    yield cells.some((cells.inverse(has_part), void, cells.every(account)))


def operations(requests: int) -> Iterator[Operation]:
    """Each with every request."""
    blocks: Any = number("whole blocks")
    for request in range(requests):
        yield calls.Add(request)
        yield calls.Abort(request)
        yield calls.Compile(request)
        yield calls.FinishLoad(request)
        yield calls.FinishSend(request)
        yield calls.FailLoad(request, blocks)
        yield calls.FailStep(request, blocks)
    yield calls.ResetPrefixCache()
    yield calls.ResetEncoderCache()
    yield calls.ResetRunning()
    yield calls.Schedule()
    yield calls.Update(0)
    yield calls.BringOutput(0)
    yield calls.LoseOutput(0)


def operands(operation: Any) -> list[Any]:
    """As `tensor_models` has them."""
    return [getattr(operation, field.name) for field in fields(operation)]


def of(
    shape: str,
    config: Config,
    kinds: Collection[type[Operation]],
    *,
    nightly: bool = False,
    budgets: bool = False,
) -> Correspondence:
    """In this configuration, these operations. `budgets`: the budgets are any positive numbers."""
    one = Correspondence(
        component="scheduler",
        shape=shape,
        config=config,
        unknown=lambda: any_budgets(config) if budgets else config,
        parameters=lambda settings: parameters(one.model(), settings),
        decode=decode,
        invariant=invariant,
        operations=lambda: (call for call in operations(len(config.prompts)) if type(call) in kinds),
        operands=operands,
        valid=valid,
        initial=lambda settings: initial(one.model(), settings),
        assumed=lambda values: [cells.less(values.kv_clock.cells[0], kv_blocks.LATEST)],
        compared=lambda state: state._replace(worker=()),
        numbers="any budgets, any state of these numbers" if budgets else "any state of these numbers",
        instead=(
            (parts, "kv_config", readable_blocks),
            (parts, "encoder_config", readable_items),
            (requests, "kv_config", readable_blocks),
            (requests, "with_rejected", lambda config, state, part, accepted: state),  # only the worker's memory
            (rounds, "kv_config", readable_blocks),
            (rounds, "executed_by_workers", lambda rules, config, state, plan, chunks: state),
            (rounds, "blocks_of", lambda pool, request: ()),  # only chunks of the worker
            (rounds, "loaded", lambda config, state, request, prefix: state),
            (rounds, "load_lost", lambda config, state, request, tokens: state),
            (transfers, "kv_config", readable_blocks),
            (transfers, "load_written", lambda config, state, request, tokens: state),  # only the worker's memory
            (transfers, "load_lost", lambda config, state, request, tokens: state),
        ),
        modules=(transitions, rolling_back),
        nightly=nightly,
    )
    return one


def valid(config: Config, state: Any, operation: Any) -> Iterator[Cell]:
    """Budgets are positive. A load that fails has brought some blocks, and not all: from those of the hits on."""
    yield from are_positive(config)
    if type(operation) in (calls.FailLoad, calls.FailStep):
        blocks = cell_of(operation.blocks)
        yield from within([blocks], 0, config.max_model_len // config.block_size)


TWO = Config(
    block_size=BLOCK_SIZE,
    kv_blocks=2,
    token_budget=4,
    encoder_compute=1,
    encoder_capacity=1,
    max_running=2,
    max_model_len=4,
    prompts=(2, 2),
    outputs=(2, 2),
    items=(((0, 0, 1),), ((0, 1, 1),)),
    aborts=1,
    resets=1,
)
"""Two requests with the same item, of 2 blocks each, in a pool of 2."""
ONE = TWO._replace(prompts=(2,), outputs=(2,), items=(((0, 0, 1),),), running_resets=1)
"""One request with an item, of 2 blocks, in a pool of 2."""

MOVED = ONE._replace(external=(2,), loads_later=(1,), load_failures=1, sends=(1,), running_resets=0)
"""One request that waits for external KV, and whose blocks are sent."""
TWO_MOVED = TWO._replace(external=(2, 2), loads_later=(1, 1), load_failures=1, sends=(1, 1))
"""Two such requests."""
IN_STEP = ONE._replace(external=(2,), load_failures=1, running_resets=0)
"""One request whose first step loads external KV, and may fail."""
TRANSFERS = (calls.FinishLoad, calls.FinishSend, calls.FailLoad, calls.Add, calls.Abort, calls.Update)

ALONE = TWO._replace(kv_blocks=1, prompts=(2,), outputs=(2,), items=())
"""One request of 2 blocks in a pool of 1: `add` does not queue it, and a round in which it runs preempts it."""
SHORT = ALONE._replace(prompts=(1,), outputs=(2,))
"""One request of 1 block."""
ITEM = ALONE._replace(prompts=(2,), outputs=(1,), items=(((0, 0, 2),),))
"""One request of 1 block, with an item of 2 embeddings: a budget or a cache of 1 has no room for it."""
PAIR = ALONE._replace(prompts=(1, 1), outputs=(1, 1), max_model_len=2, prefix_caching=0)
"""Two requests of 1 block, in a pool of 1, without prefix caching."""


def round_of(shape: str, config: Config, *, nightly: bool = True, budgets: bool = True) -> Correspondence:
    """A whole round in this configuration."""
    return of(shape, config, (calls.Schedule,), nightly=nightly, budgets=budgets)


TWO_REQUESTS = "2 requests of 2 + 2 tokens with an item, in 2 blocks"
ONE_REQUEST = "1 request of 2 + 2 tokens with an item, in 2 blocks"
RESETS = (calls.ResetPrefixCache, calls.ResetEncoderCache)
CORRESPONDENCES = (
    of(f"{TWO_REQUESTS}, one plan in flight", TWO, (calls.Add, *RESETS)),
    of(f"{ONE_REQUEST}, one plan in flight", ONE, (calls.Abort, calls.Update)),
    of(f"{TWO_REQUESTS}, with grammars", TWO._replace(grammars=(1, 1)), (calls.Add, calls.Compile)),
    of(
        f"{TWO_REQUESTS}, with an encoder connector",
        TWO._replace(encoder_connector=(configuration.EXPECTED,)),
        (calls.BringOutput, calls.LoseOutput),
    ),
    of(f"{ONE_REQUEST}, one plan in flight", ONE, (calls.ResetRunning,), nightly=True),
    of(f"{ONE_REQUEST}, two plans in flight", ONE._replace(ahead=2), (calls.Abort,), nightly=True),
    of(f"{ONE_REQUEST}, whose KV is loaded and sent", MOVED, TRANSFERS),
    of(f"{ONE_REQUEST}, which its first step loads", IN_STEP, (calls.FailStep, calls.Abort, calls.Update)),
    of(f"{ONE_REQUEST}, which ends if its load fails", MOVED._replace(failed_loads_end=1), (calls.FailLoad,)),
    of(
        f"{ONE_REQUEST}, which ends if its step fails",
        IN_STEP._replace(failed_loads_end=1),
        (calls.FailStep,),
        nightly=True,
    ),
    of(f"{TWO_REQUESTS}, whose KV is loaded and sent", TWO_MOVED, (calls.FinishLoad, calls.FinishSend, calls.FailLoad)),
    round_of("1 request of 2 + 2 tokens, in 1 block", ALONE, nightly=False),
    round_of("1 request of 2 + 2 tokens, in 2 blocks", ALONE._replace(kv_blocks=2)),
    round_of("1 request of 2 + 1 tokens with an item of 2, in 1 block", ITEM),
    round_of("1 request of 1 + 2 tokens, in 1 block, two plans in flight", SHORT._replace(ahead=2)),
    round_of("2 requests of 1 + 1 tokens, in 1 block, without prefix caching", PAIR, budgets=False),
    round_of("1 request of 2 + 2 tokens, in 2 blocks, whose KV is loaded and sent", MOVED._replace(items=())),
    round_of(
        "1 request of 2 + 2 tokens, in 2 blocks, which its first step loads", IN_STEP._replace(items=()), budgets=False
    ),
    round_of(
        "1 request of 2 + 2 tokens with an item, in 1 block, with an encoder connector",
        ONE._replace(kv_blocks=1, running_resets=0, encoder_connector=(configuration.EXPECTED,)),
    ),
    round_of(ONE_REQUEST, ONE, budgets=False),
)
