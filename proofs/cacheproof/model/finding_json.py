"""A finding as an object of JSON, and back: what a fuzz run is kept as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.model.finding import Answer, Breakdown, Difference, Finding
from cacheproof.model.target import Failure
from cacheproof.model.trace import Violation
from cacheproof.model.trace_json import (
    trace_from_message,
    trace_to_message,
    violation_from_message,
    violation_to_message,
)
from cacheproof.model.wire import (
    Message,
    object_from,
    observations_from_message,
    observations_to_message,
    outcome_from_message,
    outcome_to_message,
)


def finding_to_message(finding: Finding) -> Message:
    """The finding with its sort: `difference`, `violation` or `breakdown`."""
    if isinstance(finding, Violation):
        return {"sort": "violation", **violation_to_message(finding)}
    told: Message = {"target": finding.target, "trace": trace_to_message(finding.trace)}
    if isinstance(finding, Breakdown):
        known = {"failure": finding.failure.value, "reason": finding.reason, "details": finding.details}
        return {"sort": "breakdown", **known, "crash": finding.crash, **told}
    return {
        "sort": "difference",
        "index": finding.index,
        "statements": list(finding.statements),
        "expected": _answer_to_message(finding.expected),
        "actual": _answer_to_message(finding.actual),
        **told,
    }


def finding_from_message(message: Any) -> Finding:
    """The finding in an object of JSON; one without a sort is a violation. InputError where a part is wrong."""
    message = object_from("a finding", message)
    sort = message.get("sort", "violation")
    if "macros" in message:
        return _without_bursts(message)
    if sort == "violation":
        return violation_from_message(message)
    trace = trace_from_message(message.get("trace"))
    target, reason = str(message.get("target", "")), str(message.get("reason", ""))
    if sort == "breakdown":
        failure = _failure(message.get("failure", Failure.DRIVER_FAILED.value))
        return Breakdown(target, reason, trace, failure, str(message.get("details", "")))
    if sort == "difference":
        answers = (_answer_from_message(key, message.get(key)) for key in ("expected", "actual"))
        return Difference(target, trace, *answers)
    raise InputError(f"a finding is a difference, a violation or a breakdown, not {sort!r}")


def _failure(given: Any) -> Failure:
    try:
        return Failure(given)
    except ValueError:
        raise InputError(f"a failure is one of {', '.join(one.value for one in Failure)}, not {given!r}") from None


def _without_bursts(message: Message) -> Finding:
    """What a run of macros has found, as single calls; where it takes a burst, there is nothing to draw."""
    plain = message.get("without_bursts")
    if plain is None:
        macros = ", ".join(map(str, message["macros"]))
        raise InputError(
            f"that was found in bursts only ({macros}): `cacheproof fuzz --macros --write` makes a test of it"
        )
    return finding_from_message(plain)


def _answer_to_message(answer: Answer) -> Message:
    outcome = None if answer.outcome is None else outcome_to_message(answer.outcome)
    known = {"outcome": outcome, "observations": observations_to_message(answer.observations)}
    return {**known, "remark": answer.remark} if answer.remark else known


def _answer_from_message(key: str, message: Any) -> Answer:
    message = object_from(key, message)
    outcome = message.get("outcome")
    observations = message.get("observations")
    if not isinstance(observations, Mapping) or not (outcome is None or isinstance(outcome, Mapping)):
        raise InputError(f"{key} must have an outcome and observations")
    told = None if outcome is None else outcome_from_message(outcome)
    return Answer(told, observations_from_message(observations), str(message.get("remark", "")))
