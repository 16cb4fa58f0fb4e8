"""What `add_request` and `finish_requests` do at once: they refuse, remember, and leave the device alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from tests.impl.interfaces.bad_input.snapshots import differences, snapshot
from tests.impl.scheduler_arrivals import engine, step_of
from tests.impl.scheduler_engines import Asked, Feature, Place
from torch.utils._python_dispatch import TorchDispatchMode

from cacheimpl.scheduler.contents import Contents, packed
from cacheimpl.scheduler.errors import (
    DuplicateRequestError,
    InvalidRequestError,
    NeverServedError,
    SchedulerError,
    TooManyRequestsError,
)

torch.set_num_threads(1)


def item(length: int = 2) -> tuple[Feature, ...]:
    return (Feature("an item", Place(0, length)),)


REFUSED: dict[str, tuple[Asked, type[SchedulerError]]] = {
    "an id that was noted": (Asked("noted", [1], 1), DuplicateRequestError),
    "an item that was noted, with another length": (Asked("b", [1] * 4, 1, 0, item(3)), InvalidRequestError),
    "an item that is too long": (Asked("b", [1] * 8, 1, 0, (Feature("b", Place(0, 5)),)), NeverServedError),
    "a prompt that is too long": (Asked("b", [1] * 12, 1), NeverServedError),
    "no prompt": (Asked("b", [], 1), InvalidRequestError),
    "one row too few": (Asked("b", [1], 1), TooManyRequestsError),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_is_refused_before_anything_is_written(what: str) -> None:
    request, error = REFUSED[what]
    made = engine(max_requests=1 if error is TooManyRequestsError else 4)
    made.add_request(Asked("noted", [1, 2, 3], 2, 0, item()))
    before = snapshot(made)
    with pytest.raises(error):
        made.add_request(request)
    assert not differences(before, snapshot(made))
    output = made.schedule()
    assert output is not None
    assert output.num_scheduled_tokens == {"noted": 3}


def test_one_item_has_one_length_in_a_prompt_too() -> None:
    made = engine(max_items=2)
    with pytest.raises(InvalidRequestError, match="another length"):
        made.add_request(Asked("a", [1] * 8, 1, 0, (*item(), Feature("an item", Place(4, 3)))))


def test_what_the_caller_does_with_his_list_changes_nothing() -> None:
    made, tokens = engine(), [1, 2, 3]
    made.add_request(Asked("a", tokens, 1))
    tokens += [4, 5]
    tokens[0] = 9
    assert step_of(made) == {"a": 3}
    made.add_request(Asked("b", [1, 2, 4], 1))
    assert step_of(made) == {"b": 1}


def test_who_is_aborted_before_it_waits_is_told_and_may_come_again() -> None:
    made = engine()
    made.add_request(Asked("a", [1, 2, 3], 1))
    made.add_request(Asked("b", [1, 2, 3], 1))
    made.finish_requests("a")
    assert made.get_num_unfinished_requests() == 1
    made.add_request(Asked("a", [4, 5], 1))
    assert [made.get_num_unfinished_requests(), made.row_of("b"), made.row_of("a")] == [2, 1, 2]
    output = made.schedule()
    assert output is not None
    assert output.num_scheduled_tokens == {"b": 3, "a": 2}
    assert output.finished_req_ids == {"a"}
    assert made.update_from_output() == ["b", "a"]


def test_tables_are_written_for_who_reads_them() -> None:
    made = engine()
    made.add_request(Asked("a", [1, 2, 3], 2))
    assert made.config.prompts[made.row_of("a")] == 3
    assert made.state.waiting[made.row_of("a")] == 0
    made.finish_requests("a")
    assert made.state.waiting.amax() == -1
    made.add_request(Asked("b", [1, 2, 3], 2))
    assert made.block_tables.shape[0] == 81
    assert made.state.waiting[made.row_of("b")] == 0


class Counted(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types for it
    """How many operations there are on tensors."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return function(*args, **(kwargs or {}))


def operations(call: Callable[..., object], each: Iterable[tuple[Any, ...]]) -> int:
    """Of a call with each of these arguments."""
    counted = Counted()  # type: ignore[no-untyped-call]  # torch has no types for it
    with counted:
        for arguments in each:
            call(*arguments)
    return counted.count


def test_a_call_does_nothing_on_the_device_and_a_burst_what_one_does() -> None:
    written, given_back = set[int](), set[int]()
    for many in (2, 7, 40):
        made = engine(encoder_cache_size=100)
        burst = [Asked(str(one), [one] * 5, 1, 0, (Feature(str(one), Place(1, 2)),)) for one in range(many)]
        assert operations(made.add_request, ((one,) for one in burst)) == 0
        written.add(operations(lambda of: of.state, ((made,),)))
        assert operations(made.finish_requests, ((one.request_id,) for one in burst)) == 0
        given_back.add(operations(lambda of: of.state, ((made,),)))
    assert len(written) == len(given_back) == 1
    assert written < {*range(5, 60)}


# Numbers of contents ------------------------------------------------------------------------------------------------


def test_tokens_of_any_size_are_told_apart_block_by_block() -> None:
    contents, large = Contents(100), 2**63

    def numbers(*tokens: int) -> list[int]:
        return contents.of_prompt(packed(tokens), 2, [])

    plain = numbers(1, 2, 3, 4, 0, 6)
    assert numbers(1, 2, 3, 4, large, 6)[:2] == plain[:2]
    assert numbers(1, 2, 3, 4, large, 6) == numbers(1, 2, 3, 4, large, 6, large)
    last = [numbers(1, 2, 3, 4, *end)[2] for end in ((0, 6), (large, 6), (large + 1, 6), (-large - 1, 6), (0, large))]
    assert len({*last, numbers(1, 2, 3, 4, 6, large)[2]}) == 6
    assert numbers(1, 2, 3, 4, -large, 6)[:2] == plain[:2]
    assert len({*numbers(0, 1, 1, 0, 256, 0, -1, -1)}) == 4
