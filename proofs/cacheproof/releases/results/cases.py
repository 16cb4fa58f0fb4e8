"""What can be reproduced: recorded violations by their ids, findings by their names, entries of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cacheproof.catalogue.kept import Kept, load
from cacheproof.catalogue.register import entry_named
from cacheproof.foundation.errors import InputError, shortened
from cacheproof.model.registry import component_named, components
from cacheproof.model.scope import scope_named
from cacheproof.model.wire import config_from_message, config_to_message
from cacheproof.releases import nearest
from cacheproof.releases.reach import STRENGTH
from cacheproof.releases.reproduce.case import FAILS, Case
from cacheproof.releases.reproduce.judge import Ending
from cacheproof.releases.results import record
from cacheproof.releases.results.findings.finding import Finding, findings
from cacheproof.releases.results.recent import recent
from cacheproof.releases.results.record import Record, Violation
from cacheproof.releases.results.wording import known_as, reach_with_faults
from cacheproof.targets.vllm.eras import Era, table
from cacheproof.targets.vllm.release import Release

CHECKOUT = Path(__file__).parents[4]


def records() -> list[Record]:
    """The records of this checkout; those of the working directory come first, and none elsewhere."""
    folder = next(
        (each for each in (record.FOLDER, CHECKOUT / record.FOLDER) if (each / record.RECORDS).is_dir()), None
    )
    return [] if folder is None else record.load_all(folder)


def of_violation(violation: Violation) -> Case:
    """A recorded violation, with how it ended."""
    return Case(
        id=violation.id,
        target=violation.target,
        component=violation.component,
        variant=violation.variant,
        rule=violation.property,
        statement=violation.statement,
        config=violation.config,
        operations=violation.operations,
        first=violation.first,
        cycle=violation.cycle or [],
        known_as=known_as(violation),
        reach=reach_with_faults(violation),
        recorded=Ending.NOT_SHOWN if violation.unshown else Ending.VIOLATED,
        printed=violation.unshown or violation.verdict,
    )


def of_finding(finding: Finding, target: str) -> Case:
    """A finding on a release; how its own script ends there is how this has to end."""
    component = component_named(finding.component)
    statements = {rule.name: rule.statement for rule in component.properties()}
    ending = finding.ends.get(target)
    case = Case(
        id=finding.name,
        target=finding.target,
        component=finding.component,
        variant=table().of(Release.parsed(finding.target), finding.component)[0].variant,
        rule=finding.rule,
        statement=statements.get(finding.rule, FAILS),
        config=dict(config_to_message(config_from_message(component, finding.config))),
        operations=finding.operations,
        known_as=finding.known_as,
        recorded=None if ending is None else ending.status,
    )
    return on(case, target)


def on(case: Case, target: str) -> Case:
    """The case on another release: beside the era of that one if it has one, without what was recorded."""
    if case.target == target:
        return case
    config = case.subject.config
    eras = [era for era in _eras(Release.parsed(target), case.component) if era.has(config) and not era.first]
    variant = eras[0].variant if eras else case.variant
    recorded = case.recorded if case.id in {each.name for each in findings()} else None
    return Case.from_message(
        {**case.as_message(), "target": target, "variant": variant, "recorded": recorded, "printed": "", "first": ""}
    )


def recorded_on(target: str) -> list[Case]:
    """Every case of which it is recorded how it ends on this release."""
    violations = [each for known in records() if known.target == target for each in known.violations]
    ending = [each for each in findings() if target in each.ends]
    return [*map(of_violation, violations), *(of_finding(each, target) for each in ending)]


def case_named(name: str, target: str) -> Case:
    """The case that a name means on a release: an id or a finding, or the most telling case of a catalogue entry.

    What the last `conform` of the release has found comes before what is recorded.

    Raises InputError, which says what there is.
    """
    Release.parsed(target)
    for finding in findings():
        if finding.name == name:
            return of_finding(finding, target)
    mine = [each for each in recent() if (each.id, each.target) == (name, target)]
    if mine:
        return of_violation(mine[0])
    known = [each for book in records() for each in book.violations if name in (each.id, *each.catalogue)]
    here = sorted((each for each in known if each.target == target), key=_telling)
    by_id = [each for each in (*here, *known) if each.id == name]
    if by_id or here:
        return on(of_violation((by_id or here)[0]), target)
    traces = sorted(_traces(name, target), key=lambda case: len(case.operations))
    if traces:
        return traces[0]
    if known:
        return on(of_violation(min(known, key=_telling)), target)
    if entry_named(name) is not None:
        raise InputError(f"nothing of {name} can be reproduced: `cacheproof explain {name}` says what is known of it")
    raise InputError(f"nothing is called {shortened(repr(name))}: `cacheproof reproduce --list` lists what there is")


def _telling(violation: Violation) -> tuple[bool, int, int, int]:
    """What an entry explains surely, what needs no misuse, with few faults, and shortly."""
    reach = -STRENGTH.index(violation.reach)
    return not violation.catalogue, reach, len(violation.faults), len(violation.operations)


def _eras(release: Release, component: str) -> Sequence[Era]:
    lines = table()
    return lines.of(release, component) or nearest.neighbours(lines, release, component)


def _traces(entry: str, target: str) -> Iterator[Case]:
    """The catalogue's traces of an entry in eras of this release, or of its neighbours."""
    for name in components():
        traces = [kept for kept in load(name).values() if kept.catalogue == entry]
        for era in _eras(Release.parsed(target), name) if traces else ():
            yield from (_of_trace(kept, era, target) for kept in traces if _fits(kept, era))


def _fits(kept: Kept, era: Era) -> bool:
    return kept.variant == era.variant and era.has(scope_named(component_named(era.component), kept.scope).config)


def _of_trace(kept: Kept, era: Era, target: str) -> Case:
    component = component_named(era.component)
    rule = next(each for each in component.properties() if each.name == kept.rule)
    entry = entry_named(kept.catalogue)
    return Case(
        id=f"{era.component}-{kept.variant}-{kept.rule.replace('/', '-')}-{kept.catalogue}",
        target=target,
        component=era.component,
        variant=kept.variant,
        rule=kept.rule,
        statement=rule.statement,
        config=dict(config_to_message(scope_named(component, kept.scope).config)),
        operations=list(kept.operations),
        first=era.first,
        cycle=list(kept.operations[kept.cycle :]) if kept.cycle is not None else [],
        known_as=", ".join((kept.catalogue, *(entry.threads if entry is not None else ()))),
    )


@dataclass(frozen=True, slots=True)
class Listed:
    """What can be reproduced under one id, and the releases on which the violation was seen."""

    id: str
    component: str
    property: str
    catalogue: tuple[str, ...]
    targets: tuple[str, ...]

    def has(self, text: str) -> bool:
        """Whether the text is a part of the id, or its component, property, an entry or a release."""
        return text in self.id or text in (self.component, self.property, *self.catalogue, *self.targets)


def listed() -> Iterator[Listed]:
    """Findings, then recorded violations by id."""
    for finding in findings():
        seen = tuple(target for target, ending in finding.ends.items() if ending.status == Ending.VIOLATED)
        yield Listed(finding.name, finding.component, finding.rule, (finding.catalogue,), seen)
    by_id: dict[str, list[Violation]] = {}
    for known in records():
        for violation in known.violations:
            by_id.setdefault(violation.id, []).append(violation)
    for name, alike in by_id.items():
        first, targets = alike[0], tuple(each.target for each in alike if not each.unshown)
        yield Listed(name, first.component, first.property, tuple(first.catalogue), targets)
