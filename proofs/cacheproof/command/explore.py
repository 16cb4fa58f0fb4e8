"""`cacheproof explore`: random configurations of the specification, each explored for a violated property."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cacheproof.catalogue.attribution import Attribution, Certainty, attribution, together
from cacheproof.command.options import JobsOption, NewSeedOption
from cacheproof.foundation.console import Report, announce, progress
from cacheproof.foundation.errors import ExitStatus, InconclusiveError, InputError
from cacheproof.foundation.junit import Case, CaseStatus, JunitOption, file_to_write, write
from cacheproof.foundation.seeds import new_seed
from cacheproof.foundation.workers import cores
from cacheproof.model.finding import Subject
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named, components, variant_named
from cacheproof.model.target import TargetError
from cacheproof.model.trace import Violation
from cacheproof.model.wire import config_to_message
from cacheproof.model.wording import count, explaining, settings
from cacheproof.releases.repeating import Repetition, refusal, refusal_of_all, repeated
from cacheproof.search.drawn import Amount, Broken, Drawn, Outcome, Sort, Sorted, Suitable, explore_drawn
from cacheproof.search.tasks import run_name
from cacheproof.targets.child import SECONDS_TO_ANSWER
from cacheproof.targets.factory import FORMS, open_target
from cachespec.kernel import NORMATIVE

PANEL = "Check and prove"
Repetitions = dict[tuple[str, str, Sort], Repetition]
"""By component, variant and sort of violation."""
TOGETHER = " together with "
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
    unknown: Annotated[
        bool,
        typer.Option(
            "--unknown",
            help="Report only what no entry of the catalogue is known to cause, where a release is compared; with "
            "--target, only what it repeats.",
        ),
    ] = False,
    seed: NewSeedOption = None,
    jobs: JobsOption = 0,
    junit: JunitOption = None,
) -> Report:
    """Explore random configurations of the specification, and report each property that one of them violates.

    Every reachable state of a configuration is explored, up to a limit. A configuration is a scope with the name
    drawn-SEED-NUMBER, which `check` accepts too. Of each violated property the shortest trace is shown, in the plainest
    configuration that still violates it. With --target and the variant of an era, this looks for violations of a
    release: those of the era are no evidence until the release does the same. An entry of the catalogue is named if the
    property holds in these calls once its fault alone is mended; one trace is shown for each cause. Fails if a property
    is violated; with --unknown, only if no entry is known to cause it.
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
        done = explore_drawn(subjects, number, amount, jobs or cores(), show, announce, _suitable(target), _sorts)
        for drawn in done.drawn if not done.interrupted else ():
            drawn.broken = {_of_two_causes(drawn, sort, one, show): one for sort, one in drawn.broken.items()}
        again = {} if target is None or done.interrupted else _repeated(target, done.drawn, show)
    if unknown:
        for drawn in done.drawn:
            drawn.broken = {sort: one for sort, one in drawn.broken.items() if _is_evidence(sort, one, again, target)}
    broken = [(sort, one) for drawn in done.drawn for sort, one in sorted(drawn.broken.items(), key=_known_first)]
    write(
        junit, "explore", [case for drawn in done.drawn for case in _cases(drawn, again)], interrupted=done.interrupted
    )
    unsound = [line for drawn in done.drawn for line in _unsound(drawn)]
    status = ExitStatus.FELL_SHORT if broken or unsound else ExitStatus.AS_EXPECTED
    data = {"seed": number, "whole": done.whole, "variants": [_message(drawn, again) for drawn in done.drawn]}
    lines = [line for sort, one in broken for line in _lines(sort, one, again)]
    return Report(
        data, [_table(done), *lines, *unsound, _last_line(done, number)], status, interrupted=done.interrupted
    )


def _suitable(target: str | None) -> Callable[[AnyComponent, AnyVariant], Suitable]:
    """The configurations in which the target can be compared; without a target, some release of the era."""

    def of(component: AnyComponent, variant: AnyVariant) -> Suitable:
        if target is None:
            return lambda config: refusal_of_all(component, variant, config) is None
        return lambda config: refusal(target, component, variant, config) is None

    return of


def _sorts(component: AnyComponent, variant: AnyVariant) -> Sorted:
    """By the entries of the catalogue that cause a violation of an era."""
    return lambda violation: "" if variant.tag == NORMATIVE else str(_attribution(component, variant, violation))


def _attribution(component: AnyComponent, variant: AnyVariant, violation: Violation) -> Attribution:
    """Which of the known faults of the era causes it."""
    (rule,) = (rule for rule in component.properties() if rule.name == violation.property)
    subject = Subject(component, variant, violation.trace.config)
    return attribution(subject, rule, [step.operation for step in violation.trace.steps])


def _of_two_causes(drawn: Drawn, sort: Sort, one: Broken, show: Callable[[str], object]) -> Sort:
    """A violation of no known cause may have two: either fault violates the property in these calls."""
    if not _is_unknown(sort):
        return sort
    show(f"{drawn.component} {drawn.variant} {sort.property}: looking for two causes")
    component, trace = component_named(drawn.component), one.violation.trace
    (rule,) = (rule for rule in component.properties() if rule.name == sort.property)
    subject = Subject(component, component.variants[drawn.variant], trace.config)
    pair = together(subject, rule, [step.operation for step in trace.steps])
    return sort._replace(cause=TOGETHER.join(pair)) if pair else sort


def _known_first(one: tuple[Sort, Broken]) -> tuple[bool, int, str]:
    """What no entry causes comes last, next to the prompt; then by length and name."""
    sort, broken = one
    return _is_unknown(sort), len(broken.violation.trace.steps), sort.property


