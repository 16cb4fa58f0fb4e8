"""How many planted bugs a driver finds, by driver and seed: `python -m tests.proofs.lockstep.finding_power --help`.

The bugs are in three small implementations of other projects' style (`foreign`), in the child of the README, and in our
own implementation (those that its own tests find). One run is one bug, one seed and one call of `cacheproof fuzz`.
Nothing is shrunk: what counts is whether a difference is found.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from tests.planting import Change, planted

from cacheproof.foundation.errors import InputError

FOREIGN = ("sized_cache", "encoder_cache", "prefix_cache")
HERE = "tests.proofs.lockstep.foreign"


class Bug(NamedTuple):
    """A bug, the component whose target has it, and how it is planted."""

    group: str
    name: str
    component: str
    target: str
    changes: tuple[Change, ...]


def foreign() -> Iterator[Bug]:
    """60 bugs of three implementations."""
    for name in FOREIGN:
        module = importlib.import_module(f"{HERE}.{name}")
        for bug, change in module.BUGS.items():
            yield Bug(f"foreign {module.CACHE}", bug, module.CACHE, f"python:{HERE}.{name}:FACTORY", (change,))


def child() -> Iterator[Bug]:
    """The child of the README, in a process of its own."""
    path = Path(__file__).parents[2] / "examples" / "lru_child.py"
    yield Bug("child", "the README's child", "lru", f"exec:{sys.executable} {path}", ())


def own() -> Iterator[Bug]:
    """Bugs in our own implementation that its tests find."""
    from tests.proofs.lockstep import own_bugs  # noqa: PLC0415  # needs torch

    for component, name, change in own_bugs.bugs():
        yield Bug(f"own {component}", name, component, "torch", (change,))


GROUPS = {"foreign": foreign, "child": child, "own": own}


@contextlib.contextmanager
def without_shrinking() -> Iterator[None]:
    """The first finding stands: shrinking takes longer than finding."""

    def as_it_is(pair: object, finding: object, *rest: object) -> tuple[object, bool]:
        return finding, True

    drivers = "cacheproof.lockstep.campaign", "cacheproof.lockstep.machine"
    with contextlib.ExitStack() as kept:
        for driver in drivers:
            kept.enter_context(patch(f"{driver}.shrunk", as_it_is))
        kept.enter_context(patch(f"{drivers[1]}.RUNS_TO_SHRINK", 0))
        yield


def found(bug: Bug, driver: str, seed: int, steps: int) -> str:
    """How a run ended: `difference`, `breakdown`, an error by name, or nothing. An error of the target is a find."""
    from cacheproof.command.fuzz import command  # noqa: PLC0415  # after the home is set

    with planted(*bug.changes), contextlib.redirect_stderr(io.StringIO()):
        try:
            data = command(bug.component, target=bug.target, steps=steps, seed=seed, driver=driver).data
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001  # a bug may end in any error, and that is seen
            return type(error).__name__
    if data["difference"] or data["violations"]:
        return "difference"
    return "breakdown" if data["breakdown"] else ""


def main() -> None:
    """Print a table, and what was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", default=[], choices=[[], *GROUPS], help="which bugs")
    parser.add_argument("--driver", action="append", help="hypothesis (default), lockstep; may be repeated")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--only", default="", help="bugs and groups with this text")
    parser.add_argument("--sound", action="store_true", help="without any bug: nothing may be found")
    given = parser.parse_args()
    os.environ["CACHEPROOF_HOME"] = tempfile.mkdtemp()
    bugs = [bug for group in given.groups or GROUPS for bug in GROUPS[group]()]
    bugs = [bug for bug in bugs if given.only in f"{bug.group}: {bug.name}"]
    if given.sound:
        bugs = list({bug.target + bug.component: bug._replace(changes=(), name="sound") for bug in bugs}.values())
    for driver in given.driver or ["hypothesis"]:
        finds, runs, missed = Counter[str](), Counter[str](), dict[str, int]()
        began = time.monotonic()
        with without_shrinking():
            for bug in bugs:
                ends = [found(bug, driver, seed, given.steps) for seed in range(1, given.seeds + 1)]
                count = sum(1 for end in ends if end)
                finds[bug.group] += count
                runs[bug.group] += given.seeds
                if count < given.seeds:
                    missed[f"{bug.group}: {bug.name}"] = count
                print(f"{driver}: {bug.group}: {bug.name}: {count} of {given.seeds}", file=sys.stderr, flush=True)
        print(f"{driver}, {given.steps:,} calls, {given.seeds} seeds, {time.monotonic() - began:.0f} s")
        for group, number in runs.items():
            print(f"  {group}: {finds[group]} of {number}")
        print(f"  in all: {sum(finds.values())} of {sum(runs.values())}")
        print("  missed: " + json.dumps(missed, indent=2))


if __name__ == "__main__":
    main()
