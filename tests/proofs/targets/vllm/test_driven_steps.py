"""What the driver of a release's scheduler keeps of a step."""

from __future__ import annotations

from cacheproof.targets.vllm.child.driver.schedulers import Part, Step


def test_a_step_that_a_reset_has_dropped_makes_no_load_for_its_request() -> None:
    """The load that the request waits for then is of a newer step."""
    step = Step(None, tuple(Part(number, 0, 2, 0, samples=True, encodes=()) for number in (0, 1)))
    assert step.counted() == [0, 1]
    assert step.without_output([1]).counted() == [0]
