"""`Scheduler` by its public face: what is refused, what is shared, and what it says of its steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from tests.impl.scheduler_engines import Asked, Feature, Place
from tests.planting import Change, planted

from cacheimpl.encoder_cache import growth as encoder_cache_growth
from cacheimpl.scheduler.engine import Scheduler
from cacheimpl.scheduler.errors import (
    DuplicateRequestError,
    InvalidRequestError,
    InvalidSettingError,
    NeverServedError,
    NoPlanError,
    TooManyPlansError,
    TooManyRequestsError,
    UnsupportedError,
)
from cacheimpl.scheduler.settings import Settings

torch.set_num_threads(1)


def engine(**changes: Any) -> Scheduler:
    """A small one."""
    asked_for = {
        "block_size": 2,
        "num_gpu_blocks": 8,
        "max_num_batched_tokens": 8,
        "max_num_seqs": 4,
        "max_model_len": 12,
        "max_requests": 2,
        **changes,
    }
    return Scheduler(Settings(**asked_for))


def test_misuse_is_an_exception_and_changes_nothing() -> None:
    scheduler = engine()
    with pytest.raises(NoPlanError):
        scheduler.update_from_output()
    scheduler.add_request(Asked("a", [1, 2, 3], 2))
    with pytest.raises(DuplicateRequestError):
        scheduler.add_request(Asked("a", [1], 1))
    with pytest.raises(NeverServedError):
        scheduler.add_request(Asked("b", [1] * 12, 1))
    with pytest.raises(InvalidRequestError):
        scheduler.add_request(Asked("b", [], 1))
    with pytest.raises(InvalidRequestError):
        scheduler.add_request(Asked("b", [1], 1, mm_features=(Feature("x", Place(0, 1)),)))
    scheduler.add_request(Asked("b", [1], 1))
    with pytest.raises(TooManyRequestsError):
        scheduler.add_request(Asked("c", [1], 1))
    output = scheduler.schedule()
    assert output is not None
    assert output.num_scheduled_tokens == {"a": 3, "b": 1}
    with pytest.raises(TooManyPlansError):
        scheduler.schedule()
    assert scheduler.update_from_output() == ["b"]
    scheduler.finish_requests(["b", "a", "nobody"])
    assert not scheduler.has_unfinished_requests()


@dataclass(frozen=True)
class WithAdapter(Asked):
    lora_request: str = "an adapter"


@dataclass(frozen=True)
class Lora:
    lora_int_id: int
    lora_name: str = "an adapter"
    lora_path: str = "/somewhere"


@dataclass(frozen=True)
class OfTenant(Asked):
    cache_salt: str | None = None
    lora_request: Any = None


SAME, OTHER = OfTenant("a", [1, 2, 3, 4, 5], 1), OfTenant("b", [1, 2, 3, 4, 5], 1)
APART = {
    "no salt and a salt": (SAME, replace(OTHER, cache_salt="x")),
    "two salts": (replace(SAME, cache_salt="y"), replace(OTHER, cache_salt="x")),
    "an adapter and none": (replace(SAME, lora_request=Lora(1)), OTHER),
    "two adapters of one name": (replace(SAME, lora_request=Lora(1)), replace(OTHER, lora_request=Lora(2))),
    "two paths of one adapter": (
        replace(SAME, lora_request=Lora(1)),
        replace(OTHER, lora_request=Lora(1, lora_path="/elsewhere")),
    ),
    "a salt like an adapter": (replace(SAME, cache_salt="x"), replace(OTHER, lora_request="x")),
}
"""Requests with the same tokens and other KV, or that must not know of each other."""
ALIKE = {
    "nothing": (SAME, OTHER),
    "one salt": (replace(SAME, cache_salt="x"), replace(OTHER, cache_salt="x")),
    "one adapter": (replace(SAME, lora_request=Lora(1)), replace(OTHER, lora_request=Lora(1))),
}


def found_of_the_second(first: OfTenant, second: OfTenant) -> int:
    """Tokens of the second request that are found once the first one has ended."""
    scheduler = Scheduler(Settings(2, 20, 16, 4, 16, 8, max_loras=2))
    scheduler.add_request(first)
    scheduler.schedule()
    scheduler.update_from_output()
    scheduler.add_request(second)
    output = scheduler.schedule()
    assert output is not None
    return 5 - output.num_scheduled_tokens[second.request_id]


@pytest.mark.parametrize("pair", APART.values(), ids=APART)
def test_what_depends_on_more_than_tokens_is_not_shared(pair: tuple[OfTenant, OfTenant]) -> None:
    assert found_of_the_second(*pair) == 0


@pytest.mark.parametrize("pair", ALIKE.values(), ids=ALIKE)
def test_what_depends_on_the_same_is_shared(pair: tuple[OfTenant, OfTenant]) -> None:
    assert found_of_the_second(*pair) == 4


def test_a_salt_is_a_text() -> None:
    with pytest.raises(InvalidRequestError, match="cache_salt"):
        engine().add_request(replace(SAME, cache_salt=3))  # type: ignore[arg-type]  # what a caller may get wrong


def test_a_turn_has_the_salt_of_its_session() -> None:
    scheduler = Scheduler(Settings(2, 20, 16, 4, 16, 8))
    scheduler.add_request(replace(SAME, cache_salt="x"))
    with pytest.raises(InvalidRequestError, match="salt"):
        scheduler.add_request(replace(OTHER, prompt_token_ids=[1, 2, 3, 4, 5, 6, 7]), after="a")


def test_what_there_is_no_rule_for_is_refused() -> None:
    scheduler = engine()
    with pytest.raises(UnsupportedError, match="lora_request"):
        scheduler.add_request(WithAdapter("a", [1, 2, 3], 2))
    assert scheduler.schedule() is None


@pytest.mark.parametrize("setting", ["block_size", "num_gpu_blocks", "max_num_batched_tokens", "max_requests"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "2", 2**40])
def test_settings_are_counts(setting: str, value: Any) -> None:
    with pytest.raises(InvalidSettingError, match=setting):
        engine(**{setting: value})


def test_a_prompt_is_found_again_and_told() -> None:
    scheduler = engine(max_requests=4)
    scheduler.add_request(Asked("a", [1, 2, 3, 4, 5], 1))
    scheduler.schedule()
    assert scheduler.update_from_output() == ["a"]
    scheduler.add_request(Asked("b", [1, 2, 3, 4, 6], 1))
    output = scheduler.schedule()
    assert output is not None
    assert output.num_scheduled_tokens == {"b": 1}
    assert output.finished_req_ids == {"a"}


SHOWN_LATER = 20


def shown(scheduler: Scheduler, name: str, item: str) -> bool:
    """Whether the item is encoded for a new request, which is then served."""
    scheduler.add_request(Asked(name, [1, 2], 1, mm_features=(Feature(item, Place(0, 1)),)))
    output = scheduler.schedule()
    assert output is not None
    encoded = output.scheduled_encoder_inputs == {name: [0]}
    assert scheduler.update_from_output() == [name]
    return encoded


def small_items() -> bool:
    """Whether items that are shown again are all found, in tables that began with fewer rows than there are items."""
    scheduler = engine(max_items=1, encoder_compute_budget=8, encoder_cache_size=64)
    rows = scheduler.state.encoder.sizes.shape[0]
    assert rows < SHOWN_LATER
    assert all(shown(scheduler, f"new {number}", str(number)) for number in range(SHOWN_LATER))
    assert scheduler.state.encoder.sizes.shape[0] == scheduler.config.blank.dropped.shape[1] > rows
    return not any(shown(scheduler, f"again {number}", str(number)) for number in range(SHOWN_LATER))


def test_rows_for_items_grow_with_the_items() -> None:
    assert small_items()


def test_items_that_are_lost_in_larger_tables_are_noticed() -> None:
    lost = Change(
        encoder_cache_growth.grown_cache,
        "enlarged($cache.resident, $contents, False)",
        "torch.zeros($contents, dtype=torch.bool)",
    )
    with planted(lost):
        assert not small_items()


def test_a_turn_that_was_aborted_takes_no_namesake_along() -> None:
    """Its id is used again while the turn before it runs; an abort of that turn is no abort of the new request."""
    scheduler = engine(max_requests=4)
    scheduler.add_request(Asked("first", [1, 2, 3], 4))
    scheduler.schedule()
    scheduler.add_request(Asked("second", list(range(8)), 1), after="first")
    scheduler.finish_requests("second")
    scheduler.add_request(Asked("second", [1], 1))
    scheduler.finish_requests("first")
    assert scheduler.get_num_unfinished_requests() == 1
    scheduler.update_from_output()
    output = scheduler.schedule()
    assert output is not None
    assert output.num_scheduled_tokens == {"second": 1}


def test_a_session_goes_on_with_what_its_turn_has_computed() -> None:
    """Five tokens of the first turn have KV, of which two whole blocks are found."""
    scheduler = engine(max_requests=4)
    scheduler.add_request(Asked("first", [1, 2, 3], 3))
    for _ in range(3):
        scheduler.schedule()
        ended = scheduler.update_from_output()
    assert ended == ["first"]
    scheduler.add_request(Asked("second", [1, 2, 3, 4, 5, 6, 7], 1), after="first")
    output = scheduler.schedule()
    assert output is not None
    assert output.num_scheduled_tokens == {"second": 3}


def test_a_drafter_may_propose_fewer_tokens() -> None:
    """A plan has as many drafts as were proposed since the last output, of each request."""
    settings = Settings(
        block_size=2, num_gpu_blocks=40, max_num_batched_tokens=20, max_num_seqs=2, max_model_len=30, max_requests=4
    )
    scheduler = Scheduler(replace(settings, num_spec_tokens=3))
    for name in ("one", "two"):
        scheduler.add_request(Asked(name, [1, 2, 3], 20))
    planned = []
    for most in (3, 1, torch.tensor([0, 2, 3, 3]), None):
        scheduler.schedule()
        scheduler.update_from_output()
        if most is not None:
            scheduler.limit_drafts(most)
        output = scheduler.schedule()
        assert output is not None
        planned.append(list(output.num_scheduled_tokens.values()))
        scheduler.update_from_output()
    assert planned == [[4, 4], [2, 2], [1, 3], [4, 4]]
