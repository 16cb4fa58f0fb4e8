"""A historic bug, put back into a release, and what `conform` makes of it in its default budget.

First lockstep with the era in each component whose driver uses the patched class, then the search for violations there.
A violation or a stall counts only if the release as it is does not show one of that sort with the same seed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

import msgspec

from cacheproof.foundation.console import Show
from cacheproof.lockstep.tally import Limit
from cacheproof.model.finding import Difference, differing
from cacheproof.model.fingerprint import digest_of, specification_digest
from cacheproof.model.registry import component_named
from cacheproof.model.store import load_all, save
from cacheproof.model.target import Target
from cacheproof.releases.conformance import SECONDS_TO_ANSWER, Trial
from cacheproof.releases.exploring import explored_of
from cacheproof.releases.planted.listing import Planted, reached_by
from cacheproof.releases.planted.trial import open_with_a_bug, with_a_bug
from cacheproof.releases.searching import EraSearch, search
from cacheproof.targets.child import ChildTarget
from cacheproof.targets.vllm.eras import Era, table
from cacheproof.targets.vllm.release import driver_digest, needed, needed_environment

NEEDS, FAILED = "needs ", "the driver of "
"""What is missed begins so if the driver cannot reach the bug, and if the driver failed."""
PARTED = "parted"
KIND = "historic"
"""The kind of these runs in the store."""
PACKAGE = Path(__file__).parents[2]
JUDGES = ("lockstep", "releases", "targets")
"""The packages that decide what is found."""


class Judged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of one bug with one seed."""

    name: str
    fixed: str
    reported: str
    where: str
    says: str
    seed: int
    found: bool
    component: str = ""
    """Of the driver that shows it."""
    how: str = ""
    """`difference`, `violation` or `stall`; empty if it is not found."""
    seen_in: str = ""
    calls: int | None = None
    """Of the shortest run that shows it."""
    steps: int = 0
    """Calls that were made in all."""
    seconds: float = 0.0
    """Of the clock."""
    missed: str = ""
    """What the driver lacks, why no observable shows it, or why a driver failed; empty if nothing is known."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What `conform` does by default."""

    steps: int
    violations: int
    seed: int


def judged(planted: Planted, budget: Budget, progress: Show | None = None) -> Judged:
    """Look for the bug, first where its own component is driven. Raises KeyboardInterrupt at Ctrl-C."""
    bug = planted.bug
    assert bug is not None, "nothing is planted"
    begin = Judged(planted.name, bug.fixed, bug.reported, bug.where, bug.says, budget.seed, found=False)
    if bug.needs:
        return msgspec.structs.replace(begin, missed=f"{NEEDS}{bug.needs}")
    start, steps, failures = time.monotonic(), 0, list[str]()
    for look in _looks(planted, budget, progress):
        steps += look.steps
        if look.failure:
            failures.append(look.failure)
        if look.how:
            return msgspec.structs.replace(
                begin,
                found=True,
                component=look.component,
                how=look.how,
                seen_in=look.seen_in,
                calls=look.calls,
                steps=steps,
                seconds=round(time.monotonic() - start, 1),
            )
    seconds = round(time.monotonic() - start, 1)
    missed = "; ".join(failures) or bug.unseen
    return msgspec.structs.replace(begin, steps=steps, seconds=seconds, missed=missed)


def as_released(era: Era, budget: Budget, progress: Show | None = None) -> Judged:
    """The release as it is: it has to agree with the era, or a bug that is found proves nothing."""
    start = time.monotonic()
    look = _beside(Planted(era, None), budget, progress)
    return Judged(
        name=f"{era.component}/as-released",
        fixed="",
        reported="",
        where=era.component,
        says="nothing is planted",
        seed=budget.seed,
        found=bool(look.how),
        component=era.component,
        how=look.how,
        seen_in=look.seen_in,
        calls=look.calls,
        steps=look.steps,
        seconds=round(time.monotonic() - start, 1),
        missed=look.failure,
    )


@dataclass(frozen=True, slots=True)
class _Look:
    """One part of what `conform` does."""

    component: str
    steps: int
    how: str = ""
    seen_in: str = ""
    calls: int | None = None
    failure: str = ""


def _looks(planted: Planted, budget: Budget, progress: Show | None) -> Iterator[_Look]:
    """Lockstep with each era, then the search beside each."""
    every = reached_by(planted)
    for one in every:
        yield _beside(one, budget, progress)
    for one in every:
        yield from _searched(one, budget, progress)


