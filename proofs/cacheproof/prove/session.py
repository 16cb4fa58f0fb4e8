"""Which obligations there are, found by scanning, and one run over those that were chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from cacheproof.foundation.discover import discover, modules_in
from cacheproof.foundation.errors import InputError
from cacheproof.foundation.workers import shared_out, stopped, tell
from cacheproof.model.fingerprint import implementation_digest
from cacheproof.model.store import save
from cacheproof.prove.finding import CROSSHAIR, IMPLEMENTATION, SMT, Finding
from cacheproof.prove.ledger import confirm
from cacheproof.prove.proof import INITIAL, Proof
from cacheproof.prove.prover import prove_at
from cacheproof.prove.witness import Examples, examples

if TYPE_CHECKING:
    from cacheproof.prove.implementation.correspondence import Correspondence


@dataclass(frozen=True, slots=True)
class Chosen:
    """The proofs, and the modules with contracts, of one run, by component."""

    obligations: dict[str, tuple[Proof, ...]]
    contracts: dict[str, ModuleType]
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of the tensor code: which of its correspondences, by number."""


PROOFS: Mapping[str, tuple[Proof, ...]] = discover("cacheproof.prove.obligations", "PROOFS", tuple)
"""The proofs of each component, by its name."""

CORRESPONDENCES: Mapping[str, tuple[Correspondence, ...]] = discover(
    "cacheproof.prove.implementation.correspondences", "CORRESPONDENCES", tuple
)
"""What is proved of the tensor code of each component: it needs torch, and is imported when it is asked for."""

SECONDS_TO_STOP = 5.0
"""After Ctrl-C, for a solver to end its question."""

CONTRACTS = "cacheproof.prove.contracts"
"""Its modules have the names of components, or of what they share, and a `LEDGER` of their contracts."""


def chosen(components: Iterable[str], method: str | None) -> Chosen:
    """What these components have, or all of them; an unknown one is an error."""
    proofs = PROOFS if method in (None, SMT) else {}
    ledgers = modules_in(CONTRACTS) if method in (None, CROSSHAIR) else {}
    known = {*proofs, *ledgers}
    wanted = list(dict.fromkeys(components)) or sorted(known)
    for name in wanted:
        if name not in known:
            how = f" by {method}" if method else ""
            raise InputError(f"nothing is proved{how} of '{name}': there are {', '.join(sorted(known))}")
    return Chosen(
        {name: proofs[name] for name in wanted if name in proofs},
        {name: ledgers[name] for name in wanted if name in ledgers},
    )


def chosen_shapes(components: Iterable[str], *, nightly: bool) -> Chosen:
    """The tensor code of these components, or of all; at the default shapes, or at the larger ones beside them."""
    wanted = list(dict.fromkeys(components)) or sorted(CORRESPONDENCES)
    for name in wanted:
        if name not in CORRESPONDENCES:
            there = ", ".join(sorted(CORRESPONDENCES))
            raise InputError(f"nothing is proved of the tensor code of '{name}': there are {there}")
    return Chosen(
        {},
        {},
        {
            name: tuple(number for number, one in enumerate(CORRESPONDENCES[name]) if nightly or not one.nightly)
            for name in wanted
        },
    )


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


class Part(NamedTuple):
    """What one process does at a time: a place of a proof, or the contracts of a component."""

    component: str
    number: int = -1
    """Which of its proofs, or of its shapes; -1: its contracts."""
    place: str = ""
    method: str = SMT

    def __str__(self) -> str:
        if self.number < 0:
            return f"{self.component}: contracts"
        if self.method == IMPLEMENTATION:
            return f"{self.component}: {self.place}, {CORRESPONDENCES[self.component][self.number].shape}"
        return f"{self.component}: {self.place}, proof {self.number + 1} of {len(PROOFS[self.component])}"

    def findings(self, *, ask_second: bool) -> Iterator[Finding]:
        """One for each obligation."""
        if self.number < 0:
            yield from confirm(self.component, modules_in(CONTRACTS)[self.component])
            return
        if self.method == IMPLEMENTATION:
            from cacheproof.prove.implementation.prover import prove_place  # noqa: PLC0415  # it needs torch

            yield from prove_place(CORRESPONDENCES[self.component][self.number], self.place)
            return
        proof = PROOFS[self.component][self.number]
        reachable = {} if self.place == INITIAL else _examples(self.component, self.number)
        yield from prove_at(proof, self.place, reachable, ask_second=ask_second)


def parts_of(what: Chosen) -> Iterator[Part]:
    """In the order in which findings are listed."""
    for name, proofs in what.obligations.items():
        for number, proof in enumerate(proofs):
            yield from (Part(name, number, place) for place in proof.places())
    yield from (Part(name) for name in what.contracts)
    for name, numbers in what.shapes.items():
        for number in numbers:
            yield from (Part(name, number, place, IMPLEMENTATION) for place in CORRESPONDENCES[name][number].places())


@cache
def _examples(component: str, number: int) -> Examples:
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
    methods = [SMT] * bool(what.obligations) + [CROSSHAIR] * bool(what.contracts) + [IMPLEMENTATION] * bool(what.shapes)
    for name in {**what.obligations, **what.contracts, **what.shapes}:
        for method in methods:
            mine = [row for row in rows if row["component"] == name and row["method"] == method]
            if mine:
                of_code = {"implementation": implementation_digest()} if method == IMPLEMENTATION else {}
                record: dict[str, Any] = {"component": name, "method": method, **of_code, "obligations": mine}
                save("prove", f"{name}-{method}", record)
