"""`scheduler`: the layout's fields as the specification's fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from cacheimpl import kv_blocks as kv_tensors
from cacheimpl import scheduler as tensors
from cacheimpl.answer import UNANSWERED, Answer, Code
from cacheimpl.scheduler.layout import ENCODER, KV, flat, layout, nested
from cacheimpl.scheduler.requests import awaited, has_arrived
from cacheimpl.scheduler.transferring import ABANDONED, IN_STEP, LOADING, SENDING
from cacheproof.model.registry import component_named
from cacheproof.model.target import TargetError
from cacheproof.tensor_models import encoder_cache, kv_blocks
from cacheproof.tensor_models.encoder_cache import in_order
from cacheproof.tensor_models.model import (
    Function,
    Row,
    TensorModel,
    TensorOperation,
    always,
    named,
    no_operands,
    table,
)
from cachespec.encoder_cache import Cache
from cachespec.kernel import FrozenMap, Operation
from cachespec.kv_blocks import Pool
from cachespec.scheduler import configuration
from cachespec.scheduler import operations as calls
from cachespec.scheduler.configuration import START, Config
from cachespec.scheduler.state import Plan, Scheduled, State, Transfer
from cachespec.scheduler.worker import Worker, blocks_of, token
from cachespec.scheduler.worker_properties import last_tokens


def tables_of(config: Config, device: str) -> tensors.Config:
    """Requests of fewer items than the one with most have none at the places that they lack.

    The implementation admits by chunk, as the normative scheduler does.
    """
    encoder = encoder_cache.tables_of(configuration.encoder_config(config), device)
    (requests, items), contents = encoder.contents.shape, len(configuration.encoder_config(config).sizes)
    starts = [[item[START] for item in configuration.items_of(config, request)] for request in range(requests)]

    def number(value: int) -> Tensor:
        return torch.tensor(value, dtype=torch.int64, device=device)

    def column(values: tuple[int, ...]) -> Tensor:
        return torch.tensor(values or (0,) * requests, dtype=torch.int64, device=device)

    return tensors.Config(
        kv=kv_blocks.tables_of(configuration.kv_config(config), device),
        encoder=encoder,
        item_starts=torch.tensor([[*row, *[0] * (items - len(row))] for row in starts], device=device),
        prompts=column(config.prompts),
        finals=column(tuple(configuration.final_length(config, request) for request in range(requests))),
        ends=column(tuple(configuration.ended_length(config, request) for request in range(requests))),
        priorities=column(tuple(configuration.priority_of(config, request) for request in range(requests))),
        external=column(config.external),
        adapters=column(config.adapters),
        grammars=column(config.grammars) > 0,
        before=column(tuple(r - 1 if configuration.is_turn(config, r) else -1 for r in range(requests))),
        later=column(config.loads_later) > 0,
        sent=column(config.sends) > 0,
        block_size=number(config.block_size),
        blocks=number(config.kv_blocks),
        token_budget=number(config.token_budget),
        encoder_compute=number(config.encoder_compute),
        max_running=number(config.max_running),
        max_model_len=number(config.max_model_len),
        rows=torch.arange(requests, device=device),
        blank=tensors.blank_plans(1, requests, items, contents, device),
        most_of_one=config.long_prefill_threshold or tensors.NO_LIMIT,
        drafts=config.drafts,
        alignment=config.alignment,
        whole_items=config.whole_items == 1,
        chunked=config.chunked_prefill == 1,
        caching=config.prefix_caching == 1,
        pipelined=config.pipelined == 1,
        watermark=config.watermark,
        most_adapters=config.max_adapters if any(config.adapters) else 0,
        compiles=any(config.grammars),
        encoder_decoder=config.encoder_decoder == 1,
        loads=any(config.loads_later),
        sends=any(config.sends),
        sessions=any(config.turns),
        fails=config.load_failures == 1,
        failed_ends=config.failed_loads_end == 1,
        connected=any(config.encoder_connector),
        pools=config.pooling == 1,
    )


def remote_of(config: Config, device: str) -> Tensor:
    """[contents] int64: what the encoder connector has or expects at first."""
    contents = range(len(configuration.encoder_config(config).sizes))
    return torch.tensor([configuration.connected(config, content) for content in contents], device=device)


# State --------------------------------------------------------------------------------------------------------------


def decode(config: Config, row: Row) -> State:
    """Ranks are lines; a request has a value in a map where it has one at all. The worker is what the account says."""
    kv = {name.removeprefix(KV): value for name, value in row.items() if name.startswith(KV)}
    encoder = {name.removeprefix(ENCODER): value for name, value in row.items() if name.startswith(ENCODER)}
    pool = kv_blocks.decode(configuration.kv_config(config), kv)
    cache = encoder_cache.decode(configuration.encoder_config(config), encoder)
    computed = FrozenMap((request, row["computed"][request]) for request in sorted(line(row["running"])))
    there = {request: holding.computed for request, holding in pool.holdings.items()} | dict(computed.items())
    return State(
        kv=pool,
        encoder=cache,
        waiting=line(row["waiting"]),
        running=line(row["running"]),
        computed=computed,
        produced=present(row["produced"]),
        proposed=present(row["proposed"]),
        compiling=present(row["compiling"]),
        queued=present(row["queued"]),
        gone=present(row["gone"]),
        leaving=present(row["leaving"]),
        transfers=FrozenMap(
            (request, Transfer(phase, row["brought"][request]))
            for request, phase in enumerate(row["transfer"])
            if phase
        ),
        remote=present(row["remote"]),
        plans=tuple(plan_of(row, place) for place in range(row["plans"])),
        worker=accounted_worker(config, pool, cache, there)._replace(crossed=crossed(config, computed)),
    )


def accounted_worker(config: Config, kv: Pool, encoder: Cache, computed: Mapping[int, int]) -> Worker:
    """The worker that has computed exactly what the account says, which no tensor holds.

    `computed`: for each request with a table the tokens of which it has, or steps in flight write, the KV.

    The specification's worker executes the plans themselves. So a plan that computes anything else is a difference.
    """
    outputs = {content for content, _ in encoder.sizes.items()} | {content for content, _ in encoder.freed.items()}
    ends = dict(last_tokens(config))
    memory = {block: ends[content] for block, content in kv.registered.items()}
    for request, tokens in computed.items():
        for index, block in enumerate(blocks_of(kv, request)):
            end = min(tokens, (index + 1) * config.block_size)
            if end > index * config.block_size:
                memory[block] = token(config, request, end - 1)
    return Worker(
        outputs=FrozenMap(((content,), 1) for content in sorted(outputs)),
        memory=FrozenMap(sorted(memory.items())),
        missing_outputs=(),
        missing_slots=(),
        crossed=FrozenMap(),
    )


def crossed(config: Config, computed: FrozenMap[int, int]) -> FrozenMap[tuple[int, int], int]:
    """The items whose cross-attention KV the first steps of running requests have written."""
    if config.encoder_decoder == 0:
        return FrozenMap()
    return FrozenMap(
        ((request, index), 1)
        for request, _ in computed.items()
        for index in range(len(configuration.items_of(config, request)))
    )


def line(ranks: list[int]) -> tuple[int, ...]:
    """Rows in the order of their ranks."""
    return tuple(in_order(enumerate(ranks)))


def present(values: list[int]) -> FrozenMap[int, int]:
    """Rows with a value other than 0."""
    return FrozenMap((one, value) for one, value in enumerate(values) if value != 0)


def plan_of(row: Row, place: int) -> Plan:
    """One plan in flight."""

    def part(request: int) -> Scheduled:
        encode, relies = (tuple(spots(row[name][place][request])) for name in ("encode", "relies"))
        start, tokens, drafts, samples, void = (row[name][place][request] for name in COUNTS)
        return Scheduled(request, start, tokens, drafts, samples, encode, relies, void)

    return Plan(
        scheduled=tuple(part(request) for request in line(row["turns"][place])),
        dropped=line(row["dropped"][place]),
        finished=tuple(spots(row["finished"][place])),
        preempted=line(row["preempted"][place]),
        brought=tuple(spots(row["fetched"][place])),
    )


COUNTS = ("starts", "tokens", "drafts", "samples", "void")
"""Fields of the layout that say how much a part of a plan is."""


def spots(flags: list[int]) -> Iterator[int]:
    """Where the flags are set."""
    return (spot for spot, flag in enumerate(flags) if flag)


# Operations ---------------------------------------------------------------------------------------------------------

Step = tuple[tensors.State, Answer]


def whole_round(tables: tensors.Config, state: tensors.State, extent: tensors.Extent) -> Step:
    """`schedule`, and `proceed` as often as it may take, of which the one counts that ends the round."""
    state, code = tensors.schedule(tables, state, extent=extent)
    for _ in range(-(-state.running.shape[0] // extent.rounds)):
        state, later = tensors.proceed(tables, state, extent=extent)
        code = torch.where(code == UNANSWERED, later, code)
    values, length = tensors.shown(tables, state)
    return state, Answer(code, values, torch.where(code == int(Code.DONE), length, 0))


def round_alone(tables: tensors.Config, state: tensors.State, extent: tensors.Extent) -> Step:
    """The same round, with `proceed` as often as there is something left to do."""
    state, code = tensors.schedule(tables, state, extent=extent)
    while int(code) == UNANSWERED:
        if int(tensors.remaining(tables, state)) == 0:
            raise TargetError("a round goes on in which nothing remains")
        state, code = tensors.proceed(tables, state, extent=extent)
    values, length = tensors.shown(tables, state)
    return state, Answer(code, values, torch.where(code == int(Code.DONE), length, 0))


def whole_update(tables: tensors.Config, state: tensors.State, accepted: Tensor, extent: tensors.Extent) -> Step:
    """`update`, then `release` until no request is ending."""
    state, code = tensors.update(tables, state, accepted, extent=extent)
    values, length = tensors.finished(tables, state)
    for _ in range(-(-state.running.shape[0] // extent.releases)):
        state = tensors.release(tables, state, extent=extent)
    return state, Answer(code, values, length)


def whole_failure(
    tables: tensors.Config, state: tensors.State, request: Tensor, blocks: Tensor, extent: tensors.Extent
) -> Step:
    """`failed_step`, then `update` and `release` for the others; the answer names all that have ended."""
    turns = state.turns[0]
    state, fails, ends = tensors.failed_step(tables, state, request, blocks)
    after, _ = tensors.update(tables, state, torch.zeros_like(request), extent=extent)
    mine = (tables.rows == request) & ends
    values, length = tensors.finished(tables, after._replace(ending=torch.where(mine, turns, after.ending)))
    for _ in range(-(-state.running.shape[0] // extent.releases)):
        after = tensors.release(tables, after, extent=extent)
    chosen = tensors.State(*(choose(fails, new, old) for new, old in zip(after, state, strict=True)))
    code = torch.where(fails, int(Code.DONE), int(Code.ABSENT))
    return chosen, Answer(code, values, torch.where(fails, length, 0))


def choose(condition: Tensor, new: Any, old: Any) -> Any:
    """One or the other part of a state."""
    if isinstance(new, Tensor):
        return torch.where(condition, new, old)
    return type(new)(*(torch.where(condition, one, other) for one, other in zip(new, old, strict=True)))


def lifted(function: Callable[..., Step]) -> Function:
    """The function on flat states, which a layout packs."""

    def on_flat(tables: tensors.Config, values: Any, *operands: Tensor) -> tuple[Any, Answer]:
        state, answer = function(tables, nested(values), *operands)
        return flat(state), answer

    return on_flat


def may_arrive(tables: tensors.Config, values: Any, request: Tensor) -> Tensor:
    """Each request arrives once; a turn of a session arrives after the one before."""
    known, before = has_arrived(nested(values)), tables.before.index_select(0, request[None])
    return (~known.index_select(0, request[None]) & ((before < 0) | known.index_select(0, before.clamp(min=0))))[0]


def is_live(tables: tensors.Config, values: Any, request: Tensor) -> Tensor:
    """It waits or runs, or its session waits for it."""
    state = nested(values)
    live = (state.waiting >= 0) | (state.running >= 0) | awaited(tables, state)
    return live.index_select(0, request[None])[0]


def compiles(tables: tensors.Config, values: Any, request: Tensor) -> Tensor:
    """It waits for the grammar of its output."""
    return nested(values).compiling.index_select(0, request[None])[0]


def loading(tables: tensors.Config, values: Any, request: Tensor) -> Tensor:
    """A load of its KV goes on."""
    phase = nested(values).transfer.index_select(0, request[None])[0]
    return (phase == LOADING) | (phase == ABANDONED)


def sending(tables: tensors.Config, values: Any, request: Tensor) -> Tensor:
    """Its blocks are sent."""
    return nested(values).transfer.index_select(0, request[None])[0] == SENDING


def may_fail(tables: tensors.Config, values: Any, request: Tensor, blocks: Tensor) -> Tensor:
    """So many of its blocks may be whole: no fewer than were found, and fewer than are loaded."""
    state = nested(values)
    origin, brought = (column.index_select(0, request[None])[0] for column in (state.kv.origin, state.brought))
    return (blocks * tables.block_size >= origin) & (blocks * tables.block_size < brought)


def may_fail_load(tables: tensors.Config, values: Any, request: Tensor, blocks: Tensor) -> Tensor:
    """It waits for its KV."""
    phase = nested(values).transfer.index_select(0, request[None])[0]
    return (phase == LOADING) & may_fail(tables, values, request, blocks)


def may_fail_step(tables: tensors.Config, values: Any, request: Tensor, blocks: Tensor) -> Tensor:
    """Its oldest step in flight loads."""
    state = nested(values)
    phase, turn, void = (
        column.index_select(0, request[None])[0] for column in (state.transfer, state.turns[0], state.void[0])
    )
    return (phase == IN_STEP) & (turn >= 0) & ~void & may_fail(tables, values, request, blocks)


def may_plan(tables: tensors.Config, values: Any) -> Tensor:
    """One more plan may be in flight."""
    state = nested(values)
    return state.plans < state.turns.shape[0]


def may_accept(tables: tensors.Config, values: Any, accepted: Tensor) -> Tensor:
    """A plan is in flight, and has so many drafts for some request."""
    state = nested(values)
    drafts = torch.where(state.void[0], 0, state.drafts[0]).amax()
    return (state.plans > 0) & (accepted <= drafts)


def every_call(config: Config) -> Iterator[Operation]:
    """Every operation that the alphabet of some state may have."""
    requests = range(len(config.prompts))
    yield from (calls.Add(request) for request in requests)
    yield calls.Schedule()
    yield from (calls.Update(accepted) for accepted in range(config.drafts + 1))
    if config.aborts:
        yield from (calls.Abort(request) for request in requests)
    if config.resets:
        yield calls.ResetPrefixCache()
        yield calls.ResetEncoderCache()
    if config.running_resets:
        yield calls.ResetRunning()
    yield from (calls.Compile(request) for request in requests if configuration.has_grammar(config, request))
    yield from (calls.FinishLoad(request) for request in requests if configuration.loads_later(config, request))
    yield from (calls.FinishSend(request) for request in requests if configuration.is_sent(config, request))
    for content, phase in enumerate(config.encoder_connector):
        if phase == configuration.EXPECTED:
            yield calls.BringOutput(content)
        if phase:
            yield calls.LoseOutput(content)
    for request in requests if config.load_failures else ():
        for blocks in range(-(-config.external[request] // config.block_size)):
            yield calls.FailLoad(request, blocks)
            yield calls.FailStep(request, blocks)


def extent_of(config: Config) -> tensors.Extent:
    """Wide enough for everything but a round, which goes on one request at a time."""
    requests, positions = len(config.prompts), -(-config.max_model_len // config.block_size)
    return tensors.Extent(width=1, wide=1, admissions=requests, rounds=1, fills=positions, releases=requests)


def model(config: Config, device: str, extent: tensors.Extent | None = None) -> TensorModel:
    """The tensor code in this configuration."""
    component = component_named("scheduler")
    tables, requests = tables_of(config, device), len(config.prompts)
    sizes = extent or extent_of(config)
    contents = len(configuration.encoder_config(config).sizes)
    pool = kv_tensors.empty(tables.kv, config.kv_blocks)
    start = tensors.empty(tables, pool, config.ahead, remote_of(config, device))

    def of_request(operation: Any) -> tuple[int, ...]:
        return (named("request", operation.request, requests),)

    def of_content(operation: Any) -> tuple[int, ...]:
        return (named("content", operation.content, contents),)

    def of_update(operation: Any) -> tuple[int, ...]:
        return (operation.accepted,)

    def of_failure(operation: Any) -> tuple[int, ...]:
        return (named("request", operation.request, requests), operation.blocks)

    def fail_step(tables: tensors.Config, state: tensors.State, request: Tensor, blocks: Tensor) -> Step:
        return whole_failure(tables, state, request, blocks, sizes)

    def schedule(tables: tensors.Config, state: tensors.State) -> Step:
        return whole_round(tables, state, sizes)

    def update(tables: tensors.Config, state: tensors.State, accepted: Tensor) -> Step:
        return whole_update(tables, state, accepted, sizes)

    def schedule_alone(tables: tensors.Config, state: tensors.State) -> Step:
        return round_alone(tables, state, sizes)

    operations = (
        TensorOperation(calls.Add, lifted(tensors.add), of_request, may_arrive),
        TensorOperation(calls.Schedule, lifted(schedule), no_operands, may_plan, lifted(schedule_alone)),
        TensorOperation(calls.Update, lifted(update), of_update, may_accept),
        TensorOperation(calls.Abort, lifted(tensors.abort), of_request, is_live),
        TensorOperation(calls.ResetPrefixCache, lifted(tensors.reset_prefix_cache), no_operands, always),
        TensorOperation(calls.ResetEncoderCache, lifted(tensors.reset_encoder_cache), no_operands, always),
        TensorOperation(calls.ResetRunning, lifted(tensors.reset_running), no_operands, always),
        TensorOperation(calls.Compile, lifted(tensors.compiled), of_request, compiles),
        TensorOperation(calls.FinishLoad, lifted(tensors.finish_load), of_request, loading),
        TensorOperation(calls.FinishSend, lifted(tensors.finish_send), of_request, sending),
        TensorOperation(calls.BringOutput, lifted(tensors.bring_output), of_content, always),
        TensorOperation(calls.LoseOutput, lifted(tensors.lose_output), of_content, always),
        TensorOperation(calls.FailLoad, lifted(tensors.fail_load), of_failure, may_fail_load),
        TensorOperation(calls.FailStep, lifted(fail_step), of_failure, may_fail_step),
    )
    return TensorModel(
        component=component,
        variant=component.normative,
        config=config,
        parameters=tables,
        initial=flat(start),
        layout=layout(tables, config.kv_blocks, contents, config.ahead),
        operations=table(*operations),
        domain=lambda: every_call(config),
        decode=lambda row: decode(config, row),
    )
