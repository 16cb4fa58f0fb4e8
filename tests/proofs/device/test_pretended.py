"""All checks on a device that is pretended: what cannot run on a device of CUDA for another reason than its kernels."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from tests.planting import Change, planted
from tests.pretending import NAME, PretendedError, pretended
from torch import Tensor

from cacheimpl.captured import Capture, CapturedDecode, Step
from cacheimpl.kv_blocks.prefix import get_computed_blocks
from cacheimpl.kv_blocks.steps import step
from cacheproof.device.listing import CHECKS, FIGURES, Asked, DifferenceError, Found, checks_named
from cacheproof.device.tensor import exploring
from cacheproof.device.tensor.machine import machine
from cacheproof.search.tasks import Task

torch.set_num_threads(1)

ASKED = Asked("cuda", True, 5)
LONGER = ("components", "example", "refinement", "exploration")
"""What takes many operations: a pretended one costs some ten times as much."""
KERNELS = ("fused-decode", "fused-look-up", "fused-scopes", "fused-rounds", "fused-speed")
COMPILED = (*KERNELS, "native-exploration", "native-exploration-speed", "compile-speed")
"""What compiles code for the device: there is nothing to pretend"""
QUICK = tuple(check.name for check in CHECKS if check.name not in (*LONGER, *COMPILED))

SMALLEST = [
    task
    for name in sorted({task.component for task in exploring.by_size()})
    for task in [one for one in exploring.by_size() if one.component == name and one.scope != "worked-example"][:2]
]


@pytest.fixture(autouse=True)
def _warm_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cacheimpl.captured.capture.WARM_UP", 1)
    # A pretended device may be slow, and leaves nothing out for that.
    monkeypatch.setattr("cacheproof.device.tensor.exploring.SECONDS_OF_ONE", 3_600.0)


def quiet(line: str) -> None:
    """Nobody looks."""


def seen(name: str, monkeypatch: pytest.MonkeyPatch) -> Found:
    found = Found()
    (check,) = checks_named([name])
    with pretended(monkeypatch):
        check.perform(ASKED, found, quiet)
    return found


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.nightly) for name in LONGER)])
def test_a_check_runs_on_a_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = seen(name, monkeypatch)
    assert found.left_out == []
    assert {figure["name"] for figure in found.figures} >= {one.name for one in FIGURES if one.check == name}
    assert sum(found.counts.values()) > 0
    assert found.counts.get("graphs", 0) > 0 or not name.startswith("recorded")


@pytest.mark.nightly
@pytest.mark.parametrize("task", SMALLEST, ids=str)
def test_a_scope_is_explored_on_a_device(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Found()
    with pretended(monkeypatch):
        exploring.one(task, ASKED, found, quiet)
    assert found.counts["scopes"] == 1


ON_CUDA: dict[str, tuple[str, Change, str]] = {
    "a value is read while a step is recorded": (
        "recorded-decode",
        Change(step, "remaining=$y - $done.sum()", "remaining=$y - int($done.sum())"),
        "_local_scalar_dense",
    ),
    "a list is brought while a step is recorded": (
        "recorded-decode",
        Change(step, "$lengths - 1", "$lengths - $lengths.new_tensor(1)"),
        "a copy from the host",
    ),
    "a shape that depends on data": (
        "recorded-decode",
        Change(step, "remaining=$y - $done.sum()", "remaining=$y - $done[$done].sum()"),
        "while a graph is recorded",
    ),
    "tensors of the host among those of the device": (
        "bursts",
        Change(get_computed_blocks, "device=$requests.device", ""),
        "tensors of the host",
    ),
}


@pytest.mark.parametrize("bug", ON_CUDA)
def test_what_only_a_device_refuses_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, change, said = ON_CUDA[bug]
    with planted(change), pytest.raises(PretendedError, match=said):
        seen(name, monkeypatch)


def test_a_choice_of_the_host_stays_as_it_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: what Python decides is decided once, so that a graph is another step than the one it stands for."""
    bug = Change(CapturedDecode._once, "self.engine.step($r, most=$m)", "self.turned(self.engine.step($r, most=$m))")
    turns = [True]

    def turned(self: CapturedDecode, step: Step) -> Step:
        return step._replace(executed=step.executed.logical_not()) if turns and turns.pop() else step

    monkeypatch.setattr(CapturedDecode, "turned", turned, raising=False)
    monkeypatch.setattr("cacheimpl.captured.capture.WARM_UP", 0)
    with planted(bug), pytest.raises(DifferenceError):
        seen("recorded-decode", monkeypatch)


class Sum(NamedTuple):
    value: Tensor


def test_a_graph_repeats_what_was_recorded_and_recording_it_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pretended(monkeypatch):
        total, step = torch.zeros(2, dtype=torch.int64, device="cuda"), torch.ones((), dtype=torch.int64, device="cuda")
        calls = []

        def function() -> Sum:
            calls.append(1)
            fresh = torch.zeros(2, dtype=torch.int64, device="cuda")
            fresh.add_(total)
            total.add_(step)
            return Sum(fresh + total)

        capture = Capture(function, (total,))
        address, made = capture.results.value.data_ptr(), len(calls)
        assert capture.is_graph
        assert total.tolist() == [0, 0]
        assert [capture().value.tolist() for _ in range(3)] == [[1, 1], [3, 3], [5, 5]]
        step.fill_(10)
        assert capture().value.tolist() == [16, 16]
        assert (capture.results.value.data_ptr(), len(calls)) == (address, made)
        assert total.tolist() == [13, 13]
        assert machine("cuda")["device"] == NAME
