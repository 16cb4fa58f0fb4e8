"""What the pages of the results say, from the records; the pages' own text is the authors' and stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import components
from cacheproof.model.wire import operation_from_message
from cacheproof.model.wording import operation_text
from cacheproof.present.book.results_matrix import matrix, what_is_new
from cacheproof.present.book.tables import anchor, link, markdown_table
from cacheproof.present.book.trace_pages import SENTENCE
from cacheproof.releases.reach import REACHES, SHORT
from cacheproof.releases.results.record import FOLDER, RECORDS, Record, Row, Violation, is_new, load, load_all
from cacheproof.releases.results.running import reach_shown
from cacheproof.releases.results.wording import known_as, reach_with_faults, what_is_broken

CATALOGUE_PAGE = "../catalogue.md"


def results_part(words: Sequence[str]) -> str:
    """`links`, `matrix`, `reaches`, `new`, `runs`, or the name of a record, as `vllm-0.33.0`, for all of a page."""
    if len(words) != 1:
        raise InputError("say which part of the results, in one word")
    (word,) = words
    parts = {"links": _links, "matrix": matrix, "reaches": _reaches, "new": _new, "runs": _runs}
    if word in parts:
        return parts[word](load_all(FOLDER))
    return page_of(load(FOLDER / RECORDS / f"{word}.json"))


def page_of(record: Record) -> str:
    """All that is generated of the page of one release."""
    parts = [_how(record), "## Agreement", _agreement(record)]
    if record.undriven:
        rows = [(f"`{one.component}`", one.reason) for one in record.undriven]
        parts += ["## Not driven", markdown_table(("component", "why"), rows)]
    parts += ["## Broken properties", _violations(record)]
    for violation in record.violations:
        parts += [f"### {heading(violation)}", _detail(violation)]
    return "\n\n".join(parts)


def heading(violation: Violation) -> str:
    """Of the part that is about one violation: its id, so there is one of each."""
    return violation.id


def _how(record: Record) -> str:
    machine = record.machine
    each = "row" if of_eras(record) else "driver, shared by its configurations,"
    calls = f"{record.steps:,} calls for each {each} were asked for, seed {record.seed}"
    searched = sum(one.calls for one in record.searched)
    also = f"; {searched:,} more to search for violations" if searched else ""
    return (
        f"Run on {record.date} with cacheproof {record.version}, specification `{record.specification}`: "
        f"{calls}{also}. "
        f"{machine.processor}, {machine.cores} cores, {machine.system}, Python {machine.python}, "
        f"{', '.join(machine.dependencies)}."
    )


def _agreement(record: Record) -> str:
    rows = [
        (
            f"`{row.component}`",
            row.label,
            f"{row.calls:,}",
            f"{(row.beside if row.states is None else row.states) or 0:,}",
            _said(row),
        )
        for row in record.rows
    ]
    compared = "states" if of_eras(record) else "compared with the specification"
    return markdown_table(("component", "era or configuration", "calls", compared, "verdict"), rows)


def _said(row: Row) -> str:
    more = [*row.difference, *row.known, *([row.breakdown] if row.breakdown else [])]
    return f"{row.verdict}: {'; '.join(more)}" if more else row.verdict


def of_eras(record: Record) -> bool:
    """Whether its rows are eras, and not the configurations that a driver was walked in."""
    return any(row.states is not None for row in record.rows)


def _violations(record: Record) -> str:
    if not record.violations:
        return _nothing_more(record)
    rows = [
        (
            f"`{one.component}`",
            f"[{one.property}](#{anchor(heading(one))})",
            SHORT[reach_shown(one)] + (f", with {', '.join(one.faults)}" if one.faults else ""),
            str(len(one.operations)),
            _known(one),
            "no" if one.unshown else "yes",
        )
        for one in record.violations
    ]
    return markdown_table(("component", "property", "reach", "calls", "known as", "reproduced"), rows)


def _nothing_more(record: Record) -> str:
    """Where no violation is told one by one: what the rows say of it, and whether anybody looked."""
    wrong = sum(bool(row.difference) for row in record.rows)
    rows = (
        f"In {wrong} of {len(record.rows)} rows above something is wrong" if wrong else "Nothing was found in the rows"
    )
    calls = sum(one.calls for one in record.searched)
    searched = f"{calls:,} calls were made to search for more" if calls else "nothing more was searched for"
    return f"{rows}; {searched}."


def _known(violation: Violation) -> str:
    said = known_as(violation, lambda number: link(number, CATALOGUE_PAGE))
    return f"**{said}**" if is_new(violation) else said


def _detail(violation: Violation) -> str:
    said = [
        f"*{violation.statement}*: {what_is_broken(violation)}.",
        f"Reach: {reach_with_faults(violation)}. {_found(violation)}. Known as {_known(violation)}.",
    ]
    if violation.ending:
        said[1] += f" {ENDINGS[violation.ending]}."
    if violation.also:
        said.append(f"Also broken in {', '.join(f'`{one}`' for one in violation.also)}.")
    said += [SENTENCE.format(violation.id), f"`cacheproof reproduce {violation.id} {violation.target}` prints last:"]
    calls = list(_calls(violation))
    listing = "```text\n" + "\n".join(calls or ["(in the initial state)"]) + "\n```"
    printed = f"```text\n{violation.verdict or violation.unshown}\n```"
    return "\n\n".join([" ".join(said), printed, "The calls, and how the release answered:", listing])


def _found(violation: Violation) -> str:
    if violation.found == "catalogue":
        return "The catalogue's shortest trace, made on the release"
    if violation.steps == 0:
        return "Found in the states nearest to the start"
    return f"Found by random calls, seed {violation.seed}"


ENDINGS = {
    "diverged": "The last call does not return",
    "stuck": "After these calls nothing happens any more, and something is owed",
    "lasso": "After these calls the same steps come round for ever",
    "stall": "After these calls nothing is scheduled any more",
    "circling": "After these calls requests are scheduled and preempted, and nobody is finished",
    "failed": "The last call ends in a failed assertion",
}


def _calls(violation: Violation) -> Iterator[str]:
    operations = components()[violation.component].operations
    for message, outcome in zip(violation.operations, violation.outcomes, strict=True):
        values = f" {outcome['values']}" if outcome.get("values") else ""
        yield f"{operation_text(operation_from_message(operations, message))} -> {outcome['code']}{values}"


def _links(records: Sequence[Record]) -> str:
    listed = ", ".join(f"[{record.target}](results/{record.name}.md)" for record in records)
    return f"[All releases beside each other](results/index.md); {listed}."


def _reaches(records: Sequence[Record]) -> str:
    rows = ((f"`{reach}`", SHORT[reach], said) for reach, said in REACHES.items())
    return markdown_table(("reach", "in tables", "what was seen"), rows)


def _new(records: Sequence[Record]) -> str:
    return "\n".join(what_is_new(records)) or "Nothing was found that is in no entry of the catalogue."


def _runs(records: Sequence[Record]) -> str:
    rows = [
        (
            f"[{record.target}]({record.name}.md)",
            record.date,
            str(record.seed),
            f"{sum(row.calls for row in record.rows):,}",
            f"{sum(one.calls for one in record.searched):,}",
            f"{sum(bool(one.verdict) for one in record.violations)} of {len(record.violations)}",
        )
        for record in records
    ]
    return markdown_table(("release", "day", "seed", "calls compared", "calls searched", "violations reproduced"), rows)


def new_page(record: Record) -> str:
    """The page of a release of which there is none yet."""
    return f"# {record.target}\n\n<!-- results: {record.name} -->\n"


def page_path(record: Record, folder: Path) -> Path:
    """Where it is."""
    return folder / f"{record.name}.md"
