"""One Hypothesis state machine for any component and any target, derived from the declarations.

Its rule makes one call. Hypothesis draws the call by its place among those that are offered, so that a failure is kept,
repeated and shrunk towards fewer and simpler calls. A backend of Hypothesis (`backend`) lets `Steering` say which place
is drawn; without it the calls would be drawn evenly, and most of them would change nothing.

There are no bundles of names. The specification offers only calls about names that its configuration has, and handles
that it gave out and that are still valid; scopes without discipline offer others on purpose. If names are the
implementation's own (`renaming`), a call is offered once the implementation has shown all names in it.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.database import DirectoryBasedExampleDatabase, ExampleDatabase
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError, MissingExtraError, shortened
from cacheproof.foundation.interruption import Interruption, remembered
from cacheproof.lockstep.backend import BACKEND, drawn
from cacheproof.lockstep.campaign import STEPS_BETWEEN_PROGRESS, Campaign
from cacheproof.lockstep.scoped import Scoped
from cacheproof.lockstep.shrink import SECONDS_TO_SHRINK, shrunk
from cacheproof.lockstep.steering import Steering
from cacheproof.lockstep.tally import Limit, Tally
from cacheproof.model.finding import Breakdown, Finding
from cacheproof.model.wording import count

STEPS_IN_EXAMPLE = 100
RUNS_TO_SHRINK = 150
"""How many runs Hypothesis has for shrinking; what it leaves, `shrunk` finishes. A count, to be the same every time."""
LARGEST_NUMBER = (1 << 32) - 1


class FoundError(Exception):
    """Tells Hypothesis that this run fails."""


class _Enough(BaseException):
    """The limit of the run is reached: not an error, and not for Hypothesis to catch."""


class _Search:
    """What the machine's instances share: the scopes, the limit, and the smallest finding so far."""

    def __init__(self, scopes: Scoped, limit: Limit, progress: Show | None, interruption: Interruption) -> None:
        self.scopes = scopes
        self.steering = Steering(scopes.pairs, random.Random(0))  # noqa: S311  # seeded by Hypothesis for each example
        self.interruption = interruption
        self.limit = limit
        self.progress = progress
        self.finding: Finding | None = None
        self.number = 0
        """Of the scope that the finding is in."""
        self.examples = 0
        self.tally = scopes.tally
        self.refused: InputError | None = None

    def take(self, number: int, finding: Finding | None) -> None:
        """Keep the finding if it is the smallest; from the first one on, what runs is shrinking, counted apart."""
        if finding is None:
            return
        if self.finding is None:
            self.scopes.count_in(Tally())
            self.examples = 0
        if self.finding is None or len(finding.trace.steps) <= len(self.finding.trace.steps):
            self.finding, self.number = finding, number
        if isinstance(finding, Breakdown) and not finding.trace.steps:
            raise _Enough  # no call was made: nothing is smaller, and every attempt may take as long as an answer may
        raise FoundError(type(finding).__name__)

    def go_on(self) -> None:
        """Raise if the limit of looking for something, or of shrinking it, is reached, or if Ctrl-C came."""
        self.interruption.raise_if_any()
        if self.finding is None and self.limit.reached(self.tally):
            raise _Enough
        if self.finding is not None and self.examples > RUNS_TO_SHRINK:
            raise _Enough
        if self.progress is not None and self.scopes.tally.steps % STEPS_BETWEEN_PROGRESS == 0:
            doing = "no difference" if self.finding is None else "shrinking"
            about = f"{self.scopes.subject.component.name} {self.scopes.subject.variant.tag}"
            done = f"{count(self.tally.steps, 'step')}, {count(self.tally.episodes, 'episode')}"
            self.progress(f"{about}: {done}, {doing}")

    def restart(self, number: int, settings: int) -> bool:
        """Whether an episode began in this scope, with its own settings (0) or some around them."""
        try:
            began, finding = self.scopes.restart(number, settings)
        except InputError as error:
            self.refused = error
            raise _Enough from None
        self.take(number, finding)
        return began


# There is no `hypothesis.target()` on new situations: Hypothesis never optimises what another backend generated, and
# `Steering` prefers calls that lead to new states by itself.