def _is_unknown(sort: Sort) -> bool:
    return sort.cause in (Certainty.NEW.value, Certainty.UNATTRIBUTED.value)


def _is_evidence(sort: Sort, one: Broken, again: Repetitions, target: str | None) -> bool:
    """Whether a violation is new: no entry is known to cause it, and a release can show it; the target does."""
    made = _again(sort, one, again)
    shown = made.same if made is not None else target is None and _not_compared(one) is None
    return (not sort.cause or _is_unknown(sort)) and shown


def _not_compared(one: Broken) -> str | None:
    """Why no release of the era has what the configuration asks for."""
    component, trace = component_named(one.run.task.component), one.violation.trace
    return refusal_of_all(component, component.variants[trace.variant], trace.config)


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
            found |= {(one.component, one.variant, sort): each for sort, each in zip(one.broken, made, strict=True)}
    return found


def _again(sort: Sort, one: Broken, again: Repetitions) -> Repetition | None:
    trace = one.violation.trace
    return again.get((trace.component, trace.variant, sort))


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
        "unsound": drawn.unsound,
        "violated": [_violated(drawn, sort, one, again) for sort, one in drawn.broken.items()],
    }


def _violated(drawn: Drawn, sort: Sort, one: Broken, again: Repetitions) -> dict[str, Any]:
    component, made = component_named(drawn.component), _again(sort, one, again)
    known = _attribution(component, component.variants[drawn.variant], one.violation) if sort.cause else Attribution()
    two = sort.cause.split(TOGETHER) if TOGETHER in sort.cause else []
    return {
        "property": sort.property,
        "length": len(one.violation.trace.steps),
        "run": run_name(one.run.task),
        "scope": one.run.task.scope,
        "drawn": config_to_message(one.run.scope.config),
        "configuration": config_to_message(one.violation.trace.config),
        "configurations": one.configurations,
        "catalogue": two or list(known.catalogue),
        "certainty": "together" if two else known.certainty.value if sort.cause else "",
        **({"target": made._asdict()} if made is not None else {}),
        **({"not_compared": why} if made is None and (why := _not_compared(one)) is not None else {}),
    }


def _lines(sort: Sort, one: Broken, again: Repetitions) -> list[str]:
    """What the property says, where it is violated, and the commands that show it."""
    trace, config = one.violation.trace, one.violation.trace.config
    others = f", and {count(one.configurations - 1, 'other configuration')}" if one.configurations > 1 else ""
    name, scope = sort.property, one.run.task.scope
    where = f"{count(len(trace.steps), 'operation')}: {scope}{others}"
    hint = f"{explaining(name)}; cacheproof show {run_name(one.run.task)} --property {name}"
    plainer = "plainer configuration" if config != one.run.scope.config else "configuration"
    return [
        f"{trace.component} {trace.variant}: {name} is violated in {where}{_cause(sort)}",
        f"    {name} says: {one.violation.statement} ({hint})",
        f"    {plainer}: {settings(type(config), config_to_message(config))}",
        *(f"    {sentence}" for sentence in [_of_releases(_again(sort, one, again), one)] if sentence),
    ]


def _of_releases(made: Repetition | None, one: Broken) -> str:
    """What the target does in the calls, or why no release of the era can be asked."""
    if made is not None:
        return made.sentence
    why = _not_compared(one)
    return f"no release is compared in this configuration: {why}" if why is not None else ""


def _unsound(drawn: Drawn) -> list[str]:
    """Where a reduction of the explorer is wrong."""
    return [f"{drawn.component} {drawn.variant} {scope}: {why}" for scope, why in sorted(drawn.unsound.items())]


def _cause(sort: Sort) -> str:
    """The entries that cause it, or that none is known to."""
    if not sort.cause:
        return ""
    return f" ({'no entry of the catalogue is known to cause it' if _is_unknown(sort) else f'caused by {sort.cause}'})"


def _table(done: Outcome) -> Table:
    numbers = (
        "configurations",
        "exhausted",
        "states",
        "properties put to the test",
        "violated",
        "without a known cause",
    )
    table = Table("component", "variant", *(Column(name, justify="right") for name in numbers))
    for one in done.drawn:
        rules = component_named(one.component).properties()
        tested = f"{len(one.witnessed)} of {len(rules)}"
        counted = (f"{number:,}" for number in (one.configurations, one.exhausted, one.states))
        violated, unknown = (
            {sort.property for sort in those} for those in (one.broken, filter(_is_unknown, one.broken))
        )
        without = "" if one.variant == NORMATIVE else str(len(unknown))
        table.add_row(one.component, one.variant, *counted, tested, str(len(violated)), without)
    return table


def _last_line(done: Outcome, seed: int) -> str:
    explored, states = (sum(getattr(one, name) for one in done.drawn) for name in ("configurations", "states"))
    ended = "" if done.whole or done.interrupted else "; the time was over before the others began"
    return f"{count(explored, 'configuration')}, {states:,} states, seed {seed}{ended}"


def _cases(drawn: Drawn, again: Repetitions) -> list[Case]:
    """One for each violated property, or one that says how much was explored."""
    group, counted = f"explore.{drawn.component}", {"configurations": drawn.configurations, "states": drawn.states}
    failed = [
        Case(
            group,
            f"{drawn.variant} {' '.join(filter(None, sort))}",
            CaseStatus.FAILED,
            _lines(sort, one, again)[0],
            "\n".join(_lines(sort, one, again)),
        )
        for sort, one in drawn.broken.items()
    ]
    failed += [Case(group, f"{drawn.variant} unsound", CaseStatus.FAILED, line, line) for line in _unsound(drawn)]
    return failed or [Case(group, drawn.variant, CaseStatus.PASSED, "", "", drawn.seconds, counted)]
