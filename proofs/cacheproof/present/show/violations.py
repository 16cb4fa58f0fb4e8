"""What a release was seen to break: as messages, and one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rich.table import Column, Table

from cacheproof.catalogue.attribution import Attribution, Certainty, attribution, unattributed
from cacheproof.catalogue.meaning import kind_of
from cacheproof.catalogue.severity import severity_of
from cacheproof.foundation.errors import ExitStatus
from cacheproof.foundation.junit import STATUSES, Case
from cacheproof.lockstep.stalls import Stall
from cacheproof.lockstep.violations import Broken, by_property
from cacheproof.model.finding import Breakdown, Subject
from cacheproof.model.finding_json import finding_to_message
from cacheproof.model.registry import component_named
from cacheproof.model.trace import Trace
from cacheproof.model.wire import config_to_message, operation_to_message, outcome_from_message, outcome_to_message
from cacheproof.model.wording import answer_text, explaining, remarks, settings
from cacheproof.releases.exploring import Exploration
from cacheproof.releases.reach import ENGINE, REACHES, reach_of
from cacheproof.releases.searching import SCHEDULER, EraSearch
from cacheproof.targets.vllm.eras import Era
from cachespec.kernel import Outcome

NEVER_SERVED = "SCH-8"

Message = dict[str, Any]


def messages(done: EraSearch) -> list[Message]:
    """Each finding with all that is known of it, in the order of the properties."""
    found = [of_broken(done, broken) for broken in by_property(done.hunt.found)]
    return [*found, *(of_stall(done, stall, steps) for stall, steps in done.stalls.values())]


def of_broken(done: EraSearch, broken: Broken) -> Message:
    """A property that does not hold where release and era agree."""
    era, config = done.era, broken.subject.config
    sorts = frozenset(call.wire_name() for call in broken.calls)
    return {
        **_whose(done),
        "property": broken.rule.name,
        "kind": kind_of(broken.rule),
        "statement": broken.rule.statement,
        "operation": broken.operation,
        "faults": list(broken.key.faults),
        "config": config_to_message(config),
        "operations": [operation_to_message(call) for call in broken.calls],
        "outcomes": [_outcome(step.outcome) for step in broken.trace.steps],
        "remark": broken.remark,
        "ending": broken.ending,
        "cycle": [operation_to_message(call) for call in broken.cycle],
        "idle": 0,
        "reach": reach_of(era.component, sorts, config),
        "severity": severity_of(broken.rule.name, broken.ending, _last_code(broken.trace)).value,
        **_catalogued(attribution(broken.subject, broken.rule, broken.calls)),
        "steps": broken.steps,
        "episode": broken.episode,
        "length": len(broken.calls),
    }


def of_stall(done: EraSearch, stall: Stall, steps: int) -> Message:
    """Requests that the scheduler alone never serves."""
    component = component_named(SCHEDULER)
    rule = next(one for one in component.progress if one.name == NEVER_SERVED)
    variant = component.variants.get(done.era.variant)
    if variant is None:
        known = unattributed(component, rule)
    else:
        known = attribution(Subject(component, variant, stall.config), rule, stall.calls)
    return {
        **_whose(done),
        "property": rule.name,
        "kind": kind_of(rule),
        "statement": rule.statement,
        "operation": "",
        "faults": [],
        "config": config_to_message(stall.config),
        "operations": [operation_to_message(call) for call in stall.calls],
        "outcomes": [_outcome(outcome) for outcome in stall.outcomes],
        "remark": stall.remark,
        "ending": stall.sort.name.lower(),
        "cycle": [],
        "idle": stall.idle,
        "reach": ENGINE,
        "severity": severity_of(rule.name, stall.sort.name.lower()).value,
        **_catalogued(known),
        "steps": steps,
        "episode": None,
        "length": len(stall.calls),
    }


def searched_message(done: EraSearch) -> Message:
    """What was done, and where it was hindered."""
    return {
        **_whose(done),
        "steps": done.hunt.steps,
        "episodes": done.hunt.episodes,
        "beside": done.hunt.tally.steps,
        "states": done.hunt.states,
        "alone": done.alone,
        "seconds": round(done.seconds, 3),
        "violations": len(done.hunt.found) + len(done.stalls),
        "disagreements": [finding_to_message(finding) for finding in done.hunt.disagreements],
        "interrupted": done.interrupted,
        "failure": done.failure,
    }


def explored_message(era: Era, made: Exploration) -> Message:
    """What was explored on an era before its release was run."""
    return {
        "component": era.component,
        "variant": era.variant,
        "configurations": made.configurations,
        "whole": made.whole,
        "exhausted": made.exhausted,
        "states": made.states,
        "kept": made.kept,
    }


def said_explored(message: Message) -> str:
    """The same in one line."""
    kept = ", in an earlier run" if message["kept"] else ""
    return (
        f"{message['component']} {message['variant']}: {message['configurations']:,} configurations explored{kept}, "
        f"{message['whole']:,} to the end ({message['states']:,} states)"
    )


def is_new(message: Mapping[str, Any]) -> bool:
    """Whether no entry of the catalogue was shown to be its cause: it is new, or unattributed."""
    return bool(message["certainty"] != Certainty.CAUSE.value)


def said_catalogue(message: Mapping[str, Any]) -> str:
    """`C-ENC-1`, `C-ENC-1 and C-ENC-8`, `unattributed` or `new`."""
    return " and ".join(message["catalogue"]) or str(message["certainty"])


def broken_by(message: Mapping[str, Any]) -> str:
    """The call that breaks it and the faults before it; or how it ends where nobody calls any more."""
    faults = f" after {', '.join(message['faults'])}" if message["faults"] else ""
    by = message["operation"] or message["ending"]
    return f"{by}{' (does not return)' if message['ending'] == 'diverged' else ''}{faults}"


def reproducing(message: Mapping[str, Any]) -> str:
    """The command that makes the calls of a finding on its release again."""
    return f"cacheproof reproduce {message['id']} {message['target']}"


def era_of(message: Mapping[str, Any]) -> str:
    """The component and the era that was beside it; of a release that is as no era, as a hint."""
    hint = " (hint)" if message.get("hint") else ""
    return f"{message['component']} {message['variant']}".strip() + hint


def package_of(message: Mapping[str, Any]) -> str:
    """The release, and another version of a dependency where that is the point."""
    return f"{message['target']} with {message['first']}" if message["first"] else str(message["target"])


def in_full(number: int, message: Mapping[str, Any]) -> Iterator[Any]:
    """The calls of one finding, and all that is said of it."""
    yield f"{number}. {era_of(message)}, {package_of(message)}: {message['property']} is broken"
    yield f"   {message['severity']}: {message['statement']} ({explaining(message['property'])})"
    issues = "".join(f", {issue}" for issue in message["issues"])
    yield f"   {REACHES[message['reach']]}"
    yield f"   {said_catalogue(message)}{issues}: {_why(message)}"
    yield f"   configuration: {settings(component_named(message['component']).config, message['config'])}"
    shown = Table(*(Column(name, overflow="fold") for name in ("", "call", "answer")), box=None)
    for place, (call, outcome) in enumerate(zip(message["operations"], message["outcomes"], strict=True), 1):
        shown.add_row(str(place), _call_text(call), _outcome_text(message["component"], call, outcome))
    yield shown
    if message.get("remark"):
        yield f"   the release: {message['remark']}"
    if message["cycle"]:
        yield f"   and then for ever: {', '.join(_call_text(call) for call in message['cycle'])}"
    elif message["ending"] == "stuck":
        yield "   and then nothing is left to do"
    elif message["idle"]:
        yield f"   and then {message['idle']} steps were asked for, and each scheduled nothing"
    yield f"   {_found_where(message)}"
    if message.get("id"):
        yield f"   make these calls again: {reproducing(message)}"


def _why(message: Mapping[str, Any]) -> str:
    """How far the cause was shown."""
    if not is_new(message):
        deciding = (f"call {one['step']}, {one['operation']}" for one in message["causes"] if one["step"])
        at = f" (decided at {' and '.join(deciding)})" if message["causes"][0]["step"] else ""
        return f"without that fault the property holds over these calls{at}"
    if message["certainty"] == Certainty.NEW.value:
        return "the catalogue has no entry that breaks this property"
    return f"{', '.join(message['others'])} break this property, and none of them was shown to be the cause here"


def _found_where(message: Mapping[str, Any]) -> str:
    """In the nearest states, which no seed chooses; or after so many random calls."""
    if message["steps"] == 0:
        return "found in the states nearest to the start"
    return f"found after {message['steps']:,} random calls with seed {message['seed']}"


def _whose(done: EraSearch) -> Message:
    era = done.era
    return {
        "component": era.component,
        "variant": era.variant,
        "target": era.release.name,
        "first": era.first,
        "seed": done.seed,
        "hint": done.hint,
    }


def _catalogued(known: Attribution) -> Message:
    return {
        "catalogue": list(known.catalogue),
        "certainty": known.certainty.value,
        "causes": [asdict(cause) for cause in known.causes],
        "others": list(known.others),
        "issues": list(known.issues),
    }


def _last_code(trace: Trace) -> str:
    return trace.steps[-1].outcome.code.value if trace.steps else ""


def _outcome(outcome: Outcome) -> Message:
    return {"values": [], **outcome_to_message(outcome)}


def _call_text(call: Mapping[str, Any]) -> str:
    return f"{call['op']}({', '.join(f'{name}={value}' for name, value in call.items() if name != 'op')})"


def _outcome_text(component: str, call: Mapping[str, Any], outcome: Mapping[str, Any]) -> str:
    kinds = component_named(component).operations
    kind = next(each for each in kinds if each.wire_name() == call["op"])
    return answer_text(kind, outcome_from_message(outcome))


def status_of(done: EraSearch, *, new_falls_short: bool) -> ExitStatus:
    """What a search comes to: a difference from the era falls short, and on demand what the catalogue does not know."""
    parted = [] if done.hint else done.hunt.disagreements
    if any(not isinstance(finding, Breakdown) for finding in parted):
        return ExitStatus.FELL_SHORT
    if new_falls_short and any(is_new(message) for message in messages(done)):
        return ExitStatus.FELL_SHORT
    if done.failure or parted or done.interrupted:
        return ExitStatus.INCONCLUSIVE
    return ExitStatus.AS_EXPECTED


def case_of(done: EraSearch, *, new_falls_short: bool) -> Case:
    """A search for a CI service: what it found is its text, also where it is as expected."""
    found = messages(done)
    told = [f"{one['property']}: {broken_by(one)}, {one['length']} calls, {said_catalogue(one)}" for one in found]
    told += [remark for finding in done.hunt.disagreements for remark in remarks(finding)]
    era = done.era
    package = f"{era.release.name} with {era.first}" if era.first else era.release.name
    return Case(
        f"conform.{era.component}.violations",
        f"{era.variant} beside {package}" if era.variant else package,
        STATUSES[status_of(done, new_falls_short=new_falls_short)],
        done.failure or f"{len(found)} violations",
        "\n".join(told),
        done.seconds,
        {"seed": done.seed, "steps": done.hunt.steps, "violations": len(found)},
    )
