"""`torch` for components whose implementation is classes on the host, and for those that have none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.campaign import lockstep
from cacheproof.lockstep.macros.macro import VOCABULARIES
from cacheproof.model.registry import component_named, components
from cacheproof.model.scope import scopes_of
from cacheproof.targets.factory import open_target
from cacheproof.targets.implemented import Form, form_of
from cacheproof.targets.tensor.encoder_budget_functions import BudgetTarget
from cacheproof.targets.tensor.on_host import encoder_budget
from cacheproof.tensor_models import MODELS

torch.set_num_threads(1)

FACES = sorted(name for name in components() if form_of(name) is Form.FACE)
NONE = sorted(name for name in components() if form_of(name) is None)


def test_each_component_is_one_or_the_other_or_neither() -> None:
    assert FACES == ["block_hash", "configuration", "encoder_budget", "kv_events", "object_store"]
    assert NONE == ["engine", "partial_hits", "publication", "shared_prefix"]
    operations = {name for name in components() if form_of(name) is Form.OPERATIONS}
    assert operations == set(MODELS)
    assert operations.isdisjoint(FACES)


@pytest.mark.parametrize("name", FACES)
def test_torch_is_held_to_the_specification(name: str) -> None:
    component = component_named(name)
    config = scopes_of(component)[0].config
    target = open_target("torch", component, component.normative)
    try:
        found = lockstep(component, component.normative, config, target, steps=300, seed=1)
    finally:
        target.close()
    assert (found.finding, found.tally.steps) == (None, 300)
    assert found.tally.observables


def test_a_planted_bug_of_a_face_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def generous() -> Any:
        face = BudgetTarget(as_released=False)
        shown = face.observe
        face.observe = lambda: {**shown(), "space": 1 + int(str(shown()["space"]))}  # type: ignore[method-assign]  # planted
        return face

    monkeypatch.setattr(encoder_budget, "open_face", generous)
    component = component_named("encoder_budget")
    config = scopes_of(component)[0].config
    target = open_target("torch", component, component.normative)
    assert lockstep(component, component.normative, config, target, steps=50, seed=1).finding is not None


@pytest.mark.parametrize("name", NONE)
def test_where_there_is_none_that_is_said(name: str) -> None:
    component = component_named(name)
    with pytest.raises(InputError, match=f"{name} is specified, and nothing of ours implements it by itself"):
        open_target("torch", component, component.normative)


def test_a_face_has_no_device() -> None:
    component = component_named("object_store")
    with pytest.raises(InputError, match="runs on the host"):
        open_target("torch:meta", component, component.normative)


def test_the_nightly_run_has_every_component_that_is_implemented() -> None:
    makefile = (Path(__file__).parents[3] / "Makefile").read_text(encoding="utf-8")
    target = makefile.partition("\nnightly-fuzz:")[2].partition("\n\n")[0]
    (listed,) = re.findall(r"^FUZZED := (.*)$", makefile, re.MULTILINE)
    alone = set(re.findall(r"cacheproof fuzz (\w+) --scope \S+ --target torch --profile nightly", target))
    assert {*listed.split(), *alone} == {name for name in components() if form_of(name) is not None}
    assert set(re.findall(r"cacheproof fuzz (\w+) --target torch --macros", target)) == set(VOCABULARIES)
