"""Wrong transitions, steps and eras of a variant: mypy refuses each line that is marked, and no other."""

from __future__ import annotations

from cachespec import encoder_cache, kv_blocks
from cachespec.kernel import DONE, Outcome, Transitions
from cachespec.lru import NORMATIVE_LRU, Cache, Config, Put, Touch, View
from cachespec.lru.transitions import put, touch


def of_another_state(config: Config, pool: kv_blocks.Pool, op: Put) -> tuple[kv_blocks.Pool, Outcome]:
    return pool, DONE


def of_another_config(config: kv_blocks.Config, cache: Cache, op: Put) -> tuple[Cache, Outcome]:
    return cache, DONE


def without_outcome(config: Config, cache: Cache, op: Put) -> Cache:
    return cache


def view_of_another_state(config: Config, cache: encoder_cache.Cache) -> View:
    raise NotImplementedError


RIGHT: Transitions[Config, Cache] = {Put: put, Touch: touch}
OTHER_STATE: Transitions[Config, Cache] = {Put: of_another_state}  # refused: dict-item
OTHER_CONFIG: Transitions[Config, Cache] = {Put: of_another_config}  # refused: dict-item
NO_OUTCOME: Transitions[Config, Cache] = {Put: without_outcome}  # refused: dict-item
NO_OPERATION: Transitions[Config, Cache] = {Cache: put}  # refused: dict-item

NORMATIVE_LRU.era("right", "right", {Put: put}, {Put: "a reason"}, exempt={"LRU-1": "a reason"})
NORMATIVE_LRU.era("state", "wrong", {Put: of_another_state}, {Put: "a reason"})  # refused: dict-item
NORMATIVE_LRU.era("outcome", "wrong", {Put: without_outcome}, {Put: "a reason"})  # refused: dict-item
NORMATIVE_LRU.era("reason", "wrong", {Put: put}, {Put: 1})  # refused: dict-item
NORMATIVE_LRU.era("misspelt", "wrong", {}, {}, exempts={})  # refused: call-arg
NORMATIVE_LRU.era("misspelt", "wrong", {}, {}, start_difers="")  # refused: call-arg
NORMATIVE_LRU.era("view", "wrong", {}, {}, view=view_of_another_state)  # refused: arg-type


def steps(config: Config, cache: Cache, pool: kv_blocks.Pool) -> Cache:
    cache, outcome = NORMATIVE_LRU.step(config, cache, Touch(0))
    NORMATIVE_LRU.step(config, cache, "touch")  # refused: arg-type
    NORMATIVE_LRU.step(config, cache, Touch)  # refused: arg-type
    NORMATIVE_LRU.step(config, cache, Touch("a"))  # refused: arg-type
    NORMATIVE_LRU.step(config, pool, Touch(0))  # refused: arg-type
    NORMATIVE_LRU.step(cache, config, Touch(0))  # refused: arg-type
    NORMATIVE_LRU.step(config, cache, Touch(0)).outcome  # noqa: B018  # only its type matters  # refused: attr-defined
    return cache if outcome == DONE else NORMATIVE_LRU.start(config)
