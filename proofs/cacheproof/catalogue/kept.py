"""Shortest traces that come with the package, so that a page can show one without exploring anything.

One file for each component, `traces/NAME.ndjson`, one line for each place. A line holds the operations and nothing that
follows from them: before a trace is shown the specification executes it again, the property has to be broken at its
end, and its length has to be the one that the scope file expects, which `cacheproof check` finds to be the shortest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from cacheproof.catalogue.places import Place
from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import replace_file
from cacheproof.lockstep.reproduction import violation as broken_in
from cacheproof.model.plan import Granularity
from cacheproof.model.registry import SCOPES, component_named, scope_file, variant_named
from cacheproof.model.trace import Trace, Violation, record
from cacheproof.model.wire import Message, config_to_message, operation_from_message, operation_to_message

FOLDER = Path(__file__).parent / "traces"

Key = tuple[str, str, str, str]
"""Catalogue number, variant, scope, property."""


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a file."""

    catalogue: str
    variant: str
    scope: str
    rule: str
    operations: tuple[Message, ...]
    cycle: int | None = None

    @property
    def key(self) -> Key:
        """What tells it from the others of its component."""
        return self.catalogue, self.variant, self.scope, self.rule


def key_of(place: Place) -> Key:
    """Under which the trace of a place is kept."""
    return place.catalogue, place.variant, place.scope.name, place.violation.property


def load(component: str) -> dict[Key, Kept]:
    """All traces of a component; none where there is no file."""
    path = FOLDER / f"{component}.ndjson"
    if not path.is_file():
        return {}
    try:
        lines = [msgspec.json.decode(line, type=Kept) for line in path.read_bytes().splitlines()]
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{path}: {error}") from None
    return {line.key: line for line in lines}


def is_kept(place: Place) -> bool:
    """Whether there is a trace for the place."""
    return key_of(place) in load(place.scope.component)


def shown_by(place: Place) -> Violation:
    """The violation at a place, executed again; InputError where no trace is kept or the kept one shows it no more."""
    kept = load(place.scope.component).get(key_of(place))
    if kept is None:
        raise InputError(f"no trace is kept for {place}: run `{_command(place)}`")
    wrong = _amiss(place, kept)
    if wrong is not None:
        raise InputError(f"the trace that is kept for {place} {wrong}: run `{_command(place)}`")
    return _violation(place, kept)


def keep(found: Sequence[tuple[Place, Trace]], known: Iterable[Place]) -> dict[Path, int]:
    """Write what was found; the number of changed lines by file.

    A kept trace that still shows its violation stays, so that nothing changes without need; one whose place is gone
    from the scope files (`known` has all places) is dropped. A component from elsewhere has no file here.
    """
    there = {(place.scope.component, *key_of(place)) for place in known}
    changed: dict[Path, int] = {}
    for name in sorted({place.scope.component for place, _ in found}):
        if scope_file(component_named(name)).parent != SCOPES:
            continue
        before = load(name)
        after = {key: line for key, line in before.items() if (name, *key) in there}
        for place, trace in found:
            if place.scope.component == name and not _is_good(place, after.get(key_of(place))):
                after[key_of(place)] = _to_line(place, trace)
        path = FOLDER / f"{name}.ndjson"
        changed[path] = sum(before.get(key) != after.get(key) for key in {*before, *after})
        replace_file(path, "".join(_encoded(after[key]) for key in sorted(after)))
    return changed


def _command(place: Place) -> str:
    return f"cacheproof catalogue {place.catalogue} --scope {place.scope.name} --keep"


def _is_good(place: Place, kept: Kept | None) -> bool:
    return kept is not None and _amiss(place, kept) is None


def _amiss(place: Place, kept: Kept) -> str | None:
    """Why the trace does not show the violation with the expected length; None where it does."""
    if len(kept.operations) != place.violation.length:
        return f"has {len(kept.operations)} operations, where the scope file expects {place.violation.length}"
    message = broken_in(
        place.scope.component,
        place.variant,
        config_to_message(place.scope.config),
        kept.operations,
        place.violation.property,
        whole_calls=_whole_calls(place),
        cycle=kept.cycle,
    )
    return None if message is not None else "does not break it"


def _violation(place: Place, kept: Kept) -> Violation:
    component = component_named(place.scope.component)
    rule = next(one for one in component.properties() if one.name == place.violation.property)
    operations = [operation_from_message(component.operations, message) for message in kept.operations]
    variant, whole = variant_named(component, place.variant), _whole_calls(place)
    trace = record(component, variant, place.scope.config, operations, whole_calls=whole, cycle=kept.cycle)
    return Violation(rule.name, rule.statement, trace, place.catalogue)


def _whole_calls(place: Place) -> bool:
    return place.scope.plan.granularity is Granularity.CALL


def _to_line(place: Place, trace: Trace) -> Kept:
    operations = tuple(operation_to_message(operation) for operation in trace.operations)
    return Kept(*key_of(place), operations, trace.cycle)


def _encoded(kept: Kept) -> str:
    return json.dumps(msgspec.to_builtins(kept), separators=(", ", ": ")) + "\n"
