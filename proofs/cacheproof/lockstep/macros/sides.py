"""A target that makes bursts beside the specification, which makes their calls one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cacheproof.lockstep.macros.macro import Macro
from cacheproof.lockstep.properties import broken_in
from cacheproof.lockstep.tally import Tally
from cacheproof.model.burst import Answered, BurstTarget, Extent, Together
from cacheproof.model.finding import Subject, said
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.target import TargetError
from cacheproof.model.wording import operation_text
from cachespec.kernel import NORMATIVE, Code, Operation, Outcome
from cachespec.kernel.containers import REROOTING

LONGEST_SHOWN = 12
"""Of a longer observation only the first place that differs is shown."""
MOST_WITH_PROPERTIES = 512
"""Requests up to which the properties of a state are looked at after every macro; their cost grows with its square."""


@dataclass(frozen=True, slots=True)
class MacroFinding:
    """Both sides part at the last macro.

    `sort` is `difference`, `violation` (a property does not hold) or `breakdown` (the target failed).
    """

    sort: str
    target: str
    config: Any
    macros: tuple[Macro, ...]
    calls: tuple[tuple[Operation, Outcome], ...]
    """All that were made until then, as the specification answers them."""
    statements: tuple[str, ...]
    property: str = ""

    def alike(self, other: MacroFinding | None) -> bool:
        """Whether both are of one sort."""
        return other is not None and (self.sort, self.property) == (other.sort, other.property)


class Sides:
    """Both sides of one target. `tally` counts whole calls of the specification.

    It is no `Pair`: a state of thousands of requests is too large to compare after every call, so it is compared after
    every macro, in the variant's normal form; and macros make calls whether the environment offers them or not.
    """

    def __init__(self, component: AnyComponent, variant: AnyVariant, target: BurstTarget, name: str) -> None:
        self.component, self.variant, self.name = component, variant, name
        self.tally = Tally()
        self.macros = 0
        self.largest = 0
        """Calls of the largest burst that was answered."""
        self.target = target
        self._config: Any = None
        self._state: Any = None
        self._calls: list[tuple[Operation, Outcome]] = []

    @property
    def config(self) -> Any:
        """The configuration of both sides."""
        return self._config

    @property
    def state(self) -> Any:
        """The specification's state."""
        return self._state

    def play(self, config: Any, macros: Iterable[Macro], enough: Callable[[], bool] = bool) -> MacroFinding | None:
        """These macros from the initial state on, until both sides part or it is `enough`."""
        made: list[Macro] = []
        try:
            wrong = self._restart(config)
            for macro in macros if wrong is None else ():
                if enough():
                    break
                made.append(macro)
                self.macros += 1
                wrong = self._perform(macro)
                if wrong is not None:
                    break
        except TargetError as error:
            wrong = ("breakdown", (str(error),), "")
        if wrong is None:
            return None
        sort, statements, broken = wrong
        return MacroFinding(sort, self.name, config, tuple(made), tuple(self._calls), statements, broken)

    def differ_call_by_call(self, config: Any, calls: Iterable[Operation]) -> bool:
        """Whether these calls, made one after the other on both sides, show anything: in an outcome, or in the end."""
        try:
            wrong: object = self._restart(config)
            for call in calls:
                wrong = wrong or self._made([(call, self.target.apply(call))])
            return (wrong or self._compared()) is not None
        except TargetError:
            return False

    def _restart(self, config: Any) -> Wrong | None:
        self._config, self._calls = config, []
        self._state = self.variant.start(config, REROOTING)
        self.tally.episodes += 1
        self.target.reset(config)
        return self._compared()

    def _perform(self, macro: Macro) -> Wrong | None:
        bursts = macro.play(self)
        try:
            together = next(bursts)
            while True:
                answered = self.target.burst(together) if together.calls else []
                if statement := incomplete(together, answered) or self._made(answered):
                    return "difference", (statement,), ""
                self.largest = max(self.largest, len(answered))
                together = bursts.send(answered)
        except StopIteration:
            return self._compared()

    def _made(self, answered: Answered) -> str | None:
        """Make the same calls here, one after the other; the first that ends in another way."""
        for turn, (call, outcome) in enumerate(answered):
            self._state, wanted = self.variant.call(self._config, self._state, call)
            self._calls.append((call, wanted))
            self.tally.count(call, wanted)
            if outcome != wanted:
                where = f"call {turn + 1} of {len(answered)} in its burst, {operation_text(call)}"
                return f"{where}: the specification says {said(wanted)}, the target {said(outcome)}"
        return None

    def _compared(self) -> Wrong | None:
        normal = self.variant.normal
        canonical = self._state if normal is None else normal(self._config, self._state)
        view = self.variant.view(self._config, canonical)
        expected, actual = self.component.observe(self._config, view), self.target.observe()
        self.tally.observables.update(actual)
        statements = [
            parting(name, expected.get(name, ()), value)
            for name, value in sorted(actual.items())
            if expected.get(name) != value
        ]
        for name, value in () if statements else self.target.view().items():
            if (wanted := getattr(view, name)) != value:
                statements.append(parting(f"{name} of the state", *(_listed(one) for one in (wanted, value))))
        if statements:
            return "difference", tuple(statements), ""
        if self.variant.tag == NORMATIVE and self.size <= MOST_WITH_PROPERTIES:
            broken = broken_in(Subject(self.component, self.variant, self._config), self._state)
            if broken is not None:
                return "violation", (f"{broken.name} does not hold: {broken.statement}",), broken.name
        return None

    @property
    def size(self) -> int:
        """The longest table of the configuration, which is one of requests."""
        return max((len(value) for value in self._config if isinstance(value, tuple)), default=1)


Wrong = tuple[str, tuple[str, ...], str]
"""The sort of a finding, what is wrong in words, and the property that does not hold."""


def incomplete(together: Together, answered: Answered) -> str | None:
    """What is wrong with the choice of calls that were made, or None.

    They are calls of the burst, each no more often than there; and as many as its extent says.
    """
    left, made = list(together.calls), [call for call, _ in answered]
    in_order = made == left[: len(made)]
    if not in_order and Counter(made) - Counter(left):  # a decode step makes a part of its first half and of its second
        return f"{together.sort}: calls were made that are not of the burst"
    if len(made) == len(left) or together.extent is Extent.ANY:
        return None
    refused = bool(answered) and answered[-1][1].code is Code.REFUSED
    enough = {Extent.ALL: False, Extent.UNTIL_REFUSED: refused, Extent.SOME: bool(made)}[together.extent]
    return (
        None
        if enough
        else f"{together.sort}: {len(made)} of {len(left)} calls were made, and not {together.extent.value}"
    )


def parting(name: str, expected: Any, actual: Any) -> str:
    """How an observation differs; of a long one, where first."""
    if isinstance(expected, int) or isinstance(actual, int) or max(len(expected), len(actual)) <= LONGEST_SHOWN:
        return f"{name}: the specification has {expected}, the target {actual}"
    place = first_place(expected, actual)
    ends = (tuple(values[place : place + LONGEST_SHOWN]) for values in (expected, actual))
    return "{}: from place {} on the specification has {}, the target {}".format(name, place, *map(list, ends))


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def first_place(one: Sequence[object], other: Sequence[object]) -> int:
    """Where they differ first; at the end of the shorter one, if not before."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))
