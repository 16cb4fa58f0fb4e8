"""Bursts of any number of turns: what is proved, bugs that one turn does not show, and the same numbers as torch's."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import pytest
import torch
import z3  # type: ignore[import-untyped]  # z3 ships no types
from tests.planting import Change, planted
from torch import Tensor

from cacheimpl.kv_blocks import decoding, execution, marking, releasing, slots, spreading
from cacheproof.prove.executor import NotFollowedError
from cacheproof.prove.finding import Verdict
from cacheproof.prove.implementation.cells import known, term
from cacheproof.prove.implementation.prover import prove_place
from cacheproof.prove.implementation.tensors import CellTensor
from cacheproof.prove.implementation.turns.bursts.kv_blocks import BURSTS, SIZES, pools, stepping
from cacheproof.prove.implementation.turns.induction import ManyTurns, prove_turns
from cacheproof.prove.implementation.turns.tracing import Function, Traced, traced_burst
from cacheproof.prove.implementation.turns.turn import PARTS, ROWS, TIMES, TURNS, WRAPPED, Column, Turn, Value
from cacheproof.prove.session import CORRESPONDENCES

BY_NAME = {burst.name: burst for burst in BURSTS}


def verdicts(burst: ManyTurns) -> dict[str, Verdict]:
    return {finding.name.split("/")[1]: finding.verdict for finding in prove_turns("kv_blocks", burst)}


@pytest.mark.parametrize("name", BY_NAME)
def test_a_burst_is_proved(name: str) -> None:
    burst = BY_NAME[name]
    expected = {"first", "kept", "answers", "apart", *(("totals",) if burst.totals else ())}
    expected |= {"waits"} if burst.ends else set()
    assert verdicts(burst) == dict.fromkeys(expected, Verdict.PROVED)


# Bugs ----------------------------------------------------------------------------------------------------------------

CODES, CODES_OF_STEPS = (member.fget for member in (vars(slots.Slots)["codes"], vars(decoding.Decoded)["codes"]))
SLOTS, ONE, TWO = slots.allocate_slots, "allocate_slots_of_1", "allocate_slots_of_2"
ENDS, SERVED, EXECUTED = "torch.where(done, ask.end, ask.planned)", "decode_served", "decode_executed"
LACKING = "torch.where(unsettled, beyond, lacking)"
FREE = "torch.minimum(pool.free, most_of_all)"
ROW_OF_TURNS = "turns[:, None].expand_as(blocks).flatten()"
FREED, LAST_OF = "free_request_of_4", "pool, blocks, marks, write"
LEFT = "references.index_select(0, flat) == 0"
BUGS = (
    (Change(SLOTS, "ask.up_to > pool.free", "ask.needs > pool.free"), ONE),
    (Change(SLOTS, "ask.up_to > pool.free", "ask.needs > pool.free"), TWO),
    (Change(SLOTS, "ask.up_to > pool.free", "ask.up_to >= pool.free + 2"), TWO),
    (Change(SLOTS, "refused | unanswered", "refused & unanswered"), ONE),
    (Change(spreading.spread, "(up_to - counts)[:, None]", "(counts - counts)[:, None]"), TWO),
    (Change(spreading.spread, "up_to - 1", "counts - 1"), ONE),
    (Change(slots.with_slots, "torch.where(done, ask.needs, constant(0, device))", "ask.needs"), ONE),
    (Change(slots.with_slots, ENDS, "ask.end"), ONE),
    (Change(slots.with_slots, "torch.where(there, behind, spare)", "torch.where(there, spare - spare, spare)"), ONE),
    (Change(slots.with_slots, "pool.free - total", "pool.free - ask.up_to[0]"), ONE),
    (Change(CODES, "self.reached | (first & self.refused)", "self.reached | self.refused"), ONE),
    (Change(execution.commit, "pool.clock + 1 + pieces.rank", "pool.clock + 1 + 0 * pieces.rank"), "commit_of_1"),
    (Change(execution.commit, "pool.clock + pieces.total", "pool.clock + 1"), "commit_of_1"),
    (Change(decoding.decode, f"up_to <= {FREE}", f"lacking <= {FREE}"), SERVED),
    (Change(decoding.decode, f"{LACKING}.cumsum(0)", LACKING), EXECUTED),
    (Change(decoding.decode, "up_to < beyond", f"{LACKING} < beyond"), EXECUTED),
    (Change(CODES_OF_STEPS, "self.executed & $before", "self.executed"), SERVED),
    (Change(releasing.release, f"is_last({LAST_OF})", f"(is_last({LAST_OF}) | its)"), FREED),
    (Change(releasing.is_last, "$least == before", "$least <= before"), FREED),
    (Change(releasing.release, LEFT, "pool.references.index_select(0, flat) == its.flatten().long()"), FREED),
    (Change(releasing.release, "pool.head - first", "pool.head"), FREED),
    (Change(releasing.release, "pool.free + first + back.sum()", "pool.free + back.sum()"), FREED),
    (Change(releasing.release, "pool.head + pool.free + $back - 1", "pool.head + pool.free + $back"), FREED),
    (Change(releasing.release, "freed & ~cached", "its & ~cached"), FREED),
    (Change(releasing.release, "-its.flatten().long()", "-its.flatten().long() * 0"), FREED),
    (Change(releasing.release, "front.cumsum(0)", "front.long()"), FREED),
    (Change(releasing.release, "(freed & cached).flip(1)", "(freed & cached).flip(0)"), FREED),
    (Change(releasing.is_last, f"-{ROW_OF_TURNS}", ROW_OF_TURNS), FREED),
    (Change(marking.least_by_block, "'amin'", "'amax'"), FREED),
)
"""Each with the burst in which it shows."""


NOT_FOLLOWED = (9, 10, 12, 14, 15, 16, 25, 26, 27, 28)
"""Bugs that leave out a sum over the turns, take the element of one turn, or mix up the turns: the graph is not the
declared one."""


@pytest.mark.parametrize("number", range(len(BUGS)))
def test_a_bug_is_noticed(number: int) -> None:
    change, name = BUGS[number]
    with planted(change):
        found = next(finding for finding in prove_turns("kv_blocks", BY_NAME[name]) if not finding.good)
    if number in NOT_FOLLOWED:
        assert found.verdict is Verdict.UNKNOWN
        assert "cannot be followed: " in found.detail
    else:
        assert found.verdict is Verdict.REFUTED
        assert " differs for " in found.detail


@pytest.mark.parametrize(
    ("number", "operation"),
    [(0, "allocate_slots"), (9, "allocate_slots"), (17, "free_request")],
    ids=["refused", "free", "freed twice"],
)
def test_one_turn_does_not_show_it(number: int, operation: str) -> None:
    """What is proved at stated shapes, for one turn, still holds with these bugs."""
    change, _ = BUGS[number]
    one = CORRESPONDENCES["kv_blocks"][1]
    with planted(change):
        found = list(prove_place(one, operation, only="equal"))
    assert [finding.verdict for finding in found] == [Verdict.PROVED_AT_SHAPES]


def test_what_mixes_turns_is_not_followed() -> None:
    """The blocks that a decode step gives are looked for in the running sum."""
    traced = traced_burst(stepping, *pools("requests"), many=())
    inputs: dict[str, Value] = {
        name: Column(name, like.dtype) if like.shape else CellTensor((), like.dtype, (z3.Int(name),))
        for name, like in traced.inputs.fixed.items()
    }
    turn = Turn(traced, {**inputs, "requests": CellTensor((1,), torch.int64, (z3.Int("row"),))}, {"cumsum": 0})
    object.__setattr__(turn.traced, "of_turns", frozenset(node.name for node in traced.module.graph.nodes))
    with pytest.raises(NotFollowedError, match="several turns"):
        turn.cells("free")


def test_another_graph_with_more_turns_is_refused() -> None:
    def function(given: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        rows = given["requests"]
        return {"made": rows + 1 if rows.shape[0] > 1 else rows}

    with pytest.raises(NotFollowedError, match="other calls"):
        traced_burst(function, *pools("requests"))


def in_place(given: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    made = given["requests"] * 2
    return {"made": made.add_(1)}


def of_the_pool(given: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    return {"made": given["requests"] + torch.arange(given["tables"].shape[0]).sum()}


def whole_rows(given: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    return {"made": given["tables"].index_select(0, given["requests"])}


@pytest.mark.parametrize(
    ("function", "why"),
    [(in_place, "writes in place"), (of_the_pool, "depends on the pool"), (whole_rows, "their size is unknown")],
)
def test_what_one_turn_cannot_stand_for_is_refused(function: Function, why: str) -> None:
    with pytest.raises(NotFollowedError, match=why):
        turn_of(traced_burst(function, *pools("requests")), random_pool(random.Random(1)), {"requests": ROW}, 0, None)


ROW = torch.zeros(1, dtype=torch.int64)


# Beside torch --------------------------------------------------------------------------------------------------------


def random_pool(source: random.Random) -> dict[str, Tensor]:
    """Tensors of the first pool, with random numbers of sizes that torch accepts."""
    requests, positions, blocks = SIZES[0]
    inputs = pools()[0].examples(1)
    made = dict(zip(pools()[0].names, inputs, strict=True))
    columns = {"blocks": positions - 1, "computed": 5, "scheduled": 8, "references": 2, "carried": 3, "stamp": 9}
    for name, most in columns.items():
        made[name] = torch.tensor([source.randint(0, most) for _ in made[name]])
    made["order"] = torch.tensor([source.randrange(blocks) for _ in made["order"]])
    made["head"], made["free"] = torch.tensor(source.randrange(16)), torch.tensor(source.randint(0, 4))
    made["config.limit"] = torch.tensor(source.randint(4, 9))
    made["blocks"][requests] = 0
    return made


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize(
    ("name", "results"),
    [
        ("allocate_slots_of_1", ("codes", "block ids", "counts")),
        ("allocate_slots_of_2", ("codes", "block ids", "counts")),
        ("decode_served", ("executed", "done", "codes")),
        ("commit_of_1", ("codes",)),
    ],
)
def test_each_turn_has_the_numbers_of_torch(name: str, results: tuple[str, ...], seed: int) -> None:
    """Turn by turn, with what is carried over: the answers that torch gives for the burst."""
    source = random.Random(seed)  # not a secret
    burst, pool = BY_NAME[name], random_pool(source)
    turns = source.randint(1, 3)
    rows = source.sample(range(3), turns)
    operands = {"requests": torch.tensor(rows)}
    if not name.startswith("decode"):
        operands["computed tokens"] = torch.tensor([source.randint(0, 5) for _ in rows])
    if name.startswith("allocate"):
        operands["tokens"] = torch.tensor([source.randint(0, 4) for _ in rows])
    wanted = burst.function({**pool, **operands})
    carried: dict[str, Any] | None = None
    traced = traced_once(name, results)
    for place in range(turns):
        found = turn_of(traced, pool, operands, place, carried)
        for result in results:
            mine = [concrete(cell, pool, turns) for cell in found.cells(result)]
            assert mine == wanted[result][place].reshape(-1).tolist(), (result, place)
        carried = {key: concrete(cell, pool, turns) for key, cell in found.next.items()}


@cache
def traced_once(name: str, results: tuple[str, ...]) -> Traced:
    burst = BY_NAME[name]
    return traced_burst(burst.function, *burst.pool(), results)


def turn_of(
    traced: Traced,
    pool: Mapping[str, Tensor],
    operands: Mapping[str, Tensor],
    place: int,
    carried: dict[str, Any] | None,
) -> Turn:
    """One turn of the burst; the first one gets what the graph begins with."""
    inputs: dict[str, Value] = {
        name: Column(name, like.dtype, traced.widths.get(name))
        if like.shape
        else CellTensor((), like.dtype, (int(pool[name]),))
        for name, like in traced.inputs.fixed.items()
    }
    inputs |= {name: CellTensor((1,), torch.int64, (int(column[place]),)) for name, column in operands.items()}
    if carried is None:
        alone = Turn(traced, inputs, None)
        for name in traced.results:
            alone.result(name)
        carried = dict(alone.start)
    turn = Turn(traced, inputs, carried, position=place)
    for name in traced.results:
        turn.result(name)
    return turn


@pytest.mark.parametrize("seed", range(10))
def test_what_all_turns_write_is_what_torch_writes(seed: int) -> None:
    """Requests that share blocks end, one after the other: their writes give the columns that torch gives."""
    source = random.Random(seed)  # not a secret
    burst, pool = BY_NAME[FREED], random_pool(source)
    tables = [source.sample(range(SIZES[0][2]), length) for length in pool["blocks"].tolist()]
    for row, table in enumerate(tables):
        pool["tables"][row] = torch.tensor(table + [SIZES[0][2]] * (5 - len(table)))
    rows = source.sample(range(3), source.randint(1, 3))
    holders = [[place for place, row in enumerate(rows) if block in tables[row]] for block in range(10)]
    others = [sum(block in tables[row] for row in {0, 1, 2} - set(rows)) for block in range(10)]
    pool["references"] = torch.tensor([len(its) + more for its, more in zip(holders, others, strict=True)])
    wanted = burst.function({**pool, "requests": torch.tensor(rows)})
    names = tuple(name for name in burst.columns if name != "bytes")  # two requests may compute one block here
    state = {name: pool[name].reshape(-1).tolist() for name in names}
    carried: dict[str, Any] | None = None
    for place in range(len(rows)):
        of_others = {
            "turn.references.before": torch.tensor([-sum(turn < place for turn in its) for its in holders]),
            "turn.references.behind": torch.tensor([-sum(turn > place for turn in its) for its in holders]),
            "last turn": torch.tensor([max(its, default=-1) for its in holders]),
        }
        traced = traced_once(FREED, ("codes", "free", "head", *names))
        found = turn_of(traced, pool, {"requests": torch.tensor(rows)}, place, carried)
        known_now = partial(concrete, pool={**pool, **of_others}, turns=len(rows))
        for name in names:
            for write in found.writes(name).writes:
                at, value = known_now(write.place), known_now(write.value)
                state[name][at] = state[name][at] + value if write.adds else value
        carried = {key: known_now(cell) for key, cell in found.next.items()}
        assert known_now(found.cells("codes")[0]) == wanted["codes"][place]
    state["order"][16] = wanted["order"][16]  # outside of the queue
    assert state == {name: wanted[name].reshape(-1).tolist() for name in names}
    assert [known_now(found.cells(name)[0]) for name in ("free", "head")] == [wanted["free"], wanted["head"]]


def concrete(cell: Any, pool: Mapping[str, Tensor], turns: int) -> Any:
    """The number of a term, with the columns of the pool in the place of its functions."""
    if not isinstance(cell, z3.ExprRef):
        return cell
    sizes = {"size.19.76": 19, "size.9.20": 9, "size.3.6": 3, "size.15.31": 15, "size.5.11": 5}
    sizes |= {"size.16.32": 16, "size.19.34": 19}
    place, other = z3.Var(0, z3.IntSort()), z3.Var(1, z3.IntSort())
    functions = [(WRAPPED, place % 16), (ROWS, place * 5), (TIMES, place * other), (PARTS, place / other)]
    for name, column in pool.items():
        if column.shape:
            numbers = column.reshape(-1).tolist()
            sort = z3.BoolSort() if column.dtype == torch.bool else z3.IntSort()
            chosen = term(numbers[-1])
            for number in reversed(range(len(numbers) - 1)):
                chosen = z3.If(place == number, term(numbers[number]), chosen)
            functions.append((z3.Function(name, z3.IntSort(), sort), chosen))
    made = z3.substitute_funs(term(cell), *functions)
    made = z3.substitute(made, (TURNS, z3.IntVal(turns)), *((z3.Int(name), z3.IntVal(n)) for name, n in sizes.items()))
    value = known(z3.simplify(made))
    assert not isinstance(value, z3.ExprRef), value
    return value
