"""Which obligations there are, found by scanning, and one run over those that were chosen."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType

from cacheproof.foundation.errors import InputError
from cacheproof.model.store import save
from cacheproof.prove import contracts, obligations
from cacheproof.prove.finding import CROSSHAIR, SMT, Finding
from cacheproof.prove.ledger import confirm
from cacheproof.prove.prover import prove


@dataclass(frozen=True, slots=True)
class Chosen:
    """The modules of one run, by component."""

    obligations: dict[str, ModuleType]
    contracts: dict[str, ModuleType]


def scanned(package: ModuleType) -> dict[str, ModuleType]:
    """The modules of the package by name: each is called like the component that it is about."""
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return {name: importlib.import_module(f"{package.__name__}.{name}") for name in names}


def chosen(components: Iterable[str], method: str | None) -> Chosen:
    """What these components have, or all of them; an unknown one is an error."""
    proofs = scanned(obligations) if method in (None, SMT) else {}
    ledgers = scanned(contracts) if method in (None, CROSSHAIR) else {}
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


def run(what: Chosen, *, ask_second: bool) -> Iterator[Finding]:
    """Every obligation, proofs first."""
    for module in what.obligations.values():
        for proof in module.PROOFS:
            yield from prove(proof, ask_second=ask_second)
    for name, module in what.contracts.items():
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
