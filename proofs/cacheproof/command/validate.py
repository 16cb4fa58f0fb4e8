"""`cacheproof validate`: is the log of an implementation that of a run of the specification?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cacheproof.foundation.console import Report, Show, interruptible, progress
from cacheproof.foundation.errors import ExitStatus, InconclusiveError, InputError
from cacheproof.foundation.junit import STATUSES, Case, CaseStatus, JunitOption, file_to_write, write
from cacheproof.foundation.limits import MEGABYTES, SECONDS
from cacheproof.foundation.partial import AllowPartialOption, worded
from cacheproof.lockstep.declaring import DeviationOption
from cacheproof.logs.validate.header import Header
from cacheproof.logs.validate.native import ENGINES
from cacheproof.logs.validate.possible import CAP
from cacheproof.logs.validate.run import Validation
from cacheproof.logs.validate.source import STANDARD_INPUT, Source, open_source
from cacheproof.logs.validate.verdict import SHOWN_INTEGERS, Impossible, Inconclusive, Sort, Tried, around
from cacheproof.model.finding import shown
from cacheproof.model.mixture import without
from cacheproof.model.store import name_of, save
from cacheproof.model.wire import config_to_message, operation_to_message, outcome_to_message
from cacheproof.model.wording import operation_text, outcome_text
from cacheproof.present.unseen import unseen
from cacheproof.search.engines import AUTO
from cachespec import SPECIFICATION_VERSION

PANEL = "Records and replay"

STATUS = {
    Sort.POSSIBLE: ExitStatus.AS_EXPECTED,
    Sort.IMPOSSIBLE: ExitStatus.FELL_SHORT,
    Sort.INCONCLUSIVE: ExitStatus.INCONCLUSIVE,
}


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The log, plain or gzip. -: standard input.")],
    *,
    component: Annotated[
        str | None, typer.Option(help="The component of the log.", show_default="that of the log's header")
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="The variant to compare with.", show_default="that of the log's header")
    ] = None,
    deviation: DeviationOption = None,
    cap: Annotated[int, typer.Option(min=1, help="Limit on possible states that are followed at once.")] = CAP,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Accept a log without its last line, and check the lines it has.")
    ] = False,
    seconds: Annotated[float, typer.Option(min=0.001, help="Time limit for each line, in seconds.")] = SECONDS,
    memory: Annotated[int, typer.Option(min=64, help="Memory limit, in megabytes.")] = MEGABYTES,
    engine: Annotated[
        str,
        typer.Option(
            help="The engine: reference or native (the specification, in Python or compiled), or auto (compiled if the "
            "log is long and a compiler is found)."
        ),
    ] = AUTO,
    allow_partial: AllowPartialOption = False,
    junit: JunitOption = None,
) -> Report:
    """Check whether a log is a valid run of the specification.

    If it is not, shows the first impossible line. A log that says little is no answer: one without calls, or one of
    which most lines say neither how a call ended nor what was seen.
    """
    file_to_write(junit)
    if engine not in ENGINES:
        raise InputError(f"unknown engine '{engine}': there are {', '.join(ENGINES)}")
    source = open_source(file)
    settings = Settings(component, variant, cap, unfinished, seconds, memory, engine)
    validation = settings.validation(source, deviation or [])
    rules: list[dict[str, Any]] = []
    try:
        with progress() as show, interruptible() as stop:
            validation.run(show)
            if validation.found is None:
                rules = shown_by(file, settings, validation, show)
    except (InputError, InconclusiveError) as error:
        refused = Case("validate", source.name, CaseStatus.ERROR, str(error), seconds=validation.seconds)
        write(junit, "validate", [refused])
        raise
    finally:
        source.close()
    if validation.header is None:  # nothing but Ctrl-C ends it without an error before there is one
        write(junit, "validate", [], interrupted=True)
        raise KeyboardInterrupt
    partial = "" if allow_partial else validation.partial
    ended = ExitStatus.INCONCLUSIVE if partial else STATUS[validation.sort]
    data = {**data_of(validation, validation.header, source.name, cap), "rules": rules, "partial": partial}
    shown = [*rendered(validation, validation.header), *needless(rules), *([worded(partial)] if partial else [])]
    case = _case(validation, validation.header, source.name, shown, STATUSES[ended])
    write(junit, "validate", [case], interrupted=stop.happened)
    if not stop.happened:
        log = "standard-input" if str(file) == STANDARD_INPUT else file.name
        kept = {name: value for name, value in data.items() if name != "source"}  # of a run, that is the specification
        save("validate", name_of(data["component"], data["variant"], log), kept)
    return Report(data, shown, ended, interrupted=stop.happened)


@dataclass(frozen=True, slots=True)
class Settings:
    """How a log is validated, as the command line has it."""

    component: str | None
    variant: str | None
    cap: int
    unfinished: bool
    seconds: float
    megabytes: int
    engine: str = AUTO

    def validation(self, source: Source, deviations: Sequence[str]) -> Validation:
        """A validation of a log under these deviations."""
        return Validation(
            source,
            component=self.component,
            variant=self.variant,
            deviations=deviations,
            cap=self.cap,
            unfinished=self.unfinished,
            seconds=self.seconds,
            megabytes=self.megabytes,
            engine=self.engine,
        )


def shown_by(file: Path, settings: Settings, validation: Validation, show: Show) -> list[dict[str, Any]]:
    """The rules of the variant, and whether the log shows each: it is no run of the variant without that rule.

    Standard input cannot be read again: there it is not known (None). A guard changes no answer, so it shows nothing.
    """
    header = validation.header
    rules = [] if header is None else list(header.variant.mixed)
    found = []
    for rule in rules:
        known: bool | None = None
        if header is not None and str(file) != STANDARD_INPUT and not rule.unasked:
            other = replace(settings, variant=without(header.component, header.variant, rule).tag)
            with closing(open_source(file)) as source:
                again = other.validation(source, [])
                again.run(show)
            known = isinstance(again.found, Impossible)
        found.append({"name": rule.name, "statement": rule.statement, "shown": known})
    return found


def needless(rules: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each rule without which the log is a run as well."""
    for rule in rules:
        if rule["shown"] is False:
            yield f"{rule['name']} is declared and never showed: the log is a run without it, too"


