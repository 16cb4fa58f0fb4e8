"""How 0.11.0 loads KV before a request is admitted, and sends that of finished ones.

Its scheduler does not count the tokens that a load brings. When it looks at the request again, it takes every slot of
the request's blocks for loaded. It frees the blocks of an aborted request, although its load still writes to them. It
has no failed loads.
"""

from __future__ import annotations

from collections.abc import Callable

from cachespec.encoder_cache.operations import BLOCKS
from cachespec.kv_blocks.era_on_demand import registered
from cachespec.scheduler import era_placeholders, requests
from cachespec.scheduler.configuration import Config, Request, final_length, kv_config
from cachespec.scheduler.counts import known_length
from cachespec.scheduler.era_loads import READY, found_or_loaded, load_begun, shown, undelayed
from cachespec.scheduler.era_rules import found_or_counted, head_of_line
from cachespec.scheduler.parts import slots, without_blocks, without_items
from cachespec.scheduler.round_state import Prefix, Round
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import ABANDONED, LOADED, LOADING, NO_TRANSFER, SENDING, Scheduled, State, Transfer, View
from cachespec.scheduler.view import seen
from cachespec.scheduler.worker import table_length


def found_or_asked(rules: Table, config: Config, state: State, request: Request) -> Prefix:
    """A request whose count is not zero is not looked up; of another one the connector says what it has."""
    if state.computed.has(request):
        return found_or_counted(rules, config, state, request)
    return found_or_loaded(rules, config, state, request)


def load_and_pass(rules: Table, config: Config, current: Round, request: Request, prefix: Prefix) -> Round:
    """Blocks for what is loaded. SCH-14: none are reserved for others, and steps in flight are not waited for."""
    state, hits = current.state, len(prefix.hits) * config.block_size
    own = undelayed(config, request, hits)
    answer = slots(rules, own, state.kv, request, 0, prefix.start - hits, prefix.hits)
    if not answer.yes:
        return head_of_line(rules, config, current, request, BLOCKS)
    return current._replace(state=load_begun(config, state, answer.kv, request, prefix))


def promoted(config: Config, current: Round, request: Request) -> Round:
    """C-SCH-43: a request whose load is over counts as computed to the end of its blocks, or of its tokens."""
    state, transfer = current.state, current.state.transfers.get(request, NO_TRANSFER)
    if transfer.phase != LOADED:
        return current
    known = known_length(config, state, request)
    tokens = min(table_length(state.kv, request) * config.block_size, known)
    tokens = tokens - 1 if tokens == known else tokens
    kv, _ = registered(kv_config(config), state.kv, request, tokens, 0, 1)
    state = state._replace(kv=kv, transfers=state.transfers.set(request, Transfer(READY, tokens)))
    return current._replace(state=state)


def withdrawn_at_once(rules: Table, config: Config, state: State, request: Request) -> State:
    """C-SCH-44: an aborted request gives back its blocks, although a load may still write to them."""
    transfer = state.transfers.get(request, NO_TRANSFER)
    state = era_placeholders.with_placeholders(state, request, 0)
    if transfer.phase != LOADING:
        return requests.withdrawn(rules, config, state, request)
    state = state._replace(transfers=state.transfers.set(request, transfer._replace(phase=ABANDONED)))
    return without_items(rules, config, without_blocks(rules, config, state, request), request)


def executed_or_finished_again(rules: Table, config: Config, state: State, part: Scheduled, accepted: int) -> State:
    """C-SCH-45: output of a finished request whose blocks are sent still counts, and finishes it once more."""
    if state.transfers.get(part.request, NO_TRANSFER).phase != SENDING:
        return era_placeholders.executed_with_place(rules, config, state, part, accepted)
    if part.samples == 0 or part.start + part.tokens + 1 < final_length(config, part.request):
        return state
    return state._replace(leaving=state.leaving.set(part.request, 1))


def seen_with_loads(rules: Table) -> Callable[[Config, State], View]:
    """The view of a scheduler with these rules."""
    return lambda config, state: not_counted(seen(rules, config, state))


def not_counted(view: View) -> View:
    """What a load brings is counted when its request is looked at again."""
    waits = tuple(
        (request, transfer._replace(tokens=0) if transfer.phase in (LOADING, LOADED) else transfer)
        for request, transfer in view.transfers
    )
    return shown(view._replace(transfers=waits))
