"""Many mutants, over processes; what was found is kept as it comes, and a later run goes on from it."""

from __future__ import annotations

import inspect
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from cacheproof.foundation.workers import shared_out, stopped
from cacheproof.model.fingerprint import explorer_digest, specification_digest
from cacheproof.model.registry import AnyComponent, component_named, scope_file
from cacheproof.model.store import load_all, save
from cacheproof.mutants.generate import Mutant, mutants_of
from cacheproof.mutants.judge import Fate, Limits, MutantResult, judged

KIND = "mutants"
"""The kind of these runs in the store."""
MEMORY_BYTES = 4 << 30
"""A mutant that makes endless data is ended by this, not by the machine."""
SAVED_EVERY = 5

Show = Callable[[str], object]


def perform(
    mutants: Sequence[Mutant],
    limits: Limits,
    workers: int,
    show: Show,
    *,
    anew: bool,
    first: tuple[str, ...] = (),
) -> list[MutantResult]:
    """The results, in the order of the mutants. Ctrl-C ends it with those that are known by then."""
    known: dict[str, MutantResult] = {} if anew else kept(mutants, limits)
    waiting = [mutant for mutant in mutants if mutant.name not in known]
    if len(waiting) < len(mutants):
        show(f"{len(mutants) - len(waiting)} of {len(mutants)} mutants are known from an earlier run")
    done = 0
    try:
        for result in (_one_by_one if workers == 1 else partial(_in_processes, workers))(waiting, limits, first):
            known[result.name] = result
            done += 1
            show(f"{len(known):,} of {len(mutants):,} mutants; {result.name}: {result.fate.value} {result.by}".rstrip())
            if done % SAVED_EVERY == 0:
                keep(mutants, known, limits)
    except KeyboardInterrupt:
        pass
    finally:
        keep(mutants, known, limits)
    return [known[mutant.name] for mutant in mutants if mutant.name in known]


# What is kept --------------------------------------------------------------------------------------------------------


def keep(mutants: Sequence[Mutant], results: Mapping[str, MutantResult], limits: Limits) -> None:
    """One file for each component; what is known of its other mutants, of the same source, stays in it."""
    for name in dict.fromkeys(mutant.component for mutant in mutants):
        component = component_named(name)
        stamp = _stamp(component, limits)
        rows = {row["name"]: row for row in _rows(name, stamp)}
        rows |= {one.name: _row(one) for one in results.values() if one.name.partition("/")[0] == name}
        save(KIND, name, {"component": name, "stamp": stamp, "results": sorted(rows.values(), key=lambda r: r["name"])})


def kept(mutants: Sequence[Mutant], limits: Limits) -> dict[str, MutantResult]:
    """What earlier runs found of these, where the source, the scopes and the limits were the same."""
    found: dict[str, MutantResult] = {}
    wanted = {mutant.name for mutant in mutants}
    for name in dict.fromkeys(mutant.component for mutant in mutants):
        for row in _rows(name, _stamp(component_named(name), limits)):
            if row["name"] in wanted:
                found[row["name"]] = MutantResult(**{**row, "fate": Fate(row["fate"])})
    return found


def _row(result: MutantResult) -> dict[str, Any]:
    return {**asdict(result), "fate": result.fate.value}


def _rows(name: str, stamp: str) -> list[dict[str, Any]]:
    records = [record for record in load_all(KIND) if record["name"] == name and record.get("stamp") == stamp]
    return list(records[0]["results"]) if records else []


def _stamp(component: AnyComponent, limits: Limits) -> str:
    """Of the whole specification, of a component's own file where that is elsewhere, of scopes, explorer and limits."""
    own = Path(inspect.getfile(component.config))
    digest = sha256(f"{limits}\0{explorer_digest()}\0{specification_digest()}\0".encode())
    digest.update(own.read_bytes() + b"\0" + scope_file(component).read_bytes())
    return digest.hexdigest()[:16]


# Processes -----------------------------------------------------------------------------------------------------------


def _one_by_one(mutants: Sequence[Mutant], limits: Limits, first: tuple[str, ...]) -> Iterator[MutantResult]:
    for mutant in mutants:
        yield judged(mutant, limits, first=first)


@cache
def _by_name(component: str) -> dict[str, Mutant]:
    return {mutant.name: mutant for mutant in mutants_of(component_named(component))}


def _limit_memory() -> None:
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _in_worker(limits: Limits, first: tuple[str, ...], task: tuple[str, str]) -> MutantResult | None:
    """A component and the name of its mutant. None where the user ended the run before anything was known."""
    component, name = task
    try:
        return judged(_by_name(component)[name], limits, stopped, first=first)
    except KeyboardInterrupt:
        return None


def _in_processes(
    workers: int, mutants: Sequence[Mutant], limits: Limits, first: tuple[str, ...]
) -> Iterator[MutantResult]:
    tasks = ((mutant.component, mutant.name) for mutant in mutants)
    results = shared_out(partial(_in_worker, limits, first), tasks, workers, begin=_limit_memory)
    return (result for result in results if result is not None)
