"""`cacheproof replay`: recorded workloads through the specification, or through a target beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from cacheproof.foundation.console import Report, announce, interruptible, progress
from cacheproof.foundation.errors import ExitStatus, InconclusiveError, InputError, shortened
from cacheproof.foundation.junit import STATUSES, Case, JunitOption, file_to_write, write
from cacheproof.foundation.limits import MEGABYTES, memory, too_large
from cacheproof.model.registry import component_named, variant_named
from cacheproof.replay.options import pairs
from cacheproof.replay.readers import read, reader_for
from cacheproof.replay.record import data_of, keep, status_of
from cacheproof.replay.result import BY_CLOCK, CHECK_EVERY, ReplayResult, Setting
from cacheproof.replay.run import replay_of
from cacheproof.replay.shipped import CHECK_EVERY as CHECK_EVERY_SHIPPED
from cacheproof.replay.shipped import Replayed, replay_shipped
from cacheproof.replay.workload import Workload
from cacheproof.targets.factory import FORMS, open_target
from cachespec.kernel import NORMATIVE

PANEL = "Records and replay"

INFINITE = "infinite"
CLOCK = "clock"
LONGEST_COUNT = 12
"""Digits of a capacity or a concurrency."""


def command(
    context: typer.Context,
    traces: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="TRACE",
            help="Trace files of one format, replayed in order.",
            show_default="none: required unless --shipped",
        ),
    ] = None,
    *,
    component: Annotated[
        str,
        typer.Option(help="The component that serves the workload.", show_default="none: required unless --shipped"),
    ] = "",
    capacity: Annotated[
        str,
        typer.Option(
            metavar="N",
            help="The cache capacity in units of the trace, or 'infinite'.",
            show_default="none: required unless --shipped",
        ),
    ] = "",
    variant: Annotated[str, typer.Option(help="The variant to replay, given by tag or title.")] = NORMATIVE,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY[=VALUE]",
            help="An option of the trace's reader. May be repeated. TRACE --help lists them.",
            show_default="those of the reader",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help=f"An implementation to compare with the specification: {FORMS}.", show_default="none"),
    ] = None,
    check_every: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Check all properties once in this many requests. 0: only at the end."),
    ] = CHECK_EVERY,
    concurrency: Annotated[
        str,
        typer.Option(metavar="N", help="Number of concurrent requests, or 'clock' for the times in the trace."),
    ] = "1",
    shipped: Annotated[
        bool,
        typer.Option(
            "--shipped", help="Replay all trace slices of the package, and compare the hits with the known counts."
        ),
    ] = False,
    megabytes: Annotated[
        int, typer.Option("--memory", min=64, metavar="MB", help="Memory limit of reading and replaying, in megabytes.")
    ] = MEGABYTES,
    junit: JunitOption = None,
    help_: Annotated[
        bool, typer.Option("--help", help="Show this message. With a TRACE, also show the options of its reader.")
    ] = False,
) -> Report:
    """Replay a recorded workload through the specification, and check properties during the replay."""
    if help_:
        return _help(context, traces or [])
    file_to_write(junit)
    if shipped:
        if traces or component:
            raise InputError("--shipped takes neither a trace nor a component")
        return _shipped(junit)
    if not traces or not component or not capacity:
        raise InputError("replay needs a TRACE, --component and --capacity, or --shipped")
    chosen, options = component_named(component), pairs(option or [])
    with _bounded(megabytes):
        workload = read(traces, options)
    setting = Setting(
        component=chosen,
        variant=variant_named(chosen, variant),
        workload=workload,
        capacity=_capacity(capacity, workload),
        check_every=check_every,
        concurrency=_concurrency(concurrency),
    )
    result, interrupted = _replay(setting, target, megabytes)
    data = data_of(setting, result, traces, options, target=target, interrupted=interrupted)
    keep(data)
    amiss = [violation.sentence() for violation in result.violations]
    write(junit, "replay", [_case(setting, result, traces[0].name, amiss, target)], interrupted=interrupted)
    return Report(data, _rendered(setting, result, target), status_of(result), interrupted=interrupted)


def _case(setting: Setting, result: ReplayResult, name: str, amiss: list[str], target: str | None = None) -> Case:
    """A replay for a CI service."""
    beside = f" beside {target}" if target else ""
    told = {"requests": result.requests, "events": result.events, "workload": setting.workload.title}
    told |= {} if setting.workload.seed is None else {"seed": setting.workload.seed}
    status = STATUSES[ExitStatus.FELL_SHORT if amiss else ExitStatus.AS_EXPECTED]
    where = f"{name}, {setting.variant.tag}, capacity {setting.capacity}{beside}"
    message = amiss[0] if amiss else ""
    return Case(f"replay.{setting.component.name}", where, status, message, "\n".join(amiss), result.seconds, told)


def _capacity(text: str, workload: Workload) -> int:
    if text == INFINITE:
        return workload.infinite
    return _count("capacity", text, INFINITE)


def _concurrency(text: str) -> int:
    if text == CLOCK:
        return BY_CLOCK
    return _count("concurrency", text, CLOCK)


def _count(what: str, text: str, word: str) -> int:
    """A count that may also be given by a word."""
    if not text.isascii() or not text.isdigit() or len(text) > LONGEST_COUNT or int(text) == 0:
        raise InputError(
            f"the {what} is an integer from 1 to {'9' * LONGEST_COUNT}, or '{word}', not '{shortened(text)}'"
        )
    return int(text)


@contextmanager
def _bounded(megabytes: int) -> Iterator[None]:
    """Work that takes more memory ends with one line: a number in a trace may ask for any number of blocks."""
    try:
        with memory(megabytes):
            yield
    except (MemoryError, OverflowError):
        raise InconclusiveError(f"the replay {too_large(megabytes)}, or raise --memory") from None


def _replay(setting: Setting, target: str | None, megabytes: int) -> tuple[ReplayResult, bool]:
    """The replay, as far as it came. The target is opened before: a child would inherit the limit of memory."""
    workload = setting.workload
    opened = None if target is None else open_target(target, setting.component, setting.variant)
    with nullcontext() if opened is None else closing(opened), _bounded(megabytes):
        replay = replay_of(setting, opened)
        announce(workload.title + ("" if workload.seed is None else f", seed {workload.seed}"))
        with progress() as show, interruptible() as stop:
            replay.run(show)
    return replay.result, stop.happened


def _rendered(setting: Setting, result: ReplayResult, target: str | None) -> list[Any]:
    """What a person reads; a composed load is called that."""
    workload = setting.workload
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    rows = {
        "workload": workload.title,
        "component": f"{setting.component.name}, {setting.variant.title}",
        "capacity": f"{setting.capacity:,} {workload.unit}",
        "requests": f"{result.requests:,}" + _aside(waited=result.waited, rejected=result.rejected),
        "in flight": f"{result.in_flight:,} at most" + _longest_wait(result),
        **(_rounds(result) if result.rounds else _hits(result)),
        **({"peaks": ", ".join(f"{value:,} {name}" for name, value in result.peaks.items())} if result.peaks else {}),
        "events": f"{result.events:,} in {result.seconds:.1f} s, {result.events_per_second:,.0f} a second",
        "checked": _checked(setting, result, target),
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return [table, *(f"violated: {violation.sentence()}" for violation in result.violations)]


def _hits(result: ReplayResult) -> dict[str, str]:
    return {"references": f"{result.references:,}", "hits": f"{result.hits:,} ({100 * result.hit_ratio:.2f} %)"}


def _rounds(result: ReplayResult) -> dict[str, str]:
    return {
        "rounds": f"{result.rounds:,}" + _aside(preemptions=result.preempted),
        "tokens": f"{result.tokens:,} scheduled, {result.least} at least for a request in a round",
    }


def _longest_wait(result: ReplayResult) -> str:
    return f", the longest wait {result.longest_wait:.2f} s" if result.longest_wait else ""


def _aside(**counts: int) -> str:
    parts = [f"{count:,} {name}" for name, count in counts.items() if count]
    return f" ({', '.join(parts)})" if parts else ""


def _checked(setting: Setting, result: ReplayResult, target: str | None) -> str:
    every = f"one request of {setting.check_every}" if setting.check_every else "the end"
    parts = [
        f"{result.constant_checks:,} constant-time checks",
        f"every property of {result.full_states:,} states and {result.full_steps:,} steps ({every})",
    ]
    return "; ".join(parts + ([f"{result.compared:,} outcomes of {target}"] if target else []))


@dataclass(frozen=True, slots=True)
class _Usage:
    """What the parser knows; it prints that itself, so that it is asked only when there is something to print."""

    context: typer.Context

    def __rich__(self) -> str:
        return self.context.get_help()


def _help(context: typer.Context, traces: list[Path]) -> Report:
    """The options of the verb, and of each trace's reader."""
    parts: list[Any] = [_Usage(context)]
    options = {}
    for reader in {reader_for(path).name: reader_for(path) for path in traces}.values():
        parts.append(f"options of a {reader.name} trace ({reader.title}), given as --option KEY=VALUE:")
        parts += [f"  {each.name}: {each.help}; {each.takes}; {each.default} by default" for each in reader.options]
        options[reader.name] = {
            each.name: {"default": each.default, "takes": each.takes, "help": each.help} for each in reader.options
        }
    return Report({"options": options}, parts)


