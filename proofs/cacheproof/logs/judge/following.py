"""Holds a recorded scheduler to its era: each call, its outcome, the queues, the free blocks, the tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cacheproof.logs.judge.wrong import Wrong
from cacheproof.logs.record.events import Event, Recording
from cacheproof.logs.record.scheduler import Translation
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.wire import (
    config_from_message,
    observations_from_message,
    operation_from_message,
    outcome_from_message,
)
from cachespec.kernel import REROOTING

JUDGE = "scheduler"


class Following:
    """Takes the events of a scheduler in their order. Raises NotSaidError if the run cannot be put in words."""

    def __init__(self, recording: Recording, component: AnyComponent, variant: AnyVariant) -> None:
        self._component, self._variant = component, variant
        self._translation = Translation(recording)
        self._config = config_from_message(component, self._translation.config())
        self._state: Any = variant.start(self._config, REROOTING)
        self._tables: dict[int, tuple[int, ...]] = {}

    def take(self, event: Event) -> Wrong | None:
        """Take one event."""
        for line in self._translation.of(event):
            said = next(self._differences(line), None)
            if said is not None:
                return Wrong(event.get("step", 0), JUDGE, *said)
        said = next(self._blocks(event), None)
        return None if said is None else Wrong(event.get("step", 0), JUDGE, *said)

    def _differences(self, line: Any) -> Iterator[tuple[str, str, str]]:
        operation = operation_from_message(self._component.operations, line["operation"])
        logged = outcome_from_message(line["outcome"])
        self._state, outcome = self._variant.call(self._config, self._state, operation)
        name = line["operation"]["op"]
        if (outcome.code, tuple(outcome.values)) != (logged.code, tuple(logged.values)):
            expected = f"{outcome.code.value} {list(outcome.values)}"
            yield name, f"the era answers {expected}", f"{logged.code.value} {list(logged.values)}"
            return
        observed = observations_from_message(line["observations"])
        if observed:
            shown = self._component.observe(self._config, self._variant.view(self._config, self._state))
            for what, value in observed.items():
                if shown[what] != value:
                    yield f"{name}: {what}", f"the era has {what} {shown[what]}", f"{what} {value}"

    def _blocks(self, event: Event) -> Iterator[tuple[str, str, str]]:
        """Which blocks are free, in their order, and which ones each request has."""
        if event.get("op") not in ("schedule", "update", "abort") or "failed" in event:
            return
        self._tables = self._translation.tables(event, self._tables)
        whole = self._variant.view(self._config, self._state)
        view = whole.kv
        if event.get("free") is not None and tuple(event["free"]) != view.free:
            yield f"{event['op']}: free", f"the era has the free queue {list(view.free)}", f"free {event['free']}"
        entries = self._translation.entries(event)
        if entries is not None:
            held, idle = list(whole.encoder.holders), [key[0] for key, _ in whole.encoder.idle]
            if entries != (held, idle):
                says = f"the era has the entries held {held}, idle {idle}"
                yield f"{event['op']}: entries", says, f"held {entries[0]}, idle {entries[1]}"
        expected = {number: blocks for number, blocks in view.tables if blocks}
        if self._tables != expected:
            number = next(one for one in {**expected, **self._tables} if expected.get(one) != self._tables.get(one))
            says = f"the era has blocks {list(expected.get(number, ()))} for request {number}"
            yield f"{event['op']}: table", says, f"blocks {list(self._tables.get(number, ()))}"
