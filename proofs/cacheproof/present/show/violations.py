"""What a release was seen to break: as messages, as a table, and one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from cacheproof.catalogue.attribution import Attribution, Certainty, attribution, unattributed
from cacheproof.catalogue.meaning import kind_of
from cacheproof.foundation.errors import ExitStatus
from cacheproof.foundation.junit import STATUSES, Case
from cacheproof.lockstep.stalls import Stall
from cacheproof.lockstep.violations import Broken, by_property
from cacheproof.model.finding import Breakdown, Subject
from cacheproof.model.finding_json import finding_to_message
from cacheproof.model.registry import component_named
from cacheproof.model.wire import config_to_message, operation_to_message, outcome_to_message
from cacheproof.model.wording import explaining, remarks, settings
from cacheproof.present.show.formats import FORMATS
from cacheproof.releases.reach import ENGINE, REACHES, reach_of
from cacheproof.releases.searching import SCHEDULER, EraSearch
from cachespec.kernel import Outcome

NEVER_SERVED = "SCH-8"

COLUMNS = (
    "number",
    "component",
    "released package",
    "property",
    "says",
    "broken by",
    "calls",
    "reach",
    "catalogue",
    "public",
)
MOST_IN_A_CELL = 4

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
        "ending": broken.ending,
        "cycle": [operation_to_message(call) for call in broken.cycle],
        "idle": 0,
        "reach": reach_of(era.component, sorts, config),
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
        "ending": stall.sort.name.lower(),
        "cycle": [],
        "idle": stall.idle,
        "reach": ENGINE,
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


def is_new(message: Mapping[str, Any]) -> bool:
    """Whether no entry of the catalogue was shown to be its cause: it is new, or unattributed."""
    return bool(message["certainty"] != Certainty.CAUSE.value)


def said_catalogue(message: Mapping[str, Any]) -> str:
    """`C-ENC-1`, `C-ENC-1 and C-ENC-8`, `unattributed` or `new`."""
    return " and ".join(message["catalogue"]) or str(message["certainty"])


def as_table(found: Sequence[Message]) -> Table:
    """One line for each property that a release breaks; the findings behind it have the numbers that `--show` takes."""
    shown = Table(box=None)
    for name in COLUMNS:
        shown.add_column(name, justify="right" if name in ("number", "calls") else "left", overflow="fold")
    for numbered in folded(found):
        (_, first), several = numbered[0], [one for _, one in numbered]
        shown.add_row(
            _numbers([number for number, _ in numbered]),
            f"{first['component']} {first['variant']}".strip(),
            package_of(first),
            first["property"],
            first["statement"],
            ", ".join(_some(dict.fromkeys(broken_by(one) for one in several))),
            ", ".join(str(shortest) for _, shortest in _reached(several)),
            ", ".join(reach for reach, _ in _reached(several)),
            _catalogue_of(several),
            ", ".join(_some(dict.fromkeys(issue for one in several for issue in one["issues"]))),
        )
    return shown


def folded(found: Sequence[Message]) -> list[list[tuple[int, Message]]]:
    """The findings of one property of one release together, each with its number, the shortest first."""
    groups: dict[tuple[str, ...], list[tuple[int, Message]]] = {}
    for number, one in enumerate(found, 1):
        key = tuple(str(one[name]) for name in ("component", "variant", "target", "first", "property"))
        groups.setdefault(key, []).append((number, one))
    return [sorted(group, key=lambda numbered: (numbered[1]["length"], numbered[0])) for group in groups.values()]


def _reached(several: Sequence[Message]) -> list[tuple[str, int]]:
    """Each reach with the length of the shortest that has it: what misuse does sooner says nothing of an engine."""
    reaches = ((reach, [one["length"] for one in several if one["reach"] == reach]) for reach in REACHES)
    return [(reach, min(lengths)) for reach, lengths in reaches if lengths]


def _numbers(numbers: Sequence[int]) -> str:
    """`4`, or `4-9`: the findings of a property follow one another."""
    return str(numbers[0]) if len(numbers) == 1 else f"{min(numbers)}-{max(numbers)}"


def _some(texts: Iterable[str]) -> list[str]:
    """So many of them as a cell of a table takes."""
    every = list(texts)
    return every if len(every) <= MOST_IN_A_CELL else [*every[:MOST_IN_A_CELL], "..."]


def _catalogue_of(several: Sequence[Message]) -> str:
    """Entries that are causes, then whether something is unattributed or new."""
    causes = dict.fromkeys(number for one in several for number in one["catalogue"])
    without = dict.fromkeys(one["certainty"] for one in several if is_new(one))
    return "; ".join(part for part in (", ".join(_some(causes)), *without) if part)


def broken_by(message: Mapping[str, Any]) -> str:
    """The call that breaks it and the faults before it; or how it ends where nobody calls any more."""
    faults = f" after {', '.join(message['faults'])}" if message["faults"] else ""
    by = message["operation"] or message["ending"]
    return f"{by}{' (does not return)' if message['ending'] == 'diverged' else ''}{faults}"


def package_of(message: Mapping[str, Any]) -> str:
    """The release, and another version of a dependency where that is the point."""
    return f"{message['target']} with {message['first']}" if message["first"] else str(message["target"])


def in_full(number: int, message: Mapping[str, Any]) -> Iterator[Any]:
    """The calls of one finding, and all that is said of it."""
    where = f"{message['component']} {message['variant']}".strip()
    yield f"{number}. {where}, {package_of(message)}: {message['property']} is broken"
    yield f"   {message['statement']} ({explaining(message['property'])})"
    issues = "".join(f", {issue}" for issue in message["issues"])
    yield f"   {REACHES[message['reach']]}"
    yield f"   {said_catalogue(message)}{issues}: {_why(message)}"
    yield f"   configuration: {settings(component_named(message['component']).config, message['config'])}"
    shown = Table(box=None)
    for name in ("", "call", "answer"):
        shown.add_column(name, overflow="fold")
    for place, (call, outcome) in enumerate(zip(message["operations"], message["outcomes"], strict=True), 1):
        shown.add_row(str(place), _call_text(call), _outcome_text(outcome))
    yield shown
    if message["cycle"]:
        yield f"   and then for ever: {', '.join(_call_text(call) for call in message['cycle'])}"
    elif message["ending"] == "stuck":
        yield "   and then nothing is left to do"
    elif message["idle"]:
        yield f"   and then {message['idle']} steps were asked for, and each scheduled nothing"
    yield f"   {_found_where(message)}"


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
    }


def _catalogued(known: Attribution) -> Message:
    return {
        "catalogue": list(known.catalogue),
        "certainty": known.certainty.value,
        "causes": [asdict(cause) for cause in known.causes],
        "others": list(known.others),
        "issues": list(known.issues),
    }


def _outcome(outcome: Outcome) -> Message:
    return {"values": [], **outcome_to_message(outcome)}


def _call_text(call: Mapping[str, Any]) -> str:
    return f"{call['op']}({', '.join(f'{name}={value}' for name, value in call.items() if name != 'op')})"


def _outcome_text(outcome: Mapping[str, Any]) -> str:
    values = f" ({', '.join(map(str, outcome['values']))})" if outcome["values"] else ""
    return f"{outcome['code']}{values}"


def found_in(searches: Iterable[EraSearch]) -> list[Message]:
    """Of all lines."""
    return [message for done in searches for message in messages(done)]


def rendered_searches(searches: Sequence[EraSearch], found: Sequence[Message], wanted: Sequence[int]) -> Iterator[Any]:
    """The table of violations, what was done for it, where it was hindered, and the findings that are asked for."""
    if not searches:
        return
    calls = sum(done.hunt.steps + done.alone for done in searches)
    beside = sum(done.hunt.tally.steps + done.alone for done in searches)
    yield ""
    broken = len(folded(found))
    yield f"{broken} properties broken in {len(found)} ways, each seen on the release (seed {searches[0].seed})"
    states = sum(done.hunt.states for done in searches)
    yield f"looked for in {states:,} states and {calls:,} random calls, {beside:,} of these made on the release at once"
    if found:
        yield as_table(found)
        yield "reach: " + "; ".join(f"{name}: {says}" for name, says in REACHES.items())
        yield "the calls of one: --show NUMBER, with the same seed; of all: --show 0, or --json"
    for done in searches:
        if done.failure:
            yield f"{done.era.component} of {done.era.release.name}: the driver failed: {done.failure}"
        for finding in done.hunt.disagreements[:1]:
            yield ""
            yield from (f"{done.era.component} of {done.era.release.name}: not as the era:", FORMATS["table"](finding))
    for number, message in enumerate(found, 1):
        if number in wanted or 0 in wanted:
            yield ""
            yield from in_full(number, message)
    for number in wanted:
        if number > len(found):
            yield f"--show {number}: there is no violation of this number, but {len(found)} in all"


def status_of(done: EraSearch, *, new_falls_short: bool) -> ExitStatus:
    """What a search comes to: a difference from the era falls short, and on demand what the catalogue does not know."""
    if any(not isinstance(finding, Breakdown) for finding in done.hunt.disagreements):
        return ExitStatus.FELL_SHORT
    if new_falls_short and any(is_new(message) for message in messages(done)):
        return ExitStatus.FELL_SHORT
    if done.failure or done.hunt.disagreements or done.interrupted:
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
