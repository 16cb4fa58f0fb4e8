"""Which waiting requests may join those that run, whatever room there is: grammar, adapter, KV, encoder outputs.

A request that may not is passed over: the ones behind it are considered. It keeps its place, and nothing is taken for
it. What it waits for does not depend on them: a grammar is compiled in its time, adapters leave with requests that run,
a load of its KV is finished or fails, and an encoder output arrives or is lost.
"""

from __future__ import annotations

from cachespec.scheduler.configuration import Config, Request, adapter_of
from cachespec.scheduler.remote import awaits_output
from cachespec.scheduler.round_state import Round
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import LOADING, NO_TRANSFER, Line, State


def may_join(config: Config, current: Round, request: Request) -> bool:
    """SCH-13: its grammar is compiled. SCH-12: its adapter runs already, or one more may. SCH-14: no load goes on.

    SCH-17: no encoder output of its items is on its way.
    """
    state = current.state
    return (
        is_compiled(state, request)
        and not is_loading(state, request)
        and adapter_fits(config, request, state.running)
        and not awaits_output(config, state, request)
    )


def is_loading(state: State, request: Request) -> bool:
    """Whether the request waits for its KV."""
    return state.transfers.get(request, NO_TRANSFER).phase == LOADING


def is_compiled(state: State, request: Request) -> bool:
    """Whether the grammar of its output is there, if it has one."""
    return not state.compiling.has(request)


def adapter_fits(config: Config, request: Request, others: Line) -> bool:
    """Whether the adapters of the others and this one are few enough. The base model is no adapter."""
    adapter = adapter_of(config, request)
    if adapter == 0:
        return True
    there = adapters_of(config, others)
    return any(other == adapter for other in there) or len(there) < config.max_adapters


def adapters_of(config: Config, line: Line) -> tuple[int, ...]:
    """The different adapters of these requests."""
    different: tuple[int, ...] = ()
    for request in line:
        adapter = adapter_of(config, request)
        if adapter > 0 and not any(other == adapter for other in different):
            different = (*different, adapter)
    return different


def in_its_turn(config: Config, state: State, request: Request) -> State:
    """SCH-8/last: an arrival waits in the one queue that there is, also if its grammar is still to be compiled."""
    return state


def passed_by(rules: Table, config: Config, current: Round, request: Request) -> Round:
    """The requests behind it are considered."""
    return current
