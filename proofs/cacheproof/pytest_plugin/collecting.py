"""Which tests a suite has: one in lockstep for each scope, one for each shortest trace of the catalogue."""

from __future__ import annotations

import importlib.util
import os
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from cacheproof.catalogue.agenda import Calls, agenda
from cacheproof.catalogue.register import entry_named
from cacheproof.foundation.errors import InputError
from cacheproof.foundation.misspelt import UnknownNameError
from cacheproof.lockstep.campaign import Campaign, steered
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.plan import PROFILES, left_out_from
from cacheproof.lockstep.scoped import Scoped
from cacheproof.lockstep.showing import rules_message
from cacheproof.lockstep.shrink import shrunk
from cacheproof.lockstep.tally import Limit
from cacheproof.model.adapted import adapted
from cacheproof.model.finding import Subject
from cacheproof.model.mixture import base_of, with_deviations
from cacheproof.model.registry import AnyComponent, component_named, components, scope_file, variant_named
from cacheproof.model.scope import DEFAULT, Scope, scope_named, scopes_of
from cacheproof.present.show.formats import write_files
from cacheproof.pytest_plugin.noticed import noticed
from cacheproof.pytest_plugin.reporting import FoundError, rendered
from cacheproof.pytest_plugin.seed import RULE, SEED, SHOWN
from cacheproof.skeleton.calls import calls_of
from cacheproof.suite import Suite
from cacheproof.targets.process import InProcessTarget


class SuiteCollector(pytest.Collector):
    """The tests of one suite."""

    def __init__(self, *, suite: Suite, **named: Any) -> None:
        super().__init__(**named)
        self.suite = suite

    def collect(self) -> Iterator[pytest.Item]:
        """The tests, by name; what the suite or an option names wrong is one line."""
        try:
            component = component_named(self.suite.component)
            variant = variant_named(component, with_deviations(self.suite.variant, self.suite.deviations))
            declared = InProcessTarget(self.suite.factory, component).declaration()
            left_out = left_out_from(component, self.suite.without) | declared.missing(component)
            scopes = self._scopes()
            subjects = {scope.name: Subject(component, variant, self._adapted(component, scope)) for scope in scopes}
            traces = list(agenda(component, variant, left_out)) if self.suite.traces else []
            traces = [calls for calls in traces if self._is_as_it_was(component, calls.scope)]
        except InputError as error:
            raise self.CollectError(f"cacheproof: {error}") from None
        shared = {"suite": self.suite, "left_out": left_out}
        for scope in scopes:
            subject = subjects[scope.name]
            yield LockstepItem.from_parent(
                self, name=f"scope[{scope.name}]", scope=scope.name, subject=subject, **shared
            )
        for calls in traces:
            if self._asked_for(calls.scope.name):
                subject = Subject(component, variant, calls.scope.config)
                yield TraceItem.from_parent(self, name=f"trace[{calls.name}]", subject=subject, calls=calls, **shared)

    def _scopes(self) -> list[Scope]:
        """Those that the profile has and that are run for the variant, or just those that are named."""
        component = component_named(self.suite.component)
        wanted: list[str] = self.config.getoption("--cacheproof-scope")
        strange = set(wanted) - {scope.name for scope in scopes_of(component)}
        for one in components().values() if strange else ():
            strange -= {scope.name for scope in scopes_of(one)} if scope_file(one).is_file() else set()
        if strange:
            raise InputError(f"--cacheproof-scope: no component has a scope '{min(strange)}': see `cacheproof list`")
        named = [scope_named(component, name) for name in self.suite.scopes]
        every = self.config.getoption("--cacheproof-profile") != "ci" or bool(wanted)
        known = named or [scope for scope in scopes_of(component) if every or scope.set == DEFAULT]
        tag = variant_named(component, base_of(self.suite.variant)).tag
        return [scope for scope in known if self._asked_for(scope.name) and (named or tag in scope.variants)]

    def _adapted(self, component: AnyComponent, scope: Scope) -> Any:
        """The configuration of the scope as the suite wants it."""
        try:
            return adapted(component, scope.config, self.suite.config, self.suite.unit)
        except UnknownNameError:
            raise
        except InputError as error:
            raise InputError(f"in the scope {scope.name}: {error}; name other scopes, or other values") from None

    def _is_as_it_was(self, component: AnyComponent, scope: Scope) -> bool:
        """Whether the scope's configuration is as the suite wants it: the calls of a trace are for this one."""
        try:
            return bool(self._adapted(component, scope) == scope.config)
        except InputError:
            return False

    def _asked_for(self, scope: str) -> bool:
        wanted: list[str] = self.config.getoption("--cacheproof-scope")
        named = self.suite.scopes
        return (not wanted or scope in wanted) and (not named or scope in named)


