"""A finding as one page of HTML: no server, no network; steps, states, the normative run, and calls to try.

The files of `page_files` are its frame, its style and its program. The data is an object of JSON in the page; each text
is in it once, and states refer to texts by number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from cacheproof.model.finding import Difference, Finding
from cacheproof.model.observed import grouping_of, observed
from cacheproof.model.trace import Violation
from cacheproof.model.wording import answer_text, operation_text, title
from cacheproof.present.show.beside import normative_beside
from cacheproof.present.show.facts import facts
from cacheproof.present.show.moves import MOVES, Move, nearby
from cacheproof.present.show.plain import as_text
from cacheproof.present.show.reading import Reading
from cacheproof.present.show.table import to_table
from cachespec.kernel import NORMATIVE, Observation, Operation, Outcome

FILES = Path(__file__).with_name("page_files")

LARGEST = 480_000
"""Bytes of a page; calls to try are left out until it fits."""

Message = dict[str, Any]


def to_page(finding: Finding, moves: int = MOVES) -> str:
    """An HTML page of the finding, with at most about this many calls to try. A page that is too large has fewer."""
    while len(page := _page(finding, moves)) > LARGEST and moves:
        moves //= 2
    return page


def _page(finding: Finding, moves: int) -> str:
    data = json.dumps(_Data(finding).message(moves), separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "TITLE": escape(title(finding)),
        "STYLE": (FILES / "page.css").read_text(encoding="utf-8"),
        "TEXT": escape(as_text(to_table(finding))),
        "DATA": data,
        "PROGRAM": (FILES / "page.js").read_text(encoding="utf-8"),
    }
    frame = (FILES / "page.html").read_text(encoding="utf-8").split("@@")
    return "".join(parts.get(part, part) for part in frame)


class _Texts:
    """Each value once, by number."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def all(self) -> list[Any]:
        return list(self.numbers)


class _Data:
    """The object that the page's program reads."""

    def __init__(self, finding: Finding) -> None:
        self.finding, self.trace = finding, finding.trace
        self.reading = Reading(finding)
        self.component = self.reading.subject.component
        self.cells, self.facts, self.operations, self.answers = _Texts(), _Texts(), _Texts(), _Texts()
        self.lanes = list(dict.fromkeys(lane for kind in self.component.operations for lane in kind.lane))
        self.names = list(self.trace.initial)

    def message(self, moves: int) -> Message:
        near = nearby(self.finding, moves=moves)
        beside = self._beside()
        states = [self._state(shown) for shown in near.observations]
        clause = self.reading.clause
        told = self.reading.message()
        used = {lane for operation in self.trace.operations for lane in operation.lane}
        used |= {grouping_of(self.component, name).lane for name in self.names}
        statements = {rule.name: rule.statement for rule in self.component.properties()}
        broken = {name for each in near.moves.values() for move in each for name in move.broken}
        return {
            "title": title(self.finding),
            "summary": self.component.summary,
            "columns": list(self.reading.columns),
            "variant": self.reading.subject.variant.title,
            "catalogue": self.finding.catalogue if isinstance(self.finding, Violation) else "",
            "differs": [[row.name, row.specification, row.yours] for row in self.reading.rows],
            "rules": told["rules"],
            "clause": None if clause is None else [clause.function, clause.text, clause.values],
            "own": self.reading.own,
            "configuration": self.reading.configuration,
            "next": told["next"],
            "lanes": [lane for lane in self.lanes if lane in used],
            "observables": [self._observable(name) for name in self.names],
            "path": near.path,
            "steps": [self._step(step.operation, step.outcome) for step in self.trace.steps],
            "cycle": self.trace.cycle,
            "beside": beside,
            "states": states,
            "moves": {number: [self._move(move) for move in near.moves[number]] for number in sorted(near.moves)},
            "complete": near.complete,
            "statements": {name: statements[name] for name in sorted(broken) if name in statements},
            "cells": self.cells.all(),
            "facts": self.facts.all(),
            "operations": self.operations.all(),
            "answers": self.answers.all(),
        }

    def _observable(self, name: str) -> Message:
        form = next((form for form in self.component.observables if _fits(form, name)), "")
        text = self.component.observables.get(form, "")
        return {"name": name, "text": text, "lane": grouping_of(self.component, name).lane}

    def _state(self, shown: Mapping[str, Observation]) -> list[list[int]]:
        """The numbers of its texts, one for each observable (-1: not shown), and the numbers of its facts."""
        texts = {name: observed(self.component, name, value) for name, value in shown.items()}
        cells = [self.cells.number(texts[name]) if name in texts else -1 for name in self.names]
        return [cells, [self.facts.number(fact) for fact in facts(self.component, self.trace.variant, shown)]]

    def _move(self, move: Move) -> list[Any]:
        return [*self._step(move.operation, move.outcome), move.to, list(move.broken)]

    def _step(self, operation: Operation, outcome: Outcome) -> list[int]:
        lanes = operation.lane
        drawn = (operation_text(operation), lanes[0], lanes[1], operation.kind.value)
        return [self.operations.number(drawn), self.answers.number(answer_text(type(operation), outcome))]

    def _beside(self) -> Message | None:
        """The other run: the target's last answer, or the normative variant's run of the same calls.

        Each of its turns has the answer, the state, and the steps that it did first; null where it shows nothing.
        """
        if isinstance(self.finding, Difference):
            actual, last = self.finding.actual, len(self.trace.steps)
            answer = self._answer(last - 1, actual.outcome)
            turns = [*[None] * last, [answer, self._state(actual.observations), []]]
            return {"name": self.reading.columns[1], "fork": last, "turns": turns, "ends": False}
        if self.trace.variant == NORMATIVE:
            return None
        run = normative_beside(self.trace)
        turns = [[-1, self._state(run.initial), []]]
        for place, turn in enumerate(run.turns):
            first = [operation_text(operation) for operation in turn.first]
            turns.append([self._answer(place, turn.outcome), self._state(turn.observations), first])
        ends = len(turns) <= len(self.trace.steps)
        return {"name": NORMATIVE, "fork": run.fork, "turns": turns, "ends": ends}

    def _answer(self, place: int, outcome: Outcome | None) -> int:
        if outcome is None:
            return -1
        return self.answers.number(answer_text(type(self.trace.operations[place]), outcome))


def _fits(form: str, name: str) -> bool:
    """Whether an observable is of a declared form, such as `p0_order_{sender}`."""
    stem, brace, _ = form.partition("{")
    return form == name or (brace == "{" and name.startswith(stem) and name.removeprefix(stem).isdigit())
