"""Both sides of the mirrored cache, and what comes over the wire."""

from __future__ import annotations

from typing import Any

from tests.impl.interfaces.bad_input.sorts import Call, Face, Sort, always, count, one_of, within

from cacheimpl.mirror import (
    Answer,
    Grant,
    Item,
    JoinRequest,
    Message,
    MirrorReceiver,
    MirrorSender,
    Reason,
    Refusal,
    Verdict,
)
from cacheimpl.mirror.errors import (
    InvalidItemError,
    MirrorError,
    MissingPayloadError,
    NotJoinedError,
    SizeMismatchError,
)

SAYS = ("message", "item", "answer", "grant", "refusal", "request", "bytes", "payload", "sender", "partitions")


def joined() -> Any:
    """One request is unconfirmed; `a` has three bytes."""
    receiver, made = MirrorReceiver(10), MirrorSender("p0", 10)
    join(made, receiver)
    made.submit([("a", 3)], lambda place: b"aaa")
    return made


def join(sender: MirrorSender, receiver: MirrorReceiver) -> None:
    question = sender.ask()
    while question is not None:
        answer = receiver.admit(question)
        if isinstance(answer, Grant):
            sender.take_grant(answer)
            return
        question = sender.take_refusal(answer)


ITEMS: Sort = {
    **one_of(None, 3, "ab", [3], [("b",)], [("b", 1, 2)]),
    "none": always([]),
    **within(count(0), lambda bad: [("b", bad)], "size: "),
    "size: another than there is": always([("a", 4)]),
    "size: two": always([("b", 1), ("b", 2)]),
    "a key that is no text": always([(3, 1)]),
}
ANSWER: Sort = {
    **one_of(None, 3, ("p0", 0, 0, 0, 0)),
    "to another sender": lambda good: good._replace(sender="p9"),
    "of what was never sent": lambda good: good._replace(expected=2),
    **within(count(-1), lambda bad: Answer("p0", 5, -1, bad, Verdict.ACCEPTED), "expected: "),
    **within(count(-1), lambda bad: Answer("p0", 5, bad, 1, Verdict.ACCEPTED), "generation: "),
    **within(count(-1), lambda bad: Answer("p0", bad, -1, 1, Verdict.ACCEPTED), "session: "),
    **within(one_of(None, 7, "no"), lambda bad: Answer("p0", 5, -1, 1, bad), "verdict: "),
}

SENDER = Face(
    MirrorSender,
    joined,
    MirrorError,
    {
        "__init__": Call(
            lambda made: {"name": "p0", "capacity": 10}, {"name": one_of(None, 3), "capacity": count(1)}, says=SAYS
        ),
        "is_cached": Call(lambda made: {"key": "a"}, {"key": one_of(None, 3, ["a"])}),
        "submit": Call(
            lambda made: {"items": [("b", 2)], "payload_of": lambda place: b"bb"},
            {"items": ITEMS, "payload_of": {**one_of(None, 3), "gives nothing": always(lambda place: None)}},
            {"tag": "the caller's own"},
            says=SAYS,
        ),
        "receive": Call(
            lambda made: {"answer": Answer("p0", made.session, -1, 1, Verdict.ACCEPTED)}, {"answer": ANSWER}, says=SAYS
        ),
        "take_grant": Call(
            lambda made: {"grant": Grant("p0", 5, 1, 1)},
            {"grant": {**one_of(None, 3), "to another sender": always(Grant("p9", 5, 1, 1))}},
            says=SAYS,
        ),
        "take_refusal": Call(
            lambda made: {"refusal": Refusal("p0", 5, 1, 1, Reason.FULL)},
            {"refusal": {**one_of(None, 3), "to another sender": always(Refusal("p9", 5, 1, 1, Reason.FULL))}},
            says=SAYS,
        ),
    },
    dict.fromkeys(("transmit", "expire", "ask", "reset"), "takes nothing"),
)

