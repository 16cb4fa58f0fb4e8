"""`cacheproof explain`: what a name means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from textwrap import wrap
from typing import Annotated

import typer

from cacheproof.catalogue.register import Entry
from cacheproof.command.console import Report
from cacheproof.errors import InputError
from cacheproof.meaning import EntryMeaning, Meaning, PropertyMeaning, Refutation, VariantMeaning, meanings, names
from cacheproof.registry import components


def command(
    name: Annotated[
        str, typer.Argument(help="A property (LRU-1), an era (E0), or an entry of the catalogue (C-MIR-10).")
    ],
) -> Report:
    """Say what a property, an era or a catalogue entry means, where it is checked, and who breaks it."""
    found = meanings(name, components().values())
    if not found:
        known = names(components().values())
        close = get_close_matches(name.upper(), known, n=3, cutoff=0.5)
        there = ", ".join(close) if close else "properties, eras and entries of the catalogue: see `cacheproof list`"
        raise InputError(f"nothing is called '{name}': there are {there}")
    data = [{"is": IS[type(meaning)], "meaning": meaning} for meaning in found]
    return Report({"name": name, "meanings": data}, ["\n".join(line for meaning in found for line in lines(meaning))])


WIDTH = 100
"""Columns of a paragraph."""

IS = {PropertyMeaning: "property", VariantMeaning: "variant", EntryMeaning: "catalogue entry"}


def lines(meaning: Meaning) -> Iterator[str]:
    """The meaning, as a person reads it."""
    if isinstance(meaning, PropertyMeaning):
        yield f"{meaning.name}, a {meaning.kind} property of {meaning.component}"
        yield f"  {meaning.statement}"
        held = {scope: ", ".join(tags) for scope, tags in meaning.held_by.items()}
        yield from section("must hold in", held, "no scope: it is not checked by exploring")
        yield from section("is expected to be broken by", broken(meaning.broken_by), "no era")
        yield from section("does not apply to", meaning.exempt)
    elif isinstance(meaning, VariantMeaning):
        yield f"{meaning.title} ({meaning.tag}), a variant of {meaning.component}"
        yield from section("differs from the normative variant in", meaning.differences, "nothing that is recorded")
        yield from section("is expected to break", broken(meaning.breaks), "nothing")
        yield from section("is exempt from", meaning.exempt)
    else:
        yield f"{meaning.name}, an entry of the catalogue of violations"
        if meaning.registered is not None:
            yield from registered(meaning.registered)
        yield from section("breaks", meaning.statements, "no property in any scope")
        yield from section("is shown by", broken(meaning.shown_by), "no scope")
        yield from section("made these rules of eras", dict.fromkeys(meaning.differences, ""))


def registered(entry: Entry) -> Iterator[str]:
    """What is known of an entry from outside."""
    yield f"  {entry.title}"
    told = {
        "what happens": entry.what,
        "instead": entry.instead,
        "in": entry.releases,
        "public": ", ".join(f"{number} ({state})" for number, state in entry.threads.items()),
        "outside the model": entry.outside,
    }
    for name, text in told.items():
        if text:
            yield from wrap(f"{name}: {' '.join(text.split())}", WIDTH, initial_indent="  ", subsequent_indent="    ")


def broken(found: Iterable[Refutation]) -> dict[str, str]:
    """Who breaks what, where, and by how many operations."""
    return {
        f"{one.component} {one.title} ({one.variant}), {one.property}, in scope {one.scope}": _detail(one)
        for one in found
    }


def section(title: str, entries: Mapping[str, str], nothing: str = "") -> Iterator[str]:
    """A heading and its entries; without entries, what is said instead, or nothing at all."""
    if entries or nothing:
        yield f"  {title}" + ("" if entries else f" {nothing}")
    for name, text in entries.items():
        yield f"    {name}" + (f": {text}" if text else "")


def _detail(found: Refutation) -> str:
    length = "" if found.length is None else f"shortest trace of {found.length} operations"
    return ", ".join(part for part in (length, found.catalogue) if part)
