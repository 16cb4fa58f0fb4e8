"""A release with a historic bug, or with a refactoring, beside the release as it is: what a gate for changes shows."""

from __future__ import annotations

import time
from functools import partial

import msgspec

from cacheproof.foundation.console import Show
from cacheproof.model.target import Target
from cacheproof.releases.against.parts import parts_of
from cacheproof.releases.against.running import GATE_SECONDS, compare, compared
from cacheproof.releases.against.sides import Side, lines_of, side_of
from cacheproof.releases.planted.historic import FAILED, NEEDS, Judged
from cacheproof.releases.planted.listing import Planted, compared_with
from cacheproof.releases.planted.trial import open_with_a_bug
from cacheproof.targets.vllm.driven_files import file_of
from cacheproof.targets.vllm.release import Release, needed

STEPS = 5_000
REACHED = ("sliding windows",)
"""What eras lack, and two releases beside each other do not need an era for."""


def judged(
    planted: Planted,
    *,
    seed: int,
    seconds: float = GATE_SECONDS,
    processes: int = 2,
    progress: Show = lambda text: None,
) -> Judged:
    """All components, until the first difference or the limit. Raises KeyboardInterrupt at Ctrl-C."""
    bug, release = planted.bug, planted.era.release
    assert bug is not None, "nothing is planted"
    begin = Judged(planted.name, bug.fixed, bug.reported, bug.where, bug.says, seed, found=False)
    if bug.needs and bug.needs not in REACHED:
        return msgspec.structs.replace(begin, missed=f"{NEEDS}{bug.needs}")
    base = side_of(release.name)
    target = Side(f"{release.name} with {planted.name}", partial(opened, release.version, planted.name), release)
    lines, _ = lines_of(target, base, None, changed=patched(planted))
    results = compared(lines)
    parts = parts_of(lines, steps=STEPS, seed=seed, endless=True)
    start = time.monotonic()
    compare(target, base, parts, results, seconds=seconds, processes=processes, progress=progress, first=True)
    took = round(time.monotonic() - start, 1)
    done = msgspec.structs.replace(begin, steps=sum(one.ran.steps for one in results.values()), seconds=took)
    for one in results.values():
        if one.parted is not None:
            return msgspec.structs.replace(
                done,
                found=True,
                component=one.line.component,
                how="difference",
                seen_in=one.parted.where.removeprefix("differs at ").partition(", after ")[0],
                calls=len(one.parted.calls),
            )
    failed = [f"{FAILED}{one.line.component} failed: {one.ran.failure}" for one in results.values() if one.ran.failure]
    return msgspec.structs.replace(done, missed="; ".join(failed) or bug.unseen)


def patched(planted: Planted) -> frozenset[str]:
    """The file that has the patched class or function: a real change would differ from its base in it."""
    assert planted.bug is not None, "nothing is planted"
    there = needed(planted.era.release)
    modules = (name.partition(":")[0] for name in planted.bug.place.names)
    return frozenset(file for file in (file_of(there, module) for module in modules) if file)


def opened(version: str, bug: str, component: str, variant: str, window: int) -> Target:
    """The release with the bug of this name, driven as a component."""
    return open_with_a_bug(compared_with(Release(version), component, variant), bug, window)
