"""Cases on the releases that were added with `cacheproof target add`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InconclusiveError
from cacheproof.releases.reproduce.case import Case
from cacheproof.releases.reproduce.judge import Judged, judged
from cacheproof.targets.factory import open_target
from cacheproof.targets.vllm.release import Release, installed

SECONDS_TO_ANSWER = 60.0
"""Of the clock; the driver limits the processor time of each call by itself."""


def on_release(cases: Iterable[Case], progress: Show | None = None) -> Iterator[Judged]:
    """Perform each case; those of one release and era share a process.

    Raises InconclusiveError for a release that is not installed, InputError for one that cannot be driven.
    """
    groups: dict[tuple[str, str, str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.target, case.component, case.variant, case.first), []).append(case)
    for (name, component, _, _), alike in groups.items():
        release = Release.parsed(name)
        if installed(release) is None:
            raise InconclusiveError(f"{name} is not installed: cacheproof target add {name}")
        subject = alike[0].subject
        with closing(open_target(name, subject.component, subject.variant, SECONDS_TO_ANSWER)) as target:
            for number, case in enumerate(alike, 1):
                if progress is not None:
                    progress(f"{name}: {component}, {number} of {len(alike)}")
                yield judged(case, target)
