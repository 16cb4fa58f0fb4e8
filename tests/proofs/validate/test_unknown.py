"""Logs that leave something out: every state that is still possible is followed, and none twice."""

from __future__ import annotations

import random
from typing import Any, get_type_hints

import pytest
from tests.proofs.validate.logs import Message, header_for, log_of, validated, walked

from cacheproof.logs.validate.header import Header, Unlogged
from cacheproof.logs.validate.verdict import Impossible, Inconclusive, Sort
from cacheproof.model.wire import operation_from_message, outcome_to_message
from cachespec.kernel import Operation
from cachespec.mirror.faults import Drop, Reorder

LRU = {"capacity": 2, "sizes": [1, 1, 1]}


def put(key: int | None, size: int | None = 1) -> Message:
    operands = {name: value for name, value in (("key", key), ("size", size)) if value is not None}
    return {"operation": {"op": "put", **operands}, "outcome": {"code": "done"}}


def get(key: int, code: str) -> Message:
    return {"operation": {"op": "get", "key": key}, "outcome": {"code": code}}


def alternatives(header: Header, said: Message, unknown: str, names: int) -> list[Operation]:
    """The calls that a line may be of."""
    kinds = {kind.wire_name(): kind for kind in header.component.operations}
    lacking = unknown in get_type_hints(kinds[said["op"]]) and unknown not in said
    wholes = [{**said, unknown: name} for name in range(names)] if lacking else [said]
    return [operation_from_message(header.component.operations, whole) for whole in wholes]


def plainly_possible(header: Header, lines: list[Message], unknown: str = "", names: int = 0) -> int:
    """How many states are possible after the lines, by trying every call in every state.

    `unknown` is an operand that some lines do not have, and which ranges over so many names.
    """
    variant, config = header.variant, header.config
    states = {variant.start(config)}
    for line in lines:
        reached = set(states)
        for _ in range(header.unlogged.most if header.unlogged.operations else 0):
            moves = [(state, op) for state in reached for op in variant.alphabet(config, state)]
            reached |= {
                variant.call(config, state, op)[0] for state, op in moves if type(op) in header.unlogged.operations
            }
        after: set[Any] = set()
        for state in reached:
            for operation in alternatives(header, line["operation"], unknown, names):
                new, outcome = variant.call(config, state, operation)
                if outcome_to_message(outcome) == line["outcome"]:
                    after.add(new)
        states = after
    return len(states)


@pytest.mark.parametrize("seed", range(10))
def test_unlogged_faults_of_a_channel(seed: int) -> None:
    """Messages were lost and overtook each other, and the log does not say which."""
    config = {"capacity": 2, "sizes": [1, 1], "items": 1, "senders": 1, "reorder": 1, "drop": 1, "channel": 2}
    whole = header_for("mirror", config=config)
    chosen = {"drop": Drop, "reorder": Reorder}
    lines = walked(whole, 16, seed, observed=False)
    kept, most, run = [], 1, 0
    for line in lines:
        left_out = line["operation"]["op"] in chosen
        run = run + 1 if left_out else 0
        most = max(most, run)
        kept += [] if left_out else [line]
    header = header_for("mirror", config=config, unlogged=Unlogged(tuple(chosen.values()), most))
    verdict = validated(log_of(header, kept), cap=10_000)
    assert verdict.sort is Sort.POSSIBLE
    assert verdict.possible == plainly_possible(header, kept)
    if len(kept) < len(lines) - 3:
        assert verdict.peak > 1


@pytest.mark.parametrize("seed", range(7))
def test_operands_that_are_names_range_over_all_names(seed: int) -> None:
    header = header_for("encoder_cache")
    lines = walked(header, 40, seed, observed=False)
    freed = [line["operation"] for line in lines if line["operation"]["op"] == "free_request"]
    for operation in random.Random(seed).sample(freed, min(2, len(freed))):
        del operation["request"]
    assert freed
    verdict = validated(log_of(header, lines))
    assert verdict.sort is Sort.POSSIBLE
    assert verdict.possible == plainly_possible(header, lines, "request", len(header.config.requests))


