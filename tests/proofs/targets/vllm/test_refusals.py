"""Configurations that a release does not have: its driver refuses them by name, before anything is run."""

from __future__ import annotations

from typing import Any

import pytest

from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.model.target import Failure, TargetError
from cacheproof.targets.vllm.eras import table
from cacheproof.targets.vllm.opening import ReleasedTarget
from cacheproof.targets.vllm.release import Release

SCHEDULER = component_named("scheduler")
NOTHING_RUNS = "false"
"""A command that ends at once: a target that starts it fails in another way."""


def reset(version: str, variant: str, scope: str, **changes: Any) -> TargetError:
    """How the driver fails in this configuration."""
    eras = table().of(Release(version), "scheduler")
    target = ReleasedTarget(NOTHING_RUNS, SCHEDULER, SCHEDULER.variants[variant], eras, 10.0)
    with pytest.raises(TargetError) as failed:
        target.reset(scope_named(SCHEDULER, scope).config._replace(**changes))
    return failed.value


@pytest.mark.parametrize(
    ("version", "variant", "scope", "changes", "refusal"),
    [
        ("0.20.2", "S2b", "watermark", {}, "watermark is not compared with vllm==0.20.2"),
        ("0.20.2", "normative", "watermark", {}, "watermark is not compared with vllm==0.20.2"),
        ("0.20.2", "S2b", "sessions-ahead", {"outputs": (1, 1, 1)}, "ahead together with turns is not compared with"),
        ("0.20.2", "S2b", "session-alone", {"outputs": (2, 1)}, "numbers of output tokens are not compared with"),
        ("0.33.0", "S3", "aligned", {"whole_items": 1}, "alignment together with whole_items is not compared with"),
    ],
)
def test_what_a_release_lacks_is_refused(
    version: str, variant: str, scope: str, changes: dict[str, Any], refusal: str
) -> None:
    failed = reset(version, variant, scope, **changes)
    assert failed.failure is Failure.REFUSED
    assert refusal in str(failed)


def test_what_a_release_has_is_run() -> None:
    assert reset("0.33.0", "S3", "watermark").failure is not Failure.REFUSED
