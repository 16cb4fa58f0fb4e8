"""Which finding a word means: an entry of the catalogue, a property, a run that was kept, or a file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cacheproof.catalogue.kept import is_kept, shown_by
from cacheproof.catalogue.meaning import refutations_of
from cacheproof.catalogue.places import places
from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import json_of
from cacheproof.model.finding import Finding
from cacheproof.model.finding_json import finding_from_message
from cacheproof.model.registry import component_named, components, variant_named
from cacheproof.model.store import load_all
from cacheproof.model.trace import Violation
from cacheproof.model.trace import record as record_trace
from cacheproof.model.trace_json import FORMAT, trace_from_message
from cacheproof.model.wire import config_from_message, operation_from_message
from cacheproof.releases.results.cases import of_finding, records
from cacheproof.releases.results.findings.finding import Finding as Scripted
from cacheproof.releases.results.findings.finding import findings
from cacheproof.releases.results.record import Violation as Recorded
from cachespec.kernel import NORMATIVE

Named = tuple[str, Finding]
"""The name of the run, and its finding."""


def find(word: str, only: str | None = None) -> tuple[Named, list[Named]]:
    """The shortest finding that the word means, and the others that it could mean, shortest first.

    The word is a catalogue number, a property, a run's name or the beginning of one up to a dot, the id of a recorded
    violation of a release, or the path of a file that `show --format json` wrote. Runs that are stored come first, then
    the traces that come with the package, then the records. `only` names the property where a run violates several.
    """
    if Path(word).is_file():
        return (word, _from_file(Path(word))), []
    kept = [(name, finding) for name, finding in _all() if _means(word, name, finding)]
    kept = kept or list(_of_the_catalogue(word)) or list(_of_the_results(word))
    matching = [(name, finding) for name, finding in kept if only is None or _property(finding) == only]
    if not matching:
        raise InputError(_nothing(word, only, kept))
    shortest, *others = sorted(matching, key=lambda named: len(named[1].trace.steps))
    return shortest, others


def _all() -> Iterator[Named]:
    """Every finding of the runs that are kept."""
    for record in load_all():
        for message in _findings(record):
            try:
                yield str(record["name"]), finding_from_message(message)
            except InputError:
                continue  # it is of a component, a variant or a form that is no more


def _of_the_catalogue(word: str) -> Iterator[Named]:
    """The shortest traces that come with the package, of an entry or a property."""
    for place in places(components().values()):
        if word in (place.catalogue, place.violation.property) and is_kept(place):
            yield f"{place.scope.component}.{place.variant}.{place.scope.name}", shown_by(place)


def _of_the_results(word: str) -> Iterator[Named]:
    """A violation that was recorded on a release, or a finding with a script."""
    known = recorded().get(word)
    if known is not None:
        yield f"{word} on {known.target}", as_executed(known)


def recorded() -> dict[str, Recorded | Scripted]:
    """What was recorded of releases, by id: violations, and findings with a script that break a property."""
    scripted: dict[str, Recorded | Scripted] = {each.name: each for each in findings() if each.rule}
    return scripted | {each.id: each for record in reversed(records()) for each in record.violations}


def as_executed(known: Recorded | Scripted) -> Violation:
    """Its calls, as the specification executes them."""
    if isinstance(known, Scripted):
        case = of_finding(known, known.target)
        variant, rule, statement, catalogue = case.variant, case.rule, case.statement, known.catalogue
    else:
        variant, rule, statement = known.variant or NORMATIVE, known.property, known.statement
        catalogue = ", ".join(known.catalogue)
    component = component_named(known.component)
    config = config_from_message(component, known.config)
    calls = [operation_from_message(component.operations, call) for call in known.operations]
    trace = record_trace(component, variant_named(component, variant), config, calls, whole_calls=True)
    return Violation(rule, statement, trace, catalogue)


def _findings(record: Mapping[str, Any]) -> Iterator[Any]:
    violations = record.get("violations")
    yield from violations if isinstance(violations, list) else ()
    yield from (record[key] for key in ("difference", "breakdown") if record.get(key) is not None)


def _means(word: str, name: str, finding: Finding) -> bool:
    catalogue = finding.catalogue if isinstance(finding, Violation) else ""
    return word in (name, catalogue, _property(finding)) or name.startswith(f"{word}.")


def _property(finding: Finding) -> str:
    return finding.property if isinstance(finding, Violation) else ""


def _from_file(path: Path) -> Finding:
    """A trace alone shows no property: it is shown as it is."""
    try:
        message = json_of(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a trace: {error}") from None
    try:
        if isinstance(message, dict) and message.get("format") == FORMAT:
            return Violation("", "", trace_from_message(message))
        return finding_from_message(message)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _nothing(word: str, only: str | None, kept: list[Named]) -> str:
    if kept:
        known = ", ".join(sorted({_property(finding) or "a difference" for _, finding in kept}))
        return f"'{word}' has nothing for '{only}': there are {known}"
    shown_by = refutations_of(word, components().values())
    if not shown_by:
        return f"nothing is kept for '{word}': run `cacheproof check` or `cacheproof fuzz` first; see `cacheproof list`"
    first = min(shown_by, key=lambda one: (one.length is None, one.length or 0))
    where = f"{first.component} --variant {shlex.quote(first.variant)} --scope {first.scope}"
    return f"nothing is kept for '{word}' yet: run `cacheproof check {where}`"
