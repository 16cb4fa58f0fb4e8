"""The scheduler and its settings."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from tests.impl.interfaces.bad_input.sorts import Call, Face, Sort, always, count, counts, lacking, one_of, within

from cacheimpl.scheduler.engine import Scheduler
from cacheimpl.scheduler.errors import (
    DuplicateRequestError,
    InvalidRequestError,
    InvalidStopError,
    NeverServedError,
    NoPlanError,
    SchedulerError,
    TooManyPlansError,
    TooManyRequestsError,
    UnknownRequestError,
    UnsupportedError,
)
from cacheimpl.scheduler.settings import MAY_BE_NONE, Settings

SETTINGS = Settings(
    block_size=2,
    num_gpu_blocks=8,
    max_num_batched_tokens=8,
    max_num_seqs=4,
    max_model_len=12,
    max_requests=3,
    max_items=1,
    encoder_compute_budget=4,
    encoder_cache_size=4,
    encoder_connector=True,
)
NUMBERS = {
    name: 0 if name in MAY_BE_NONE else 1
    for name, value in SETTINGS.__dataclass_fields__.items()
    if value.type == "int"
}


def item(identifier: Any = "an item", offset: Any = 0, length: Any = 2) -> Any:
    return SimpleNamespace(identifier=identifier, mm_position=SimpleNamespace(offset=offset, length=length))


def request(name: str, tokens: Any = (1, 2, 3), **more: Any) -> Any:
    wanted = {"request_id": name, "prompt_token_ids": list(tokens), "max_tokens": 2, "priority": 0, "mm_features": []}
    return SimpleNamespace(**{**wanted, **more})


def scheduler() -> Any:
    """One request runs and one plan is in flight; another one waits."""
    made = Scheduler(SETTINGS)
    made.add_request(request("running", mm_features=[item()]))
    made.schedule()
    made.add_request(request("waiting"))
    return made


def full() -> Any:
    """As many requests as there are rows."""
    made = scheduler()
    made.add_request(request("third"))
    return made


TOKENS: Sort = {
    **one_of(None, 3, "text", [], [1.5], ["a"], [None], [True], [float("nan")]),
    "too many": always(list(range(12))),
}
PATHLESS = SimpleNamespace(lora_name="a", lora_path=[])
"""An adapter whose path is no text."""

REQUEST: Sort = {
    **lacking("prompt_token_ids", request_id=one_of(None, 3), prompt_token_ids=TOKENS),
    **lacking(max_tokens=count(1)),
    **within(count(-(2**31), most=2**31 - 1), lambda bad: request("new", priority=bad), "priority: "),
    **within(count(0, most=1), lambda bad: request("new", mm_features=[item("new", bad)]), "offset: "),
    **within(count(1, most=3), lambda bad: request("new", mm_features=[item("new", 0, bad)]), "length: "),
    **within(one_of(None, 3), lambda bad: request("new", mm_features=[item(bad)]), "identifier: "),
    "mm_features: more than there is room for": always(request("new", mm_features=[item(), item("b", 2, 1)])),
    "mm_features: no features": always(request("new", mm_features=[None])),
}
SAYS = ("request", "item", "identifier", "accepted", "offset", "length")


def with_item(length: int) -> Any:
    return request("new", range(8), mm_features=[item("long", 0, length)])


OPEN = {
    "get_num_unfinished_requests": "takes nothing",
    "has_unfinished_requests": "takes nothing",
    "reset_prefix_cache": "takes nothing",
    "reset_encoder_cache": "takes nothing",
}

SCHEDULER = Face(
    Scheduler,
    scheduler,
    SchedulerError,
    {
        "__init__": Call(
            lambda made: {"settings": SETTINGS, "device": "cpu"},
            {"settings": one_of(None, 3, {}), "device": one_of("nowhere", 1.5)},
        ),
        "add_request": Call(
            lambda made: {"request": request("new", range(6)), "external": 1, "after": "running"},
            {"request": REQUEST, "external": count(0, most=2**31 - 1), "after": one_of(3, [], "nobody")},
            dict.fromkeys(("load_first", "send"), "a flag"),
            misuse={
                "an id that waits": (DuplicateRequestError, lambda made: made.add_request(request("waiting"))),
                "an id that runs": (DuplicateRequestError, lambda made: made.add_request(request("running"))),
                "longer than all blocks": (NeverServedError, lambda made: made.add_request(request("new", range(12)))),
                "an item that is never encoded": (NeverServedError, lambda made: made.add_request(with_item(5))),
                "an item with another length than before": (
                    InvalidRequestError,
                    lambda made: made.add_request(request("new", mm_features=[item(length=3)])),
                ),
                "an adapter": (
                    UnsupportedError,
                    lambda made: made.add_request(request("new", lora_request="an adapter")),
                ),
                "an adapter without a name": (
                    InvalidRequestError,
                    lambda made: made.add_request(request("new", lora_request=1)),
                ),
                "an adapter whose path is no text": (
                    InvalidRequestError,
                    lambda made: made.add_request(request("new", lora_request=PATHLESS)),
                ),
                "a salt that is no text": (
                    InvalidRequestError,
                    lambda made: made.add_request(request("new", cache_salt=3)),
                ),
                "min_tokens is no count": (
                    InvalidRequestError,
                    lambda made: made.add_request(request("new", min_tokens=-1)),
                ),
                "a turn of another priority than its session": (
                    InvalidRequestError,
                    lambda made: made.add_request(request("new", range(6), priority=1), after="running"),
                ),
                "a turn that is shorter than what its session keeps": (
                    InvalidRequestError,
                    lambda made: made.add_request(request("new", (1, 2)), after="running"),
                ),
            },
            says=SAYS,
        ),
        "finish_requests": Call(
            lambda made: {"request_ids": ["waiting"]}, {"request_ids": one_of(None, 3, [3], ["waiting", None])}
        ),
        "update_from_output": Call(
            lambda made: {"accepted": torch.zeros(SETTINGS.max_requests, dtype=torch.int64), "stops": {"running": 1}},
            {
                "accepted": {**{what: bad for what, bad in counts().items() if what != "a list"}, **count(0)},
                "stops": one_of(
                    3, ["running"], {"nobody": 1}, {3: 1}, {"running": 2}, {"running": 0}, {"running": None}
                ),
            },
            misuse={
                "a stop token of a request that sampled nothing": (
                    InvalidStopError,
                    lambda made: made.update_from_output(stops={"waiting": 1}),
                )
            },
            says=(*SAYS, "stop", "request_id"),
        ),
        "limit_drafts": Call(
            lambda made: {"drafts": torch.zeros(SETTINGS.max_requests, dtype=torch.int64)},
            {"drafts": {**{what: bad for what, bad in counts().items() if what != "a list"}, **count(0)}},
            says=SAYS,
        ),
        "grammar_compiled": Call(lambda made: {"request_id": "running"}, {"request_id": one_of(None, 3, [], "nobody")}),
        "finish_load": Call(lambda made: {"request_id": "running"}, {"request_id": one_of(None, 3, [], "nobody")}),
        "finish_send": Call(lambda made: {"request_id": "running"}, {"request_id": one_of(None, 3, [], "nobody")}),
        "fail_load": Call(
            lambda made: {"request_id": "running", "blocks": 1},
            {"request_id": one_of(None, 3, [], "nobody"), "blocks": count(0, most=2**31 - 1)},
        ),
        "fail_step": Call(
            lambda made: {"request_id": "running", "blocks": 1},
            {"request_id": one_of(None, 3, [], "nobody"), "blocks": count(0, most=2**31 - 1)},
            misuse={
                "of a request that loads nothing": (InvalidRequestError, lambda made: made.fail_step("running", 1)),
            },
            works=False,
        ),
        "expect_output": Call(
            lambda made: {"identifier": "an output"},
            {"identifier": one_of(None, 3, [])},
            {"arrived": "a flag"},
            misuse={
                "of an item that a request shows": (
                    InvalidRequestError,
                    lambda made: made.expect_output("an item"),
                )
            },
        ),
        "bring_output": Call(lambda made: {"identifier": "an output"}, {"identifier": one_of(None, 3, [])}),
        "lose_output": Call(lambda made: {"identifier": "an output"}, {"identifier": one_of(None, 3, [])}),
        "row_of": Call(
            lambda made: {"request_id": "running"},
            {"request_id": one_of(None, 3, "nobody")},
            misuse={"who has ended": (UnknownRequestError, lambda made: made.row_of("ended"))},
        ),
        "schedule": Call(
            lambda made: {},
            misuse={"with a plan too many": (TooManyPlansError, lambda made: made.schedule())},
            works=False,
        ),
    },
    dict.fromkeys(
        ("get_num_unfinished_requests", "has_unfinished_requests", "reset_prefix_cache", "reset_encoder_cache"),
        "takes nothing",
    ),
)

FULL = Face(
    None,
    full,
    SchedulerError,
    {
        "add_request": Call(
            lambda made: {},
            misuse={"one more than rows": (TooManyRequestsError, lambda made: made.add_request(request("fourth")))},
            works=False,
        )
    },
)

IDLE = Face(
    None,
    lambda: Scheduler(SETTINGS),
    SchedulerError,
    {
        "update_from_output": Call(
            lambda made: {},
            misuse={"without a plan": (NoPlanError, lambda made: made.update_from_output())},
            works=False,
        ),
        "expect_output": Call(
            lambda made: {},
            misuse={
                "without the setting": (
                    UnsupportedError,
                    lambda made: Scheduler(replace(SETTINGS, encoder_connector=False)).expect_output("an output"),
                )
            },
            works=False,
        ),
    },
)

OF_SETTINGS = Face(
    Settings,
    lambda: SETTINGS,
    SchedulerError,
    {
        "__init__": Call(
            lambda made: {name: getattr(SETTINGS, name) for name in NUMBERS},
            {name: count(least, most=2**31 - 1) for name, least in NUMBERS.items()},
            {name: "a flag" for name, value in SETTINGS.__dataclass_fields__.items() if value.type == "bool"},
        )
    },
)

FACES = {
    "Scheduler": SCHEDULER,
    "Scheduler, full": FULL,
    "Scheduler, idle": IDLE,
    "Settings": OF_SETTINGS,
}
