"""Worked examples: the known violations replayed through the eras step by step, and what the normative mirror does.

The traces are those of the catalogue (C-MIR) and the shortest ones seen when the released classes were run.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from cachespec.kernel import ABSENT, DIVERGED, DONE, FAILED, REFUSED, STALE, TOO_LARGE, Code, Operation, Outcome
from cachespec.mirror import COMPONENT
from cachespec.mirror.configuration import Config
from cachespec.mirror.faults import Drop, Reorder, ResetReceiver, RestartReceiver, SubmitRejected
from cachespec.mirror.operations import Deliver, Expire, Join, Receive, Retry, Submit, Transmit

A, B, C, D = 0, 1, 2, 3


def ask(*items: int, sender: int = 0) -> Submit:
    return Submit(sender, items)


def sent(*payloads: int) -> Outcome:
    """The message has the payloads of the items that have a 1 here."""
    return Outcome(Code.DONE, payloads)


def used(*contents: int) -> Outcome:
    return Outcome(Code.HIT, contents)


def missed(*contents: int) -> Outcome:
    """M3: reported, to be asked for again."""
    return Outcome(Code.RETRY, contents)


Steps = list[tuple[Operation, Outcome]]


def served(*contents: int, payload: int = 1) -> Steps:
    """A request that goes well."""
    payloads = (payload,) * len(contents)
    return [(ask(*contents), sent(*payloads)), (Deliver(0), used(*contents)), (Receive(0), DONE)]


class Example(NamedTuple):
    """A known violation: what comes before is alike for all; the last operation ends as each era does."""

    catalogue: str
    where: Config
    steps: Steps
    last: Operation
    ends: dict[str, Outcome]


UNIT = Config(2, (1, 1, 1))
MISS = {"M0": FAILED, "M1": FAILED, "M2": FAILED, "M3": missed(A)}

EXAMPLES = [
    Example(
        "C-MIR-5: a message overtakes the one that has the payload",
        UNIT._replace(reorder=1),
        [(ask(A), sent(1)), (ask(A), sent(0)), (Reorder(0, 0), DONE)],
        Deliver(0),
        MISS,
    ),
    Example(
        "C-MIR-5: two hits change places, and an eviction shows it",
        UNIT._replace(reorder=1),
        [
            *served(B),
            *served(A),
            (ask(B), sent(0)),
            (ask(A), sent(0)),
            (Reorder(0, 0), DONE),
            (Deliver(0), used(A)),
            (Deliver(0), used(B)),
            (Receive(0), DONE),
            (Receive(0), DONE),
            *served(C),
            (ask(A), sent(0)),
        ],
        Deliver(0),
        MISS,
    ),
    Example(
        "C-MIR-1: the message that has the payload is lost",
        UNIT._replace(drop=1),
        [(ask(A), sent(1)), (Drop(0, 0), DONE), (ask(A), sent(0))],
        Deliver(0),
        MISS,
    ),
    Example(
        "C-MIR-1: a hit is lost, and an eviction shows it",
        UNIT._replace(drop=1),
        [*served(A), *served(B), (ask(A), sent(0)), (Drop(0, 0), DONE), *served(C), (ask(A), sent(0))],
        Deliver(0),
        MISS,
    ),
    Example(
        "C-MIR-3: P0 remembers a request that was refused after rendering",
        UNIT._replace(reject=1),
        [(SubmitRejected(0, (A,)), sent(1)), (ask(A), sent(0))],
        Deliver(0),
        {"M1": FAILED, "M2": FAILED, "M3": missed(A)},
    ),
    Example(
        "C-MIR-7: P0 goes by modality, P1 by position",
        UNIT._replace(modalities=(1, 0, 0), items=2),
        [*served(A, B), *served(C), (ask(A), sent(0))],
        Deliver(0),
        {"M1": FAILED, "M2": FAILED, "M3": missed(A)},
    ),
    Example(
        "C-MIR-9: a new item evicts the hit of its own request",
        UNIT._replace(items=2),
        [*served(A), *served(B)],
        ask(C, A),
        {"M0": sent(1, 1), "M1": FAILED, "M2": sent(1, 0), "M3": sent(1, 0)},
    ),
    Example(
        "C-MIR-9, C-MIR-10: a request larger than the cache, with a hit",
        UNIT._replace(items=3),
        served(C),
        ask(A, B, C),
        {"M0": sent(1, 1, 1), "M1": FAILED, "M2": DIVERGED, "M3": FAILED},
    ),
    Example(
        "C-MIR-10, C-MIR-16: an item larger than the cache",
        Config(2, (1, 1, 1, 3)),
        served(A),
        ask(D),
        {"M1": TOO_LARGE, "M2": TOO_LARGE, "M3": sent(1)},
    ),
    Example(
        "C-MIR-12: P1 is cleared, P0 is not",
        UNIT._replace(reset=1),
        [*served(A), (ResetReceiver(), DONE), (ask(A), sent(0))],
        Deliver(0),
        {"M1": FAILED, "M2": FAILED, "M3": missed(A)},
    ),
    Example(
        "C-MIR-13: two frontends, one cache",
        Config(1, (1, 1), senders=2),
        [
            *served(A),
            (ask(B, sender=1), sent(1)),
            (Deliver(1), used(B)),
            (Receive(1), DONE),
            (ask(A), sent(0)),
        ],
        Deliver(0),
        MISS,
    ),
    Example(
        "C-MIR-14, C-MIR-17: two contents of one name, A and B",
        Config(1, (1, 1, 1), identities=(0, 0, 2), drop=1),
        [*served(A), (ask(C), sent(1)), (Drop(0, 0), DONE), (ask(B), sent(1))],
        Deliver(0),
        {"M1": used(A), "M2": used(A), "M3": used(B)},
    ),
    Example(
        "C-MIR-18: P1 starts again",
        UNIT._replace(restart=1),
        [*served(A), (RestartReceiver(), DONE), (ask(A), sent(0))],
        Deliver(0),
        MISS,
    ),
]


@pytest.mark.parametrize(
    ("example", "tag"),
    [pytest.param(example, tag, id=f"{example.catalogue} ({tag})") for example in EXAMPLES for tag in example.ends],
)
def test_a_known_violation_step_by_step(example: Example, tag: str) -> None:
    replayed(tag, example.where, [*example.steps, (example.last, example.ends[tag])])


def replayed(tag: str, config: Config, steps: Steps) -> dict[str, object]:
    """Every outcome as it is told; what can be observed at the end."""
    assert COMPONENT.invalid(config) is None
    variant = COMPONENT.variants[tag]
    state = variant.start(config)
    for place, (operation, outcome) in enumerate(steps, 1):
        state, seen = variant.call(config, state, operation)
        assert seen == outcome, f"step {place}: {operation}"
    return dict(COMPONENT.observe(config, variant.view(config, state)))


def test_the_ghost_of_an_item_too_large_is_met_by_eviction() -> None:
    """C-MIR-10 in M2: the touch of an absent key is in the order for good; M1 and M3 go on."""
    config = Config(2, (1, 1, 1, 3))
    full = [*served(A), *served(B)]
    replayed("M2", config, [(ask(D), TOO_LARGE), *full, (ask(C), DIVERGED)])
    replayed("M1", config, [(ask(D), TOO_LARGE), *full, *served(C)])
    replayed("M3", config, [*served(D), *full, *served(C)])


def test_a_request_larger_than_the_cache_is_retried_for_ever() -> None:
    """C-MIR-19 in M3: P0 fails, P0 fails, P1 misses, and so on."""
    fails: Steps = [(Retry(0), FAILED)]
    misses: Steps = [(Retry(0), sent(0, 0, 1)), (Deliver(0), missed(A)), (Receive(0), DONE)]
    turn = [*fails, *fails, *misses]
    config = UNIT._replace(items=3)
    replayed("M3", config, [*served(A, B, C), (ask(A, B, C), FAILED), *fails, *misses, *turn, *turn])


def test_the_order_is_not_repaired_with_the_content() -> None:
    """C-MIR-20 in M3: a hit of A and the payload of C are lost; C is repaired, and A misses after the next eviction."""
    lost: Steps = [(ask(A), sent(0)), (Drop(0, 0), DONE), (ask(C), sent(1)), (Drop(0, 0), DONE)]
    misses: Steps = [(ask(C), sent(0)), (Deliver(0), missed(C)), (Receive(0), DONE)]
    repaired: Steps = [(Retry(0), sent(1)), (Deliver(0), used(C)), (Receive(0), DONE)]
    config = Config(3, (1, 1, 1, 1), drop=1)
    steps = [*served(A), *served(B), *lost, *misses, *repaired]
    orders = replayed("M3", config, steps)
    assert (orders["p0_order_0"], orders["p1_order_0"]) == ((B, A, C), (A, B, C))
    replayed("M3", config, [*steps, *served(D), (ask(A), sent(0)), (Deliver(0), missed(A))])


def test_what_failed_at_p0_is_believed_there() -> None:
    """C-MIR-9 in M3: an innocent request for A misses, because one that failed left A and B at P0."""
    config = UNIT._replace(items=3)
    replayed("M3", config, [*served(C), (ask(A, B, C), FAILED), (ask(A), sent(0)), (Deliver(0), missed(A))])


# The normative mirror -----------------------------------------------------------------------------------------------

JOINED: Steps = [(Join(0), DONE)]


def test_normative_a_message_overtakes_another() -> None:
    """The second is not applied; P0 goes back to it, and the orders are equal in the end."""
    steps: Steps = [
        *JOINED,
        (ask(A), sent(1)),
        (ask(B), sent(1)),
        (Reorder(0, 0), DONE),
        (Deliver(0), Outcome(Code.RETRY)),
        (Deliver(0), used(A)),
        (Receive(0), DONE),
        (Transmit(0), sent(1)),
        (Transmit(0), sent(1)),
        (Deliver(0), DONE),
        (Deliver(0), used(B)),
        (Receive(0), DONE),
        (Receive(0), DONE),
        (Receive(0), DONE),
        (Transmit(0), ABSENT),
        (Expire(0), ABSENT),
    ]
    seen = replayed("normative", UNIT._replace(reorder=1), steps)
    assert seen["p0_order_0"] == seen["p1_order_0"] == (A, B)


def test_normative_a_message_is_lost() -> None:
    """No answer comes; P0 asks, and sends the payload again only when it knows."""
    steps: Steps = [
        *JOINED,
        (ask(A), sent(1)),
        (Drop(0, 0), DONE),
        (Expire(0), DONE),
        (Deliver(0), Outcome(Code.RETRY)),
        (Receive(0), DONE),
        (Transmit(0), sent(1)),
        (Deliver(0), used(A)),
        (Receive(0), DONE),
    ]
    seen = replayed("normative", UNIT._replace(drop=1), [*steps, *served(A, payload=0)])
    assert seen["p0_order_0"] == seen["p1_order_0"] == (A,)


def test_normative_p1_starts_again() -> None:
    """What was believed is refused, not read; the sender joins, and the request is decided anew."""
    steps: Steps = [
        (ask(A), REFUSED),
        *JOINED,
        *served(A),
        (RestartReceiver(), DONE),
        (ask(A), sent(0)),
        (Deliver(0), STALE),
        (Receive(0), DONE),
        (Join(0), DONE),
        (Transmit(0), sent(1)),
        (Deliver(0), used(A)),
        (Receive(0), DONE),
    ]
    seen = replayed("normative", UNIT._replace(restart=1), steps)
    assert seen["p0_order_0"] == seen["p1_order_0"] == (A,)


@pytest.mark.parametrize("contents", [(A, B, C), (C, D), (D, A, D), (A, A)], ids=str)
def test_normative_a_request_that_does_not_fit_is_served(contents: tuple[int, ...]) -> None:
    """MIR-9: its items evict one another, and what is larger than the cache is kept nowhere."""
    config = Config(2, (1, 1, 1, 3), items=3)
    variant = COMPONENT.normative
    state, _ = variant.call(config, variant.start(config), Join(0))
    for _ in range(3):
        state, _ = variant.call(config, state, ask(*contents))
        state, outcome = variant.call(config, state, Deliver(0))
        assert outcome == used(*contents)
        state, _ = variant.call(config, state, Receive(0))
    (link,) = variant.view(config, state).links
    assert link.settled
    assert link.sent_order == link.held_order
