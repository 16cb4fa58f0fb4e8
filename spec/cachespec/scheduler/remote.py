"""Encoder outputs from another process: what an encoder connector has, and what arrives there, once, twice or never.

The connector keeps its copies itself. A step that needs one loads it into the encoder cache of the workers, where it
takes as many slots as an output that was encoded here, and is released and evicted as one. It costs no compute budget.

A request waits to be admitted while an output of its items is on its way (SCH-17). It holds nothing meanwhile, so an
abort leaves nothing behind. If the connector loses an output, requests encode it here; they need not wait for it.
"""

from __future__ import annotations

from cachespec.kernel import ABSENT, DONE, PRESENT, Map, Outcome
from cachespec.scheduler.configuration import CONTENT, EXPECTED, STORED, Config, Item, ItemIndex, Request, items_of
from cachespec.scheduler.state import State

Result = tuple[State, Outcome]


def is_stored(remote: Map[int, int], item: Item) -> bool:
    """Whether the connector has the encoder output of the item."""
    return remote.get(item[CONTENT], 0) == STORED


def awaits_output(config: Config, state: State, request: Request) -> bool:
    """SCH-17: whether an encoder output of the request's items is on its way."""
    return any(is_expected(config, state, item) for item in items_of(config, request))


def is_expected(config: Config, state: State, item: Item) -> bool:
    """Whether the encoder output of the item is on its way."""
    return state.remote.get(item[CONTENT], 0) == EXPECTED


def bring(config: Config, state: State, content: int) -> Result:
    """SCH-17: the output is there from now on. One that arrives twice changes nothing."""
    if not state.remote.has(content):
        return state, ABSENT
    if state.remote.get(content, 0) == STORED:
        return state, PRESENT
    return state._replace(remote=state.remote.set(content, STORED)), DONE


def lose(config: Config, state: State, content: int) -> Result:
    """SCH-17: no request waits for the output any longer. An entry that was loaded stays in the encoder cache."""
    if not state.remote.has(content):
        return state, ABSENT
    return state._replace(remote=state.remote.remove(content)), DONE


def with_contents(
    config: Config, brought: tuple[int, ...], request: Request, bring: tuple[ItemIndex, ...]
) -> tuple[int, ...]:
    """The contents that a step loads, with those of these items of the request."""
    for index in bring:
        brought = (*brought, items_of(config, request)[index][CONTENT])
    return brought


def ascending(config: Config, brought: tuple[int, ...]) -> tuple[int, ...]:
    """The contents in their order, each once."""
    ordered: tuple[int, ...] = ()
    for content in range(len(config.encoder_connector)):
        if any(other == content for other in brought):
            ordered = (*ordered, content)
    return ordered
