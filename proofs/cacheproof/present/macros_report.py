"""A run of macros as JSON and as people read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.lockstep.macros.campaign import MacroCampaign
from cacheproof.lockstep.macros.macro import spelled
from cacheproof.lockstep.macros.plan import MacroPlan
from cacheproof.lockstep.macros.playing import MacroFinding
from cacheproof.model.finding import Finding
from cacheproof.model.finding_json import finding_to_message
from cacheproof.model.store import name_of
from cacheproof.model.wire import Message, config_to_message, operation_to_message, outcome_to_message
from cacheproof.model.wording import operation_text, outcome_text, remarks
from cacheproof.present.show.formats import FORMATS, folder_to_write, write_files
from cachespec.kernel import Operation, Outcome

CALLS_SHOWN = 12
"""Of a long run, the last ones."""
LONGEST_CONFIG = 1000
"""Characters of a configuration that is printed."""


def status(done: MacroCampaign) -> ExitStatus:
    """As of any fuzz run."""
    if done.finding is not None:
        return ExitStatus.INCONCLUSIVE if done.finding.sort == "breakdown" else ExitStatus.FELL_SHORT
    return ExitStatus.AS_EXPECTED if done.tally.steps else ExitStatus.INCONCLUSIVE


def run_name(plan: MacroPlan) -> str:
    """Under which the run is kept."""
    return name_of(plan.component.name, plan.variant.tag, plan.target, "macros")


def data_of(plan: MacroPlan, done: MacroCampaign, files: list[Path]) -> dict[str, Any]:
    """The keys of any fuzz run, and what is of macros only."""
    finding, loads = done.finding, plan.loads
    sort = "" if finding is None else finding.sort
    told = None if finding is None else to_message(finding, done)
    return {
        "run": run_name(plan),
        "component": plan.component.name,
        "variant": plan.variant.tag,
        "scope": plan.scope,
        "config": None if loads.fixed is None else config_to_message(loads.fixed),
        "requests": loads.requests if loads.fixed is None else None,
        "blocks": loads.blocks,
        "target": plan.target,
        "driver": "macros",
        "seed": plan.seed,
        "steps": done.tally.steps,
        "macros": done.tally.macros,
        "largest_burst": done.tally.largest,
        "examples": done.tally.episodes,
        "seconds": round(done.seconds, 3),
        "operations": done.tally.by_operation(),
        "observables": sorted(done.tally.observables),
        "came_again": done.came_again,
        "difference": told if sort == "difference" else None,
        "violations": [told] if sort == "violation" else [],
        "breakdown": told if sort == "breakdown" else None,
        "files": [str(path) for path in files],
    }


def to_message(finding: MacroFinding, done: MacroCampaign) -> Message:
    """The macros, the calls that they were, and the same without bursts where that shows it too."""
    return {
        "sort": f"{finding.sort} in macros",
        "target": finding.target,
        "property": finding.property,
        "config": config_to_message(finding.config),
        "macros": [str(macro) for macro in finding.macros],
        "statements": list(finding.statements),
        "calls": [
            {**operation_to_message(call), "outcome": outcome_to_message(outcome)} for call, outcome in finding.calls
        ],
        "without_bursts": None if done.plain is None else finding_to_message(done.plain),
        "tried_without_bursts": done.tried_plain,
    }


def rendered(plan: MacroPlan, done: MacroCampaign, files: list[Path]) -> list[Any]:
    """What is printed."""
    if done.finding is not None:
        return [*_found(done, done.finding), *(f"written: {path}" for path in files)]
    if done.tally.steps == 0:
        return ["nothing was tried"]
    compared = ", ".join(sorted(done.tally.observables)) or "nothing but outcomes"
    amount = f"fuzzed {done.tally.steps:,} steps in {done.tally.macros:,} macros and {done.tally.episodes:,} examples"
    size = (
        "" if plan.loads.fixed is not None else f"{plan.loads.requests:,} request{'s' * (plan.loads.requests != 1)}, "
    )
    return [
        f"{plan.target} agrees with {plan.component.name} ({plan.variant.title}): {amount}, seed {plan.seed}",
        f"{size}up to {done.tally.largest:,} calls in one burst",
        f"compared after every call: the outcome; after every macro: {compared}",
    ]


def _found(done: MacroCampaign, finding: MacroFinding) -> Iterator[Any]:
    what = {
        "difference": "a difference",
        "violation": "a property that does not hold",
        "breakdown": "the target failed",
    }
    again = "" if done.came_again else "; it did NOT come again when the same macros were made anew"
    count = len(finding.macros)
    yield f"{what[finding.sort]} after {count} macro{'s' * (count != 1)} (seed {done.seed}{again})"
    if finding.macros:
        yield f"macros: {spelled(finding.macros)}"
    yield from finding.statements
    yield ""
    if finding.calls:
        yield from _calls(finding.calls)
        yield ""
    if done.plain is not None:
        yield from _without_bursts(done.plain)
    elif done.tried_plain:
        yield "the same calls, one after the other, show no difference: it takes a burst"
    else:
        yield "it was not tried without bursts"


def _calls(calls: Sequence[tuple[Operation, Outcome]]) -> Iterator[str]:
    """The last of them."""
    shown = calls[-CALLS_SHOWN:]
    yield f"the last {len(shown)} of {len(calls)} calls, as the specification answers them:"
    yield from (f"  {operation_text(call)}: {outcome_text(outcome)}" for call, outcome in shown)


def _without_bursts(plain: Finding) -> Iterator[Any]:
    """The same finding in single calls; with its whole configuration where that can be read."""
    yield "without bursts, call by call, it is there too:"
    if len(json.dumps(config_to_message(plain.trace.config))) > LONGEST_CONFIG:
        yield from _calls([(step.operation, step.outcome) for step in plain.trace.steps])
        yield from remarks(plain)
        yield "--write DIR writes it with its configuration"
        return
    yield FORMATS["table"](plain)
    yield ""
    yield FORMATS["pytest"](plain)


def write_macros(plan: MacroPlan, done: MacroCampaign, folder: Path) -> list[Path]:
    """The finding as a pytest file and as JSON, and in every format where it is there without bursts; the paths."""
    finding = done.finding
    if finding is None:
        return []
    name = "test_" + re.sub(r"[^a-z0-9]+", "_", run_name(plan).lower()).strip("_")
    contents = {".py": pytest_text(name, plan, finding), ".json": json.dumps(to_message(finding, done)) + "\n"}
    folder_to_write(folder)
    try:
        for ending, text in contents.items():
            (folder / (name + ending)).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    return [folder / (name + ending) for ending in contents] + (
        [] if done.plain is None else write_files(done.plain, folder)
    )


def pytest_text(name: str, plan: MacroPlan, finding: MacroFinding) -> str:
    """A test that stands alone: it fails as long as the finding is present."""
    config = config_to_message(finding.config)
    return "\n".join(
        [
            f'"""{spelled(finding.macros)}.',
            "",
            "Written by cacheproof; it fails as long as what was found is there.",
            '"""',
            "",
            "from cacheproof.lockstep.macros.plan import difference",
            "",
            "CONFIG = {",
            *(f"    {json.dumps(key)}: {json.dumps(value)}," for key, value in config.items()),
            "}",
            "",
            "",
            f"def {name}() -> None:",
            "    wrong = difference(",
            f"        component={json.dumps(plan.component.name)},",
            f"        variant={json.dumps(plan.variant.tag)},",
            "        config=CONFIG,",
            f"        target={json.dumps(plan.target)},",
            f"        macros={json.dumps([str(macro) for macro in finding.macros])},",
            "    )",
            "    assert wrong is None, wrong",
            "",
        ]
    )
