"""What was seen on a running engine: the cases of the scripts in `docs/findings`, and how each ended where.

A violation of a release whose entry was seen on that release's running engine has the strongest reach.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from cacheproof.catalogue.register import entry_named
from cacheproof.foundation.errors import InputError
from cacheproof.releases.reach import MISUSE, RUNNING, Reach
from cacheproof.releases.reproduce.judge import Ending
from cacheproof.releases.results.findings.finding import ScriptEnding
from cacheproof.releases.results.record import Violation

SOURCE = Path(__file__).with_suffix(".toml")
WITH_OURS = "{} with cacheimpl"
"""An engine with the schedulers of `cacheimpl.vllm`."""


class RunningCase(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One case: what a user sees, and how the script ends."""

    name: str
    """As the script takes it."""
    heading: str
    """Of its part of the page."""
    catalogue: list[str]
    """The entries that it shows."""
    effect: str
    """What a user sees if it is seen."""
    script: str = "running_engine"
    """The name of the script, without `.py`."""
    ends: dict[str, ScriptEnding]
    """By engine: `vllm==0.33.0`, or `vllm==0.33.0 with cacheimpl`."""

    def seen_on(self, engine: str) -> bool:
        """Whether the script ended with the violation there."""
        ending = self.ends.get(engine)
        return ending is not None and ending.status == Ending.VIOLATED


@cache
def running_cases(source: Path = SOURCE) -> Sequence[RunningCase]:
    """All of them, in the order of the file; InputError says what is wrong with it."""
    try:
        cases = msgspec.convert(tomllib.loads(source.read_text(encoding="utf-8"))["case"], list[RunningCase])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError, KeyError) as error:
        raise InputError(f"{source}: {' '.join(str(error).split())}") from None
    for case in cases:
        for entry in case.catalogue:
            if entry_named(entry) is None:
                raise InputError(f"{source}: the catalogue has no {entry}")
    return tuple(cases)


def reach_shown(violation: Violation) -> Reach:
    """The reach of its calls, or the strongest one if an entry that explains it was seen on the running engine."""
    seen = {entry for case in running_cases() if case.seen_on(violation.target) for entry in case.catalogue}
    return RUNNING if violation.reach != MISUSE and seen & set(violation.catalogue) else violation.reach