def _case(validation: Validation, header: Header, name: str, shown: list[str], status: CaseStatus) -> Case:
    """The log for a CI service."""
    heads = ("no answer", "all ", *"0123456789")
    head = next((line for start in heads for line in shown if line.startswith(start)), "")
    told = {"variant": header.variant.tag, "lines": validation.consumed, "most possible states": validation.peak}
    return Case(f"validate.{header.component.name}", name, status, head, "\n".join(shown), validation.seconds, told)


def data_of(validation: Validation, header: Header, name: str, cap: int) -> dict[str, Any]:
    """What a machine reads."""
    found = validation.found
    return {
        "log": name,
        "source": header.source,
        "component": header.component.name,
        "variant": header.variant.tag,
        "config": _short_config(header),
        "specification": {"here": SPECIFICATION_VERSION, "log": header.specification},
        "verdict": validation.sort.value,
        "consumed": validation.consumed,
        "compiled": validation.native_lines,
        "unseen": unseen(header.component, header.variant, validation.seen).data,
        "own_names": "" if validation.numbers is None else validation.numbers.text,
        "states": {"now": validation.possible, "most": validation.peak, "cap": cap},
        "first_impossible": _impossible(found, validation) if isinstance(found, Impossible) else None,
        "inconclusive": {"line": found.line, "reason": found.reason} if isinstance(found, Inconclusive) else None,
        "seconds": round(validation.seconds, 3),
        "lines_per_second": round(validation.consumed / validation.seconds) if validation.seconds else None,
    }


def _short_config(header: Header) -> dict[str, Any] | None:
    """The configuration, unless it is as long as a workload."""
    message = config_to_message(header.config)
    return message if len(str(message)) <= 2000 else None


