"""The scheduler of a release with one method broken, in a subclass made in its own process, is told from its era."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from cacheproof.fuzz.difference import Difference
from cacheproof.fuzz.lockstep import lockstep
from cacheproof.registry import component_named, variant_named
from cacheproof.targets.child import ChildTarget
from cacheproof.targets.vllm.eras import Era, table
from cacheproof.targets.vllm.release import START, add, needed_environment

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

STEPS = 600
"""In each configuration."""

SCRIPT = """
import importlib, sys
sys.path.insert(0, {driver!r})
conversation = importlib.import_module("driver.conversation")
schedulers = importlib.import_module("driver.schedulers")
made = schedulers.Classes.__init__

def plant(released):
    class Planted(released):
{method}
    return Planted

def with_a_bug(self):
    made(self)
    self.scheduler, self.asynchronous = plant(self.scheduler), plant(self.asynchronous)

schedulers.Classes.__init__ = with_a_bug
sys.exit(conversation.main(sys.argv[1:]))
"""

BUGS = {
    "items are not released": "def _free_encoder_inputs(self, request): pass",
    "items are released one token early": """
def _free_encoder_inputs(self, request):
    request.num_computed_tokens += 1
    super()._free_encoder_inputs(request)
    request.num_computed_tokens -= 1""",
    "an item that has no room does not cut the chunk": """
def _try_schedule_encoder_inputs(self, request, computed, tokens, *rest, **named):
    given = super()._try_schedule_encoder_inputs(request, computed, tokens, *rest, **named)
    return (given[0], tokens, *given[2:])""",
    "the encoder's budget is not spent": """
def _try_schedule_encoder_inputs(self, request, computed, tokens, budget, *rest, **named):
    given = super()._try_schedule_encoder_inputs(request, computed, tokens, budget, *rest, **named)
    return (*given[:2], budget, *given[3:])""",
    "a step has one token too many": """
def schedule(self):
    kept = self.max_num_scheduled_tokens, self.scheduler_config.max_num_batched_tokens
    self.max_num_scheduled_tokens, self.scheduler_config.max_num_batched_tokens = (one + 1 for one in kept)
    try:
        return super().schedule()
    finally:
        self.max_num_scheduled_tokens, self.scheduler_config.max_num_batched_tokens = kept""",
    "who arrives is first": """
def add_request(self, request):
    super().add_request(request)
    if self.scheduler_config.policy == "fcfs":
        self.waiting.remove_request(request)
        self.waiting.prepend_request(request)""",
    "who is aborted keeps its blocks": """
def _free_blocks(self, request):
    del self.requests[request.request_id]""",
    "the first of several outputs is lost": """
def update_from_output(self, planned, output):
    if len(output.sampled_token_ids) > 2:
        output.sampled_token_ids[0] = []
    return super().update_from_output(planned, output)""",
    "a reset is said to be done": "def reset_prefix_cache(self): return True",
    "one token less counts as computed": """
def _update_after_schedule(self, planned):
    super()._update_after_schedule(planned)
    for name in planned.num_scheduled_tokens:
        if self.requests[name].num_computed_tokens > 4:
            self.requests[name].num_computed_tokens -= 1""",
    "one place more": """
def schedule(self):
    self.max_num_running_reqs += 1
    self.max_num_active_reqs = self.max_num_running_reqs
    try:
        return super().schedule()
    finally:
        self.max_num_running_reqs -= 1
        self.max_num_active_reqs = self.max_num_running_reqs""",
    "the last to be served is never preempted": """
def schedule(self):
    if len(self.running) > 1:
        self.running.insert(0, self.running.pop())
    return super().schedule()""",
}


def identified(era: Era) -> str:
    return f"{era.variant}-{era.release.version}"


def script(folder: Path, method: str) -> Path:
    """What runs in the place of the driver's own start."""
    path = folder / "start_with_a_bug.py"
    body = "\n".join(f"        {line}" for line in method.strip().splitlines())
    path.write_text(SCRIPT.format(driver=str(START.parent), method=body), encoding="utf-8")
    return path


ERAS = [era for era in table().eras if era.component == "scheduler" and era.variant in ("S2", "S3")]


@pytest.mark.parametrize("era", ERAS, ids=identified)
@pytest.mark.parametrize("bug", BUGS)
def test_a_broken_method_is_found(era: Era, bug: str, tmp_path: Path) -> None:
    there = add(era.release, progress=print)
    command = [needed_environment().python, "-I", script(tmp_path, BUGS[bug]), there.source, era.release.version]
    component = component_named(era.component)

    variant = variant_named(component, era.variant)
    target = ChildTarget(shlex.join(map(str, command)), component, variant, seconds=30.0)
    try:
        assert any(parted(target, era, config) for config in table().configurations[era.component])
    finally:
        target.close()


def parted(target: ChildTarget, era: Era, config: Any) -> bool:
    """Whether the release with the bug and the era were seen to differ in this configuration."""
    component = component_named(era.component)
    variant = variant_named(component, era.variant)
    campaign = lockstep(component, variant, config, target, steps=STEPS, seed=3, seconds_to_shrink=0.1)
    assert campaign.finding is None or isinstance(campaign.finding, Difference), campaign.finding
    return campaign.finding is not None
