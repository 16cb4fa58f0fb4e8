"""Both encoder cache managers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.impl.interfaces.bad_input.sorts import Call, Face, Sort, always, count, one_of, within

from cacheimpl.encoder_cache.early import EarlyEncoderCacheManager
from cacheimpl.encoder_cache.errors import (
    AlreadyCachedError,
    EncoderCacheError,
    NoRoomError,
    RequestMismatchError,
    SizeMismatchError,
    UnknownInputError,
)
from cacheimpl.encoder_cache.manager import EncoderCacheManager


def request(name: str, *items: tuple[str, Any]) -> Any:
    """A request whose inputs have these hashes and sizes."""
    features = [SimpleNamespace(identifier=identifier) for identifier, _ in items]
    return SimpleNamespace(
        request_id=name,
        mm_features=features,
        mm_hashes=[identifier for identifier, _ in items],
        get_num_encoder_embeds=lambda input_id: items[input_id][1],
    )


def without(*names: str) -> Any:
    made = vars(request("new", ("a", 4)))
    return SimpleNamespace(**{name: value for name, value in made.items() if name not in names})


REQUEST: Sort = {
    "nothing": always(None),
    "something else": always(object()),
    "without request_id": always(without("request_id")),
    "without an id": always(SimpleNamespace(**{**vars(request("new", ("a", 4))), "request_id": None})),
}
INPUT = {
    **REQUEST,
    "without mm_features": always(without("mm_features", "mm_hashes")),
    "without get_num_encoder_embeds": always(without("get_num_encoder_embeds")),
    **within(count(0, most=2**62 - 1), lambda size: request("new", ("new", size)), "the size of input: "),
}
HASHED = {**INPUT, "mm_features: one has no hash": always(request("new", (None, 4)))}  # type: ignore[arg-type]  # that is wrong


def manager() -> Any:
    """Ten slots: "running" holds `held`, `idle` is held by nobody."""
    made: Any = EncoderCacheManager(10)
    made.running, made.gone = request("running", ("held", 4), ("other", 3)), request("gone", ("idle", 2))
    made.new = request("new", ("new", 3), ("held", 4))
    for one in (made.running, made.gone):
        assert made.can_allocate(one, 0, 100, 0)
        made.allocate(one, 0)
    made.free(made.gone)
    return made


def early() -> Any:
    made: Any = EarlyEncoderCacheManager(10)
    made.running, made.gone = request("running", ("held", 4), ("other", 3)), request("gone", ("idle", 2))
    made.new = request("new", ("new", 3), ("held", 4))
    made.allocate(made.running, 0)
    made.allocate(made.gone, 0)
    made.free(made.gone)
    return made


def input_of(made: Any) -> dict[str, Any]:
    return {"request": made.new, "input_id": 0}


WITH_INPUTS: Sort = {**REQUEST, "without mm_features": always(without("mm_features", "mm_hashes"))}
NUMBER = count(0, most=1)
ASKED: dict[str, Sort] = {"request": HASHED, "input_id": NUMBER}
ONLY_NAMED: dict[str, Sort] = {"request": REQUEST}
SAYS = ("input", "request", "get_num_encoder_embeds", "mm_features")

MANAGER = Face(
    EncoderCacheManager,
    manager,
    EncoderCacheError,
    {
        "__init__": Call(
            lambda made: {"cache_size": 10, "device": "cpu"},
            {"cache_size": count(0, most=2**62 - 1), "device": one_of("nowhere", 1.5)},
        ),
        "create_manager": Call(
            lambda made: {"cache_size": 10},
            {"cache_size": count(0, most=2**62 - 1)},
            {"cls": "the class", "vllm_config": "never read"},
        ),
        "check_and_update_cache": Call(
            input_of,
            ASKED,
            misuse={
                "another size than is cached": (
                    SizeMismatchError,
                    lambda made: made.check_and_update_cache(request("x", ("held", 5)), 0),
                ),
                "another content under an id that holds one": (
                    RequestMismatchError,
                    lambda made: made.check_and_update_cache(request("running", ("else", 4)), 0),
                ),
                "beyond the inputs, of many": (
                    UnknownInputError,
                    lambda made: made.check_and_update_cache(made.new, 10**9),
                ),
            },
            says=SAYS,
        ),
        "can_allocate": Call(
            lambda made: {**input_of(made), "encoder_compute_budget": 8, "num_tokens_to_schedule": 0},
            {
                **ASKED,
                "encoder_compute_budget": count(None),
                "num_tokens_to_schedule": count(0, most=2**62 - 1),
                "num_embeds_to_schedule": count(0, most=2**62 - 1, optional=True),
            },
            says=(*SAYS, "compute budget", "scheduled already"),
        ),
        "allocate": Call(
            input_of,
            ASKED,
            misuse={
                "what is cached": (AlreadyCachedError, lambda made: made.allocate(made.new, 1)),
                "again": (AlreadyCachedError, lambda made: made.allocate(made.running, 0)),
                "without room": (NoRoomError, lambda made: made.allocate(request("big", ("big", 5)), 0)),
                "larger than everything": (
                    NoRoomError,
                    lambda made: made.allocate(request("huge", ("huge", 2**61)), 0),
                ),
            },
            says=SAYS,
        ),
        "abandon": Call(lambda made: {"request": made.running}, ONLY_NAMED),
        "free_encoder_input": Call(
            lambda made: {"request": made.running, "input_id": 0},
            {"request": WITH_INPUTS, "input_id": NUMBER},
            misuse={
                "another size": (
                    SizeMismatchError,
                    lambda made: made.free_encoder_input(request("running", ("held", 5), ("other", 3)), 0),
                ),
            },
            says=SAYS,
        ),
        "free": Call(lambda made: {"request": made.running}, ONLY_NAMED),
        "get_cached_input_ids": Call(lambda made: {"request": made.running}, ONLY_NAMED),
        "get_cached_num_encoder_embeds": Call(
            lambda made: {"request": made.running, "input_id": 0},
            {"request": WITH_INPUTS, "input_id": NUMBER},
            says=SAYS,
        ),
    },
    dict.fromkeys(("reset", "get_manager_metadata", "get_freed_mm_hashes"), "takes nothing"),
)

EARLY = Face(
    EarlyEncoderCacheManager,
    early,
    EncoderCacheError,
    {
        "__init__": Call(lambda made: {"cache_size": 10}, {"cache_size": count(0, most=2**62 - 1)}),
        "has_cache": Call(input_of, {"request": REQUEST, "input_id": count(0)}, says=SAYS),
        "can_allocate": Call(
            lambda made: {**input_of(made), "encoder_compute_budget": 8, "num_tokens_to_schedule": 0},
            {
                "request": {what: bad for what, bad in INPUT.items() if "mm_features" not in what},
                "input_id": count(0),
                "encoder_compute_budget": count(None),
                "num_tokens_to_schedule": count(0, most=2**62 - 1, optional=True),
            },
            says=SAYS,
        ),
        "allocate": Call(
            input_of,
            {"request": {what: bad for what, bad in INPUT.items() if "mm_features" not in what}, "input_id": count(0)},
            misuse={
                "again": (AlreadyCachedError, lambda made: made.allocate(made.running, 0)),
                "without room": (NoRoomError, lambda made: made.allocate(request("big", ("big", 9)), 0)),
                "an input that there is not": (UnknownInputError, lambda made: made.allocate(made.new, 2)),
            },
            says=SAYS,
        ),
        "get_cached_input_ids": Call(lambda made: {"request": made.running}, ONLY_NAMED),
        "free_encoder_input": Call(
            lambda made: {"request": made.running, "input_id": 0}, {"request": REQUEST, "input_id": count(0)}, says=SAYS
        ),
        "free": Call(lambda made: {"request": made.running}, ONLY_NAMED),
    },
    dict.fromkeys(("reset", "get_freed_ids"), "takes nothing"),
)

FACES = {"EncoderCacheManager": MANAGER, "EncoderCacheManager, early": EARLY}
