"""What a fuzz run is asked to do, from the command line's words, and the run itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError, MissingExtraError
from cacheproof.foundation.files import json_of
from cacheproof.foundation.misspelt import did_you_mean
from cacheproof.lockstep.campaign import Campaign, steered
from cacheproof.lockstep.ignored import ignored
from cacheproof.lockstep.scoped import Scoped, scoped
from cacheproof.lockstep.shrink import SECONDS_TO_SHRINK
from cacheproof.lockstep.tally import Limit
from cacheproof.model.declaration import declared_by
from cacheproof.model.finding import Subject
from cacheproof.model.mixture import base_of
from cacheproof.model.registry import AnyComponent, component_named, scope_file, variant_named
from cacheproof.model.scope import scope_named, scopes_of
from cacheproof.model.store import home
from cacheproof.model.target import Target, TargetError
from cacheproof.model.wire import config_from_message, config_to_message
from cacheproof.targets.factory import open_target
from cachespec.kernel import NORMATIVE


@dataclass(frozen=True, slots=True)
class Profile:
    """How much is tried where nothing is said."""

    steps: int
    steps_in_example: int


PROFILES = {"ci": Profile(steps=2_000, steps_in_example=100), "nightly": Profile(steps=100_000, steps_in_example=200)}


@dataclass(frozen=True, slots=True)
class Plan:
    """One run of one target."""

    subjects: Mapping[str, Subject]
    """By the scope that the configuration is from; under an empty name where it was given in full."""
    target: str
    limit: Limit
    seed: int
    reuse: bool
    """Whether examples that failed before are tried first; not where a seed is given, to make the run repeatable."""
    profile: Profile
    driver: str
    """`hypothesis`, or `lockstep`: the same choice of calls without Hypothesis, for long runs and without the extra."""
    left_out: frozenset[str]
    seconds_to_answer: float
    around: bool = False
    """Whether some episodes have configurations around those of the subjects; only beside the normative variant."""
    minimises: bool = True
    """Whether the finding is minimised at once."""
    examples: str = ""
    """The URL of a Redis server that keeps the examples of Hypothesis; empty for a folder of this machine."""

    @property
    def subject(self) -> Subject:
        """The first scope's; component and variant are those of all."""
        return next(iter(self.subjects.values()))

    @property
    def scope(self) -> str:
        """The scope, if there is one only."""
        return next(iter(self.subjects)) if len(self.subjects) == 1 else ""


DRIVERS = ("hypothesis", "lockstep")


def subjects_from(name: str, variant: str | None, scope: str | None, given: Sequence[str]) -> dict[str, Subject]:
    """Every scope of the component that is run for the variant; or the one that is named, or has other values."""
    component = component_named(name)
    chosen = variant_named(component, variant or NORMATIVE)
    if scope is None and not given and scope_file(component).is_file():
        run = [one for one in scopes_of(component) if base_of(chosen.tag) in one.variants]
        if run:
            return {one.name: Subject(component, chosen, one.config) for one in run}
    subject, origin = subject_from(name, variant, scope, given)
    return {origin: subject}


def subject_from(name: str, variant: str | None, scope: str | None, given: Sequence[str]) -> tuple[Subject, str]:
    """The subject, and the scope that its configuration is from.

    Without a scope it is the first of the component's file that is run for the variant. `given` are KEY=VALUE, which
    replace values of the scope's configuration, or make one where the component has no scopes.
    """
    component = component_named(name)
    chosen = variant_named(component, variant or NORMATIVE)
    config, origin = _base(component, chosen.tag, scope, alone=bool(given))
    values = config | dict(_assignment(text) for text in given)
    return Subject(component, chosen, config_from_message(component, values)), origin


def left_out_from(component: AnyComponent, names: Sequence[str]) -> frozenset[str]:
    """The operations that are not to be drawn, checked."""
    known = {kind.wire_name() for kind in component.operations}
    strange = sorted(set(names) - known)
    if strange:
        raise InputError(f"{component.name} has no operation '{strange[0]}'{did_you_mean(strange[0], sorted(known))}")
    return frozenset(names)


def perform(plan: Plan, progress: Show | None = None) -> Campaign:
    """Run it; the target is closed whatever happens. Operations that it declares not to have are left out."""
    with prepared(plan) as scopes:
        campaign = _performed(plan, scopes, progress)
        if campaign.finding is None:
            entered = [plan.subjects[scope] for scope, calls in campaign.scopes.items() if calls]
            target = scopes.pairs[0].target
            campaign.ignored = tuple(dict.fromkeys(name for one in entered for name in ignored(one, target)))
        return campaign


@contextmanager
def prepared(plan: Plan) -> Iterator[Scoped]:
    """The target beside the specification in all scopes of the plan."""
    subject = plan.subject
    target = open_target(plan.target, subject.component, subject.variant, plan.seconds_to_answer)
    try:
        left_out = plan.left_out | not_there(subject.component, target)
        around = plan.around and base_of(subject.variant.tag) == NORMATIVE
        yield scoped(plan.subjects, target, plan.target, left_out, around=around)
    finally:
        target.close()


def _performed(plan: Plan, scopes: Scoped, progress: Show | None) -> Campaign:
    if plan.driver == "lockstep":
        seconds = SECONDS_TO_SHRINK if plan.minimises else 0.0
        return steered(scopes, plan.limit, plan.seed, seconds_to_shrink=seconds, progress=progress)
    return _with_hypothesis(plan, scopes, progress)


def not_there(component: AnyComponent, target: Target) -> frozenset[str]:
    """The operations that the target declares not to have; a driver that fails here fails again, and is reported."""
    try:
        return declared_by(component, target).missing(component)
    except TargetError:
        return frozenset()


def _with_hypothesis(plan: Plan, scopes: Scoped, progress: Show | None) -> Campaign:
    try:
        from cacheproof.lockstep.machine import run_machine  # noqa: PLC0415  # Hypothesis is an extra
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise MissingExtraError("fuzz", "fuzz (but for --driver lockstep)") from None
    return run_machine(
        scopes,
        plan.limit,
        plan.seed,
        home() / "hypothesis",
        reuse=plan.reuse,
        steps_in_example=plan.profile.steps_in_example,
        minimises=plan.minimises,
        examples=plan.examples,
        progress=progress,
    )


def _base(component: AnyComponent, variant: str, scope: str | None, *, alone: bool) -> tuple[dict[str, Any], str]:
    if scope is not None:
        return config_to_message(scope_named(component, scope).config), scope
    if alone and not scope_file(component).is_file():
        return {}, ""
    scopes = scopes_of(component)
    chosen = next((one for one in scopes if base_of(variant) in one.variants), scopes[0])
    return config_to_message(chosen.config), chosen.name


def _assignment(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"'{text}' is not KEY=VALUE")
    try:
        return key.strip(), json_of(value)
    except ValueError:
        raise InputError(f"'{text}': the value must be an integer or an array, as in sizes=[1,2]") from None
