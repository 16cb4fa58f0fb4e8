"""What every component of the specification is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from cachespec.kernel.containers import FROZEN, Containers
from cachespec.kernel.grouping import Grouping
from cachespec.kernel.operation import Operation
from cachespec.kernel.outcome import DIVERGED, UNSUPPORTED, Code, Outcome
from cachespec.kernel.own_names import OwnNames
from cachespec.kernel.properties import Progress, Safety, Step
from cachespec.kernel.service import Rounds, Service
from cachespec.kernel.unspecified import Unspecified

Config = TypeVar("Config")
State = TypeVar("State")
View = TypeVar("View")
Op = TypeVar("Op", bound=Operation)


class Named(Protocol):
    """A property, or the counted part of one."""

    @property
    def name(self) -> str:
        """The name used in `exempt`."""
        ...


Held = TypeVar("Held", bound=Named)

Transition = Callable[[Config, State, Op], tuple[State, Outcome]]
"""`(config, state, operation) -> (state, outcome)`: total, pure, and without exceptions."""

Transitions = Mapping[type[Operation], Callable[[Config, State, Any], tuple[State, Outcome]]]
"""The transition of each operation. A mapping cannot say that its values depend on its keys: a test compares them."""

Observation = int | tuple[int, ...]
"""What an implementation shows: an integer, or a sequence of integers."""

NORMATIVE = "normative"


def _never(config: Any, state: Any) -> None:
    """The continuation of a variant in which every call returns in one step."""
    return


def _itself(config: Any, kind: type[Operation]) -> Any:
    return config


def _nothing(config: Any) -> Mapping[type[Operation], str]:
    """Rules out no operation."""
    return {}


def _nothing_unknown(config: Any, operation: Operation) -> str | None:
    """No operation names anything unknown."""
    return None


@dataclass(frozen=True, slots=True)
class Rule(Generic[Config, State]):
    """One choice in which implementations of a component differ: a name, a sentence, and what it changes in a variant.

    A rule replaces whole transitions, or wraps those that the variant has; rules that wrap compose with all others.
    `initial` replaces the initial state. `unasked` are codes: callers make no call that would be answered so.
    `gives_up` names the properties that no longer hold with this choice; it breaks no other.
    The sentence names the entry of the catalogue that the choice is, if it is one.
    """

    name: str
    statement: str
    replaces: Transitions[Config, State] = field(default_factory=lambda: MappingProxyType({}))
    wraps: Mapping[type[Operation], Callable[[Any], Transition[Config, State, Any]]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    initial: Callable[[Config, Containers], State] | None = None
    unasked: frozenset[Code] = frozenset()
    gives_up: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Variant(Generic[Config, State, View]):
    """One behaviour of a component: the normative one, or that of a real system at some time (an era).

    `differences` is the era's documentation: for each replaced transition, the entry of the catalogue or the reason.
    `start_differs` says why the initial observables differ from the normative ones, if they do.
    `exempt` names the properties that do not apply to this variant's state, each with the reason.
    `normal` gives the canonical form of a state, without fields that no later
    operation reads.
    `continuation` gives the next step that the call in progress itself performs (a loop that is modelled turn by
    turn), or None when no call is in progress; while there is one, nothing else can happen.
    `rules` is the table of rules that the transitions follow, if they follow one; `following` gives the transitions
    by another table.
    `asking` gives the alphabet of callers that go by the answers of given transitions, such as those of a look-up.
    `mixed` are the rules that `mixture` has put into the variant.
    """

    tag: str
    title: str
    state: type[State]
    initial: Callable[[Config, Containers], State]
    transitions: Transitions[Config, State]
    view: Callable[[Config, State], View]
    alphabet: Callable[[Config, State], Iterable[Operation]]
    continuation: Callable[[Config, State], Operation | None] = _never
    normal: Callable[[Config, State], State] | None = None
    differences: Mapping[type[Operation], str] = field(default_factory=lambda: MappingProxyType({}))
    start_differs: str = ""
    exempt: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    rules: Any = None
    following: Callable[[Any], Transitions[Config, State]] | None = None
    asking: Callable[[Any], Callable[[Config, State], Iterable[Operation]]] | None = None
    mixed: tuple[Rule[Config, State], ...] = ()

    def held_to(self, rules: Iterable[Held]) -> list[Held]:
        """The properties that apply to this variant's state; the others must not be evaluated on it."""
        return [rule for rule in rules if rule.name not in self.exempt]

    def start(self, config: Config, containers: Containers = FROZEN) -> State:
        """The initial state, in the given realisation of the containers."""
        return self.initial(config, containers)

    def step(self, config: Config, state: State, operation: Operation) -> tuple[State, Outcome]:
        """One transition. An operation that the variant lacks is UNSUPPORTED and changes nothing."""
        transition = self.transitions.get(type(operation))
        if transition is None:
            return state, UNSUPPORTED
        return transition(config, state, operation)

    def call(self, config: Config, state: State, operation: Operation) -> tuple[State, Outcome]:
        """One whole call, as an implementation sees it: the step and its continuation.

        The outcome is that of the last step; DIVERGED if the continuation repeats a state.
        """
        state, outcome = self.step(config, state, operation)
        visited: list[State] = []
        while (following := self.continuation(config, state)) is not None:
            if state in visited:
                return state, DIVERGED
            visited.append(state)
            state, outcome = self.step(config, state, following)
        return state, outcome

    def era(
        self,
        tag: str,
        title: str,
        transitions: Transitions[Config, State],
        differences: Mapping[type[Operation], str],
        *,
        initial: Callable[[Config, Containers], State] | None = None,
        view: Callable[[Config, State], View] | None = None,
        alphabet: Callable[[Config, State], Iterable[Operation]] | None = None,
        asking: Callable[[Any], Callable[[Config, State], Iterable[Operation]]] | None = None,
        start_differs: str | None = None,
        exempt: Mapping[str, str] | None = None,
    ) -> Variant[Config, State, View]:
        """The same variant with some transitions replaced. What is not named stays as it is in this variant.

        Callers that go by answers go by those of the new transitions, unless `alphabet` says otherwise.
        """
        all_of_them = {**self.transitions, **transitions}
        asking = asking or self.asking
        return replace(
            self,
            tag=tag,
            title=title,
            transitions=all_of_them,
            differences={**self.differences, **differences},
            initial=initial or self.initial,
            view=view or self.view,
            alphabet=alphabet or (self.alphabet if asking is None else asking(all_of_them)),
            asking=asking,
            start_differs=self.start_differs if start_differs is None else start_differs,
            exempt=self.exempt if exempt is None else exempt,
            rules=None,
            following=None,
        )

    def with_rules(self, rules: Any) -> Variant[Config, State, View]:
        """The same variant by another table of rules. Raises TypeError if its transitions follow no table."""
        if self.following is None:
            raise TypeError(f"the transitions of {self.tag} follow no table of rules")
        kept = {kind: each for kind, each in self.following(rules).items() if kind in self.transitions}
        return replace(self, rules=rules, transitions=kept)

    def mixture(self, tag: str, rules: Iterable[Rule[Config, State]]) -> Variant[Config, State, View]:
        """The same variant by these rules: first those parts that replace, then those that wrap, in the given order."""
        mixed = tuple(rules)
        transitions = dict(self.transitions)
        for rule in mixed:
            transitions.update({kind: each for kind, each in rule.replaces.items() if kind in transitions})
        for rule in mixed:
            wrapped = {kind: wrap(transitions[kind]) for kind, wrap in rule.wraps.items() if kind in transitions}
            transitions.update(wrapped)
        made = replace(
            self,
            tag=tag,
            title=tag,
            transitions=transitions,
            initial=next((rule.initial for rule in reversed(mixed) if rule.initial is not None), self.initial),
            alphabet=self.alphabet if self.asking is None else self.asking(transitions),
            exempt={**self.exempt, **{name: rule.statement for rule in mixed for name in rule.gives_up}},
            rules=None,
            following=None,
            mixed=mixed,
        )
        unasked = frozenset(code for rule in mixed for code in rule.unasked)
        return replace(made, alphabet=made.alphabet_without(unasked)) if unasked else made

    def alphabet_without(self, codes: frozenset[Code]) -> Callable[[Config, State], Iterable[Operation]]:
        """The alphabet of callers that make no call which this variant answers with one of these codes."""

        def alphabet(config: Config, state: State) -> Iterable[Operation]:
            offered = self.alphabet(config, state)
            return (each for each in offered if self.call(config, state, each)[1].code not in codes)

        return alphabet

    def lacking(self, reasons: Mapping[type[Operation], str]) -> Variant[Config, State, View]:
        """The same variant without some operations, each with the reason."""
        kept = {kind: transition for kind, transition in self.transitions.items() if kind not in reasons}
        return replace(self, transitions=kept, differences={**self.differences, **reasons})


