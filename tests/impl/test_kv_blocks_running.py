"""Requests that decode together: step by step what `decode` does, and the same pool, whatever form is chosen."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
import torch
from tests.planting import Change, planted
from torch import Tensor

from cacheimpl.kv_blocks import BurstError, IndexedServing, Pool, Running, Serving, configuration, running
from cacheproof.device.listing import DifferenceError
from cacheproof.device.tensor.comparing import alike, same
from cacheproof.device.tensor.loads import SPARE, shared_prefixes
from cacheproof.device.tensor.recorded import Pair

torch.set_num_threads(1)

TURNS = 10
FORMS: dict[str, dict[str, int]] = {
    "lists": {},
    "tensors": {"ROW_BY_ROW": 0, "BLOCK_BY_BLOCK": 0},
    "rows by tensors": {"ROW_BY_ROW": 0},
    "blocks by tensors": {"BLOCK_BY_BLOCK": 0},
    "a second step first": {"AT_ONCE": 0},
    "little is read ahead": {"AHEAD": 1},
    "few steps at once": {"MOST_STEPS": 3},
    "at the boundary": {"AT_ONCE": 5, "ROW_BY_ROW": 4, "BLOCK_BY_BLOCK": 3, "AHEAD": 2},
}


class Together(Pair):
    """The same load for two engines: one is asked for steps of running requests, the other for `decode`."""

    def __init__(self, seed: int, *, indexed: bool = False) -> None:
        self.draw, self.turns = random.Random(seed), TURNS
        self.rows, self.steps = 2 * TURNS, 0
        config = shared_prefixes(self.rows, 8, 4, self.draw, "cpu")
        self.limit, self.most = int(config.limit), TURNS // 5
        engine = IndexedServing if indexed else Serving
        self.ours, self.theirs = engine(config, TURNS * 5), Serving(config, TURNS * 5)
        self.running: list[int] = []
        self.seen: Counter[str] = Counter()

    def tensor(self, values: list[int]) -> Tensor:
        """As an operand; the pool is not looked at."""
        return torch.tensor(values, dtype=torch.int64)

    def some_steps(self) -> None:
        """Of the requests that run, or of some of them; what is not served is freed in part."""
        self.running = self.with_tokens_left()
        if not self.running:
            return
        rows = self.draw.sample(self.running, self.draw.randint(1, len(self.running)))
        most = self.draw.choice((None, self.most))
        together = self.ours.running(rows, most=most)
        for _ in range(self.draw.randint(1, 14)):
            pending = self.ours.pending is together
            step = together.step()
            self.seen["foreseen" if pending else "on tensors"] += 1
            wanted = self.theirs.decode(self.tensor(rows), most=most)
            given = int(wanted.given.sum())
            self.seen["new blocks"] += given
            same("turns", self.tensor(list(step.turns)), wanted.turn[:given])
            same("blocks", self.tensor(list(step.blocks)), wanted.blocks[:given])
            same("served", torch.tensor(step.served), wanted.served)
            if self.draw.random() < 0.2:
                self.look("between steps")
            if self.draw.random() < 0.1:
                self.disturb(rows)
            if step.served < len(rows):
                self.seen["refused"] += 1
                self.free(rows[: 1 + len(rows) // 2])
                return

    def disturb(self, rows: list[int]) -> None:
        """Another call between two steps."""
        others = [row for row in self.running if row not in rows]
        if others and self.draw.random() < 0.5:
            self.free(others[:1])
        else:
            block = self.tensor([self.draw.randrange(TURNS * 5)])
            for engine in (self.ours, self.theirs):
                engine.evict_blocks(block)

    def look(self, where: str) -> None:
        """Both pools are equal; of the free queue what is in it."""
        ours, theirs = (engine.pool._replace(order=queue_of(engine.pool)) for engine in (self.ours, self.theirs))
        alike(where, ours._replace(head=theirs.head), theirs, {**SPARE, "order": 0})


def queue_of(pool: Pool) -> Tensor:
    """The blocks of the free queue, in their order."""
    return pool.order[(pool.head + torch.arange(int(pool.free))) & (pool.order.shape[0] - 2)]


def load(seed: int, rounds: int = 30, **given: Any) -> Counter[str]:
    """What was seen in so many rounds."""
    pair = Together(seed, **given)
    for _ in range(rounds):
        pair.come()
        pair.some_steps()
        pair.end()
    pair.look("at the end")
    return pair.seen


@pytest.mark.parametrize("form", FORMS)
def test_every_form_does_what_decode_does(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FORMS[form].items():
        monkeypatch.setattr(running, name, value)
    seen = load(3, 12) + load(4, 12)
    assert min(seen[what] for what in ("foreseen", "on tensors", "new blocks", "refused")) > 0, seen


def test_an_engine_with_an_index_is_served_in_the_same_way() -> None:
    assert load(5, indexed=True)["foreseen"] > 0


@pytest.mark.nightly
def test_many_loads_of_every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    for form in FORMS.values():
        with monkeypatch.context() as patch:
            for name, value in form.items():
                patch.setattr(running, name, value)
            for seed in range(100):
                load(seed)


def engine_of(count: int) -> Serving:
    """Requests of three tokens in blocks of four, with room for sixteen."""
    config = configuration(
        torch.arange(count * 4).reshape(count, 4), torch.full((count,), 16), block_size=4, limit=16, count=count * 4
    )
    engine = Serving(config, 4 * count)
    rows = torch.arange(count)
    engine.allocate_slots(rows, 0 * rows, 0 * rows + 3, width=1)
    return engine


@pytest.mark.parametrize(("count", "foreseen"), [(6, True), (7, False)])
def test_the_number_of_requests_decides_when_a_calendar_begins(
    count: int, foreseen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "AT_ONCE", 6)
    engine = engine_of(count)
    together = engine.running(range(count))
    together.step()
    rows = torch.arange(count)
    engine.free_request(rows[:0])  # another call, after which the batch is as a step leaves it
    engine.evict_blocks(torch.tensor([4 * count]))
    together = engine.running(range(count))
    together.step()
    assert (engine.pending is together) is foreseen
    together.step()
    assert engine.pending is together
    assert engine.pool.scheduled[:count].tolist() == [6] * count


def test_another_pool_is_taken_up() -> None:
    engine, other = engine_of(6), engine_of(6)
    together = engine.running(range(6))
    for _ in range(3):
        together.step()
    engine.pool = type(other.pool)(*(values.clone() for values in other.pool))
    for _ in range(3):
        assert together.step().served == 6
        other.decode(torch.arange(6))
    alike("the pool", engine.pool, other.pool, SPARE)


def test_two_batches_take_turns() -> None:
    engine, other = engine_of(6), engine_of(6)
    first, second = engine.running([0, 1, 2]), engine.running([5, 3])
    for _ in range(5):
        for together, rows in ((first, [0, 1, 2]), (second, [5, 3])):
            step, wanted = together.step(), other.decode(torch.tensor(rows))
            assert list(step.blocks) == wanted.blocks[: int(wanted.given.sum())].tolist()
    alike("both", engine.pool, other.pool, SPARE)


@pytest.mark.parametrize("requests", [[], [0, 0], [9]])
def test_what_cannot_run(requests: list[int]) -> None:
    with pytest.raises(BurstError):
        engine_of(6).running(requests)


BUGS = {
    "a block one step too late": Change(
        Running._waits, "$blocks[$row] * $size - $planned", "$blocks[$row] * $size - $planned + 1"
    ),
    "the limit is passed": Change(Running._plan, "self._limit - $longest", "self._limit"),
    "a calendar of another time": Change(Running._other_step, "self._seen == self._counts()", "True"),
    "a crowded step is foreseen": Change(Running._plan, "len($turns) > self._width", "len($turns) > 1000"),
    "what is not free is given": Change(Running._plan, "self._cells.free[0]", "1000"),
    "blocks from before the head": Change(Running._read_ahead, "($head + $known) & $m", "$known & $m"),
    "a stamp of another step": Change(Running._write_blocks, "$now += self._width + 1", "$now += self._width"),
    "registered behind what was forgotten": Change(
        Running._write_blocks, "if not $severed[$row]:\n    $body", "if True:\n    $body"
    ),
    "what a new block held is still found": Change(
        Running._write_blocks, "$carried[$block] = -1", "$carried[$block] = $carried[$block]"
    ),
    "nothing is executed": Change(Running._write_rows, "$planned - 1", "$planned - 2"),
    "the clock stands still": Change(Running.settle, "($steps - $first) * (self._width + 1)", "0"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_noticed(bug: str) -> None:
    with planted(BUGS[bug]), pytest.raises((DifferenceError, IndexError, RecursionError)):
        some_loads()


def some_loads() -> None:
    for seed in range(3, 9):
        load(seed, 20)
