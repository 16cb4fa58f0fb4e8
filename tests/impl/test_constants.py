"""Numbers as tensors: each is made once, wherever that happens first, and can be used everywhere afterwards."""

from __future__ import annotations

import pytest
import torch

from cacheimpl.constants import constant, counting

torch.set_num_threads(1)

HERE = torch.device("cpu")


def test_a_number_is_made_once() -> None:
    assert constant(71, HERE) is constant(71, HERE)
    assert int(constant(71, HERE)) == 71
    assert constant(71, HERE).dtype == torch.int64


@pytest.mark.parametrize("count", [0, 1, 2, 3, 8, 9, 1000])
def test_numbers_are_counted_from_nought(count: int) -> None:
    assert torch.equal(counting(count, HERE), torch.arange(count))


def test_few_ranges_are_kept() -> None:
    """All that have as many numbers, rounded up to a power of two, lie in one memory."""
    kept = {counting(count, HERE).data_ptr() for count in range(513, 1025)}
    assert len(kept) == 1


def test_what_is_made_in_inference_mode_is_of_use_outside() -> None:
    with torch.inference_mode():
        number, numbers = constant(72, HERE), counting(2049, HERE)
    assert not number.is_inference()
    assert not numbers.is_inference()
    weight = torch.ones((), requires_grad=True)
    torch.autograd.backward(weight * number)
    assert weight.grad is not None
    assert float(weight.grad) == 72.0


def test_what_is_made_while_lifted_is_of_use_outside() -> None:
    def added(values: torch.Tensor) -> torch.Tensor:
        return values + constant(73, HERE) + counting(4097, HERE)[:3]

    lifted = torch.func.vmap(added)(torch.zeros(2, 3, dtype=torch.int64))
    assert lifted.tolist() == [[73, 74, 75]] * 2
    assert int(constant(73, HERE)) == 73
    assert torch.equal(counting(4097, HERE), torch.arange(4097))
