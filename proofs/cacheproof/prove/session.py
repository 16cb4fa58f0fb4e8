"""Which obligations there are, found by scanning, and one run over those that were chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from cacheproof.foundation.discover import discover, module_names, modules_in
from cacheproof.foundation.errors import InputError
from cacheproof.foundation.workers import shared_out, stopped, tell
from cacheproof.model.fingerprint import implementation_digest
from cacheproof.model.store import save
from cacheproof.prove import composition
from cacheproof.prove.finding import (
    COMPOSITION,
    CROSSHAIR,
    IMPLEMENTATION,
    IMPLEMENTATION_CROSSHAIR,
    IMPLEMENTATION_TURNS,
    SMT,
    Finding,
)
from cacheproof.prove.ledger import confirm, confirm_beside
from cacheproof.prove.proof import INITIAL, Proof
from cacheproof.prove.prover import prove_at
from cacheproof.prove.witness import Examples, examples

if TYPE_CHECKING:
    from cacheproof.prove.implementation.correspondence import Correspondence
    from cacheproof.prove.implementation.turns.induction import ManyTurns


@dataclass(frozen=True, slots=True)
class Chosen:
    """The proofs, and the modules with contracts, of one run, by component."""

    obligations: dict[str, tuple[Proof, ...]]
    contracts: dict[str, ModuleType]
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of the tensor code: which of its correspondences, by number."""
    beside: tuple[str, ...] = ()
    """Components whose implementation has contracts."""
    wholes: tuple[str, ...] = ()
    """Components whose parts are proved."""
    nightly: bool = False
    """Whether those contracts that take long are confirmed too."""


PROOFS: Mapping[str, tuple[Proof, ...]] = discover("cacheproof.prove.obligations", "PROOFS", tuple)
"""The proofs of each component, by its name."""

CORRESPONDENCES: Mapping[str, tuple[Correspondence, ...]] = discover(
    "cacheproof.prove.implementation.correspondences", "CORRESPONDENCES", tuple
)
"""Proofs about the tensor code of each component: they need torch, so they are imported when asked for."""

TURNS: Mapping[str, tuple[ManyTurns, ...]] = discover("cacheproof.prove.implementation.turns.bursts", "BURSTS", tuple)
"""Proofs about bursts of any number of turns; they need torch, too."""

SECONDS_TO_STOP = 5.0
"""After Ctrl-C, for a solver to end its question."""

CONTRACTS = "cacheproof.prove.contracts"
"""Its modules have the names of components, or of what they share, and a `LEDGER` of their contracts."""

BESIDE = "cacheproof.prove.implementation.contracts"
"""Likewise, of contracts that run the implementation beside the specification; they need torch."""


def chosen(components: Iterable[str], method: str | None) -> Chosen:
    """What these components have, or all of them; an unknown one is an error."""
    proofs = PROOFS if method in (None, SMT) else {}
    ledgers = modules_in(CONTRACTS) if method in (None, CROSSHAIR) else {}
    wholes = composition.wholes(all_proofs()) if method in (None, COMPOSITION) else ()
    known = {*proofs, *ledgers, *wholes}
    wanted = list(dict.fromkeys(components)) or sorted(known)
    for name in wanted:
        if name not in known:
            how = f" by {method}" if method else ""
            raise InputError(f"nothing is proved{how} of '{name}': there are {', '.join(sorted(known))}")
    return Chosen(
        {name: proofs[name] for name in wanted if name in proofs},
        {name: ledgers[name] for name in wanted if name in ledgers},
        wholes=tuple(name for name in wanted if name in wholes),
    )


def all_proofs() -> Iterator[Proof]:
    """The proofs of all components."""
    return chain.from_iterable(PROOFS.values())


def chosen_implementation(components: Iterable[str], method: str | None, *, nightly: bool) -> Chosen:
    """The implementation of these components, or of all: shapes of the tensor code (smt), and contracts (crosshair).

    The default ones, or with `nightly` the larger ones too.
    """
    shapes = CORRESPONDENCES if method in (None, SMT) else {}
    contracts = module_names(BESIDE) if method in (None, CROSSHAIR) else []
    known = {*shapes, *contracts}
    wanted = list(dict.fromkeys(components)) or sorted(known)
    for name in wanted:
        if name not in known:
            how = f" by {method}" if method else ""
            there = ", ".join(sorted(known))
            raise InputError(f"nothing is proved{how} of the implementation of '{name}': there are {there}")
    numbers = {
        name: tuple(number for number, one in enumerate(shapes[name]) if nightly or not one.nightly)
        for name in wanted
        if name in shapes
    }
    return Chosen({}, {}, numbers, tuple(name for name in wanted if name in contracts), nightly=nightly)