def machine(search: _Search, steps: int) -> type[RuleBasedStateMachine]:
    """The state machine: a rule that makes a call. An example has several episodes, each in one scope."""
    scopes, steering = search.scopes, search.steering

    class Lockstep(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.number, self.begun = 0, 0, False
            search.examples += 1

        @initialize(data=st.data())
        def begin(self, data: st.DataObject) -> None:
            """How many calls the example has, and a seed for the steering: so all chance is that of Hypothesis."""
            self.left = drawn(data, steps, lambda: steps)
            steering.source.seed(f"{data.draw(st.integers(0, LARGEST_NUMBER))}/{search.tally.episodes}")

        @rule(data=st.data())
        def call(self, data: st.DataObject) -> None:
            """One call, or the end of the episode and the first call of the next one."""
            if self.left == 0:
                return
            self.left -= 1
            search.go_on()
            pair = scopes.pairs[self.number]
            offered = pair.offered if self.begun else ()
            place = drawn(data, len(offered), lambda: steering.choose(self.number)) if offered else 0
            if place == len(offered):
                self.begin_episode(data)
                pair = scopes.pairs[self.number]
                place = drawn(data, len(pair.offered) - 1, lambda: steering.choose(self.number, first=True))
            if search.finding is None:
                scopes.count_call(self.number)
            search.take(self.number, pair.apply(pair.offered[place]))
            steering.note(self.number)

        def begin_episode(self, data: st.DataObject) -> None:
            """In the next scope that the target does not refuse."""
            self.begun = False
            while not self.begun:
                self.number = drawn(data, len(scopes.pairs) - 1, lambda: steering.begin(scopes.set_aside_numbers))
                settings = drawn(data, LARGEST_NUMBER, steering.settings) if scopes.around is not None else 0
                self.begun = search.restart(self.number, settings)

    return Lockstep


def run_machine(
    scopes: Scoped,
    limit: Limit,
    seed_number: int,
    home: Path,
    *,
    reuse: bool,
    steps_in_example: int = STEPS_IN_EXAMPLE,
    seconds_to_shrink: float = SECONDS_TO_SHRINK,
    minimises: bool = True,
    examples: str = "",
    progress: Show | None = None,
) -> Campaign:
    """Run until a finding, the limit, or Ctrl-C. With `reuse`, examples that failed before are tried first.

    Failing examples are kept under `home`, by component, variant and target; or by the Redis server with the URL
    `examples`. Without `minimises`, the finding is as it was seen. Raises InputError if the server is not reached.
    """
    set_hypothesis_home_dir(home)
    chosen = settings(
        max_examples=10**9,  # the limit counts steps and seconds
        stateful_step_count=steps_in_example + 1,
        database=_shared(examples, _folder(scopes))
        if examples
        else DirectoryBasedExampleDatabase(home / "examples" / _folder(scopes)),
        phases=(*([Phase.reuse] if reuse else []), Phase.generate, *([Phase.shrink] if minimises else [])),
        deadline=None,
        verbosity=Verbosity.quiet,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        backend=BACKEND,
    )
    return run_with(scopes, limit, chosen, seed_number, seconds_to_shrink if minimises else 0.0, progress)


def _shared(url: str, name: str) -> ExampleDatabase:
    """Hypothesis' own database in a Redis server, under keys of this name."""
    try:
        from hypothesis.extra.redis import RedisExampleDatabase  # noqa: PLC0415  # an extra
        from redis import Redis, RedisError  # noqa: PLC0415  # likewise
    except ImportError:
        raise MissingExtraError("redis", f"--examples {url}") from None
    try:
        server = Redis.from_url(url)
        server.ping()
    except (RedisError, ValueError, OSError) as error:
        raise InputError(f"--examples {url}: no Redis server: {shortened(str(error))}") from None
    return RedisExampleDatabase(server, key_prefix=f"cacheproof-{name}:".encode())


def run_in_profile(scopes: Scoped, limit: Limit, seed_number: int, *, reuse: bool, key: str, limited: bool) -> Campaign:
    """The same with the settings of the profile of Hypothesis that is loaded: its database, phases and verbosity.

    `key` tells the examples of this test from those of others in the same database. Unless the caller has `limited`
    the run, a profile that is not one of Hypothesis' own also says how many examples there are and how long they are.
    """
    given = settings()
    own = settings.get_current_profile_name() not in ("default", "ci")
    chosen = settings(
        given,
        max_examples=given.max_examples if own and not limited else 10**9,
        stateful_step_count=given.stateful_step_count if own else STEPS_IN_EXAMPLE + 1,
        phases=tuple(phase for phase in given.phases if reuse or phase is not Phase.reuse),
        derandomize=False,  # the seed is given, and is said
        database=given.database,
        deadline=None,
        verbosity=given.verbosity if own else Verbosity.quiet,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        backend=BACKEND if given.backend == "hypothesis" else given.backend,
    )
    return run_with(scopes, Limit() if own and not limited else limit, chosen, seed_number, key=key)


def run_with(
    scopes: Scoped,
    limit: Limit,
    chosen: settings,
    seed_number: int,
    seconds_to_shrink: float = SECONDS_TO_SHRINK,
    progress: Show | None = None,
    *,
    key: str = "",
) -> Campaign:
    """The same with settings that are made. Hypothesis finds examples in a database by the name of the machine."""
    campaign = Campaign(
        seed_number, scopes.tally, scopes=scopes.calls, set_aside=scopes.set_aside, around=scopes.around
    )
    with remembered() as interruption:
        search = _Search(scopes, limit, progress, interruption)
        try:
            made = machine(search, chosen.stateful_step_count - 1)
            made.__name__ += f"_{key}" if key else ""
            run_state_machine_as_test(seed(seed_number)(made), settings=chosen)
        except (FoundError, Flaky, _Enough):
            pass
        except KeyboardInterrupt:
            campaign.interrupted = search.finding is None
    if search.refused is not None and search.finding is None:
        raise search.refused
    if search.finding is not None:
        pair, campaign.scope = scopes.pairs[search.number], scopes.scope_of(search.number, search.finding)
        pair.configure(search.finding.trace.config)
        campaign.finding, campaign.came_again = shrunk(pair, search.finding, seconds_to_shrink, progress)
    campaign.seconds = campaign.tally.seconds
    return campaign


def _folder(scopes: Scoped) -> str:
    """A folder for each subject and target: examples of one say nothing about another."""
    subject, names = scopes.subject, "all" if len(scopes.pairs) > 1 else scopes.names[0]
    parts: Any = (subject.component.name, subject.variant.tag, scopes.pairs[0].name, names)
    return "-".join("".join(letter if letter.isalnum() else "_" for letter in part) for part in parts)
