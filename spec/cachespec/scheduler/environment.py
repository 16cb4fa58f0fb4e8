"""Which operations are possible in a state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cachespec.kernel import Operation
from cachespec.scheduler.configuration import Config
from cachespec.scheduler.operations import (
    Abort,
    Add,
    Compile,
    ResetEncoderCache,
    ResetPrefixCache,
    ResetRunning,
    Schedule,
    Update,
)
from cachespec.scheduler.rounds import listed
from cachespec.scheduler.state import State


def calls(config: Config, state: State) -> Iterable[Operation]:
    """In a fixed order: requests arrive in any order, each once."""
    live = (*state.waiting, *state.running)
    for request in range(len(config.prompts)):
        if request not in live and not state.gone.has(request):
            yield Add(request)
    for request in listed(config, state.compiling):
        yield Compile(request)
    if len(state.plans) < config.ahead:
        yield Schedule()
    if state.plans:
        drafts = max((part.drafts for part in state.plans[0].scheduled if not part.void), default=0)
        for accepted in range(drafts + 1):
            yield Update(accepted)
    yield from faults(config, live)


def faults(config: Config, live: tuple[int, ...]) -> Iterable[Operation]:
    """Aborts of requests that are there, and resets."""
    if config.aborts:
        for request in sorted(live):
            yield Abort(request)
    if config.resets:
        yield ResetPrefixCache()
        yield ResetEncoderCache()
    if config.running_resets:
        yield ResetRunning()


def switched_off(config: Config) -> Mapping[type[Operation], str]:
    """What a configuration rules out."""
    off: dict[type[Operation], str] = {}
    if not any(config.grammars):
        off[Compile] = "no request has a grammar"
    if not config.aborts:
        off[Abort] = "aborts = 0"
    if not config.running_resets:
        off[ResetRunning] = "running_resets = 0"
    if not config.resets:
        off.update(dict.fromkeys((ResetPrefixCache, ResetEncoderCache), "resets = 0"))
    return off


def unknown(config: Config, operation: Operation) -> str | None:
    """More drafts than are ever proposed."""
    if isinstance(operation, Update) and operation.accepted > config.drafts:
        return f"there are {config.drafts} drafts at most"
    return None
