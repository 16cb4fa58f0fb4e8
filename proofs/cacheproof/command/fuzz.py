"""`cacheproof fuzz`: random runs of a target beside the specification."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cacheproof.command.options import AnswerOption, NewSeedOption, WithoutOption
from cacheproof.foundation.cluster import OnOption, cluster_on
from cacheproof.foundation.console import Report, announce, progress
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.foundation.junit import STATUSES, Case, JunitOption, file_to_write
from cacheproof.foundation.junit import write as write_junit
from cacheproof.foundation.partial import AllowPartialOption, worded
from cacheproof.foundation.seeds import new_seed
from cacheproof.foundation.workers import MOST_PROCESSES
from cacheproof.lockstep.campaign import Campaign
from cacheproof.lockstep.declaring import DeviationOption
from cacheproof.lockstep.macros.campaign import REQUESTS
from cacheproof.lockstep.macros.plan import MacroPlan, loads_of, perform_macros
from cacheproof.lockstep.plan import (
    DRIVERS,
    PROFILES,
    Plan,
    left_out_from,
    perform,
    subject_from,
    subjects_from,
)
from cacheproof.lockstep.showing import agreeing_without, never_shown, rules_message
from cacheproof.lockstep.spread import spread
from cacheproof.lockstep.tally import Limit
from cacheproof.model.finding import Breakdown, Difference, Finding, Subject
from cacheproof.model.finding_json import finding_to_message
from cacheproof.model.mixture import with_deviations
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.store import name_of, save
from cacheproof.model.trace import Violation
from cacheproof.model.wire import config_to_message
from cacheproof.model.wording import count, remarks
from cacheproof.present import macros_report as report
from cacheproof.present.show.formats import FORMATS, folder_to_write, write_files
from cacheproof.present.show.plain import as_text, finding_as_text
from cacheproof.present.show.reading import Reading
from cacheproof.present.unseen import unseen
from cacheproof.targets.child import SECONDS_TO_ANSWER
from cacheproof.targets.factory import FORMS
from cachespec.kernel import NORMATIVE

PANEL = "Your implementation"


def command(
    component: Annotated[str, typer.Argument(metavar="COMPONENT", help="The component that the target implements.")],
    *,
    target: Annotated[str, typer.Option(help=f"The implementation under test: {FORMS}.")],
    variant: Annotated[str | None, typer.Option(help="The variant to compare with.", show_default="normative")] = None,
    scope: Annotated[
        str | None,
        typer.Option(
            help="The scope that gives the configuration.",
            show_default="every scope of the variant, in turn; with --config the first one",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Replace a value of the configuration. May be repeated.",
            show_default="the values of the scope",
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Number of calls.", show_default="that of --profile")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Time limit of the search, in seconds.", show_default="none")
    ] = None,
    seed: NewSeedOption = None,
    profile: Annotated[str, typer.Option(help="Default budget: ci (2,000 calls) or nightly (100,000 calls).")] = "ci",
    driver: Annotated[
        str, typer.Option(help="What draws the calls: hypothesis, or lockstep (faster, for long runs).")
    ] = "hypothesis",
    without: WithoutOption = None,
    deviation: DeviationOption = None,
    macros: Annotated[
        bool,
        typer.Option(
            "--macros", help="Call in bursts of many requests. Not every component has bursts: see cacheproof list."
        ),
    ] = False,
    requests: Annotated[
        int | None,
        typer.Option(min=1, help="With --macros: requests per generated load.", show_default=str(REQUESTS)),
    ] = None,
    blocks: Annotated[
        int | None,
        typer.Option(min=1, help="With --macros: blocks per generated load.", show_default="drawn anew for each load"),
    ] = None,
    answer: AnswerOption = SECONDS_TO_ANSWER,
    on: OnOption = "",
    split: Annotated[
        int,
        typer.Option(
            min=0,
            max=MOST_PROCESSES,
            help="With --on, the number of workers. Each makes a part of the calls. 0: one for each core.",
        ),
    ] = 0,
    examples: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Keep failing examples in this Redis server (redis://HOST:PORT).",
            show_default="in .cacheproof/hypothesis",
        ),
    ] = "",
    write: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the finding to this folder, in every format.", show_default="no files"),
    ] = None,
    allow_partial: AllowPartialOption = False,
    junit: JunitOption = None,
) -> Report:
    """Compare an implementation with the specification on random calls, and minimise the first difference.

    The calls are shared by all scopes of the component, and by random settings around theirs unless --scope or
    --config is given. Calls that change something, or that end in a rare way, are drawn more often. A scope whose
    configuration the target refuses is left out, and named.

    The next run begins with the failing examples of earlier runs, which are in .cacheproof/hypothesis. A run with
    --seed does not use them.

    With --on, each worker makes a part of the calls with its own seed. Of each sort of finding the shortest one is
    minimised and shown. The same --seed and --split repeat the run.

    With --macros, many requests make the same call in one burst. The loads have the sizes of --requests and --blocks,
    or the configuration of --scope.
    """
    file_to_write(junit)
    if deviation:
        variant = with_deviations(variant, deviation)
    amount = PROFILES[_one_of("profile", profile, PROFILES)]
    limit = Limit(amount.steps if steps is None and seconds is None else steps, seconds)
    if macros:
        if without or driver != "hypothesis":
            raise InputError("--without and --driver are of single calls, and not of --macros")
        if on or examples:
            raise InputError("--on and --examples are of single calls, and not of --macros")
        chosen, given = component_named(component), bool(scope or config)
        loads = loads_of(
            chosen, requests, blocks, subject_from(component, variant, scope, config or [])[0].config if given else None
        )
        against = variant_named(chosen, variant or NORMATIVE)
        number = new_seed() if seed is None else seed
        made = MacroPlan(chosen, against, scope or "", loads, target, limit, number, answer)
        return _with_macros(made, write, junit)
    if requests is not None or blocks is not None:
        raise InputError("--requests and --blocks are for --macros: otherwise say --scope or --config")
    plan = Plan(
        subjects=subjects_from(component, variant, scope, config or []),
        target=target,
        limit=limit,
        seed=new_seed() if seed is None else seed,
        reuse=seed is None,
        profile=amount,
        driver=_one_of("driver", driver, DRIVERS),
        left_out=left_out_from(component_named(component), without or []),
        seconds_to_answer=answer,
        around=scope is None and not config,
        examples=examples,
    )
    if split and not on:
        raise InputError("--split needs --on: the cluster whose workers share the calls")
    if examples and driver != "hypothesis":
        raise InputError("--examples is for the driver hypothesis")
    if write is not None:
        folder_to_write(write)
    with progress() as show, cluster_on(on, split) as cluster:
        again = f"--seed {plan.seed}" + (f" --on {on} --split {cluster.workers}" if cluster is not None else "")
        announce(f"seed {plan.seed} (the same run again: {again})")
        campaign = perform(plan, show) if cluster is None else spread(plan, cluster, show)
    files = [] if campaign.finding is None or write is None else write_files(campaign.finding, write)
    partial = "" if allow_partial else _partial(plan, campaign)
    status = _status(campaign, partial)
    data = {**_data(plan, campaign, files), "partial": partial}
    save("fuzz", data["run"], data)
    write_junit(junit, "fuzz", [_case(plan, campaign, status, partial)], interrupted=campaign.interrupted)
    shown = [*_rendered(plan, campaign, files), *([worded(partial)] if partial else [])]
    return Report(data, shown, status, interrupted=campaign.interrupted)


def _with_macros(plan: MacroPlan, write: Path | None, junit: Path | None) -> Report:
    if write is not None:
        folder_to_write(write)
    announce(f"seed {plan.seed} (the same run again: --seed {plan.seed})")
    with progress() as show:
        done = perform_macros(plan, show)
    files = [] if write is None else report.write_macros(plan, done, write)
    data = report.data_of(plan, done, files)
    save("fuzz", data["run"], data)
    parts = report.rendered(plan, done, files)
    head, *rest = "\n".join(map(as_text, parts)).splitlines()
    told = {"seed": plan.seed, "steps": done.tally.steps, "macros": done.tally.macros}
    name = f"{plan.target} beside {plan.variant.tag}, in bursts"
    status = STATUSES[report.status(done)]
    one = Case(f"fuzz.{plan.component.name}", name, status, head, "\n".join(rest), done.seconds, told)
    write_junit(junit, "fuzz", [one], interrupted=done.interrupted)
    return Report(data, parts, report.status(done), interrupted=done.interrupted)


def _one_of(what: str, given: str, known: Iterable[str]) -> str:
    if given not in known:
        raise InputError(f"there is no {what} '{given}': there are {', '.join(known)}")
    return given


def _run_name(plan: Plan) -> str:
    """Under which the run is kept; a later one of the same target replaces it."""
    return name_of(plan.subject.component.name, plan.subject.variant.tag, plan.target)


def _subject(plan: Plan, campaign: Campaign) -> Subject:
    """What the finding is about; the first subject without one."""
    finding = campaign.finding
    return plan.subject if finding is None else replace(plan.subject, config=finding.trace.config)


def _scope(plan: Plan, campaign: Campaign) -> str:
    """The scope of the finding, or the only one; empty where there are several, or the settings are of none."""
    return plan.scope if campaign.finding is None else campaign.scope


def _partial(plan: Plan, campaign: Campaign) -> str:
    """Why a run without a finding says little."""
    named = (kind.wire_name() for kind in plan.subject.variant.transitions)
    return "" if campaign.finding is not None else campaign.tally.partial(named)


def _status(campaign: Campaign, partial: str) -> ExitStatus:
    if isinstance(campaign.finding, Breakdown) and not campaign.finding.crash:
        return ExitStatus.INCONCLUSIVE
    if campaign.finding is not None:
        return ExitStatus.FELL_SHORT
    return ExitStatus.INCONCLUSIVE if partial else ExitStatus.AS_EXPECTED


def _case(plan: Plan, campaign: Campaign, status: ExitStatus, partial: str) -> Case:
    """The run for a CI service."""
    finding = campaign.finding
    scope = _scope(plan, campaign)
    where = f"{plan.target} beside {plan.subject.variant.tag}" + (f" in {scope}" if scope else "")
    told = {"seed": plan.seed, "steps": campaign.tally.steps, "examples": campaign.tally.episodes}
    message = partial if finding is None else "; ".join(remarks(finding))
    text = "" if finding is None else finding_as_text(finding)
    group = f"fuzz.{plan.subject.component.name}"
    return Case(group, where, STATUSES[status], message, text, campaign.seconds, told)


def _data(plan: Plan, campaign: Campaign, files: list[Path]) -> dict[str, Any]:
    finding = campaign.finding
    message = None if finding is None else {**finding_to_message(finding), "reading": Reading(finding).message()}
    return {
        "run": _run_name(plan),
        "component": plan.subject.component.name,
        "variant": plan.subject.variant.tag,
        "scope": _scope(plan, campaign),
        "config": config_to_message(_subject(plan, campaign).config),
        "scopes": campaign.scopes,
        "set_aside": campaign.set_aside,
        "around": _around(campaign),
        "target": plan.target,
        "driver": plan.driver,
        "seed": plan.seed,
        "steps": campaign.tally.steps,
        "examples": campaign.tally.episodes,
        "seconds": round(campaign.seconds, 3),
        "operations": campaign.tally.by_operation(),
        "observables": sorted(campaign.tally.observables),
        "rules": rules_message(plan.subject.variant, campaign.tally.rules),
        "own_names": campaign.tally.renaming,
        "unseen": unseen(plan.subject.component, plan.subject.variant, campaign.tally.outcomes).data,
        "ignored": list(campaign.ignored),
        "came_again": campaign.came_again,
        "difference": message if isinstance(finding, Difference) else None,
        "violations": [message] if isinstance(finding, Violation) else [],
        "breakdown": message if isinstance(finding, Breakdown) else None,
        "others": [finding_to_message(other) for other in campaign.others],
        "files": [str(path) for path in files],
    }


def _around(campaign: Campaign) -> dict[str, int] | None:
    """What was done in settings around those of the scopes."""
    around = campaign.around
    if around is None:
        return None
    tried, refused = len(around.configurations), len(around.refused)
    return {"configurations": tried, "calls": around.calls, "refused": refused}


def _rendered(plan: Plan, campaign: Campaign, files: list[Path]) -> list[Any]:
    if campaign.tally.steps == 0 and campaign.finding is None:
        return ["nothing was tried"]
    if campaign.finding is None:
        return [_agreement(plan, campaign)]
    parts = [_headline(campaign.finding, campaign), *_left_out(campaign)]
    parts += [*agreeing_without(_subject(plan, campaign), campaign.finding), "", FORMATS["table"](campaign.finding)]
    show = f"cacheproof show {shlex.quote(_run_name(plan))}"
    for other in campaign.others:
        parts += ["", f"also found: {_what(other)}", FORMATS["table"](other)]
    page = [] if files else [f"next: {show} --format html --output page.html"]
    kept = f"kept: {show} --format {'|'.join(FORMATS)}"
    return [*parts, *page, *(f"written: {path}" for path in files), kept]


def _agreement(plan: Plan, campaign: Campaign) -> str:
    """What was seen, and not more than that."""
    tally, subject = campaign.tally, plan.subject
    compared = ", ".join(sorted(tally.observables)) or "nothing but outcomes"
    ignored = ", ".join(campaign.ignored)
    entered = sum(1 for calls in campaign.scopes.values() if calls)
    scopes = f" of {count(entered, 'scope')}" if len(plan.subjects) > 1 else ""
    amount = f"fuzzed {tally.steps:,} steps in {tally.episodes:,} examples{scopes}{_near(campaign)}, seed {plan.seed}"
    idle = [name for name, calls in campaign.scopes.items() if not calls and name not in campaign.set_aside]
    lines = [
        f"{plan.target} agrees with {subject.component.name} ({subject.variant.title}): {amount}",
        f"compared after every call: the outcome, and {compared}",
        *([f"the target's own names: {tally.renaming}"] if tally.renaming else []),
        *never_shown(subject.variant, tally.rules),
        *unseen(subject.component, subject.variant, tally.outcomes).lines,
        *([f"never read of the configuration, though the specification reads it: {ignored}"] if ignored else []),
        *([f"scopes whose turn did not come: {', '.join(idle)}"] if idle else []),
        *_left_out(campaign),
    ]
    return "\n".join(lines)


def _near(campaign: Campaign) -> str:
    """How many configurations were tried around those of the scopes, and how many of them the target refuses."""
    around = campaign.around
    if around is None or not (around.configurations or around.refused):
        return ""
    refused = f", {len(around.refused)} more refused" if around.refused else ""
    return f" and {count(len(around.configurations), 'random configuration')} around them{refused}"


def _left_out(campaign: Campaign) -> list[str]:
    """The scopes that the target refuses, with its reasons: a line for each reason."""
    reasons: dict[str, list[str]] = {}
    for name, reason in campaign.set_aside.items():
        reasons.setdefault(reason, []).append(name)
    return [
        f"left out, because the target refuses them: {', '.join(names)}: {reason}" for reason, names in reasons.items()
    ]


def _what(finding: Finding) -> str:
    crashed = isinstance(finding, Breakdown) and finding.crash
    what: dict[type, str] = {
        Difference: "a difference",
        Violation: "a property that does not hold",
        Breakdown: "the implementation crashed" if crashed else "the target failed",
    }
    return what[type(finding)]


def _headline(finding: Finding, campaign: Campaign) -> str:
    calls = len(finding.trace.steps)
    again = "" if campaign.came_again else "; it did NOT come again when the same calls were made anew"
    named = f" ({finding.failure.value})" if isinstance(finding, Breakdown) else ""
    random = " in a random configuration" if campaign.around is not None else ""
    scope = f" in scope {campaign.scope}" if campaign.scope else random
    return f"{_what(finding)}{named} after {count(calls, 'call')}{scope} (seed {campaign.seed}{again})"
