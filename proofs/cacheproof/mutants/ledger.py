"""The mutants that may survive, each with the reason: a TOML file of `[[survivor]]` tables."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import toml_of
from cacheproof.mutants.generate import Mutant
from cacheproof.mutants.judge import Fate, MutantResult

LEDGER = Path(__file__).parent / "survivors.toml"


class Survivor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One mutant that nothing notices, and why that is right."""

    name: str
    change: str
    reason: str


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    survivor: tuple[Survivor, ...] = ()


def read(path: Path = LEDGER) -> dict[str, Survivor]:
    """The survivors that are known, by name; InputError where the file is wrong."""
    try:
        file = msgspec.convert(toml_of(path.read_text(encoding="utf-8")), _File)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from None
    known: dict[str, Survivor] = {}
    for survivor in file.survivor:
        if survivor.name in known:
            raise InputError(f"{path}: {survivor.name} is there twice")
        if not survivor.reason.strip():
            raise InputError(f"{path}: {survivor.name} has no reason")
        known[survivor.name] = survivor
    return known


def wrong(
    known: dict[str, Survivor], mutants: Iterable[Mutant], results: Sequence[MutantResult], components: Iterable[str]
) -> Iterator[str]:
    """Each entry about these components that does not fit what there is, and what was found. One line each."""
    existing = {mutant.name: mutant for mutant in mutants}
    chosen = set(components)
    fates = {result.name: result for result in results}
    for name, survivor in known.items():
        if name.partition("/")[0] not in chosen:
            continue
        if name not in existing:
            yield f"{name}: listed as a survivor, and there is no such mutant"
        elif existing[name].change != survivor.change:
            yield f"{name}: listed as '{survivor.change}', and it is '{existing[name].change}'"
        elif name in fates and fates[name].fate not in (Fate.SURVIVED, Fate.OPEN):
            found = fates[name]
            yield f"{name}: listed as a survivor, and it is noticed: {found.fate.value} {found.by}".rstrip()