def run(
    what: Chosen, *, ask_second: bool, jobs: int = 1, begin: Callable[[str], object] = lambda _: None
) -> Iterator[Finding]:
    """Every obligation in the order of the modules, proofs first. `begin` gets a line about each part that begins.

    With several `jobs`, worker processes share the parts. Ctrl-C then gives what they have found, and raises.
    """
    parts = tuple(parts_of(what))
    if jobs == 1:
        for part in parts:
            begin(str(part))
            yield from part.findings(ask_second=ask_second)
        return
    known: dict[int, list[Finding]] = {}
    following = 0
    call = partial(_in_worker, ask_second)
    try:
        for number, findings in shared_out(call, enumerate(parts), jobs, show=begin, patience=SECONDS_TO_STOP):
            known[number] = findings
            while following in known:
                yield from known.pop(following)
                following += 1
    except KeyboardInterrupt:
        yield from chain.from_iterable(findings for _, findings in sorted(known.items()))
        raise


NIGHTLY = "nightly"
"""The place of contracts of the implementation that are to be confirmed even if they take long."""


class Part(NamedTuple):
    """The unit of work of a process: a place of a proof, or the contracts of a component."""

    component: str
    number: int = -1
    """Which of its proofs, or of its shapes; -1: its contracts."""
    place: str = ""
    method: str = SMT

    def __str__(self) -> str:
        if self.method == IMPLEMENTATION_CROSSHAIR:
            return f"{self.component}: contracts of the implementation"
        if self.method == COMPOSITION:
            return f"{self.component}: its parts"
        if self.number < 0:
            return f"{self.component}: contracts"
        if self.method == IMPLEMENTATION_TURNS:
            return f"{self.component}: {self.place}, any number of turns"
        if self.method == IMPLEMENTATION:
            return f"{self.component}: {self.place}, {CORRESPONDENCES[self.component][self.number].shape}"
        return f"{self.component}: {self.place}, proof {self.number + 1} of {len(PROOFS[self.component])}"

    def findings(self, *, ask_second: bool) -> Iterator[Finding]:
        """One for each obligation."""
        if self.method == IMPLEMENTATION_CROSSHAIR:
            module = import_module(f"{BESIDE}.{self.component}")
            yield from confirm_beside(self.component, module, nightly=self.place == NIGHTLY)
            return
        if self.method == COMPOSITION:
            yield from composition.findings(self.component, all_proofs())
            return
        if self.number < 0:
            yield from confirm(self.component, modules_in(CONTRACTS)[self.component])
            return
        if self.method == IMPLEMENTATION_TURNS:
            from cacheproof.prove.implementation.turns.induction import prove_turns  # noqa: PLC0415  # it needs torch

            yield from prove_turns(self.component, TURNS[self.component][self.number])
            return
        if self.method == IMPLEMENTATION:
            from cacheproof.prove.implementation.prover import prove_place  # noqa: PLC0415  # it needs torch

            yield from prove_place(CORRESPONDENCES[self.component][self.number], self.place)
            return
        proof = PROOFS[self.component][self.number]
        reachable = {} if self.place == INITIAL else examples_of(self.component, self.number)
        yield from prove_at(proof, self.place, reachable, ask_second=ask_second)


def parts_of(what: Chosen) -> Iterator[Part]:
    """In the order in which findings are listed."""
    for name, proofs in what.obligations.items():
        for number, proof in enumerate(proofs):
            yield from (Part(name, number, place) for place in proof.places())
    yield from (Part(name, method=COMPOSITION) for name in what.wholes)
    yield from (Part(name) for name in what.contracts)
    for name in what.beside:
        yield Part(name, place=NIGHTLY if what.nightly else "", method=IMPLEMENTATION_CROSSHAIR)
    for name, numbers in what.shapes.items():
        for number in numbers:
            yield from (Part(name, number, place, IMPLEMENTATION) for place in CORRESPONDENCES[name][number].places())
        for number, burst in enumerate(TURNS.get(name, ())):
            yield Part(name, number, burst.name, IMPLEMENTATION_TURNS)


@cache
def examples_of(component: str, number: int) -> Examples:
    """Reachable steps for the witnesses of one of the component's proofs: looked for once."""
    return examples(PROOFS[component][number])


def _in_worker(ask_second: bool, part: tuple[int, Part]) -> tuple[int, list[Finding]]:  # noqa: FBT001  # the first of a partial
    number, what = part
    tell(str(what))
    findings = []
    for finding in what.findings(ask_second=ask_second):
        findings.append(finding)
        tell(f"{finding.component} {finding.name}: {finding.verdict.value}")
        if stopped():
            break
    return number, findings


def keep(what: Chosen, findings: Iterable[Finding]) -> None:
    """Store the rows of each component that was run."""
    rows = [one.record() for one in findings]
    for name in dict.fromkeys([*what.obligations, *what.wholes, *what.contracts, *what.shapes, *what.beside]):
        for method in (SMT, COMPOSITION, CROSSHAIR, IMPLEMENTATION, IMPLEMENTATION_TURNS, IMPLEMENTATION_CROSSHAIR):
            mine = [row for row in rows if row["component"] == name and row["method"] == method]
            if mine:
                of_code = {} if method in (SMT, COMPOSITION, CROSSHAIR) else {"implementation": implementation_digest()}
                record: dict[str, Any] = {"component": name, "method": method, **of_code, "obligations": mine}
                save("prove", f"{name}-{method}", record)
