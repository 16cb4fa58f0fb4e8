"""A trace as JSON, and back: what runs are kept as, and what other tools read.

An object with `format`, `version`, `component`, `variant`, `config` (by field), `initial` (the observables of the
initial state), `steps` (each with its `operation`, `outcome` and `observations`, as on the wire) and `cycle` (the step
that a lasso returns to, or null).
"""

from __future__ import annotations

import json
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import AnyComponent, component_named, variant_named
from cacheproof.model.trace import Trace, TraceStep, Violation
from cacheproof.model.wire import (
    Message,
    config_from_message,
    config_to_message,
    object_from,
    observations_from_message,
    observations_to_message,
    operation_from_message,
    operation_to_message,
    outcome_from_message,
    outcome_to_message,
    text_from,
)

FORMAT, VERSION = "cacheproof-trace", "0.1"


def trace_to_message(trace: Trace) -> Message:
    """The trace as an object of JSON."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "component": trace.component,
        "variant": trace.variant,
        "config": config_to_message(trace.config),
        "initial": observations_to_message(trace.initial),
        "steps": [_step_to_message(step) for step in trace.steps],
        "cycle": trace.cycle,
    }


def trace_from_message(message: Any) -> Trace:
    """The trace in an object of JSON, every part checked; InputError where one is not what it must be."""
    trace = object_from("a trace", message)
    if trace.get("format") != FORMAT or trace.get("version") != VERSION:
        raise InputError(f"not a trace of format {FORMAT} {VERSION}")
    component = component_named(text_from(trace, "component"))
    steps = trace.get("steps")
    if not isinstance(steps, list):
        raise InputError("trace: steps must be an array")
    cycle = trace.get("cycle")
    if cycle is not None and not (isinstance(cycle, int) and 0 <= cycle < len(steps)):
        raise InputError(f"trace: cycle must be null or a step, not {cycle!r}")
    return Trace(
        component=component.name,
        variant=variant_named(component, text_from(trace, "variant")).tag,
        config=config_from_message(component, object_from("trace: config", trace.get("config"))),
        initial=observations_from_message(object_from("trace: initial", trace.get("initial"))),
        steps=tuple(_step_from_message(component, place, step) for place, step in enumerate(steps)),
        cycle=cycle,
    )


def violation_to_message(violation: Violation) -> Message:
    """A violation with its trace as an object of JSON."""
    return {
        "property": violation.property,
        "statement": violation.statement,
        "catalogue": violation.catalogue,
        "trace": trace_to_message(violation.trace),
    }


def violation_from_message(message: Any) -> Violation:
    """The violation in an object of JSON."""
    given = object_from("a violation", message)
    texts = (text_from(given, key) for key in ("property", "statement", "catalogue"))
    name, statement, catalogue = texts
    return Violation(name, statement, trace_from_message(given.get("trace")), catalogue)


def to_json(trace: Trace) -> str:
    """The trace as text, indented, always the same for the same trace."""
    return json.dumps(trace_to_message(trace), indent=1) + "\n"


def _step_to_message(step: TraceStep) -> Message:
    return {
        "operation": operation_to_message(step.operation),
        "outcome": outcome_to_message(step.outcome),
        "observations": observations_to_message(step.observations),
    }


def _step_from_message(component: AnyComponent, place: int, message: Any) -> TraceStep:
    where = f"trace: step {place}"
    step = object_from(where, message)
    try:
        return TraceStep(
            operation_from_message(component.operations, object_from("operation", step.get("operation"))),
            outcome_from_message(object_from("outcome", step.get("outcome"))),
            observations_from_message(object_from("observations", step.get("observations"))),
        )
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
