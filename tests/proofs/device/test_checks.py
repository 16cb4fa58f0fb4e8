"""Every check of a device passes on a CPU, and fails where something is planted."""

from __future__ import annotations

import pytest
import torch
from tests.planting import Change, planted

from cacheimpl.captured import CapturedDecode
from cacheimpl.captured.capture import Capture
from cacheimpl.captured.rounds import _keep
from cacheimpl.kv_blocks.admission import adopt
from cacheimpl.kv_blocks.releasing import release
from cacheimpl.kv_blocks.steps import step
from cacheimpl.lru.operations import pop, recent
from cacheproof.device.listing import CHECKS, FIGURES, Asked, DifferenceError, Found, checks_named
from cacheproof.device.tensor import exploring
from cacheproof.device.tensor.comparing import OtherWinners, alike, same
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.search.tasks import Task
from cachespec.kernel import NORMATIVE

torch.set_num_threads(1)

ASKED = Asked("cpu", True, 5)
QUICK = ("recorded-decode", "recorded-rounds", "components", "bursts", "example", "decode-speed", "round-speed")
QUICK_TOO = ("burst-speed", "arena-speed")
OF_A_DEVICE = ("fused-speed",)
"""Nothing of these is there without one."""


def quiet(line: str) -> None:
    """Nobody looks."""


def seen(name: str) -> Found:
    """What the check finds."""
    found = Found()
    (check,) = checks_named([name])
    check.perform(ASKED, found, quiet)
    return found


@pytest.mark.parametrize("name", [*QUICK, *QUICK_TOO])
def test_a_check_passes_and_says_what_it_did(name: str) -> None:
    found = seen(name)
    assert sum(found.counts.values()) > 0
    named = {figure["name"] for figure in found.figures} | {one["what"] for one in found.left_out}
    assert named >= {figure.name for figure in FIGURES if figure.check == name}


MASKED_ADOPTIONS = Change(adopt, "$first + ($cells - 1)", "$first")
MASKED_RELEASES = Change(
    release,
    "$write.put($order, torch.where($back, $behind_last, nowhere($pool)), $z())",
    "$write.put($order, $behind_last, $z())",
)
PLANTED: dict[str, tuple[str, Change]] = {
    "a position that is one too far": ("recorded-decode", Change(step, "$lengths - 1", "$lengths")),
    "who was not served has a slot": (
        "recorded-decode",
        Change(step, "$slots.masked_fill(~$done, NO_SLOT)", "$slots"),
    ),
    "results that move": (
        "recorded-decode",
        Change(
            Capture.__call__,
            "return self.results",
            "self.results = type(self.results)(*map(torch.clone, self.results))\nreturn self.results",
        ),
    ),
    "operands that are not those": (
        "recorded-decode",
        Change(CapturedDecode.load, "self.requests[$count:].fill_(self.nobody)", "self.requests[$count:]"),
    ),
    "a field that is not kept": (
        "recorded-rounds",
        Change(
            _keep,
            "for $ours, $new in $ready:\n    $body",
            "for $ours, $new in $ready[1:]:\n    $body",
        ),
    ),
    "winners that decide, component by component": ("components", MASKED_ADOPTIONS),
    "winners that decide, in a burst": ("bursts", MASKED_ADOPTIONS),
    "winners that decide, in the example": ("example", MASKED_RELEASES),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_check_fails_where_something_is_planted(bug: str) -> None:
    name, change = PLANTED[bug]
    with planted(change), pytest.raises(DifferenceError):
        seen(name)


def test_exploration_and_refinement_pass_and_fail() -> None:
    wanted = ("lru", "growth", NORMATIVE)
    (task,) = [task for task in exploring.by_size() if (task.component, task.scope, task.variant) == wanted]
    found = Found()
    exploring.one(task, ASKED, found, quiet)
    assert found.counts["states"] > 10
    assert exploring.refine(task, ASKED, found, 100) >= 100
    bug = Change(recent, "with_newest($cache.ranks, $x)", "$cache.ranks")
    with planted(bug), pytest.raises(DifferenceError, match="lru normative growth: parts from the specification"):
        exploring.one(task, ASKED, Found(), quiet)
    with planted(Change(pop, "Code.ABSENT", "Code.MISS")):
        exploring.one(task, ASKED, Found(), quiet)
        with pytest.raises(DifferenceError, match="the outcome is"):
            exploring.refine(task, ASKED, Found(), 100)


def asks_for_liveness(task: Task) -> bool:
    """Whether its scope does."""
    return scope_named(component_named(task.component), task.scope).plan.liveness


def test_a_scope_that_asks_for_liveness_is_explored_without_progress() -> None:
    task = next(filter(asks_for_liveness, exploring.by_size()))
    found = Found()
    exploring.one(task, ASKED, found, quiet)
    assert found.counts["scopes"] == 1


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted({check.name for check in CHECKS} - {*QUICK, *QUICK_TOO}))
def test_the_longer_checks_pass_too(name: str) -> None:
    found = seen(name)
    if name in OF_A_DEVICE and not torch.cuda.is_available():
        assert {left_out["reason"] for left_out in found.left_out} == {"it needs a CUDA device"}
    else:
        assert sum(found.counts.values()) > 0


def test_names_that_there_are_not() -> None:
    with pytest.raises(InputError, match="there are recorded-decode"):
        checks_named(["no-such"])
    assert [check.name for check in checks_named(["example", "bursts"])] == ["bursts", "example"]


def test_another_winner_where_an_index_repeats() -> None:
    index, values = torch.tensor([1, 0, 1]), torch.tensor([5, 6, 7])
    usual = torch.zeros(3, dtype=torch.int64).scatter(0, index, values)
    with OtherWinners():
        scattered = torch.zeros(3, dtype=torch.int64).scatter(0, index, values)
        copied = torch.zeros(3, dtype=torch.int64).index_copy_(0, index, values)
        put = torch.zeros(3, dtype=torch.int64)
        put[index] = values
        lifted = torch.func.vmap(lambda one: torch.zeros(3, dtype=torch.int64).scatter(0, one, values))(index[None])
        summed = torch.zeros(3, dtype=torch.int64).scatter_add(0, index, values)
    assert usual.tolist() == [6, 7, 0]
    assert [one.tolist() for one in (scattered, copied, put, lifted[0])] == [[6, 5, 0]] * 4
    assert summed.tolist() == [6, 12, 0]


def test_what_differs_is_said_with_its_place() -> None:
    same("all", torch.tensor([1, 2]), torch.tensor([1, 3]), but=1)
    with pytest.raises(DifferenceError, match="element 1 of 2 is 2, not 3"):
        same("here", torch.tensor([1, 2]), torch.tensor([1, 3]))
    with pytest.raises(DifferenceError, match="int32"):
        same("here", torch.tensor([1]), torch.tensor([1], dtype=torch.int32))
    with pytest.raises(DifferenceError, match="deep, 0, 1: 2, not 3"):
        alike("deep", ((1, 2),), ((1, 3),))