def _impossible(found: Impossible, validation: Validation) -> dict[str, Any]:
    return {
        "line": found.line,
        "text": found.text,
        "source": found.source,
        "reason": found.reason,
        "before": list(validation.before),
        "possible": found.states,
        "tried": [_tried(each) for each in found.tried],
    }


def _tried(tried: Tried) -> dict[str, Any]:
    return {
        "state": {name: _short(value) for name, value in tried.before.items()},
        "operation": None if tried.operation is None else operation_to_message(tried.operation),
        "outcome": None if tried.outcome is None else outcome_to_message(tried.outcome),
        "differences": [
            {
                "what": part.what,
                "expected": _short(part.expected),
                "logged": _short(part.logged),
                "unchanged": part.unchanged,
                "statement": part.statement,
            }
            for part in tried.differences
        ],
    }


def _short(value: Any) -> Any:
    """A long array is its length and its beginning: what differs in it is in the statement."""
    if isinstance(value, tuple) and len(value) > 1000:
        return {"length": len(value), "begins": list(value[:SHOWN_INTEGERS])}
    return list(value) if isinstance(value, tuple) else value


def rendered(validation: Validation, header: Header) -> list[str]:
    """What a person reads."""
    whose = f"{header.component.name} ({header.variant.title})"
    rate = f"{validation.consumed / max(validation.seconds, 1e-9):,.0f} a second"
    most = f", at most {validation.peak:,} states possible at once" if validation.peak > 1 else ""
    read = "1 line is" if validation.consumed == 1 else f"{validation.consumed:,} lines are"
    lines = [*_remarks(header)]
    if validation.numbers is not None:
        lines.append(f"the log's own names: {validation.numbers.text}")
    found = validation.found
    if found is None:
        done = "all" if validation.finished else "the first"
        missed = unseen(header.component, header.variant, validation.seen).lines
        return [*lines, f"{done} {read} a run of {whose}{most}; {rate}", *missed]
    if isinstance(found, Inconclusive):
        earlier = "the line" if validation.consumed == 1 else f"the {validation.consumed:,} lines"
        before = f"{earlier} before it may be a run of {whose}{most}"
        return [*lines, f"no answer from line {validation.number:,} on: {found.reason}", before]
    return [
        *lines,
        f"{read} a run of {whose}{most}; then line {found.line:,} cannot have happened",
        *_explained(found, validation),
    ]


def _remarks(header: Header) -> Iterator[str]:
    if header.source:
        yield f"a log of {header.source}"
    if header.specification != SPECIFICATION_VERSION:
        yield f"it was written for specification {header.specification}, and this is {SPECIFICATION_VERSION}"


def _explained(found: Impossible, validation: Validation) -> Iterator[str]:
    first = found.line - len(validation.before)
    yield ""
    for number, text in enumerate((*validation.before, found.text), start=first):
        mark = ">" if number == found.line else " "
        yield f"{mark} {number:>7,}  {text}"
    if found.source:
        yield f"  source: {found.source}"
    yield ""
    if found.reason:
        yield found.reason
        return
    if found.states > 1:
        yield f"{found.states:,} states were possible before it; the attempts that differ least:"
    for tried in found.tried:
        yield "the last possible state: " + (", ".join(_abridged(tried)) or "nothing is observable")
        if tried.operation is not None and tried.outcome is not None:
            yield f"  {operation_text(tried.operation)} is answered {outcome_text(tried.outcome)}"
        yield from (f"  {part.statement}" for part in tried.differences)
    if validation.numbers is not None and validation.numbers.known:
        yield f"in the log, {validation.numbers.known}"


def _abridged(tried: Tried) -> Iterator[str]:
    """The observables, long ones by their beginning."""
    for name, value in tried.before.items():
        if isinstance(value, tuple) and len(value) > SHOWN_INTEGERS:
            yield f"{name} {around(value, value)[1]} of {len(value):,}"
        else:
            yield f"{name} {shown(value)}"
