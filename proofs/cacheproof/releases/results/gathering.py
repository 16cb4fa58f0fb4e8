"""One run of one release, from beginning to end: agreement, violations, and each violation made again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

import cachespec
from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InconclusiveError
from cacheproof.model.fingerprint import specification_digest
from cacheproof.releases.conformance import open_released
from cacheproof.releases.reach import STRENGTH
from cacheproof.releases.reproduce.judge import Ending
from cacheproof.releases.reproduce.running import on_release
from cacheproof.releases.results.cases import of_violation
from cacheproof.releases.results.catalogued import shown_by_release
from cacheproof.releases.results.ids import named
from cacheproof.releases.results.machine import this_machine
from cacheproof.releases.results.record import Message, Record, Row, Search, Undriven, Violation
from cacheproof.targets.vllm.eras import Era, table
from cacheproof.targets.vllm.release import Release

VLLM = "vllm=="


def record_of(target: str, said: Mapping[str, Any], *, seed: int, steps: int, show: Show) -> Record:
    """What `conform --json` said of a target, with the catalogue's traces made on it and each violation made again."""
    found = [msgspec.convert(message, Violation) for message in said.get("violations", ())]
    found = [one for one in found if one.target == target]
    observed = said.get("component")
    rows = [row_of({"component": observed, **one}) for one in said["results"] if one["target"] == target]
    searched = [
        Search(
            message["component"],
            message["variant"],
            message["steps"],
            message.get("episodes", 0),
            message.get("violations", 0),
            bool(message.get("interrupted")),
            str(message.get("failure") or ""),
        )
        for message in said.get("searched", ())
        if message["target"] == target
    ]
    undriven = [Undriven(row.component, row.breakdown) for row in rows if row.breakdown and not row.calls]
    if target.startswith(VLLM):
        release = Release.parsed(target)
        show(f"{target}: the catalogue's traces")
        found = merged(found, catalogued(table().of(release)))
        undriven += list(left_out(release, {row.component for row in rows}))
    violations = told_apart(found)
    named(violations)
    if target.startswith(VLLM):
        reproduce(violations, show)
    made = begun(target, seed=seed, steps=steps)
    made.rows, made.searched, made.violations, made.undriven = rows, searched, violations, undriven
    return made


def begun(target: str, *, seed: int, steps: int) -> Record:
    """An empty record of a run that is made here and now."""
    return Record(
        target=target,
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        seed=seed,
        steps=steps,
        specification=specification_digest(),
        version=cachespec.__version__,
        machine=this_machine(),
        rows=[],
        searched=[],
        violations=[],
        undriven=[],
    )


def row_of(message: Message) -> Row:
    """A result of `conform`, with its component."""
    if "variant" in message:
        return _row_of_an_era(message)
    wrong, broken = message.get("found"), str(message.get("broke_down") or "")
    difference = [f"{wrong['rule']}: {wrong['said']}", *map(str, wrong.get("calls", ()))] if wrong else []
    verdict = "a violation" if wrong else "the driver failed" if broken else "nothing wrong was seen"
    if message.get("interrupted"):
        verdict = "interrupted"
    return Row(
        component=str(message["component"]),
        label=f"{message['driven']}, {message['configuration']}",
        calls=message["steps"],
        verdict=verdict,
        agrees=verdict == "nothing wrong was seen" and message["steps"] > 0,
        beside=message.get("beside"),
        difference=difference,
        breakdown=broken,
    )


def _row_of_an_era(message: Message) -> Row:
    breakdown = message["breakdown"]
    vanished, difference = message["vanished"], message["difference"]
    if breakdown is not None:
        verdict = "the driver failed"
    elif difference is not None:
        verdict = "differs"
    elif vanished:
        verdict = f"listed as different and not seen: {', '.join(vanished)}"
    else:
        verdict = "agrees, but for what is listed" if message["known_as"] else "agrees"
    first = f" with {message['first']}" if message["first"] else ""
    return Row(
        component=message["component"],
        label=f"{message['variant']}{first}",
        calls=message["steps"],
        verdict=verdict,
        agrees=verdict.startswith("agrees") and message["steps"] > 0,
        states=message.get("states"),
        difference=list(difference["statements"]) if difference is not None else [],
        breakdown=str(breakdown["reason"]) if breakdown is not None else "",
        known=list(message["known_as"]),
    )


def catalogued(eras: Sequence[Era]) -> Iterator[Violation]:
    """The traces of the catalogue that the release shows."""
    for era in eras:
        target = open_released(era)
        try:
            yield from shown_by_release(era, target)
        finally:
            target.close()


def merged(searched: Sequence[Violation], kept: Iterator[Violation]) -> list[Violation]:
    """What the search found, and what it did not find as strongly or as shortly of what the catalogue has."""
    found = list(searched)
    for one in kept:
        alike = [other for other in searched if _alike(one, other)]
        if not any(
            STRENGTH.index(other.reach) >= STRENGTH.index(one.reach) and len(other.operations) <= len(one.operations)
            for other in alike
        ):
            found.append(one)
    return found


def _alike(one: Violation, other: Violation) -> bool:
    places = [(each.component, each.variant, each.first, each.property) for each in (one, other)]
    return places[0] == places[1] and set(one.catalogue) <= set(other.catalogue)


def told_apart(found: Sequence[Violation]) -> list[Violation]:
    """One for each property and what it is known as: callers do least wrong, with the fewest faults, and shortly."""
    groups: dict[tuple[Any, ...], list[Violation]] = {}
    for one in sorted(found, key=_telling):
        key = (one.component, one.variant, one.first, one.property, tuple(one.catalogue))
        groups.setdefault(key, []).append(one)
    for first, *others in groups.values():
        also = {" with ".join((one.operation or "nothing more", *one.faults)) for one in others}
        first.also = sorted(also - {" with ".join((first.operation, *first.faults))})
    return sorted((group[0] for group in groups.values()), key=_place)


def _telling(violation: Violation) -> tuple[int, int, int]:
    return -STRENGTH.index(violation.reach), len(violation.faults), len(violation.operations)


def left_out(release: Release, driven: set[str]) -> Iterator[Undriven]:
    """Components of which the release has no row, and why; what the table of eras says of parts is on its page."""
    for component in dict.fromkeys(era.component for era in table().eras):
        if component not in driven:
            yield Undriven(component, "no era of it is this release")


def reproduce(violations: Sequence[Violation], show: Show) -> None:
    """Make the calls of each on its release again, and keep the last line. Raises InconclusiveError."""
    by_id = {violation.id: violation for violation in violations}
    for made in on_release(map(of_violation, violations), show):
        if made.ending is Ending.CANNOT_RUN:
            raise InconclusiveError(f"{made.case.target}: {made.case.id}: {made.last_line}")
        seen = made.ending is Ending.VIOLATED
        by_id[made.case.id].verdict = made.last_line if seen else ""
        by_id[made.case.id].unshown = "" if seen else made.last_line


def _place(violation: Violation) -> tuple[Any, ...]:
    strength = -STRENGTH.index(violation.reach)
    return violation.component, violation.first, strength, violation.property, violation.catalogue
