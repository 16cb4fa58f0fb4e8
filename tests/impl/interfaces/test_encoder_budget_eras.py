"""The budgets of earlier eras, each held to the specification's era, and apart from the others."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces.lockstep import differs, findings

from cacheimpl.encoder_budget import BudgetEra, budget_of_era
from cacheproof.model.scope import Scope
from cacheproof.targets.tensor.encoder_budget_functions import (
    open_as_set,
    open_constants,
    open_merged,
    open_one_more,
    open_one_more_as_reviewed,
)

Opened = Callable[[str], Any]
Plant = Callable[[str, str, str], None]

ERAS: dict[str, Opened] = {
    "B0": open_constants,
    "B1": open_one_more,
    "B2": open_one_more_as_reviewed,
    "B3": open_merged,
    "B6": open_as_set,
}


def explores(variant: str) -> Callable[[Scope], bool]:
    return lambda scope: variant in scope.variants


@pytest.mark.parametrize("variant", ERAS)
def test_lockstep_with_the_era(variant: str) -> None:
    found = dict(findings("encoder_budget", variant, ERAS[variant], steps=600, only=explores(variant)))
    assert found
    assert [name for name, finding in found.items() if finding is not None] == []


@pytest.mark.parametrize("variant", ERAS)
def test_no_era_is_another_one(variant: str) -> None:
    others = [opened for name, opened in ERAS.items() if name != variant]
    assert all(differs("encoder_budget", variant, opened, steps=600, only=explores(variant)) for opened in others)


@pytest.mark.parametrize(
    ("variant", "function", "right", "wrong"),
    [
        ("B1", "budget_of_era", "-(-$settings.batch_tokens // $largest) + 1", "-(-$settings.batch_tokens // $largest)"),
        ("B2", "budget_of_era", "$settings.sequences * $x", "$settings.sequences + $x"),
        ("B3", "budget_of_era", "max($settings.batch_tokens, $largest)", "$settings.batch_tokens"),
        ("B6", "_as_set", "$asked < $settings.compute", "$asked <= $settings.compute"),
        ("B6", "_as_set", "max(asked, $largest)", "asked"),
        ("B6", "_as_set", "$x = $raised.compute", "pass"),
    ],
)
def test_planted_bugs_are_found(plant: Plant, variant: str, function: str, right: str, wrong: str) -> None:
    plant(f"cacheimpl.encoder_budget.eras.{function}", right, wrong)
    assert differs("encoder_budget", variant, ERAS[variant], steps=600, only=explores(variant))


def test_what_was_raised_is_taken_for_what_was_asked() -> None:
    """C-ENC-23: an engine that is started again with smaller items keeps the budgets of the larger ones."""
    config = SimpleNamespace(max_num_batched_tokens=8, max_num_seqs=2)
    assert budget_of_era(BudgetEra.AS_SET, config, {"image": 20})[:2] == (20, 20)
    assert budget_of_era(BudgetEra.AS_SET, config, {"image": 4})[:2] == (20, 20)