class _Item(pytest.Item):
    """One test: it opens the target, and says what was found."""

    def __init__(self, *, suite: Suite, subject: Subject, left_out: frozenset[str], **named: Any) -> None:
        super().__init__(**named)
        self.suite = suite
        self.subject = subject
        self.left_out = left_out
        module = self.getparent(pytest.Module)
        name = self.path.stem if module is None else module.obj.__name__
        self.target = f"python:{name}:{self._suite_name()}"

    def runtest(self) -> None:
        target = InProcessTarget(self.suite.factory, self.subject.component)
        try:
            campaign = self.campaign(target)
        finally:
            target.close()
        self.user_properties.append(("cacheproof_seed", campaign.seed))
        self.user_properties.append(("cacheproof_steps", campaign.tally.steps))
        for rule in rules_message(self.subject.variant, campaign.tally.rules):
            self.user_properties.append((f"{RULE}{self._suite_name()}: {rule['name']}", SHOWN[rule["shown"]]))
        self.user_properties += noticed(self.subject, target, campaign)
        if left_out := self._left_out():
            self.user_properties.append(("cacheproof_left_out", left_out))
        if campaign.finding is not None:
            self.raise_found(campaign)
        if campaign.interrupted:
            raise KeyboardInterrupt
        if campaign.tally.steps == 0:
            raise InputError("nothing was tried: the limit was reached before the first call")
        if partial := self.partial(campaign):
            pytest.skip(f"no answer: {partial}")

    @abstractmethod
    def campaign(self, target: InProcessTarget) -> Campaign:
        """What was done with the target, and found."""

    def about(self) -> str:
        """What the calls are, for a report of what they found."""
        return ""

    def partial(self, campaign: Campaign) -> str:  # noqa: ARG002  # for those that overwrite it
        """Why the test says little although nothing was found; empty if it says something."""
        return ""

    def raise_found(self, campaign: Campaign) -> NoReturn:
        """Fail, and write what was found where that is asked for."""
        finding = campaign.finding
        assert finding is not None
        folder = self.config.getoption("--cacheproof-write")
        files = [] if folder is None else write_files(finding, Path(folder) / _as_folder(self.nodeid))
        raise FoundError(finding, rendered(campaign, finding, self.about(), self._again(), files))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What was found as a table and as a diagram; a wrong input as its line."""
        if isinstance(excinfo.value, FoundError):
            return excinfo.value.text
        if isinstance(excinfo.value, InputError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Where the suite is, and what the test is called."""
        return self.path, None, f"{self._suite_name()} {self.name}"

    def _left_out(self) -> str:
        """The operations that were never asked for; empty where that is none, steps inside of calls not counted."""
        component = self.subject.component
        names = [call.name for call in calls_of(component) if call.name in self.left_out]
        return f"{component.name} without {', '.join(names)}" if names else ""

    def _suite_name(self) -> str:
        return self.parent.name if self.parent is not None else self.name

    def _again(self) -> str:
        given = [f"--cacheproof-seed {self.config.stash[SEED]}"]
        for option in ("steps", "seconds"):
            value = self.config.getoption(f"--cacheproof-{option}")
            given += [f"--cacheproof-{option} {value}"] if value is not None else []
        profile = self.config.getoption("--cacheproof-profile")
        given += [f"--cacheproof-profile {profile}"] if profile != "ci" else []
        return f"pytest '{self.nodeid}' {' '.join(given)}"


class LockstepItem(_Item):
    """Random calls in one scope, beside the specification, by the machine of Hypothesis if that is installed."""

    def __init__(self, *, scope: str, **named: Any) -> None:
        super().__init__(**named)
        self.scope = scope

    def campaign(self, target: InProcessTarget) -> Campaign:
        option = self.config.getoption
        profile = PROFILES[option("--cacheproof-profile")]
        steps, seconds = option("--cacheproof-steps"), option("--cacheproof-seconds")
        pair = Pair(self.subject, target, self.target, self.left_out)
        scopes, seed = Scoped({self.scope: pair}), self.config.stash[SEED]
        limit = Limit(profile.steps if steps is None and seconds is None else steps, seconds)
        if importlib.util.find_spec("hypothesis") is None:
            return steered(scopes, limit, seed)
        from cacheproof.lockstep.machine import run_in_profile  # noqa: PLC0415  # an extra, and slow to import

        repeats = option("--cacheproof-seed") is not None or option("--hypothesis-seed", None) is not None
        limited = steps is not None or seconds is not None
        return run_in_profile(scopes, limit, seed, reuse=not repeats, key=_as_folder(self.nodeid), limited=limited)

    def partial(self, campaign: Campaign) -> str:
        return campaign.tally.partial(kind.wire_name() for kind in self.subject.variant.transitions)


class TraceItem(_Item):
    """The calls that once showed a violation."""

    def __init__(self, *, calls: Calls, **named: Any) -> None:
        super().__init__(**named)
        self.calls = calls

    def campaign(self, target: InProcessTarget) -> Campaign:
        pair = Pair(self.subject, target, self.target, self.left_out)
        campaign = Campaign(self.config.stash[SEED], pair.tally)
        campaign.finding = pair.replay(self.calls.operations, only_offered=False)
        if campaign.finding is not None:
            campaign.finding, campaign.came_again = shrunk(pair, campaign.finding)
        return campaign

    def about(self) -> str:
        entry = entry_named(self.calls.catalogue)
        title = "" if entry is None else f": {entry.title}"
        return f"the calls are those that show {self.calls.catalogue} in {self.calls.era}{title}"


def _as_folder(nodeid: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in nodeid).strip("_.")
