"""Consecutive releases: a record of each, with the eras that it agrees with, and where it parts from the one before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cacheproof.model.finding import said
from cacheproof.model.wire import outcome_from_message
from cacheproof.releases.results import record
from cacheproof.releases.results.gathering import begun, row_of
from cacheproof.releases.results.record import Beside, Message, Record, Row, Undriven

FOLDER = record.FOLDER / "consecutive"

NO_CALL = "no call was made"


def consecutive_record(
    target: str,
    eras: Mapping[str, Any],
    beside: Mapping[str, Any] | None,
    *,
    seed: int,
    steps: int,
) -> Record:
    """What `conform --json` said of a release and its eras, and of a release and the one before it."""
    made = begun(target, seed=seed, steps=steps)
    made.rows = [row_of(one) for one in eras["results"] if one["target"] == target]
    made.undriven = [Undriven(one["component"], one["reason"]) for one in eras["not_driven"]]
    if beside is not None:
        made.base = str(beside["base"])
        same = [beside_of(one) for one in beside["unchanged"]]
        for one in same:
            one.unchanged = True
        made.beside = [*map(beside_of, beside["results"]), *same]
        made.changed = list(beside["changed"] or ())
    return made


def beside_of(message: Message) -> Beside:
    """A component of such a comparison."""
    window = f", window {message['window']}" if message["window"] else ""
    made = Beside(
        component=message["component"],
        label=f"{message['variant']}{window}",
        calls=message["steps"],
        seconds=message["seconds"],
        failure=message["failure"] or "",
    )
    parted = message["difference"]
    if parted is not None:
        made.where, made.config, made.operations = parted["where"], parted["config"], parted["calls"]
        both = zip(parted["base"][1:], parted["target"][1:], strict=True)
        made.answers = [(_answer(base), _answer(target)) for base, target in both]
        made.differing = [(one["what"], one["base"], one["target"]) for one in parted["differing"]]
        made.breaks = [(one["property"], one["statement"]) for one in parted["target_breaks"]]
        made.base_breaks = [(one["property"], one["statement"]) for one in parted["base_breaks"]]
        made.came_again = parted["came_again"]
    return made


def _answer(message: Message) -> str:
    """The outcome, with the exception of a call that failed."""
    outcome = said(None if message["outcome"] is None else outcome_from_message(message["outcome"]))
    return f"{outcome}: {message['remark']}" if message["remark"] else outcome


def failures(made: Record) -> Iterator[str]:
    """Each component of which nothing is known because a driver failed, with the reason."""
    for row in made.rows:
        if reason := failure_of_row(row):
            yield f"`{row.component}` beside {row.label}: {reason}"
    for one in made.beside:
        if reason := failure_of(one):
            yield f"`{one.component}` {one.label} beside {made.base}: {reason}"


def failure_of_row(row: Row) -> str:
    """Why nothing is known of a component beside an era; empty if something is."""
    return row.breakdown or ("" if row.calls else NO_CALL)


def failure_of(one: Beside) -> str:
    """Why nothing is known of a component beside the release before; empty if something is."""
    return one.failure or ("" if one.calls or one.where or one.unchanged else NO_CALL)


def recorded(target: str) -> Record | None:
    """The record that is kept of a release, if there is one."""
    path = FOLDER / record.RECORDS / f"{target.replace('==', '-')}.json"
    return record.load(path) if path.is_file() else None


def is_of(made: Record, base: str | None, *, seed: int, steps: int) -> bool:
    """Whether the record is of a run with this budget, of the same specification and checkers, without a failure."""
    now = begun(made.target, seed=seed, steps=steps)
    same = (made.seed, made.steps, made.specification, made.version) == (
        now.seed,
        now.steps,
        now.specification,
        now.version,
    )
    of_base = base is None or made.base == base
    return same and of_base and not any(failures(made))