# The slices that come with the package ------------------------------------------------------------------------------


def _shipped(junit: Path | None) -> Report:
    """All of them through all components that serve workloads, compared with the counts that are known."""
    done: list[Replayed] = []
    with progress() as show, interruptible() as stop:
        for each in replay_shipped(show):
            done.append(each)
            show(f"{len(done)} replays")
    runs = [_shipped_data(each) for each in done]
    amiss = [line for each in done for line in _complaints(each)]
    cases = [_case(each.setting, each.result, each.listed.trace.name, list(_complaints(each))) for each in done]
    write(junit, "replay", cases, interrupted=stop.happened)
    status = ExitStatus.AS_EXPECTED if all(each.as_expected for each in done) else ExitStatus.FELL_SHORT
    requests = sum(each.result.requests for each in done)
    good = sum(each.as_expected for each in done)
    checked = (
        f"{good} of {len(done)} replays as expected, {requests:,} requests; constant-time checks after every call, "
        f"every property for one request of {CHECK_EVERY_SHIPPED}, or of as many as is listed, and at the end"
    )
    return Report({"runs": runs, "amiss": amiss}, [_shipped_table(done), *amiss, checked], status, stop.happened)


def _shipped_data(each: Replayed) -> dict[str, Any]:
    data = data_of(each.setting, each.result, [each.listed.trace], each.listed.options)
    data |= {"expected_hits": each.expected_hits, "as_expected": each.as_expected}
    keep({**data, "status": (ExitStatus.AS_EXPECTED if each.as_expected else ExitStatus.FELL_SHORT).name.lower()})
    return data


