"""What is proved of a component, of its state inside a larger one: the whole changes it by its own operations only.

The compiler of the specification follows every function that the transitions of the whole can call, and knows the type
of every expression. Three claims about that code, for each part:

- the part's own modules make all states of the part;
- the whole gets such a state only from an operation of the part, as the part's proof has it;
- one function makes the part's configuration, from the configuration of the whole alone.

So a run of the part itself reaches each state of the part inside the whole. The proof of the part assumes valid calls.
That the whole makes valid calls, and that the initial state is the part's own, is explored and not proved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from inspect import signature
from pkgutil import resolve_name
from time import perf_counter
from typing import NamedTuple

from cacheproof.model.registry import AnyComponent, AnyVariant, component_named, components
from cacheproof.prove.finding import COMPOSITION, Finding, Verdict
from cacheproof.prove.proof import Proof
from cacheproof.search.native.compiler import Compiler
from cacheproof.search.native.source import unwrapped
from cacheproof.search.native.types import Closure, Const, Holder, Pairs, Record, Tup, Type, record_of
from cacheproof.search.native.unit import CompileError, Unit

Function = tuple[str, str]
"""A module, and the name of a function in it."""


class Part(NamedTuple):
    """A component whose state is inside that of another one."""

    name: str
    package: str
    """The module, or the package with all modules, that the component consists of."""
    state: type
    config: type
    operations: frozenset[Function]
    """The transitions that the proof of the part is about."""

    def holds(self, module: str) -> bool:
        """Whether the module is one of the part's own."""
        return module == self.package or module.startswith(f"{self.package}.")


def part_of(proof: Proof) -> Part:
    """The component that the proof is about, as a part of others.

    A proof by invariants is about the operations of its variant, or about the functions that it names. One without
    invariants, as that of a scheduling step, says something of each plan by itself, whatever the other operations do.
    """
    variant = proof.variant if proof.invariants else component_named(proof.component).normative
    transitions = proof.functions or [unwrapped(each)[0] for each in variant.transitions.values()]
    return Part(
        proof.component,
        ".".join(variant.state.__module__.split(".")[:2]),
        variant.state,
        proof.config,
        frozenset((each.__module__, each.__qualname__) for each in transitions),
    )


def parts_inside(whole: AnyComponent, proofs: Iterable[Proof]) -> Iterator[Part]:
    """The components of which something is proved that the whole promises, too, of their state inside its own."""
    inside, known = record_of(whole.normative.state), set[Part]()
    for proof in proofs:
        part = part_of(proof)
        if part in known or part.name == whole.name:
            continue
        if has_inside(inside, part.state) and promised(whole, proof):
            known.add(part)
            yield part


def promised(whole: AnyComponent, proof: Proof) -> set[str]:
    """The claims of the proof that are properties of the whole, too: they have the same name and statement there."""
    proved = {one.name for one in proof.invariants} | {one.name for one in proof.laws}
    own = {(rule.name, rule.statement) for rule in component_named(proof.component).safety if rule.name in proved}
    return {rule.name for rule in whole.safety if (rule.name, rule.statement) in own}


def promises(whole: AnyComponent, proofs: Iterable[Proof]) -> dict[str, str]:
    """The properties of the whole that are proved of a part, each with the name of the part."""
    known = tuple(proofs)
    names = {part.name for part in parts_inside(whole, known)}
    return {name: each.component for each in known if each.component in names for name in promised(whole, each)}


def has_inside(kind: Type, owner: type) -> bool:
    """Whether a value of the type has a record of this class in it."""
    match kind:
        case Record(itself, fields):
            return itself is owner or any(has_inside(each, owner) for _, each in fields)
        case Tup(parts) | Closure(_, _, parts):
            return any(has_inside(each, owner) for each in parts)
        case Holder(_, element):
            return has_inside(element, owner)
        case Pairs(_, key, value):
            return has_inside(key, owner) or has_inside(value, owner)
        case Const(value):
            return isinstance(value, owner)
        case _:
            return False


def program_of(variant: AnyVariant, config: type) -> Unit:
    """All code that the transitions of a variant can run. Raises `CompileError` if some of it cannot be followed."""
    compiler = Compiler()
    for operation in variant.transitions:
        compiler.unit.tag_of(operation)
    compiler.dispatch(variant, record_of(config), record_of(variant.state))
    return compiler.unit


def complaints(part: Part, program: Unit) -> Iterator[str]:
    """What the whole does with the part beside calling its operations."""
    for owner, module, function in sorted(program.makings, key=str):
        if owner is part.state and not part.holds(module):
            yield f"{module}.{function} makes a state of {part.name} by itself"
    for module, function, called, result in sorted(program.entries, key=str):
        enters = part.holds(called[0]) and not part.holds(module)
        if enters and has_inside(result, part.state) and called not in part.operations:
            caller = f"{module}.{function}" if module else "a step of a part"
            yield f"{caller} gets a state of {part.name} from {'.'.join(called)}, which is no operation of its proof"
    makers = sorted({each[1:] for each in program.makings if each.owner is part.config and not part.holds(each.module)})
    for module, function in makers:
        alone = len(makers) == 1 and "<" not in function
        if not alone or len(signature(resolve_name(f"{module}:{function}")).parameters) > 1:
            yield f"{module}.{function} makes a configuration of {part.name} that depends on more than the whole's"


def is_called(part: Part, program: Unit) -> bool:
    """The whole calls some operation of the part."""
    return any(entry.called in part.operations and not part.holds(entry.module) for entry in program.entries)


def judged(part: Part, program: Unit) -> tuple[Verdict, str]:
    """Whether the whole changes the part by the part's operations only."""
    found = list(complaints(part, program))
    if found:
        return Verdict.REFUTED, "\n".join(found)
    if not is_called(part, program):
        return Verdict.VACUOUS, "the whole calls no operation of it"
    return Verdict.PROVED, ""


def findings(name: str, proofs: Iterable[Proof]) -> Iterator[Finding]:
    """One row for each part of a component."""
    whole = component_named(name)
    started = perf_counter()
    for part in parts_inside(whole, proofs):
        try:
            verdict, detail = judged(part, program_of(whole.normative, whole.config))
        except CompileError as error:
            verdict, detail = Verdict.UNKNOWN, f"cannot be followed: {error}"
        yield Finding(
            component=name,
            name=f"{part.name}/parts",
            statement="its state inside the whole changes by its own operations only, in one configuration",
            method=COMPOSITION,
            verdict=verdict,
            bound="all sizes, any valid calls",
            seconds=perf_counter() - started,
            detail=detail,
        )
        started = perf_counter()


def wholes(proofs: Iterable[Proof]) -> tuple[str, ...]:
    """The components that have a part about which something is proved."""
    known = tuple(proofs)
    return tuple(name for name, each in components().items() if any(True for _ in parts_inside(each, known)))
