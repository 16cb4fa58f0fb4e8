"""Short runs of the state machine against `torch`, in which CrossHair chooses the calls: the backend of Hypothesis.

The backend comes with the extra `symbolic`. A step takes about a second, because CrossHair traces both sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.planting import Change, planted

from cacheproof.lockstep.campaign import Campaign
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.scoped import Scoped
from cacheproof.lockstep.tally import Limit
from cacheproof.model.finding import Difference, Subject
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scopes_of
from cacheproof.targets.factory import open_target

pytest.importorskip("hypothesis_crosshair_provider", reason="pip install 'cacheproof[symbolic]' brings the backend")

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.configuration import set_hypothesis_home_dir

from cacheimpl.lru import operations
from cacheproof.lockstep.machine import run_with

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]

BACKEND = "crosshair"
EXAMPLES, STEPS = 40, 4
"""Of one run; an example has at most so many calls."""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path) -> Iterator[None]:
    set_hypothesis_home_dir(tmp_path)
    yield
    set_hypothesis_home_dir(None)


def run(name: str, examples: int = EXAMPLES) -> Campaign:
    """The first scope of the component, on tensors."""
    component = component_named(name)
    target = open_target("torch", component, component.normative)
    pair = Pair(Subject(component, component.normative, scopes_of(component)[0].config), target, "torch")
    chosen = settings(
        max_examples=examples,
        stateful_step_count=STEPS + 1,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
        backend=BACKEND,
    )
    return run_with(Scoped({"": pair}), Limit(), chosen, seed_number=1)


@pytest.mark.parametrize("name", ["lru", "encoder_cache", "kv_blocks", "ring"])
def test_tensors_agree_where_crosshair_chooses_the_calls(name: str) -> None:
    campaign = run(name)
    assert campaign.finding is None
    assert campaign.tally.steps >= EXAMPLES / 2
    assert len(campaign.tally.outcomes) > 2, "several calls"


def test_a_bug_of_the_tensor_code_is_found() -> None:
    with planted(Change(operations.get, "$a.total + 1", "$a.total")):
        campaign = run("lru")
    assert isinstance(campaign.finding, Difference)
    assert len(campaign.finding.trace.steps) <= STEPS
