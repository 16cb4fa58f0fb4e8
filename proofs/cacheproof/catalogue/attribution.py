"""Which entries of the catalogue cause a finding.

An entry is a cause of a finding if the property holds over the finding's calls, in the finding's configuration, once
the rule of that entry alone is mended in the era. The deciding step is the first call that the mended era answers, or
leaves a state after, otherwise than the era. If several entries are causes so, those remain that a scope shows to break
the property in this era; without these, those that the catalogue knows to break it anywhere. For an entry that `mends`
has no change for, the finding has to be the kept trace of the entry, with other names of requests, items and blocks at
the most.

Everything else is not attributed: the finding is new if no entry breaks its property, and unattributed if some do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from itertools import combinations

from cacheproof.catalogue.kept import Kept, load
from cacheproof.catalogue.meaning import refutations
from cacheproof.catalogue.mends import all_of, mends
from cacheproof.catalogue.register import entries, entry_named, sorting
from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.properties import AnyProperty, breaks
from cacheproof.lockstep.violations_progress import settled
from cacheproof.model.finding import Subject
from cacheproof.model.registry import AnyComponent
from cacheproof.model.wire import operation_from_message
from cachespec.kernel import Code, Operation, Outcome, Progress, Safety

Operations = Sequence[Operation]


class Certainty(Enum):
    """How a finding is related to the catalogue."""

    CAUSE = "cause"
    """The property holds over these calls once the entry is mended; of several entries, once any of them is."""
    UNATTRIBUTED = "unattributed"
    """Entries break this property, and none of them was shown to be the cause here."""
    NEW = "new"
    """No entry breaks this property."""


@dataclass(frozen=True, slots=True)
class Cause:
    """An entry, and the call that it decides: its number from 1, and its name; 0 for the state before all calls."""

    entry: str
    step: int = 0
    operation: str = ""

    def __str__(self) -> str:
        return f"{self.entry} at call {self.step}, {self.operation}" if self.step else self.entry


@dataclass(frozen=True, slots=True)
class Attribution:
    """The causes of a finding, and the entries that break its property without being shown to be a cause."""

    causes: tuple[Cause, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def certainty(self) -> Certainty:
        """What is known."""
        if self.causes:
            return Certainty.CAUSE
        return Certainty.UNATTRIBUTED if self.others else Certainty.NEW

    @property
    def catalogue(self) -> tuple[str, ...]:
        """The entries that are causes, the one that decides first before the others."""
        return tuple(cause.entry for cause in self.causes)

    @property
    def issues(self) -> tuple[str, ...]:
        """The public threads that the register has about the causes."""
        known = (entry_named(number) for number in self.catalogue)
        return tuple(dict.fromkeys(thread for entry in known if entry is not None for thread in entry.threads))

    def __str__(self) -> str:
        return " and ".join(self.catalogue) or self.certainty.value


def unattributed(component: AnyComponent, rule: AnyProperty) -> Attribution:
    """What is known where no era describes the run."""
    return Attribution(others=tuple(sorted(_breaking(component, rule.name), key=sorting)))


def attribution(subject: Subject, rule: AnyProperty, calls: Operations) -> Attribution:
    """What causes these calls to break the property in the era and the configuration of `subject`.

    A progress property is broken at the end of the calls, if internal steps are all that follows.
    """
    known = unattributed(subject.component, rule).others
    if not _breaks(subject, rule, _made(subject, calls, calls)):
        return Attribution(others=known)
    found = tuple(sorted(_causes(subject, rule, calls), key=lambda cause: (cause.step, sorting(cause.entry))))
    for those in (_shown(subject, rule.name), known):
        found = tuple(cause for cause in found if cause.entry in those) or found
    causes = found or tuple(Cause(entry) for entry in _same_run(subject, rule, calls))
    return Attribution(causes, tuple(entry for entry in known if entry not in {cause.entry for cause in causes}))


def is_denied(subject: Subject, rule: AnyProperty, calls: Operations, outcomes: Sequence[Outcome]) -> bool:
    """Whether these calls do not break the property, though the era answers them as it is recorded.

    So it is with a record of a property that asks for less now. It is False where nothing is known: for a property of
    progress, and where the era answers otherwise.
    """
    turns = _made(subject, calls, calls)
    same = [each.outcome for each in turns] == list(outcomes)
    return same and not isinstance(rule, Progress) and not _breaks(subject, rule, turns)


def together(subject: Subject, rule: AnyProperty, calls: Operations) -> tuple[str, ...]:
    """Two entries that cause a violation of which none alone is the cause: the property holds once both are mended.

    Either fault breaks the property in these calls. This tries every two mends of the era, so it takes seconds.
    """
    era = _made(subject, calls, calls)
    offered = _offered(subject, era)
    for pair in combinations(mends(subject.component.name, subject.variant.tag), 2):
        mended = all_of(subject, pair)
        if pair[0].entry != pair[1].entry and not _breaks(mended, rule, _made(mended, calls, offered)):
            return tuple(sorted((mend.entry for mend in pair), key=sorting))
    return ()


def _breaking(component: AnyComponent, rule: str) -> set[str]:
    """Entries that break the property: in a scope of the component, or as the register says."""
    there = {each.catalogue for each in refutations(component) if each.property == rule}
    named = {entry.id for entry in entries() if {rule, rule.partition("/")[0]} & set(entry.properties)}
    return (there | named) - {""}


def _shown(subject: Subject, rule: str) -> set[str]:
    """Entries that break the property in a scope of this era."""
    there = (each for each in refutations(subject.component) if each.variant == subject.variant.tag)
    return {each.catalogue for each in there if each.property == rule} - {""}


# Counterfactuals ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Turn:
    """One call that was made, and what came of it; a call that callers would not make changes nothing."""

    operation: Operation
    before: object
    outcome: Outcome | None
    after: object


def _causes(subject: Subject, rule: AnyProperty, calls: Operations) -> Iterator[Cause]:
    era = _made(subject, calls, calls)
    offered = _offered(subject, era)
    for mend in mends(subject.component.name, subject.variant.tag):
        mended = [change(subject) for change in (mend.change, *mend.also)]
        runs = [_made(each, calls, offered) for each in mended]
        if not any(_breaks(each, rule, turns) for each, turns in zip(mended, runs, strict=True)):
            yield _cause(mend.entry, subject, mended[0], era, runs[0])


def _offered(subject: Subject, turns: Sequence[_Turn]) -> list[Operation | None]:
    """The calls that callers of the era make by themselves; None for one that they would not make."""
    alphabet, config = subject.variant.alphabet, subject.config
    return [each.operation if each.operation in alphabet(config, each.before) else None for each in turns]


def _made(subject: Subject, calls: Operations, offered: Sequence[Operation | None]) -> list[_Turn]:
    """The calls from the initial state. One that callers made by themselves is left out if they would not make it now.

    `offered` has the calls to which that applies, each at its place.
    """
    variant, config = subject.variant, subject.config
    state, turns = variant.start(config), list[_Turn]()
    asks = offered is not calls
    for call, own in zip(calls, offered, strict=True):
        before, outcome = state, None
        if not asks or own is None or call in variant.alphabet(config, state):
            state, outcome = variant.call(config, state, call)
        turns.append(_Turn(call, before, outcome, state))
    return turns


def _breaks(subject: Subject, rule: AnyProperty, turns: Sequence[_Turn]) -> bool:
    """Whether one of the calls breaks the property, or internal steps alone follow and break it."""

    def viewed(state: object) -> object:
        return subject.variant.view(subject.config, state)

    start = subject.variant.start(subject.config)
    if isinstance(rule, Safety) and not rule.holds(subject.config, viewed(start)):
        return True
    for each in turns:
        made = (each.before, each.operation, each.outcome, each.after)
        if each.outcome is not None and breaks(subject, rule, *made, viewed):  # type: ignore[arg-type]  # not None
            return True
        if each.outcome is not None and each.outcome.code is Code.DIVERGED:
            return False
    end = settled(subject, turns[-1].after if turns else start)
    return end is not None and rule in end.rules


def _cause(entry: str, subject: Subject, mended: Subject, era: Sequence[_Turn], turns: Sequence[_Turn]) -> Cause:
    """The entry with the first call at which the mended era goes another way."""
    for number, (mine, other) in enumerate(zip(era, turns, strict=True), 1):
        views = [one.variant.view(one.config, turn.after) for one, turn in ((subject, mine), (mended, other))]
        if mine.outcome != other.outcome or views[0] != views[1]:
            return Cause(entry, number, mine.operation.wire_name())
    return Cause(entry)


# Kept traces --------------------------------------------------------------------------------------------------------


def _same_run(subject: Subject, rule: AnyProperty, calls: Operations) -> list[str]:
    """Entries without a mend whose kept trace these calls are, if that is one entry alone."""
    tried = {mend.entry for mend in mends(subject.component.name, subject.variant.tag)}
    shapes = {
        kept.catalogue
        for kept in load(subject.component.name).values()
        if (kept.variant, kept.rule) == (subject.variant.tag, rule.name) and kept.catalogue not in tried
        if _carried_over(subject, rule, kept, calls)
    }
    return list(shapes) if len(shapes) == 1 else []


def _carried_over(subject: Subject, rule: AnyProperty, kept: Kept, calls: Operations) -> bool:
    """Whether a kept trace is the same run but for names, and breaks the property in the finding's configuration."""
    try:
        operations = [operation_from_message(subject.component.operations, each) for each in kept.operations]
    except InputError:
        return False
    if _shape(operations) != _shape(calls):
        return False
    unknown = (subject.component.unknown(subject.config, each) for each in operations)
    return not any(unknown) and _breaks(subject, rule, _made(subject, operations, operations))


def _shape(calls: Operations) -> list[tuple[object, ...]]:
    """The calls with each name replaced by the place of its first occurrence among those of its field."""
    seen: dict[str, list[object]] = {}
    shape: list[tuple[object, ...]] = []
    for call in calls:
        numbers: list[object] = [call.wire_name()]
        for each in fields(call):
            known = seen.setdefault(each.name, [])
            value = getattr(call, each.name)
            if value not in known:
                known.append(value)
            numbers.append(known.index(value))
        shape.append(tuple(numbers))
    return shape
