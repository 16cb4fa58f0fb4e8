"""The mirror behind a hostile network, by seed: nothing wrong, nothing twice, nothing lost, and it always goes on.

A failure names its seed; `Attack(seed).run(rounds)` repeats it. `pytest -m nightly` runs many more seeds.
"""

from __future__ import annotations

import random
from contextlib import ExitStack

import pytest
from tests.impl.mirror_attack import Attack, Counts, Rates
from tests.planting import Change, planted

from cacheimpl.mirror import MirrorReceiver, MirrorSender
from cacheimpl.mirror.errors import BadMessageError, MirrorError
from cacheimpl.mirror.example.transport import unpacked

ROUNDS = 400


def survived(seed: int, rounds: int = ROUNDS, rates: Rates = Rates()) -> Counts:  # noqa: B008  # of numbers
    """What happened. Fails with the seed."""
    try:
        return Attack(seed, rates).run(rounds)
    except (AssertionError, MirrorError) as error:
        pytest.fail(f"seed {seed}, {rounds} rounds: {type(error).__name__}: {error}")


@pytest.mark.parametrize("seed", range(12))
def test_the_mirror_survives(seed: int) -> None:
    counts = survived(seed)
    assert counts.delivered > 50
    assert counts.confirmed > 20
    assert counts.kills > 5
    assert counts.corrupted > 20


@pytest.mark.nightly
def test_the_mirror_survives_for_long() -> None:
    messages = kills = 0
    for seed in range(1000, 1300):
        choose = random.Random(seed)
        drop, double, corrupt = (choose.choice((0.0, 0.02, 0.1, 0.3)) for _ in range(3))
        rates = Rates(drop, double, corrupt, kill=choose.choice((0.0, 0.005, 0.05)))
        counts = survived(seed, 1500, rates)
        messages, kills = messages + counts.messages, kills + counts.kills
    print(f"{messages} messages, {kills} kills")  # for who runs it


BUGS = {
    "messages of an earlier session are applied": Change(
        MirrorReceiver.receive, "$message.session != $partition.session", "False"
    ),
    "answers to an earlier session confirm": Change(MirrorSender.receive, "$answer.session != self.session", "False"),
    "an earlier session keeps its partition": Change(
        MirrorReceiver.admit, "$last is None or $last.session != $x", "$last is None"
    ),
    "a duplicate is applied": Change(
        MirrorReceiver.receive, "$message.sequence != $partition.expected", "$message.sequence > $partition.expected"
    ),
    "a gap is not repaired": Change(MirrorSender.receive, "self._sent = 0", "pass"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_found(bug: str) -> None:
    with ExitStack() as stack:
        stack.enter_context(planted(BUGS[bug]))
        for seed in range(60):
            try:
                Attack(seed, Rates(kill=0.05)).run(ROUNDS)
            except (AssertionError, MirrorError, ValueError, LookupError):
                return
    pytest.fail("no seed found it")


@pytest.mark.parametrize(
    "data",
    [b"", b"\xa2\xff\xff", b"\x92\xa2\xff\xff\x90", b"\x92\xa1a" + b"\x91" * 100_000, b"\xdd\xff\xff\xff\xff", b"\xc1"],
)
def test_bytes_that_are_no_message_are_a_bad_message(data: bytes) -> None:
    with pytest.raises(BadMessageError):
        unpacked(data)


def test_a_seed_makes_the_same_run_every_time() -> None:
    runs = [vars(Attack(3).run(ROUNDS)) for _ in range(2)]
    assert runs[0] == runs[1]


def test_random_bytes_are_a_bad_message() -> None:
    choose = random.Random(7)
    for _ in range(5000):
        with pytest.raises(BadMessageError):
            unpacked(b"\x92" * choose.randrange(2) + choose.randbytes(choose.randrange(30)))
