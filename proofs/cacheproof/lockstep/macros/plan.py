"""A run of macros, from the command line's words; and one that was found, again."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.foundation.discover import discover
from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.macros.campaign import Loads, MacroCampaign, campaign
from cacheproof.lockstep.macros.macro import Macro, Vocabulary, vocabulary_of
from cacheproof.lockstep.macros.playing import play
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.tally import Limit
from cacheproof.model.burst import BurstTarget
from cacheproof.model.finding import Subject
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named, variant_named
from cacheproof.model.target import Target
from cacheproof.model.wire import config_from_message
from cacheproof.targets.factory import open_target
from cacheproof.targets.implemented import has_bursts

MOST_REQUESTS = 1 << 16
BURSTS: Mapping[str, Callable[[str], BurstTarget]] = discover(
    "cacheproof.targets.tensor.bursts", "open_bursts", FunctionType
)
"""Our implementation of each component that has bursts, on a device."""


@dataclass(frozen=True, slots=True)
class MacroPlan:
    """One run of one target. `scope` is the one that the configuration is from; empty for loads that are made."""

    component: AnyComponent
    variant: AnyVariant
    scope: str
    loads: Loads
    target: str
    limit: Limit
    seed: int
    seconds_to_answer: float


def loads_of(component: AnyComponent, requests: int | None, blocks: int | None, fixed: Any) -> Loads:
    """What is played: the configuration that was given, or loads of so many requests and blocks."""
    vocabulary = vocabulary_of(component.name)
    if fixed is not None and (requests is not None or blocks is not None):
        raise InputError("--requests and --blocks make a configuration: say these, or --scope and --config")
    if requests is not None and requests > MOST_REQUESTS:
        raise InputError(f"--requests: {MOST_REQUESTS:,} at the most")
    sizes = {} if requests is None else {"requests": requests}
    return Loads(vocabulary, blocks=blocks, fixed=fixed, **sizes)


def perform_macros(plan: MacroPlan, progress: Show | None = None) -> MacroCampaign:
    """Run it; the target is closed whatever happens."""
    target = open_bursts(plan.target, plan.component, plan.variant, plan.seconds_to_answer)
    try:
        return campaign(
            plan.component,
            plan.variant,
            target,
            plan.loads,
            plan.limit,
            plan.seed,
            name=plan.target,
            progress=progress,
        )
    finally:
        target.close()


def open_bursts(text: str, component: AnyComponent, variant: AnyVariant, seconds: float) -> Target:
    """The target that a text names, with bursts where it has some."""
    form, _, device = text.partition(":")
    if form != "torch" or not has_bursts(component.name) or importlib.util.find_spec("torch") is None:
        return open_target(text, component, variant, seconds)
    from cacheproof.tensor_models import checked_device  # noqa: PLC0415  # torch is an extra

    return BURSTS[component.name](checked_device(device or "cpu"))


def macro_from(text: str, vocabulary: Vocabulary) -> Macro:
    """The macro that is written like this: `Burst(37, 5)`."""
    found = re.fullmatch(r"(\w+)\((\d+), (\d+)\)", text)
    kinds = {kind.__name__: kind for kind in vocabulary.weights}
    if found is None or found[1] not in kinds:
        raise InputError(f"'{text}' is no macro: there are {', '.join(f'{name}(COUNT, SEED)' for name in kinds)}")
    return kinds[found[1]](int(found[2]), int(found[3]))


def difference(
    component: str, variant: str, config: Mapping[str, Any], target: str, macros: Sequence[str]
) -> str | None:
    """What generated pytest files call: what goes wrong when these macros are made, or None."""
    known = component_named(component)
    vocabulary = vocabulary_of(component)
    made = [macro_from(text, vocabulary) for text in macros]
    subject = Subject(known, variant_named(known, variant), config_from_message(known, dict(config)))
    opened = open_bursts(target, known, subject.variant, SECONDS)
    try:
        found = play(Pair(subject, opened, target), subject.config, made)
    finally:
        opened.close()
    return None if found is None else f"after {len(found.calls)} calls: {'; '.join(found.statements)}"


SECONDS = 60.0
"""For an answer of a child process."""
