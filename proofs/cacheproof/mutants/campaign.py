"""Many mutants, over processes; what was found is kept as it comes, and a later run goes on from it."""

from __future__ import annotations

import inspect
import resource
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError, NoCompilerError
from cacheproof.foundation.workers import shared_out, stopped
from cacheproof.model.fingerprint import explorer_digest, specification_digest
from cacheproof.model.registry import AnyComponent, component_named, scope_file
from cacheproof.model.store import load_all, save
from cacheproof.mutants.generate import Mutant, mutants_of
from cacheproof.mutants.judge import Fate, Limits, MutantResult, judged, scopes_for
from cacheproof.mutants.native import ENGINE as NATIVE
from cacheproof.mutants.native import MEMORY_BYTES, Library, judged_natively
from cacheproof.search.native.build import NONE, compiler_of_this_machine
from cacheproof.search.reference import ENGINE as REFERENCE
from cachespec.kernel import NORMATIVE

KIND = "mutants"
"""The kind of these runs in the store."""
SAVED_EVERY = 5
ENGINES = (REFERENCE, NATIVE)
AUTO = "auto"
"""The faster of the two."""
COMPILED_FROM = 50_000
"""Mutants times states of the original's default scopes, from which a compilation is worth its time."""
IN_ONE_LIBRARY = 300
"""At most this number of mutants is compiled together."""


def perform(
    mutants: Sequence[Mutant],
    limits: Limits,
    workers: int,
    show: Show,
    *,
    anew: bool,
    first: tuple[str, ...] = (),
    engine: str = REFERENCE,
) -> list[MutantResult]:
    """The results, in the order of the mutants. Ctrl-C ends it with those that are known by then.

    `engine` is one of `ENGINES`. Raises InputError if a component cannot be compiled.
    """
    known: dict[str, MutantResult] = {} if anew else kept(mutants, limits)
    waiting = [mutant for mutant in mutants if mutant.name not in known]
    if len(waiting) < len(mutants):
        show(f"{len(mutants) - len(waiting)} of {len(mutants)} mutants are known from an earlier run")
    done = 0
    try:
        for result in _results(waiting, limits, first, workers, engine, show):
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


def engine_for(engine: str, mutants: Sequence[Mutant]) -> str:
    """The engine that is meant: the one that is named, or the faster one. Raises InputError for an unknown name."""
    if engine != AUTO:
        if engine not in ENGINES:
            raise InputError(f"unknown engine '{engine}': there are {', '.join(ENGINES)} and {AUTO}")
        return engine
    if compiler_of_this_machine() is None:
        return REFERENCE
    return NATIVE if sum(_states(mutant.component) for mutant in mutants) >= COMPILED_FROM else REFERENCE


@cache
def _states(component: str) -> int:
    return sum(scope.expectation(NORMATIVE).states or 0 for scope in scopes_for(component_named(component)))


# Processes -----------------------------------------------------------------------------------------------------------


class Group(NamedTuple):
    """Mutants of one component that are compiled together, and the folder of their library."""

    component: str
    names: tuple[str, ...]
    folder: str

    def mutants(self) -> list[Mutant]:
        """The mutants themselves."""
        known = _by_name(self.component)
        return [known[name] for name in self.names]


def _results(
    mutants: Sequence[Mutant], limits: Limits, first: tuple[str, ...], workers: int, engine: str, show: Show
) -> Iterator[MutantResult]:
    """Each result as it comes."""
    if engine == REFERENCE:
        yield from (
            _one_by_one(mutants, limits, first) if workers == 1 else _in_processes(workers, mutants, limits, first)
        )
        return
    if compiler_of_this_machine() is None:
        raise NoCompilerError(NONE)
    for name in dict.fromkeys(mutant.component for mutant in mutants):
        own = [mutant for mutant in mutants if mutant.component == name]
        for begin in range(0, len(own), IN_ONE_LIBRARY):
            together = own[begin : begin + IN_ONE_LIBRARY]
            with tempfile.TemporaryDirectory() as folder:
                show(f"compiling {len(together)} mutants of {name}")
                library = Library(component_named(name), together, Path(folder))
                if workers == 1:
                    yield from _one_by_one(together, limits, first, library)
                else:  # the workers find the library in the folder
                    group = Group(name, tuple(mutant.name for mutant in together), folder)
                    yield from _in_processes(workers, together, limits, first, group)


_latest: dict[Group, Library] = {}


def _library_in_worker(group: Group) -> Library:
    """The library of a group. One is kept: the groups come one after the other."""
    if group not in _latest:
        _latest.clear()
        _latest[group] = Library(component_named(group.component), group.mutants(), Path(group.folder))
    return _latest[group]


def _one_by_one(
    mutants: Sequence[Mutant], limits: Limits, first: tuple[str, ...], library: Library | None = None
) -> Iterator[MutantResult]:
    for mutant in mutants:
        if library is None:
            yield judged(mutant, limits, first=first)
        else:
            yield judged_natively(mutant, limits, library, first=first)


@cache
def _by_name(component: str) -> dict[str, Mutant]:
    return {mutant.name: mutant for mutant in mutants_of(component_named(component))}


def _limit_memory() -> None:
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _in_worker(
    limits: Limits, first: tuple[str, ...], group: Group | None, task: tuple[str, str]
) -> MutantResult | None:
    """A component and the name of its mutant. None where the user ended the run before anything was known."""
    component, name = task
    mutant = _by_name(component)[name]
    try:
        if group is None:
            return judged(mutant, limits, stopped, first=first)
        return judged_natively(mutant, limits, _library_in_worker(group), stopped, first=first)
    except KeyboardInterrupt:
        return None


def _in_processes(
    workers: int, mutants: Sequence[Mutant], limits: Limits, first: tuple[str, ...], group: Group | None = None
) -> Iterator[MutantResult]:
    tasks = ((mutant.component, mutant.name) for mutant in mutants)
    results = shared_out(partial(_in_worker, limits, first, group), tasks, workers, begin=_limit_memory)
    return (result for result in results if result is not None)
