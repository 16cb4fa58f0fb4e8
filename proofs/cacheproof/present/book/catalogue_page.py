"""The entries of a family, as the page of the catalogue has them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from itertools import groupby

from cacheproof.catalogue.kept import is_kept, shown_by
from cacheproof.catalogue.places import Place, most_telling, of_entry
from cacheproof.catalogue.register import Entry, Family, families
from cacheproof.foundation.errors import InputError
from cacheproof.present.book.pictures import caption, everywhere, picture, trace_table
from cacheproof.present.book.tables import markdown_table


def catalogue_part(words: Sequence[str]) -> str:
    """`C-MIR`: every entry of a family with what happens, its threads, where it is shown, and its shortest trace."""
    family = next((one for one in families() if list(words) == [one.name]), None)
    if family is None:
        raise InputError(f"say which family: {', '.join(one.name for one in families())}")
    known = everywhere()
    return "\n\n".join(
        paragraph for entry in family.entry for paragraph in _entry(entry, list(of_entry(entry.id, known)))
    )


def summary_part(words: Sequence[str]) -> str:
    """`all`: one row for each family, with how many entries are shown and how many are outside."""
    if list(words) != ["all"]:
        raise InputError("`summary: all` has no other form")
    known = {place.catalogue for place in everywhere()}
    counted = [(family, _counts(family, known)) for family in families()]
    rows = [(family.name, family.title, *map(str, counts)) for family, counts in counted]
    totals = [str(sum(column)) for column in zip(*(counts for _, counts in counted), strict=True)]
    return markdown_table(
        ("family", "about", "entries", "shown", "outside", "pending"), [*rows, ("", "together", *totals)]
    )


def _counts(family: Family, known: Container[str]) -> tuple[int, int, int, int]:
    """All entries of a family; those that a scope shows, those that are outside, and the rest."""
    shown = sum(entry.id in known for entry in family.entry)
    outside = sum(entry.id not in known and bool(entry.outside) for entry in family.entry)
    return len(family.entry), shown, outside, len(family.entry) - shown - outside


def _entry(entry: Entry, known: Sequence[Place]) -> Iterator[str]:
    yield f"### {entry.id}"
    yield f"**{entry.title}.** {' '.join(entry.what.split())}"
    yield _facts(entry)
    if entry.instead:
        yield f"*Instead:* {' '.join(entry.instead.split())}"
    place = most_telling(known)
    if place is None:
        reason = " ".join(entry.outside.split())
        yield f"*Outside the model:* {reason}" if reason else "*No scope shows it yet.*"
        return
    yield _shown_where(known)
    if not is_kept(place):
        yield f"*No trace is kept for it yet:* `cacheproof catalogue {entry.id} --keep` keeps one."
        return
    violation = shown_by(place)
    yield caption(place, violation) + (f" {place.violation.about}" if place.violation.about else "")
    yield picture(place, violation)
    yield trace_table(violation.trace)


def _facts(entry: Entry) -> str:
    threads = ", ".join(f"{number} ({state})" for number, state in entry.threads.items())
    facts = [f"{'would break' if entry.outside else 'breaks'} {', '.join(entry.properties)}"]
    facts += [f"releases: {entry.releases}"] if entry.releases else []
    facts += [f"public: {threads}" if threads else "no public report known"]
    return "; ".join(facts) + "."


def _shown_where(known: Sequence[Place]) -> str:
    """One row for each variant: the scopes and properties that show it, with the lengths of the shortest traces."""
    key = _whose
    rows = []
    for (component, variant), group in groupby(sorted(known, key=key), key=key):
        shown = [f"`{one.violation.property}` in `{one.scope.name}` ({one.violation.length})" for one in group]
        rows.append((f"`{component}`", f"`{variant}`", ", ".join(shown)))
    return markdown_table(("component", "variant", "breaks (operations)"), rows)


def _whose(place: Place) -> tuple[str, str]:
    return place.scope.component, place.variant
