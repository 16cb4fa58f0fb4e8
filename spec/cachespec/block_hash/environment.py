"""Which calls a scope makes in a state."""

from __future__ import annotations

from collections.abc import Iterable

from cachespec.block_hash.configuration import NONE, UNSALTED, Config
from cachespec.block_hash.forging import forged
from cachespec.block_hash.operations import Adapt, Append, Place, Season, Submit, Write
from cachespec.block_hash.state import Hashing, Request
from cachespec.kernel import Operation


def alphabet(config: Config, state: Hashing) -> Iterable[Operation]:
    """Every call on every request; an adversary keeps to its plan."""
    for name, request in enumerate(state.requests):
        if config.forger and name == config.requests - 1:
            yield from forgeries(config, state, name)
        else:
            yield from calls(config, name, request)


def calls(config: Config, name: int, request: Request) -> Iterable[Operation]:
    """Those that may change the request, and where callers have no discipline those that come too early or too late."""
    yield from beginnings(config, name, request)
    if not config.disciplined or (not request.submitted and len(request.tokens) < config.prompt_tokens):
        yield from (Write(name, token) for token in config.words)
    if not config.disciplined or (not request.submitted and len(request.items) < config.items):
        room = config.prompt_tokens - len(request.tokens) if config.disciplined else config.prompt_tokens
        yield from (Place(name, content) for content, length in enumerate(config.lengths) if length <= room)
    if not (config.disciplined and request.submitted):
        yield Submit(name)
    if not config.disciplined or (request.submitted and len(request.tokens) < config.tokens):
        yield from (Append(name, token) for token in config.words)


def beginnings(config: Config, name: int, request: Request) -> Iterable[Operation]:
    """An adapter and a salt are said once; with discipline, before anything is written."""
    if config.disciplined and (request.submitted or len(request.tokens) > len(config.opening)):
        return
    yield from (Adapt(name, adapter) for adapter in range(len(config.adapters)) if request.adapter == NONE)
    yield from (Season(name, salt) for salt in range(1, config.salts + 1) if request.salt == UNSALTED)


def forgeries(config: Config, state: Hashing, name: int) -> Iterable[Operation]:
    """The prompt of the first request, once it is submitted, with a first block that was found at home."""
    victim, mine = state.requests[0], state.requests[name]
    if not victim.submitted or mine.submitted:
        return
    plan = forged(config, victim.tokens)
    if mine.tokens == plan[: len(mine.tokens)] and len(mine.tokens) < len(plan):
        yield Write(name, plan[len(mine.tokens)])
    elif plan and mine.tokens == plan:
        yield Submit(name)


def unknown(config: Config, operation: Operation) -> str | None:
    """An adapter, a salt, a content or a token that there is not."""
    if isinstance(operation, Adapt) and operation.adapter >= len(config.adapters):
        return f"there is no adapter {operation.adapter}: there are {len(config.adapters)}"
    if isinstance(operation, Season) and not 1 <= operation.salt <= config.salts:
        return f"there is no salt {operation.salt}: there are 1 to {config.salts}"
    if isinstance(operation, Place) and operation.content >= len(config.lengths):
        return f"there is no content {operation.content}: there are {len(config.lengths)}"
    if isinstance(operation, Write | Append) and operation.token not in config.words:
        return f"there is no token {operation.token}: there are {', '.join(map(str, config.words))}"
    return None
