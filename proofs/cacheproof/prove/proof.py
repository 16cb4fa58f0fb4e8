"""The parts of a component's proof, and its run over one transition.

A proof lists invariants and laws as formulas over symbolic states. Everything else is derived: for each operation, any
configuration and any state in which the invariants hold, one step of the variant's own transition; after it, each
invariant and each law is demanded. A law has a premise; that a reachable state satisfies it is shown by a witness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from cacheproof.prove.executor import DeadEndError, SymbolicBoolean, assume, both, demand, implies, path
from cacheproof.prove.loops import Loop
from cacheproof.prove.solvers import parts_of
from cacheproof.prove.states import fresh, lift, tallied
from cachespec.kernel import FROZEN, Operation, Outcome, Variant

DEFINED = "defined"
"""The row of the demands that the executor raises by itself: positions, divisors, values that are not negative."""

INITIAL = "initial"


@dataclass(frozen=True, slots=True)
class Move:
    """One step, as a law sees it."""

    config: Any
    before: Any
    operation: Any
    outcome: Outcome
    after: Any


@dataclass(frozen=True, slots=True)
class Invariant:
    """A formula that holds initially and is preserved by every transition."""

    name: str
    statement: str
    holds: Callable[[Any, Any], Any]
    """`(config, state) -> condition`."""


@dataclass(frozen=True, slots=True)
class Law:
    """A formula of every step with the given operations, under a premise that can be met."""

    name: str
    statement: str
    operations: tuple[type[Operation], ...]
    then: Callable[[Move], Any]
    when: Callable[[Move], Any] = lambda move: True


def _nothing(*_: Any) -> Iterable[Any]:
    return ()


@dataclass(frozen=True, slots=True)
class Proof:
    """All that is claimed of one variant of a component for all sizes."""

    component: str
    variant: Variant[Any, Any, Any]
    config: type
    invariants: tuple[Invariant, ...]
    laws: tuple[Law, ...]
    witnesses: tuple[Any, ...]
    """Small configurations for the search of witnesses."""
    given: tuple[Invariant, ...] = ()
    """What another proof of the component shows of each state: it is assumed before a step."""
    bound: str = "all sizes"
    """For what it is proved, in words."""
    environment: Callable[[Any, Any], Iterable[Any]] = _nothing
    """`(config, operation) -> conditions`: a valid configuration, and the promises of a caller; no operation: None."""
    lemmas: Callable[[Any, Any, Any], Iterable[Any]] = _nothing
    """`(config, state, operation) -> conditions`: laws of the containers for the values that the proof reads."""
    loops: tuple[Loop, ...] = ()
    modules: tuple[ModuleType, ...] = ()
    """Where tuples of unknown length are met."""
    replaced: tuple[tuple[ModuleType, str, Any], ...] = ()
    """Uninterpreted functions: module, name, and stand-in."""
    fresh: Callable[[Any, str], Any] = fresh
    """`(type, name) -> any value of the type`."""
    lift: Callable[[Any, Any], Any] = lift
    """`(type, concrete value) -> the symbolic value that stands for it`."""
    tallies: Mapping[str, Callable[[Any], Callable[[Any], Any]]] = field(default_factory=dict)
    """For a map of the state whose keys are counted by kind: `config -> (key -> kind)`, over terms."""
    by_value: tuple[str, ...] = ()
    """Those maps whose kind belongs to the value."""
    functions: tuple[Callable[..., Any], ...] = ()
    """What the operations call, if others embed the state and call these functions instead of the operations."""
    by_hand: Mapping[str, str] = field(default_factory=dict)
    """Claims that are the property of their name by a step that no solver has seen: which step, in words."""
    second_opinion: bool = True
    """Whether cvc5 is asked, too: it takes up to a second for each of many questions with quantifiers."""

    def of(self, variant: Variant[Any, Any, Any]) -> Proof:
        """The same claims about another variant."""
        return replace(self, variant=variant)

    def operations(self) -> tuple[type[Operation], ...]:
        """The operations of the variant about which something is claimed."""
        return tuple(operation for operation in self.variant.transitions if self.claims(operation))

    def places(self) -> tuple[str, ...]:
        """Where something is claimed: in the initial state, and after each operation, by its name."""
        return (INITIAL, *(operation.wire_name() for operation in self.operations()))

    def claims(self, operation: type[Operation]) -> dict[str, str]:
        """The claims about a step with this operation: statements by name."""
        laws = {law.name: law.statement for law in self.laws if operation in law.operations}
        return {**{one.name: one.statement for one in self.invariants}, **laws}


def unknown(proof: Proof, config: Any) -> Any:
    """Any state of the variant, with its tallies."""
    state = proof.fresh(proof.variant.state, "state")
    counted = {
        name: tallied(getattr(state, name), kind(config), by_value=name in proof.by_value)
        for name, kind in proof.tallies.items()
    }
    return state._replace(**counted) if counted else state


def lifted(proof: Proof, config: Any, concrete: Any) -> Any:
    """The symbolic state that stands for a concrete one, with its tallies."""
    state = proof.lift(proof.variant.state, concrete)
    counted = {
        name: tallied(
            getattr(state, name),
            kind(config),
            [key for key, _ in getattr(concrete, name).items()],
            by_value=name in proof.by_value,
        )
        for name, kind in proof.tallies.items()
    }
    return state._replace(**counted) if counted else state


def initially(proof: Proof, config: Any) -> None:
    """The initial state satisfies every invariant. `config` None stands for any."""
    known = proof.fresh(proof.config, "config") if config is None else proof.lift(proof.config, config)
    for condition in proof.environment(known, None):
        assume(condition)
    state = lifted(proof, known, proof.variant.initial(known, FROZEN))
    path().shown.update(config=known, state=state)
    for invariant in proof.invariants:
        demand(invariant.name, invariant.holds(known, state))


def one_step(proof: Proof, operation: type[Operation], given: tuple[Any, Any, Operation] | None) -> Move:
    """One step with this operation from any state that satisfies the invariants, or from the given concrete one."""
    if given is None:
        config, op = proof.fresh(proof.config, "config"), proof.fresh(operation, "op")
        state = unknown(proof, config)
    else:
        config, op = proof.lift(proof.config, given[0]), proof.lift(operation, given[2])
        state = lifted(proof, config, given[1])
    for condition in proof.environment(config, op):
        assume(condition)
    for invariant in (*proof.given, *proof.invariants):
        for part in parts_in(invariant.holds(config, state)):
            assume(part)
    for condition in proof.lemmas(config, state, op):
        assume(condition)
    path().shown.update(config=config, before=state, operation=op)
    following = proof.variant.continuation(config, state)
    if following is not None and type(following) is not operation:
        raise DeadEndError
    after, outcome = proof.variant.step(config, state, op)
    path().shown.update(outcome=outcome, after=after)
    return Move(config, state, op, outcome, after)


def demand_claims(proof: Proof, move: Move) -> None:
    """After the step: every invariant, and every law whose premise holds."""
    for invariant in proof.invariants:
        demand_each(invariant.name, invariant.holds(move.config, move.after))
    for law in proof.laws:
        premise = both(law.when(move)) if type(move.operation) in law.operations else None
        if premise is not None and not premise.never():
            demand_each(law.name, implies(premise, law.then(move)))


def demand_each(name: str, condition: Any) -> None:
    """Each part of the condition by itself: more questions, and easier ones."""
    for part in parts_in(condition):
        demand(name, part)


def parts_in(condition: Any) -> Iterator[SymbolicBoolean]:
    """The formulas that the condition joins; one that is true of itself joins none, and is its only part."""
    formula = both(condition).term
    yield from map(SymbolicBoolean, parts_of(formula) or (formula,))