def _complaints(each: Replayed) -> list[str]:
    """What is not as expected, one line each."""
    name = f"{each.setting.component.name}: {each.listed.trace.name}, capacity {each.setting.capacity}"
    lines = [f"{name}: violated: {violation.sentence()}" for violation in each.result.violations]
    if not each.as_expected and not lines:
        result, listed = each.result, each.listed
        lines.append(
            f"{name}: {result.requests} requests, {result.references} references and {result.hits} hits, where "
            f"{listed.requests}, {listed.references} and {each.expected_hits} were expected"
        )
    return lines


def _shipped_table(done: list[Replayed]) -> Table:
    """A line for each listed run, and the hit ratio of each component."""
    names = list(dict.fromkeys(each.setting.component.name for each in done))
    table = Table(title="recorded workloads (slices): hit ratio by item", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("workload", overflow="fold", min_width=12)
    for heading in ("capacity", "requests", *names):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("as expected", overflow="fold", min_width=8)
    lines: dict[int, list[Replayed]] = {}
    for each in done:
        lines.setdefault(id(each.listed), []).append(each)
    for line in lines.values():
        ratios = {each.setting.component.name: _ratio(each.result) for each in line}
        first = line[0]
        table.add_row(
            f"{first.listed.trace.name.partition('.')[0].removesuffix('_slice')}: {first.setting.workload.title}",
            f"{first.setting.capacity:,} {first.setting.workload.unit}",
            f"{first.result.requests:,}",
            *(ratios.get(name, "") for name in names),
            "yes" if all(each.as_expected for each in line) else "NO",
        )
    return table


def _ratio(result: ReplayResult) -> str:
    counted = f"{result.rounds:,} rounds" if result.rounds else f"{100 * result.hit_ratio:.1f} %"
    return counted + (" !" if result.violations else "")
