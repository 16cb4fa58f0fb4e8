"""Which obligations there are, found by scanning, and one run over those that were chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType

from cacheproof.foundation.discover import discover, modules_in
from cacheproof.foundation.errors import InputError
from cacheproof.model.store import save
from cacheproof.prove.finding import CROSSHAIR, SMT, Finding
from cacheproof.prove.ledger import confirm
from cacheproof.prove.proof import Proof
from cacheproof.prove.prover import prove


@dataclass(frozen=True, slots=True)
class Chosen:
    """The proofs, and the modules with contracts, of one run, by component."""

    obligations: dict[str, tuple[Proof, ...]]
    contracts: dict[str, ModuleType]


PROOFS: Mapping[str, tuple[Proof, ...]] = discover("cacheproof.prove.obligations", "PROOFS", tuple)
"""The proofs of each component, by its name."""

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


def run(what: Chosen, *, ask_second: bool, begin: Callable[[str], object] = lambda _: None) -> Iterator[Finding]:
    """Every obligation, proofs first. `begin` gets a line about the next one."""
    for name, proofs in what.obligations.items():
        for number, proof in enumerate(proofs, 1):
            begin(f"{name}: proof {number} of {len(proofs)}")
            yield from prove(proof, ask_second=ask_second)
    for name, module in what.contracts.items():
        begin(f"{name}: contracts")
        yield from confirm(name, module)


def keep(what: Chosen, findings: Iterable[Finding]) -> None:
    """Store the rows of each component that was run."""
    rows = [one.record() for one in findings]
    methods = [SMT] * bool(what.obligations) + [CROSSHAIR] * bool(what.contracts)
    for name in {**what.obligations, **what.contracts}:
        for method in methods:
            mine = [row for row in rows if row["component"] == name and row["method"] == method]
            if mine:
                save("prove", f"{name}-{method}", {"component": name, "method": method, "obligations": mine})