def _beside(planted: Planted, budget: Budget, progress: Show | None) -> _Look:
    trial = Trial.of(table(), planted.era, steps=budget.steps, seed=budget.seed, progress=progress)
    trial = trial.with_random_configurations().repeating(explored_of(planted.era, progress))
    result = trial.perform(lambda era: open_with_a_bug(era, planted.name))
    if result.interrupted:
        raise KeyboardInterrupt
    finding = result.finding
    if isinstance(finding, Difference):
        return _different(planted, finding, result.steps)
    failure = "" if finding is None else f"{FAILED}{planted.component} failed: {getattr(finding, 'reason', '')}"
    return _Look(planted.component, result.steps, failure=failure)


def _different(planted: Planted, finding: Difference, steps: int) -> _Look:
    where = finding.operation.wire_name() if finding.operation is not None else "start"
    seen = ", ".join(line.partition(":")[0] for line in differing(finding.expected, finding.actual))
    return _Look(planted.component, steps, "difference", f"{where}: {seen}", len(finding.trace.steps))


def _searched(planted: Planted, budget: Budget, progress: Show | None) -> Iterator[_Look]:
    """What the search shows that the release as it is does not show."""
    done = _search(planted.era, planted.name, budget, progress)
    steps = done.hunt.steps + done.alone
    released = shown_by_the_release(planted.era, budget)
    parted = [one for one in done.hunt.disagreements if isinstance(one, Difference)]
    if parted and PARTED not in released:
        yield _different(planted, min(parted, key=lambda one: len(one.trace.steps)), steps)
    for found in sorted(done.hunt.found, key=lambda one: len(one.calls)):
        if found.rule.name not in released:
            yield _Look(planted.component, steps, "violation", found.rule.name, len(found.calls))
    for sort, (stall, _) in done.stalls.items():
        if sort.name not in released:
            yield _Look(planted.component, steps, "stall", sort.value, len(stall.calls))
    yield _Look(planted.component, steps, failure=done.failure)


@cache
def shown_by_the_release(era: Era, budget: Budget) -> frozenset[str]:
    """The names of the properties and of the sorts of stalls that the release as it is breaks and shows.

    `PARTED` is among them if it parted from its era.
    """
    done = _search(era, "", budget, None)
    parted = [PARTED for one in done.hunt.disagreements if isinstance(one, Difference)]
    return frozenset((*parted, *(found.rule.name for found in done.hunt.found), *(sort.name for sort in done.stalls)))


def _search(era: Era, bug: str, budget: Budget, progress: Show | None) -> EraSearch:
    done = search(
        table(),
        era,
        limit=Limit(budget.violations, None),
        seed=budget.seed,
        progress=progress,
        opener=lambda one: open_with_a_bug(one, bug),
        alone=lambda one: open_alone_with_a_bug(one, bug),
        explored=explored_of(era, progress),
    )
    if done.interrupted:
        raise KeyboardInterrupt
    return done


def open_alone_with_a_bug(era: Era, bug: str) -> Target:
    """The scheduler with the bug, where no era runs beside it."""
    component = component_named(era.component)
    command = needed(era.release).command(needed_environment().python)
    return ChildTarget(with_a_bug(command, bug), component, component.normative, seconds=SECONDS_TO_ANSWER)


# What is kept --------------------------------------------------------------------------------------------------------


def keep(one: Judged, release: str, budget: Budget) -> None:
    """Keep what became of a bug, so that a later run goes on from it."""
    save(KIND, _name(one.name, release, budget), {"stamp": _stamp(budget), "judged": msgspec.to_builtins(one)})


def kept(every: Iterable[str], release: str, budget: Budget) -> dict[str, Judged]:
    """What earlier runs found of these names, if bugs, drivers, specification, checkers and budget were the same."""
    names = {_name(one, release, budget) for one in every}
    found: dict[str, Judged] = {}
    for record in load_all(KIND):
        if record["name"] in names and record.get("stamp") == _stamp(budget):
            one = msgspec.convert(record["judged"], Judged)
            found[one.name] = one
    return found


def _name(bug: str, release: str, budget: Budget) -> str:
    return f"{release}.{bug.replace('/', '.')}.seed-{budget.seed}"


@cache
def _stamp(budget: Budget) -> str:
    """Of all that decides: specification, checkers, drivers, bugs, tables and budget."""
    folders = [PACKAGE / name for name in JUDGES]
    digest = sha256(f"{budget}\0{driver_digest()}\0{digest_of(folders)}\0{specification_digest()}\0".encode())
    for path in sorted(path for folder in folders for path in folder.rglob("*.toml")):
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
