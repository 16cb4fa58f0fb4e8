"""`cacheproof explore`: random configurations of the specification, each explored for a violated property."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cacheproof.command.options import JobsOption, NewSeedOption
from cacheproof.foundation.console import Report, announce, progress
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.foundation.junit import Case, CaseStatus, JunitOption, file_to_write, write
from cacheproof.foundation.seeds import new_seed
from cacheproof.foundation.workers import cores
from cacheproof.model.registry import AnyComponent, component_named, components, variant_named
from cacheproof.model.wire import config_to_message
from cacheproof.model.wording import count, explaining, settings
from cacheproof.search.campaign import run_name
from cacheproof.search.drawn import Amount, Broken, Drawn, Outcome, explore_drawn
from cachespec.kernel import NORMATIVE

PANEL = "Check and prove"
MOST_CONFIGURATIONS = 10_000
"""In one call; `--from` goes on."""
LARGEST_NUMBER = 1_000_000


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMPONENT", help="Components to explore.", show_default="all"),
    ] = None,
    *,
    variant: Annotated[str, typer.Option(help="The variant to explore, given by tag or title.")] = NORMATIVE,
    configurations: Annotated[
        int, typer.Option(min=1, max=MOST_CONFIGURATIONS, help="Number of random configurations of each component.")
    ] = 100,
    first: Annotated[
        int,
        typer.Option("--from", min=0, max=LARGEST_NUMBER, metavar="NUMBER", help="Number of the first configuration."),
    ] = 0,
    states: Annotated[int, typer.Option(min=1, help="End the exploration of a configuration here.")] = 100_000,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Time limit for all, in seconds.", show_default="none")
    ] = None,
    shrink: Annotated[
        float,
        typer.Option(
            min=0, metavar="SECONDS", help="Time limit to find a plainer configuration, for each violated property."
        ),
    ] = 10.0,
    seed: NewSeedOption = None,
    jobs: JobsOption = 0,
    junit: JunitOption = None,
) -> Report:
    """Explore random configurations of the specification, and report each property that one of them violates.

    Every reachable state of a configuration is explored, up to a limit. A configuration is a scope with the name
    drawn-SEED-NUMBER, which `check` accepts too. Of each violated property the shortest trace is shown, in the plainest
    configuration that still violates it. Fails if a property is violated.
    """
    file_to_write(junit)
    subjects = [(component, variant_named(component, variant)) for component in _chosen(names, variant)]
    number = new_seed() if seed is None else seed
    amount = Amount(configurations, first, states, seconds, shrink)
    with progress() as show:
        announce(f"seed {number} (the same configurations again: --seed {number})")
        done = explore_drawn(subjects, number, amount, jobs or cores(), show, announce)
    broken = [one for drawn in done.drawn for one in drawn.broken.values()]
    write(junit, "explore", [case for drawn in done.drawn for case in _cases(drawn)], interrupted=done.interrupted)
    status = ExitStatus.FELL_SHORT if broken else ExitStatus.AS_EXPECTED
    data = {"seed": number, "whole": done.whole, "variants": [_message(drawn) for drawn in done.drawn]}
    lines = [line for one in broken for line in _lines(one)]
    return Report(data, [_table(done), *lines, _last_line(done, number)], status, interrupted=done.interrupted)


def _chosen(names: list[str] | None, variant: str) -> list[AnyComponent]:
    """Those that are named; otherwise those that have this variant."""
    if names:
        return [component_named(name) for name in dict.fromkeys(names)]
    chosen = [component for component in components().values() if _has(component, variant)]
    if not chosen:
        raise InputError(f"no component has a variant '{variant}': see `cacheproof list`")
    return chosen


def _has(component: AnyComponent, variant: str) -> bool:
    return any(variant in (tag, one.title) for tag, one in component.variants.items())


def _message(drawn: Drawn) -> dict[str, Any]:
    return {
        "component": drawn.component,
        "variant": drawn.variant,
        "configurations": drawn.configurations,
        "exhausted": drawn.exhausted,
        "states": drawn.states,
        "transitions": drawn.transitions,
        "seconds": round(drawn.seconds, 3),
        "witnessed": sorted(drawn.witnessed),
        "violated": [
            {
                "property": one.violation.property,
                "length": len(one.violation.trace.steps),
                "run": run_name(one.run.task),
                "scope": one.run.task.scope,
                "drawn": config_to_message(one.run.scope.config),
                "configuration": config_to_message(one.violation.trace.config),
                "configurations": one.configurations,
            }
            for one in drawn.broken.values()
        ],
    }


def _lines(one: Broken) -> list[str]:
    """What the property says, where it is violated, and the commands that show it."""
    trace, config = one.violation.trace, one.violation.trace.config
    others = f", and {count(one.configurations - 1, 'other configuration')}" if one.configurations > 1 else ""
    name, scope = one.violation.property, one.run.task.scope
    where = f"{count(len(trace.steps), 'operation')}: {scope}{others}"
    hint = f"{explaining(name)}; cacheproof show {run_name(one.run.task)} --property {name}"
    plainer = "plainer configuration" if config != one.run.scope.config else "configuration"
    return [
        f"{trace.component} {trace.variant}: {name} is violated in {where}",
        f"    {name} says: {one.violation.statement} ({hint})",
        f"    {plainer}: {settings(type(config), config_to_message(config))}",
    ]


def _table(done: Outcome) -> Table:
    numbers = ("configurations", "exhausted", "states", "properties put to the test", "violated")
    table = Table("component", "variant", *(Column(name, justify="right") for name in numbers))
    for one in done.drawn:
        rules = component_named(one.component).properties()
        tested = f"{len(one.witnessed)} of {len(rules)}"
        counted = (f"{number:,}" for number in (one.configurations, one.exhausted, one.states))
        table.add_row(one.component, one.variant, *counted, tested, str(len(one.broken)))
    return table


def _last_line(done: Outcome, seed: int) -> str:
    explored, states = (sum(getattr(one, name) for one in done.drawn) for name in ("configurations", "states"))
    ended = "" if done.whole or done.interrupted else "; the time was over before the others began"
    return f"{count(explored, 'configuration')}, {states:,} states, seed {seed}{ended}"


def _cases(drawn: Drawn) -> list[Case]:
    """One for each violated property, or one that says how much was explored."""
    group, counted = f"explore.{drawn.component}", {"configurations": drawn.configurations, "states": drawn.states}
    failed = [
        Case(group, f"{drawn.variant} {name}", CaseStatus.FAILED, _lines(one)[0], "\n".join(_lines(one)))
        for name, one in drawn.broken.items()
    ]
    return failed or [Case(group, drawn.variant, CaseStatus.PASSED, "", "", drawn.seconds, counted)]
