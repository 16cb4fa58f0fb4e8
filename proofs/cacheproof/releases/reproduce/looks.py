"""Looks at the release for properties that speak of more than observables show.

In all other cases agreement decides: a release that answers and shows call by call what its era does is in the era's
state. A look goes further where the era's state holds what no observable shows, and can deny the violation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cacheproof.model.target import Target
from cacheproof.model.wire import operation_from_message
from cacheproof.releases.reproduce.case import Case
from cachespec.kernel import Code, Outcome

PERIODS = 10
"""How many times as long a scheduler goes on before it is watched."""
AWAITED = ("compile", "finish_load", "finish_send")
"""Operations that end what a request waits for. They happen after each round, if the configuration has them."""


@dataclass(frozen=True, slots=True)
class Look:
    """Whether the violation was seen, and what was seen."""

    violated: bool
    says: str


def look(case: Case, outcomes: Sequence[Outcome], target: Target) -> Look | None:
    """The look for the case's property after its calls; None if there is none. It may make more calls."""
    if outcomes and outcomes[-1].code in (Code.FAILED, Code.DIVERGED):
        return None
    looking = LOOKS.get((case.component, case.variant, case.rule)) or LOOKS.get((case.component, "", case.rule))
    return None if looking is None else looking(case, outcomes, target)


def served(case: Case, outcomes: Sequence[Outcome], target: Target) -> Look:
    """Without arrivals, a scheduler serves all requests, or leaves some and schedules nothing any more."""
    kinds = case.subject.component.operations
    schedule = operation_from_message(kinds, {"op": "schedule"})
    update = operation_from_message(kinds, {"op": "update", "accepted": 0})
    requests = range(len(case.config["prompts"]))
    ends = [operation_from_message(kinds, {"op": name, "request": one}) for name in AWAITED for one in requests]
    ends = [end for end in ends if case.config.get(end.setting)]

    def rounds(number: int) -> set[Code]:
        codes = set()
        for _ in range(number):
            codes.add(target.apply(schedule).code)
            while target.observe()["plans"]:
                target.apply(update)
            for end in ends:
                target.apply(end)
        return codes

    watched = 2 * len(requests) + 2
    rounds(PERIODS * watched)
    before = dict(target.observe())
    idle = rounds(watched) == {Code.MISS} and dict(target.observe()) == before
    left = [*_names(before["waiting"]), *_names(before["running"])]
    if not left:
        return Look(violated=False, says="without further arrivals all queued requests are served")
    if not idle:
        return Look(violated=False, says=f"after {PERIODS * watched} rounds requests {left} are still scheduled")
    return Look(violated=True, says=f"in {watched} rounds nothing was scheduled, and requests {left} are left")


def asked(case: Case, outcomes: Sequence[Outcome], target: Target) -> Look | None:
    """P1's contents against those of the request: this release computes placeholders from the request's own items."""
    waiting: dict[int, list[list[int]]] = {}
    taken: list[int] = []
    for operation, outcome in zip(case.operations, outcomes, strict=False):
        if operation["op"] == "submit" and outcome.code is Code.DONE:
            waiting.setdefault(operation["sender"], []).append(operation["items"])
        elif operation["op"] == "deliver":
            taken = waiting[operation["sender"]].pop(0)
        else:
            return None
    if case.operations[-1]["op"] != "deliver" or outcomes[-1].code is not Code.HIT:
        return None
    used = list(outcomes[-1].values)
    return Look(violated=used != taken, says=f"placeholders are for contents {taken}, and P1 uses {used}")


def _names(shown: Any) -> tuple[int, ...]:
    return tuple(shown)


LOOKS: dict[tuple[str, str, str], Callable[[Case, Sequence[Outcome], Target], Look | None]] = {
    ("scheduler", "", "SCH-8"): served,
    ("scheduler", "", "SCH-9"): served,
    ("scheduler", "", "SCH-10"): served,
    ("mirror", "M0", "MIR-6"): asked,
}
"""By component, variant (empty: any) and property."""