ALONE = Face(
    None,
    lambda: MirrorSender("p0", 10),
    MirrorError,
    {
        "submit": Call(
            lambda made: {},
            misuse={
                "before it has joined": (NotJoinedError, lambda made: made.submit([("a", 1)], lambda place: b"a")),
                "nothing": (InvalidItemError, lambda made: made.submit([], lambda place: b"a")),
                "two sizes": (SizeMismatchError, lambda made: made.submit([("a", 1), ("a", 2)], lambda place: b"a")),
            },
            works=False,
        )
    },
)


def receiving() -> Any:
    """A partition of ten bytes, with `a` in it; the next message is the second."""
    made: Any = MirrorReceiver(10, 2)
    made.sender = MirrorSender("p0", 10)
    join(made.sender, made)
    made.receive(made.sender.submit([("a", 3)], lambda place: b"aaa"))
    return made


def second(made: Any, **more: Any) -> Message:
    wanted = {"generation": made.sender.generation, "sequence": 1, "items": (Item("b", 2),), "payloads": (b"bb",)}
    return Message("p0", made.sender.session, **{**wanted, **more})


def replaced(field: str, value: Any) -> Any:
    return lambda good: good._replace(**{field: value(None)})


def sized(value: Any) -> Any:
    return lambda good: good._replace(items=(Item("b", value(None)),))


MESSAGE: Sort = {
    **one_of(None, 3, ("p0", 5, 1, 1, (), ())),
    **{f"generation: {what}": replaced("generation", bad) for what, bad in count(-1).items()},
    **{f"session: {what}": replaced("session", bad) for what, bad in count(-1).items()},
    **{f"sequence: {what}": replaced("sequence", bad) for what, bad in count(-1).items()},
    **{f"items: {what}": sized(bad) for what, bad in count(0).items()},
    "items: no items": lambda good: good._replace(items=(3,)),
    "items: another size than there is": lambda good: good._replace(items=(Item("a", 4),)),
    "payloads: too few": lambda good: good._replace(payloads=()),
    "payloads: none": lambda good: good._replace(payloads=None),
    "sender: no text": lambda good: good._replace(sender=3),
}

RECEIVER = Face(
    MirrorReceiver,
    receiving,
    MirrorError,
    {
        "__init__": Call(
            lambda made: {"capacity": 10, "partitions": 2}, {"capacity": count(1), "partitions": count(1)}, says=SAYS
        ),
        "order": Call(lambda made: {"sender": "p0"}, {"sender": one_of(None, 3, ["p0"])}),
        "payloads": Call(lambda made: {"sender": "p0"}, {"sender": one_of(None, 3, ["p0"])}),
        "receive": Call(
            lambda made: {"message": second(made)},
            {"message": MESSAGE},
            misuse={
                "without a payload that is lacking": (
                    MissingPayloadError,
                    lambda made: made.receive(second(made, payloads=(None,))),
                ),
                "the second has no payload": (
                    MissingPayloadError,
                    lambda made: made.receive(second(made, items=(Item("b", 1), Item("c", 1)), payloads=(b"b", None))),
                ),
            },
            says=SAYS,
        ),
        "admit": Call(
            lambda made: {"request": JoinRequest("p1", 5, made.incarnation, 1, 0)},
            {
                "request": {
                    **one_of(None, 3),
                    **within(count(-1), lambda bad: JoinRequest("p1", 5, 1, bad, 0), "generation: "),
                    **within(count(-1), lambda bad: JoinRequest("p1", 5, 1, 1, bad), "sequence: "),
                    **within(count(-1), lambda bad: JoinRequest("p1", 5, bad, 1, 0), "incarnation: "),
                    **within(count(-1), lambda bad: JoinRequest("p1", bad, 1, 1, 0), "session: "),
                    **within(one_of(None, 3), lambda bad: JoinRequest(bad, 5, 1, 1, 0), "sender: "),
                }
            },
            says=SAYS,
        ),
        "forget": Call(lambda made: {"sender": "p0"}, {"sender": one_of(None, 3, ["p0"])}),
    },
    {"reset": "takes nothing"},
)

FACES = {"MirrorSender": SENDER, "MirrorSender, alone": ALONE, "MirrorReceiver": RECEIVER}
