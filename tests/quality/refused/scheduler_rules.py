"""Wrong calls of the rules of a scheduler, and wrong rules: mypy refuses each line that is marked, and no other."""

from __future__ import annotations

from cachespec.scheduler.configuration import Config
from cachespec.scheduler.normative import RULES
from cachespec.scheduler.round_state import Fit, Prefix, Round
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import Scheduled, State


def right_calls(config: Config, state: State, current: Round, part: Scheduled) -> State:
    tokens: int = RULES.trimmed(config, state, 0, 0, 4)
    victim: int = RULES.victim(config, state)
    prefix: Prefix = RULES.cached_prefix(RULES, config, state, victim)
    after = RULES.slots(RULES, config, state, victim, prefix, tokens)
    state = RULES.executed(RULES, config, state._replace(kv=after.kv), part, 0)
    return RULES.serve_running(RULES, config, current._replace(state=state)).state


def wrong_calls(config: Config, state: State, current: Round, fit: Fit, part: Scheduled) -> None:
    RULES.trimmed(config, state, 0, 0)  # refused: call-arg
    RULES.trimmed(config, current, 0, 0, 4)  # refused: arg-type
    RULES.trimmed(RULES, config, state, 0, 0, 4)  # refused: call-arg arg-type
    RULES.victim(state, config)  # refused: arg-type
    RULES.victim(config, current)  # refused: arg-type
    RULES.passed_over(RULES, config, current, fit, 0)  # refused: arg-type
    RULES.executed(RULES, config, state, (0, 0, 4), 0)  # refused: arg-type
    RULES.fit_item(RULES, config, fit, 0, 0, state)  # refused: arg-type
    RULES.is_count("4")  # refused: arg-type
    RULES.slots(RULES, config, state, 0, (), 4)  # refused: arg-type
    RULES.cached_prefix(RULES, config, state, 0).hit  # noqa: B018  # only its type matters  # refused: attr-defined
    RULES.kv.step(config, state.kv, part)  # refused: arg-type


def victim_without_config(state: State) -> int:
    return state.running[0]


def trimmed_to_text(config: Config, state: State, request: int, start: int, tokens: int) -> str:
    return str(tokens)


def offered_in_another_order(config: Config, state: State, request: int, tokens: int, start: int, budget: int) -> int:
    return min(tokens, budget)


def loses_the_state(rules: Table, config: Config, state: State, request: int) -> Config:
    return config


WITHOUT_CONFIG = RULES._replace(victim=victim_without_config)  # refused: arg-type
TO_TEXT = RULES._replace(trimmed=trimmed_to_text)  # refused: arg-type
IN_ANOTHER_ORDER = RULES._replace(offered=offered_in_another_order)  # refused: arg-type
LOSING_THE_STATE = RULES._replace(lose=loses_the_state)  # refused: arg-type
MISSPELT = RULES._replace(victims=RULES.victim)  # refused: call-arg
RIGHT = RULES._replace(victim=RULES.victim, trimmed=RULES.trimmed)
