"""Which operations are possible in a state."""

from __future__ import annotations

from collections.abc import Iterable

from cachespec.kernel import Operation
from cachespec.kv_blocks.state import NO_TABLE
from cachespec.scheduler.configuration import EXPECTED, Config, connected, is_turn
from cachespec.scheduler.operations import (
    Abort,
    Add,
    BringOutput,
    Compile,
    FailLoad,
    FailStep,
    FinishLoad,
    FinishSend,
    LoseOutput,
    ResetEncoderCache,
    ResetPrefixCache,
    ResetRunning,
    Schedule,
    Update,
)
from cachespec.scheduler.requests import is_live
from cachespec.scheduler.rounds import listed
from cachespec.scheduler.state import ABANDONED, LOADING, LOADS_IN_STEP, NO_TRANSFER, SENDING, State


def calls(config: Config, state: State) -> Iterable[Operation]:
    """In a fixed order: requests arrive in any order, each once."""
    for request in range(len(config.prompts)):
        if may_arrive(config, state, request):
            yield Add(request)
    for request in listed(config, state.compiling):
        yield Compile(request)
    if len(state.plans) < config.ahead:
        yield Schedule()
    if state.plans:
        drafts = max((part.drafts for part in state.plans[0].scheduled if not part.void), default=0)
        for accepted in range(drafts + 1):
            yield Update(accepted)
    yield from transfers(config, state)
    yield from outputs(config, state)
    yield from faults(config, state)


def may_arrive(config: Config, state: State, request: int) -> bool:
    """The request has not arrived yet; the turn before it has, if it is a turn."""
    return not is_known(state, request) and (not is_turn(config, request) or is_known(state, request - 1))


def is_known(state: State, request: int) -> bool:
    """What `has_arrived` decides, said once more, so that a transition that is wrong about it is asked all the same."""
    return any(request in requests for requests in (state.waiting, state.running)) or (
        state.queued.has(request) or state.gone.has(request)
    )


def awaits_input(config: Config, state: State, request: int) -> bool:
    """What `is_awaited` decides, said once more: the next turn of a session that is between two turns."""
    return is_turn(config, request) and state.gone.has(request - 1) and not is_known(state, request)


def transfers(config: Config, state: State) -> Iterable[Operation]:
    """Loads end, or fail from any loaded block on; blocks are sent."""
    for request in range(len(config.prompts)):
        transfer = state.transfers.get(request, NO_TRANSFER)
        if transfer.phase in (LOADING, ABANDONED):
            yield FinishLoad(request)
        if transfer.phase == SENDING:
            yield FinishSend(request)
        if config.load_failures and transfer.phase in (LOADING, LOADS_IN_STEP):
            loaded = -(-transfer.tokens // config.block_size)
            for blocks in range(hit_blocks(config, state, request), loaded):
                if transfer.phase == LOADING:
                    yield FailLoad(request, blocks)
                elif is_oldest(state, request):
                    yield FailStep(request, blocks)


def outputs(config: Config, state: State) -> Iterable[Operation]:
    """Encoder outputs arrive at the connector and are lost, also twice, and in either order."""
    for content in range(len(config.encoder_connector)):
        if connected(config, content) == EXPECTED:
            yield BringOutput(content)
        if connected(config, content) > 0:
            yield LoseOutput(content)


def hit_blocks(config: Config, state: State, request: int) -> int:
    """The blocks of a request that were found, and are not loaded."""
    return state.kv.holdings.get(request, NO_TABLE).cached_tokens // config.block_size


def is_oldest(state: State, request: int) -> bool:
    """Whether the request has a part in the oldest plan."""
    return any(part.request == request and not part.void for plan in state.plans[:1] for part in plan.scheduled)


def faults(config: Config, state: State) -> Iterable[Operation]:
    """Aborts of requests that are there and of sessions between two turns, and resets."""
    if config.aborts:
        for request in range(len(config.prompts)):
            if is_live(state, request) or awaits_input(config, state, request):
                yield Abort(request)
    if config.resets:
        yield ResetPrefixCache()
        yield ResetEncoderCache()
    if config.running_resets:
        yield ResetRunning()


def unknown(config: Config, operation: Operation) -> str | None:
    """More drafts than are ever proposed, more blocks than there are, or a content that no item shows."""
    if isinstance(operation, Update) and operation.accepted > config.drafts:
        return f"there are {config.drafts} drafts at most"
    if isinstance(operation, FailLoad | FailStep) and operation.blocks > config.kv_blocks:
        return f"there are {config.kv_blocks} blocks at most"
    if isinstance(operation, BringOutput | LoseOutput) and operation.content >= len(config.encoder_connector):
        return f"there are {len(config.encoder_connector)} contents"
    return None
