"""`cacheproof prove`: what holds for all sizes, at stated shapes of the tensor code, or up to a bound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from cacheproof.command.options import JobsOption
from cacheproof.foundation.console import Report, interruptible, progress
from cacheproof.foundation.errors import ExitStatus, InputError, MissingExtraError
from cacheproof.foundation.junit import STATUSES, Case, JunitOption, file_to_write, write
from cacheproof.foundation.workers import cores
from cacheproof.present.evidence import UNANSWERED

if TYPE_CHECKING:
    from cacheproof.prove.finding import Finding

PANEL = "Check and prove"


DEFAULT, ALL = "default", "all"
GAVE_UP = "gave up"
EXTRA = ("z3", "cvc5", "crosshair", "icontract")
"""The modules that the extra brings."""


class Method(Enum):
    """How an obligation is discharged."""

    SMT = "smt"
    COMPOSITION = "composition"
    CROSSHAIR = "crosshair"


def command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="COMPONENT", help="Components to prove.", show_default="all")
    ] = None,
    *,
    method: Annotated[
        Method | None,
        typer.Option(
            help="Run only the proofs (smt), the proofs of parts inside larger components (composition) or the bounded "
            "contracts (crosshair).",
            show_default="all",
        ),
    ] = None,
    second_opinion: Annotated[bool, typer.Option(help="Ask a second solver about each check of a proof.")] = True,
    implementation: Annotated[
        bool,
        typer.Option(
            "--implementation",
            help="Prove and confirm the implementation equal to the specification (default: prove the specification).",
        ),
    ] = False,
    which: Annotated[
        str,
        typer.Option(
            "--set", help="The set of --implementation: default, or all with larger shapes and long contracts."
        ),
    ] = DEFAULT,
    every: Annotated[
        bool, typer.Option("--every", help="Print one line for each obligation (default: one for each claim).")
    ] = False,
    jobs: JobsOption = 0,
    junit: JunitOption = None,
) -> Report:
    """Prove properties of the specification for all sizes, and confirm contracts up to a bound.

    With --implementation: prove that the tensor code does what the specification does, at stated shapes (smt), and
    confirm that the classes in plain Python do, up to a bound (crosshair).
    """
    file_to_write(junit)
    if which not in (DEFAULT, ALL):
        raise InputError(f"there is no set '{which}': there are {DEFAULT} and {ALL}")
    if which == ALL and not implementation:
        raise InputError("--set chooses among the obligations of --implementation")
    try:
        from cacheproof.prove import session  # noqa: PLC0415  # z3, cvc5 and CrossHair come with an extra

        by = method.value if method else None
        if implementation:
            chosen = session.chosen_implementation(names or [], by, nightly=which == ALL)
        else:
            chosen = session.chosen(names or [], by)
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise MissingExtraError("torch", "`cacheproof prove --implementation`") from None
        if error.name not in EXTRA:
            raise
        raise MissingExtraError("prove", "`cacheproof prove`") from None
    findings: list[Finding] = []
    with interruptible() as stop, progress() as show:
        for finding in session.run(chosen, ask_second=second_opinion, jobs=jobs or cores(), begin=show):
            findings.append(finding)
            show(f"{finding.component} {finding.name}: {finding.verdict.value} ({len(findings)} so far)")
    if not stop.happened:
        session.keep(chosen, findings)
    write(junit, "prove", map(_case, findings), interrupted=stop.happened)
    return _report(findings, every=every, interrupted=stop.happened)


def _case(finding: Finding) -> Case:
    """An obligation for a CI service; a check that fails by itself, or in time, is an error."""
    no_answer = finding.verdict.value in UNANSWERED
    status = ExitStatus.INCONCLUSIVE if no_answer else ExitStatus.FELL_SHORT
    return Case(
        f"prove.{finding.component}",
        finding.name,
        STATUSES[ExitStatus.AS_EXPECTED if finding.good else status],
        f"{finding.verdict.value}: {finding.statement}",
        finding.detail,
        finding.seconds,
        {"method": finding.method, "verdict": finding.verdict.value, "bound": finding.bound},
    )


def _report(findings: Sequence[Finding], *, every: bool, interrupted: bool) -> Report:
    bad = [one for one in findings if not one.good]
    status = ExitStatus.AS_EXPECTED if findings and not bad else ExitStatus.FELL_SHORT
    if bad and all(one.verdict.value == GAVE_UP for one in bad):
        status = ExitStatus.INCONCLUSIVE
    parts: list[Any] = [_every(findings) if every else _by_claim(findings)]
    parts += [f"{one.component} {one.name}: {one.verdict.value}\n{_indented(one.detail)}" for one in bad]
    parts += _without_second_opinion(findings)
    good = len(findings) - len(bad)
    parts.append(f"{good} of {len(findings)} obligations as required, {_seconds(findings)} s")
    return Report({"obligations": [one.record() for one in findings]}, parts, status, interrupted=interrupted)


def _by_claim(findings: Sequence[Finding]) -> Table:
    """One line for each claim and bound: the operations that keep it are counted."""
    groups: dict[tuple[str, str, str, str], list[Finding]] = {}
    for one in findings:
        claim = one.name.rpartition("/")[0] or one.name
        groups.setdefault((one.component, claim, one.method, one.bound), []).append(one)
    return _table([(component, claim, rows) for (component, claim, _, _), rows in groups.items()])


def _every(findings: Sequence[Finding]) -> Table:
    return _table([(one.component, one.name, [one]) for one in findings])


def _table(groups: Sequence[tuple[str, str, Sequence[Finding]]]) -> Table:
    numbers = (Column(name, justify="right", no_wrap=True) for name in ("obligations", "seconds"))
    table = Table(Column("component", no_wrap=True), Column("claim", ratio=1), "verdict", *numbers)
    for component, claim, rows in groups:
        good = sum(row.good for row in rows)
        verdict = next((row.verdict for row in rows if not row.good), rows[0].verdict).value
        counted = f"{good} of {len(rows)}" if good < len(rows) else str(good)
        table.add_row(
            component, f"{claim}: {rows[0].statement}", f"{verdict}, {rows[0].bound}", counted, _seconds(rows)
        )
    return table


def _without_second_opinion(findings: Iterable[Finding]) -> list[str]:
    """Where the second solver did not answer, by name; all others it answered alike."""
    return [
        f"{one.component} {one.name}: no second opinion on {one.checks - one.agreed} of {one.checks} checks"
        for one in findings
        if one.agreed is not None and one.agreed < one.checks
    ]


def _indented(detail: str) -> str:
    return "\n".join(f"    {line}" for line in detail.splitlines())


def _seconds(findings: Iterable[Finding]) -> str:
    return f"{sum(one.seconds for one in findings):.1f}"
