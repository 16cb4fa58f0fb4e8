"""The checks of a device on a device of CUDA, where there is one; each in a process of its own."""

from __future__ import annotations

import pytest
import torch

from cacheproof.device.listing import CHECKS, Asked, Check
from cacheproof.device.running import PASSED, CheckResult, Outcome, performed_apart, run
from cacheproof.device.tensor.machine import machine
from cacheproof.foundation.console import Show

SECONDS = 240


@pytest.mark.gpu
@pytest.mark.timeout(len(CHECKS) * SECONDS)
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_all_checks_pass_on_a_device() -> None:
    def perform(check: Check, asked: Asked, show: Show) -> Outcome:
        return performed_apart(check, asked, show, SECONDS)

    result = CheckResult(Asked("cuda", True, 7), machine("cuda"))
    run(CHECKS, result, lambda line: None, perform=perform)
    assert {name: (one.status, one.detail) for name, one in result.outcomes.items()} == {
        check.name: (PASSED, "") for check in CHECKS
    }
    assert result.left_out() == []