@dataclass(frozen=True, slots=True)
class Component(Generic[Config, State, View]):
    """One cache or protocol: its vocabulary, its behaviours, and what must hold of them.

    `config` is a NamedTuple of integers and tuples of integers; `malformed` says what is wrong with one, or None.
    `unspecified` is what a well-formed one may ask for that the component has no rules for.
    `interchangeable` gives, for each sort of name, the classes of names that may be exchanged with one another.
    `observe` gives the public observables of a view, by name: all that an implementation under test has to show.
    `observables` says of each what it holds, in which order and unit; `{sender}` in a name stands for a number.
    `grouping` says which of its integers belong together, for people.
    `rules_out` names operations that a configuration rules out and that do not declare it themselves, with the reasons.
    `config_of` gives the configuration that an operation knows: of a composite, that of the part which declares it.
    `unknown` says what an operation names that the configuration does not have, beyond its names, or None: nothing that
    comes from outside reaches a transition before it was asked.
    `service` says how a request of a recorded workload becomes operations; without it the component is not replayed.
    `rules` are choices of implementations that no era has by itself; each transition of an era is a rule without them.
    `own_names` are the names that an implementation gives by itself, if there are any.
    """

    name: str
    summary: str
    config: type[Config]
    malformed: Callable[[Config], str | None]
    operations: tuple[type[Operation], ...]
    variants: Mapping[str, Variant[Config, Any, View]]
    observe: Callable[[Config, View], Mapping[str, Observation]]
    interchangeable: Callable[[Config], Mapping[str, tuple[tuple[int, ...], ...]]]
    safety: tuple[Safety[Config, View], ...] = ()
    steps: tuple[Step[Config, View], ...] = ()
    progress: tuple[Progress[Config, View], ...] = ()
    observables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    grouping: Mapping[str, Grouping] = field(default_factory=lambda: MappingProxyType({}))
    rules_out: Callable[[Config], Mapping[type[Operation], str]] = _nothing
    config_of: Callable[[Config, type[Operation]], Any] = _itself
    unknown: Callable[[Config, Operation], str | None] = _nothing_unknown
    service: Service[Config] | Rounds[Config] | None = None
    rules: tuple[Rule[Config, Any], ...] = ()
    own_names: OwnNames[Config, Any] | None = None
    unspecified: tuple[Unspecified[Config], ...] = ()

    def invalid(self, config: Config) -> str | None:
        """Why a configuration is refused, or None."""
        missing = (each.refusal for each in self.unspecified if each.holds(config))
        return self.malformed(config) or next(missing, None)

    def switched_off(self, config: Config) -> Mapping[type[Operation], str]:
        """The operations that a configuration rules out, each with the reason."""
        declared = ((kind, kind.ruled_out(self.config_of(config, kind))) for kind in self.operations)
        return {**{kind: reason for kind, reason in declared if reason}, **self.rules_out(config)}

    def properties(self) -> tuple[Safety[Config, View] | Step[Config, View] | Progress[Config, View], ...]:
        """All properties, in the order in which they are declared."""
        return (*self.safety, *self.steps, *self.progress)

    @property
    def normative(self) -> Variant[Config, Any, View]:
        """The variant that holds every property."""
        return self.variants[NORMATIVE]


def variants(*all_of_them: Variant[Config, Any, View]) -> Mapping[str, Variant[Config, Any, View]]:
    """Variants by tag, in the given order."""
    return {variant.tag: variant for variant in all_of_them}
