"""A trace in the Informal Trace Format, as model-based testing tools read it.

Each state holds the observables; `mbt::actionTaken` names the operation that led to it and `mbt::nondetPicks` its
fields, as the Quint simulator writes them: every pick of the trace is in every state, absent ones as `None`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from cacheproof.model.trace import Trace, TraceStep
from cacheproof.model.wire import config_to_message
from cachespec.kernel import Observation, Operation

ACTION, PICKS, OUTCOME, VALUES = "mbt::actionTaken", "mbt::nondetPicks", "outcome", "outcome_values"
LARGEST_PLAIN_INTEGER = (1 << 53) - 1


def to_itf(trace: Trace) -> str:
    """The trace as text, one state for the initial state and one for each step."""
    picks = sorted({field.name for operation in trace.operations for field in fields(operation)})
    types = {name: "Int" if isinstance(value, int) else "List[Int]" for name, value in sorted(trace.initial.items())}
    states = [_state(0, None, picks, trace.initial)]
    states += [_state(index, step, picks, step.observations) for index, step in enumerate(trace.steps, 1)]
    document = {
        "#meta": {
            "format": "ITF",
            "format-description": "https://apalache-mc.org/docs/adr/015adr-trace.html",
            "source": f"cacheproof {trace.component} {trace.variant}",
            "varTypes": types,
            "config": config_to_message(trace.config),
        },
        "vars": sorted([*trace.initial, OUTCOME, VALUES, ACTION, PICKS]),
        "states": states,
        **({} if trace.cycle is None else {"loop": trace.cycle}),
    }
    return json.dumps(document, indent=1) + "\n"


def _state(
    index: int, step: TraceStep | None, picks: Sequence[str], observations: Mapping[str, Observation]
) -> dict[str, Any]:
    """One state; `step` is what led to it, None for the initial state."""
    named = {} if step is None else _fields_of(step.operation)
    return {
        "#meta": {"index": index},
        ACTION: "init" if step is None else step.operation.wire_name(),
        PICKS: {name: _option(named.get(name)) for name in picks},
        OUTCOME: "" if step is None else step.outcome.code.value,
        VALUES: [] if step is None else _value(step.outcome.values),
        **{name: _value(value) for name, value in sorted(observations.items())},
    }


def _fields_of(operation: Operation) -> dict[str, Observation]:
    return {field.name: getattr(operation, field.name) for field in fields(operation)}


def _option(value: Observation | None) -> dict[str, Any]:
    """Quint's `Option`: a variant of a sum type."""
    if value is None:
        return {"tag": "None", "value": {"#tup": []}}
    return {"tag": "Some", "value": _value(value)}


def _value(value: Observation) -> Any:
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    return value if abs(value) <= LARGEST_PLAIN_INTEGER else {"#bigint": str(value)}