def test_what_comes_later_tells_which_it_was() -> None:
    header = header_for("lru", config=LRU)
    assert validated(log_of(header, [put(None)])).possible == 3
    verdict = validated(log_of(header, [put(None), get(2, "hit")]))
    assert (verdict.sort, verdict.possible, verdict.peak) == (Sort.POSSIBLE, 1, 3)


def test_a_null_and_what_is_left_out_are_both_unknown() -> None:
    header = header_for("lru", config=LRU)
    said = put(None)
    said["operation"]["key"] = None
    assert validated(log_of(header, [said])).possible == 3
    unknown_outcome: Message = {"operation": {"op": "get", "key": 0}, "outcome": {"code": None, "values": None}}
    for line in ({"operation": {"op": "get", "key": 0}}, unknown_outcome):
        assert validated(log_of(header, [put(0), line])).sort is Sort.POSSIBLE
    partly: Message = {"operation": {"op": "stat"}, "outcome": {"code": "done", "values": [None, 1]}}
    assert validated(log_of(header, [put(0), get(0, "hit"), partly])).sort is Sort.POSSIBLE
    partly["outcome"]["values"][1] = 2
    assert validated(log_of(header, [put(0), get(0, "hit"), partly])).sort is Sort.IMPOSSIBLE
    shown = {"observations": {"order": [None, 1], "used": None}}
    assert validated(log_of(header, [put(0), put(1), shown])).sort is Sort.POSSIBLE
    assert validated(log_of(header, [put(1), put(0), shown])).sort is Sort.IMPOSSIBLE


def test_a_code_without_values_says_that_there_are_none() -> None:
    header = header_for("lru", config=LRU)
    stat: Message = {"operation": {"op": "stat"}, "outcome": {"code": "done"}}
    assert validated(log_of(header, [stat])).sort is Sort.IMPOSSIBLE
    stat["outcome"]["values"] = None
    assert validated(log_of(header, [stat])).sort is Sort.POSSIBLE


def test_impossible_in_every_state_that_was_possible() -> None:
    header = header_for("lru", config=LRU)
    verdict = validated(log_of(header, [put(None), get(0, "hit"), get(1, "hit")]))
    assert isinstance(verdict.found, Impossible)
    assert (verdict.found.line, verdict.found.states) == (4, 1)
    many = validated(log_of(header, [put(None), {"operation": {"op": "stat"}, "outcome": {"code": "failed"}}]))
    assert isinstance(many.found, Impossible)
    assert (many.found.line, many.found.states, len(many.found.tried)) == (3, 3, 3)


def test_past_the_cap_it_is_not_known() -> None:
    header = header_for("lru", config={"capacity": 9, "sizes": [1] * 9})
    lines = [put(None) for _ in range(5)]
    verdict = validated(log_of(header, lines))
    assert isinstance(verdict.found, Inconclusive)
    assert verdict.sort is Sort.INCONCLUSIVE
    assert verdict.found.line == 4
    assert "more than 256 states" in verdict.found.reason
    enough = validated(log_of(header, lines[:3]), cap=9**3)
    assert (enough.sort, enough.possible) == (Sort.POSSIBLE, plainly_possible(header, lines[:3], "key", 9))
    few = validated(log_of(header, lines), cap=8)
    assert isinstance(few.found, Inconclusive)
    assert few.found.line == 2


def test_operands_without_a_range_never_make_a_line_impossible() -> None:
    """The size was not logged: sizes of the environment are tried, and where none fits there may be another."""
    header = header_for("lru", config=LRU)
    unsized: Message = {"operation": {"op": "put", "key": 0}, "outcome": {"code": "done"}}
    assert validated(log_of(header, [unsized, get(0, "hit")])).sort is Sort.POSSIBLE
    verdict = validated(log_of(header, [unsized, get(0, "miss")]))
    assert isinstance(verdict.found, Inconclusive)
    assert "operands of put are not known in line 2" in verdict.found.reason


def test_a_call_of_which_nothing_is_known() -> None:
    header = header_for("lru", config=LRU)
    something: Message = {"operation": None}
    verdict = validated(log_of(header, [something, get(1, "hit")]))
    assert verdict.sort is Sort.POSSIBLE
    assert verdict.peak > 2
    nothing: Message = {"observations": {"order": []}}
    assert validated(log_of(header, [nothing, get(1, "hit")])).sort is Sort.IMPOSSIBLE, "a line without a call has none"
