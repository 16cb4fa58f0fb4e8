"""On which machine a run was made: as much as somebody needs who makes it again."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from cacheproof.releases.results.record import Machine
from cacheproof.targets.environment import DEPENDENCIES, torch_wanted

PROCESSORS = Path("/proc/cpuinfo")


def this_machine() -> Machine:
    """This one; the processor's own name where the system tells it."""
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        system=f"{platform.system()} on {platform.machine()}",
        python=platform.python_version(),
        dependencies=[torch_wanted(), *DEPENDENCIES],
    )


def _processor() -> str:
    lines = PROCESSORS.read_text(encoding="utf-8").splitlines() if PROCESSORS.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
