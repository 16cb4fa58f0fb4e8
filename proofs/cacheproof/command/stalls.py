"""`cacheproof stalls`: requests that a scheduler never serves, looked for in random loads."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cacheproof.command.options import AnswerOption, NewSeedOption
from cacheproof.foundation.console import Report, announce, progress
from cacheproof.foundation.errors import ExitStatus, InconclusiveError, InputError
from cacheproof.foundation.junit import STATUSES, Case, CaseStatus, JunitOption, file_to_write, write
from cacheproof.foundation.seeds import new_seed
from cacheproof.lockstep.stalls import Sort, Stall, StallSearch, search
from cacheproof.lockstep.tally import Limit
from cacheproof.model.observed import observation_texts
from cacheproof.model.registry import component_named
from cacheproof.model.store import name_of, save
from cacheproof.model.target import TargetError
from cacheproof.model.wire import config_to_message, observations_to_message, operation_to_message, outcome_to_message
from cacheproof.model.wording import operation_text, outcome_text, settings
from cacheproof.present.show.plain import as_text
from cacheproof.targets.child import SECONDS_TO_ANSWER
from cacheproof.targets.factory import FORMS, open_target
from cachespec.scheduler import Config

PANEL = "Your implementation"

SECONDS = 60.0
COMPONENT = "scheduler"
GROUP = f"stalls.{COMPONENT}"


def command(
    target: Annotated[str, typer.Argument(metavar="TARGET", help=f"The scheduler under test: {FORMS}.")],
    *,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0.001, help="Time limit of the search, in seconds.", show_default="60 without --steps, otherwise none"
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Number of calls.", show_default="limited by --seconds")
    ] = None,
    seed: NewSeedOption = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SORT",
            help="What to look for: stall, circling, failed or diverged. May be repeated.",
            show_default="all",
        ),
    ] = None,
    wide: Annotated[
        bool,
        typer.Option("--wide", help="Also draw loads with draft tokens, aborts, unchunked prompts and unsplit items."),
    ] = False,
    answer: AnswerOption = SECONDS_TO_ANSWER,
    junit: JunitOption = None,
) -> Report:
    """Drive a scheduler with random loads, and report requests that starve.

    Each request of a load can be served. A stall is reported if, after all arrivals, a scheduler with N requests makes
    2 N steps that schedule nothing and change nothing. A finding is minimised: fewer requests, then fewer calls.
    """
    file_to_write(junit)
    component = component_named(COMPONENT)
    wanted = sorts(only or [])
    number = new_seed() if seed is None else seed
    driven = open_target(target, component, component.normative, answer)
    announce(f"seed {number} (the same search again: --seed {number})")
    limit = Limit(steps, SECONDS if seconds is None and steps is None else seconds)
    try:
        with progress() as show:
            done = search(driven, limit=limit, seed=number, wanted=wanted, wide=wide, progress=show)
    except TargetError as error:
        write(junit, "stalls", [Case(GROUP, target, CaseStatus.ERROR, str(error), properties={"seed": number})])
        raise InconclusiveError(f"{target}: {error}") from None
    finally:
        driven.close()
    status = ExitStatus.AS_EXPECTED if done.finding is None else ExitStatus.FELL_SHORT
    told, shown = data(target, done), rendered(target, done)
    save("stalls", name_of(COMPONENT, target), {"component": COMPONENT, **told, "interrupted": done.interrupted})
    text = "\n".join(map(as_text, shown))
    counted = {"seed": done.seed, "calls": done.tally.steps, "loads": done.loads}
    one = Case(GROUP, target, STATUSES[status], text.partition("\n")[0], text, done.seconds, counted)
    write(junit, "stalls", [one], interrupted=done.interrupted)
    return Report(told, shown, status, interrupted=done.interrupted)


def sorts(names: list[str]) -> tuple[Sort, ...]:
    """What is asked for; everything where nothing is."""
    known = {sort.name.lower(): sort for sort in Sort}
    for name in names:
        if name not in known:
            raise InputError(f"there is no sort '{name}': there are {', '.join(known)}")
    return tuple(known[name] for name in names) or tuple(Sort)


def data(target: str, done: StallSearch) -> dict[str, Any]:
    """For a machine."""
    return {
        "target": target,
        "seed": done.seed,
        "calls": done.tally.steps,
        "runs": done.tally.episodes,
        "loads": done.loads,
        "seconds": round(done.seconds, 3),
        "passed_over": {sort.name.lower(): times for sort, times in sorted(done.passed.items(), key=str)},
        "finding": None if done.finding is None else message_of(done.finding),
    }


def message_of(finding: Stall) -> dict[str, Any]:
    """Operations and configuration as the protocol has them."""
    return {
        "sort": finding.sort.name.lower(),
        "says": finding.sort.value,
        "config": config_to_message(finding.config),
        "operations": [
            {**operation_to_message(call), **outcome_to_message(outcome)}
            for call, outcome in zip(finding.calls, finding.outcomes, strict=True)
        ],
        "shows": observations_to_message(finding.shown),
        "idle": finding.idle,
    }


def rendered(target: str, done: StallSearch) -> list[Any]:
    """What was done, and not more than that; and the calls."""
    amount = f"{done.tally.steps:,} calls in {done.tally.episodes:,} runs of {done.loads:,} loads, seed {done.seed}"
    passed = [f"{times} times {sort.name.lower()}: {sort.value}" for sort, times in done.passed.items()]
    if done.finding is None:
        return [f"{target}: nothing of what was looked for was found in {amount}", *passed]
    finding = done.finding
    table = Table(*(Column(name, overflow="fold") for name in ("", "call", "answer")))
    for place, (call, outcome) in enumerate(zip(finding.calls, finding.outcomes, strict=True), 1):
        table.add_row(str(place), operation_text(call), outcome_text(outcome))
    shown = observation_texts(component_named("scheduler"), finding.shown)
    idle = f"; then {finding.idle} steps were asked for, and each scheduled nothing" if finding.idle else ""
    return [
        f"{target}: {finding.sort.value} ({amount})",
        f"configuration: {settings(Config, config_to_message(finding.config))}",
        table,
        f"shown at the end: {'; '.join(shown)}{idle}",
        *passed,
    ]
