"""`cacheproof explore`: random configurations of the specification, each explored for a violated property."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cacheproof.command.options import JobsOption, NewSeedOption
from cacheproof.foundation.console import Report, announce, progress
from cacheproof.foundation.errors import ExitStatus, InconclusiveError, InputError
from cacheproof.foundation.junit import Case, CaseStatus, JunitOption, file_to_write, write
from cacheproof.foundation.seeds import new_seed
from cacheproof.foundation.workers import cores
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named, components, variant_named
from cacheproof.model.scope import scopes_of
from cacheproof.model.target import TargetError
from cacheproof.model.wire import config_to_message
from cacheproof.model.wording import count, explaining, settings
from cacheproof.releases.repeating import Repetition, refusal, repeated
from cacheproof.search.campaign import run_name
from cacheproof.search.drawn import Amount, Broken, Drawn, Outcome, Suitable, explore_drawn
from cacheproof.targets.child import SECONDS_TO_ANSWER
from cacheproof.targets.factory import FORMS, open_target
from cachespec.kernel import NORMATIVE

PANEL = "Check and prove"
Repetitions = dict[tuple[str, str, str], Repetition]
"""By component, variant and property."""
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
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help=f"Make the calls of each trace on this implementation too: {FORMS}.",
            show_default="none",
        ),
    ] = None,
    seed: NewSeedOption = None,
    jobs: JobsOption = 0,
    junit: JunitOption = None,
) -> Report:
    """Explore random configurations of the specification, and report each property that one of them violates.

    Every reachable state of a configuration is explored, up to a limit. A configuration is a scope with the name
    drawn-SEED-NUMBER, which `check` accepts too. Of each violated property the shortest trace is shown, in the plainest
    configuration that still violates it. With --target and the variant of an era, this looks for violations of a
    release: those of the era are no evidence until the release does the same. Fails if a property is violated.
    """
    file_to_write(junit)
    subjects = [(component, variant_named(component, variant)) for component in _chosen(names, variant)]
    if target is not None:
        for component, known in subjects:
            open_target(target, component, known, SECONDS_TO_ANSWER).close()  # a wrong name costs no exploration
    number = new_seed() if seed is None else seed
    amount = Amount(configurations, first, states, seconds, shrink)
    with progress() as show:
        announce(f"seed {number} (the same configurations again: --seed {number})")
        done = explore_drawn(subjects, number, amount, jobs or cores(), show, announce, _suitable(target))
        again = {} if target is None or done.interrupted else _repeated(target, done.drawn, show)
    broken = [one for drawn in done.drawn for one in drawn.broken.values()]
    write(
        junit, "explore", [case for drawn in done.drawn for case in _cases(drawn, again)], interrupted=done.interrupted
    )
    status = ExitStatus.FELL_SHORT if broken else ExitStatus.AS_EXPECTED
    data = {"seed": number, "whole": done.whole, "variants": [_message(drawn, again) for drawn in done.drawn]}
    lines = [line for one in broken for line in _lines(one, again)]
    return Report(data, [_table(done), *lines, _last_line(done, number)], status, interrupted=done.interrupted)


def _suitable(target: str | None) -> Callable[[AnyComponent, AnyVariant], Suitable]:
    """The configurations in which the target can be compared."""

    def of(component: AnyComponent, variant: AnyVariant) -> Suitable:
        return lambda config: target is None or refusal(target, component, variant, config) is None

    return of


def _repeated(target: str, drawn: Sequence[Drawn], show: Callable[[str], object]) -> Repetitions:
    """What the target does in the calls of each trace."""
    found: Repetitions = {}
    for one in drawn:
        if one.broken:
            show(f"{one.component} {one.variant}: repeating {count(len(one.broken), 'trace')} on {target}")
            component = component_named(one.component)
            violations = [broken.violation for broken in one.broken.values()]
            try:
                made = repeated(target, component, component.variants[one.variant], violations)
            except TargetError as error:
                raise InconclusiveError(f"{target}: {error}") from None
            found |= {(one.component, one.variant, name): each for name, each in made.items()}
    return found


def _listed(component: str, variant: str, name: str) -> list[str]:
    """The catalogue entries for which a scope expects that this variant violates the property."""
    expected = [
        violation
        for scope in scopes_of(component_named(component))
        for violation in scope.expectation(variant).violations
        if violation.property == name
    ]
    return sorted({violation.catalogue for violation in expected})


def _again(one: Broken, again: Repetitions) -> Repetition | None:
    trace = one.violation.trace
    return again.get((trace.component, trace.variant, one.violation.property))


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


def _message(drawn: Drawn, again: Repetitions) -> dict[str, Any]:
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
                "catalogue": _listed(drawn.component, drawn.variant, one.violation.property),
                **({"target": made._asdict()} if (made := _again(one, again)) is not None else {}),
            }
            for one in drawn.broken.values()
        ],
    }


def _lines(one: Broken, again: Repetitions) -> list[str]:
    """What the property says, where it is violated, and the commands that show it."""
    trace, config = one.violation.trace, one.violation.trace.config
    others = f", and {count(one.configurations - 1, 'other configuration')}" if one.configurations > 1 else ""
    name, scope = one.violation.property, one.run.task.scope
    where = f"{count(len(trace.steps), 'operation')}: {scope}{others}"
    listed = _listed(trace.component, trace.variant, name)
    known = ", ".join(listed) or f"no scope of {trace.variant} expects it"
    known = "" if trace.variant == NORMATIVE else f" ({known})"
    hint = f"{explaining(name)}; cacheproof show {run_name(one.run.task)} --property {name}"
    plainer = "plainer configuration" if config != one.run.scope.config else "configuration"
    return [
        f"{trace.component} {trace.variant}: {name} is violated in {where}{known}",
        f"    {name} says: {one.violation.statement} ({hint})",
        f"    {plainer}: {settings(type(config), config_to_message(config))}",
        *(f"    {made.sentence}" for made in [_again(one, again)] if made is not None),
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


def _cases(drawn: Drawn, again: Repetitions) -> list[Case]:
    """One for each violated property, or one that says how much was explored."""
    group, counted = f"explore.{drawn.component}", {"configurations": drawn.configurations, "states": drawn.states}
    failed = [
        Case(group, f"{drawn.variant} {name}", CaseStatus.FAILED, _lines(one, again)[0], "\n".join(_lines(one, again)))
        for name, one in drawn.broken.items()
    ]
    return failed or [Case(group, drawn.variant, CaseStatus.PASSED, "", "", drawn.seconds, counted)]
