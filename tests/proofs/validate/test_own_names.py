"""Logs of an implementation that numbers its blocks in its own way, and takes any free one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import ran
from tests.proofs.validate.logs import Message, log_of, validated, walked

from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.logs.validate.header import Header, Unlogged
from cacheproof.logs.validate.verdict import Impossible, Sort
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named, scopes_of
from cacheproof.model.wire import observations_to_message, operation_to_message, outcome_to_message
from cachespec.kernel import Operation
from cachespec.kernel.names import renaming

KV_BLOCKS = component_named("kv_blocks")
OWN = KV_BLOCKS.own_names
assert OWN is not None


def foreign(scope: str, steps: int, seed: int, *, observed: bool = True) -> tuple[Header, list[Message]]:
    """A run of an allocator that takes a random free block each time, and calls block `b` `1000 - 7 * b`."""
    chosen = random.Random(seed)
    config, variant = scope_named(KV_BLOCKS, scope).config, KV_BLOCKS.normative
    state, lines = variant.start(config), list[Message]()

    def theirs(block: int) -> int:
        return 1000 - 7 * block

    def shown() -> Message:
        observed = KV_BLOCKS.observe(config, variant.view(config, state))
        renamed = {
            name: OWN.shown[name](value, theirs) if OWN and name in OWN.shown and isinstance(value, tuple) else value
            for name, value in observed.items()
        }
        return observations_to_message(renamed)

    header = Header(KV_BLOCKS, variant, config, {"free": shown()["free"]}, claims=())
    for _ in range(steps):
        offered = list(variant.alphabet(config, state))
        if not offered:
            break
        operation = chosen.choice(offered)
        free = list(state.free.items())
        assert OWN is not None
        state = OWN.taking(config, state, tuple(block for block, _ in chosen.sample(free, len(free))))
        state, outcome = variant.call(config, state, operation)
        values = tuple(theirs(value) for value in outcome.values) if type(operation).returns == ("block",) else None
        line: Message = {
            "operation": operation_to_message(_renamed(operation, theirs)),
            "outcome": outcome_to_message(outcome if values is None else outcome._replace(values=values)),
        }
        lines.append(line | ({"observations": shown()} if observed else {}))
    return header, lines


def _renamed(operation: Operation, theirs: Callable[[int], int]) -> Operation:
    kind: type = type(operation)
    rename = renaming(kind)
    blocks: Any = {"block": {block: theirs(block) for block in range(64)}, "request": range(64)}
    renamed: Operation = operation if rename is None else rename(operation, blocks)
    return renamed


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scope", [scope.name for scope in scopes_of(KV_BLOCKS) if "normative" in scope.variants][:6])
def test_any_numbers_and_any_free_block_are_possible(scope: str, seed: int) -> None:
    header, lines = foreign(scope, 200, seed)
    found = validated(log_of(header, lines))
    assert found.found is None
    assert found.sort is Sort.POSSIBLE


def test_without_observables_the_outcomes_name_the_blocks() -> None:
    header, lines = foreign("shared-prefix", 200, 1, observed=False)
    assert validated(log_of(header, lines)).sort is Sort.POSSIBLE


def changed(header: Header, **changes: Any) -> Header:
    return replace(header, **changes)


def test_a_log_that_claims_the_numbers_or_the_order_is_held_to_them() -> None:
    header, lines = foreign("shared-prefix", 200, 1, observed=False)
    for claims in (("names",), ("names", "eviction_order")):
        assert validated(log_of(changed(header, claims=claims, initial={}), lines)).sort is Sort.IMPOSSIBLE
    assert validated(log_of(changed(header, claims=("eviction_order",)), lines)).sort is Sort.IMPOSSIBLE


def of(operation: str, lines: list[Message], turn: int) -> int:
    """Where the call with this name and an answer of blocks stands, for the given time."""
    places = [
        place
        for place, line in enumerate(lines)
        if line["operation"]["op"] == operation and line["outcome"].get("values")
    ]
    return places[turn]


def frees(lines: list[Message]) -> bool:
    return any(line["operation"]["op"] in ("free_request", "withdraw") for line in lines)


def test_a_block_that_is_in_use_is_not_taken_again() -> None:
    """KV-2: whatever its number is. The second allocation answers with the block of the first."""
    header, lines = foreign("shared-prefix", 200, 1, observed=False)
    answered = [of("allocate_slots", lines, turn) for turn in range(9)]
    first, second = next(pair for pair in pairwise(answered) if not frees(lines[slice(*pair)]))
    lines[second]["outcome"]["values"][0] = lines[first]["outcome"]["values"][0]
    found = validated(log_of(header, lines)).found
    assert isinstance(found, Impossible)
    assert found.line == second + 2


def test_a_hit_in_another_block_is_impossible() -> None:
    header, lines = foreign("shared-prefix", 200, 1, observed=False)
    place = of("get_computed_blocks", lines, 0)
    hits = lines[place]["outcome"]["values"]
    hits[0] = next(number for number in (1000 - 7 * block for block in range(8)) if number not in hits)
    found = validated(log_of(header, lines)).found
    assert isinstance(found, Impossible)
    assert found.line == place + 2


@pytest.mark.parametrize(
    ("line", "about"),
    [
        ({"operation": {"op": "get_computed_blocks", "request": 0}}, "needs all its operands and its outcome"),
        ({"operation": {"op": "evict_block"}, "outcome": {"code": "done"}}, "needs all its operands and its outcome"),
        ({"observations": {"free": [1000, None]}}, "free must be known as a whole"),
    ],
)
def test_what_would_leave_the_numbers_open_is_refused(line: Message, about: str) -> None:
    header, _ = foreign("shared-prefix", 0, 1)
    with pytest.raises(InputError, match=about):
        validated(log_of(header, [line]))


def test_more_blocks_than_there_are_and_unlogged_calls_are_refused() -> None:
    header, _ = foreign("shared-prefix", 0, 1)
    call = {"op": "allocate_slots", "request": 0, "computed": 0, "tokens": 1, "hits": [5000]}
    many = [{"operation": call, "outcome": {"code": "stale"}}]
    with pytest.raises(InputError, match="there are"):
        validated(log_of(header, many))
    unlogged = log_of(changed(header, unlogged=Unlogged((KV_BLOCKS.operations[0],))), [])
    with pytest.raises(InputError, match="'unlogged' needs a log that claims 'names'"):
        validated(unlogged)


def test_the_verb_says_how_the_numbers_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header, lines = foreign("shared-prefix", 60, 1)
    (tmp_path / "run.ndjson").write_bytes(log_of(header, lines))
    ended = ran(capsys, "validate", tmp_path / "run.ndjson")
    assert ended.status == ExitStatus.AS_EXPECTED
    assert "blocks up to renaming, and the order of eviction not at all" in " ".join(ended.out.split())
    lines[of("allocate_slots", lines, 0)]["outcome"]["values"][0] = 3
    (tmp_path / "run.ndjson").write_bytes(log_of(header, lines))
    ended = ran(capsys, "validate", tmp_path / "run.ndjson", "--json")
    assert ended.status == ExitStatus.FELL_SHORT
    assert ended.json["own_names"] == "blocks up to renaming, and the order of eviction not at all"


def test_the_header_need_not_name_the_free_blocks() -> None:
    header, lines = foreign("shared-prefix", 60, 1)
    assert validated(log_of(changed(header, initial={}), lines)).sort is Sort.POSSIBLE
    shown: Any = lines[0]["observations"]
    twice = {**lines[0], "observations": {**shown, "free": [*shown["free"], shown["free"][-1]]}}
    assert validated(log_of(changed(header, initial={}), [twice, *lines[1:]])).sort is Sort.IMPOSSIBLE


def test_numbers_that_happen_to_be_the_specification_s_are_read_too() -> None:
    """The quick way would step past them, and the next own number would stand for a block that is taken."""
    header, _ = foreign("shared-prefix", 60, 1)
    claimed = changed(header, claims=("names", "eviction_order"), initial={})
    same = walked(claimed, 60, 1)
    read = validated(log_of(changed(claimed, claims=()), same))
    assert (read.sort, read.fast_lines) == (Sort.POSSIBLE, 0)
    assert validated(log_of(claimed, same)).fast_lines > 0, "with the numbers claimed it is quick"
