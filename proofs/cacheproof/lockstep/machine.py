"""One Hypothesis state machine for any component and any target, derived from the declarations.

There is one rule for each operation of the vocabulary; a rule draws which of the operations that are offered now it
performs, by its place in the alphabet, so that a failure shrinks towards fewer and simpler operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from cacheproof.foundation.interruption import Interruption, remembered
from cacheproof.lockstep.campaign import STEPS_BETWEEN_PROGRESS, Campaign
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.shrink import SECONDS_TO_SHRINK, shrunk
from cacheproof.lockstep.tally import Limit, Tally
from cacheproof.model.finding import Finding
from cacheproof.model.wording import count
from cachespec.kernel import Kind, Operation

STEPS_IN_EXAMPLE = 50
FAULT_EVERY = 4
"""A fault whose turn has come happens once in so many times: runs of little but faults never get anywhere."""
RUNS_TO_SHRINK = 150
"""How many runs Hypothesis has for shrinking; what it leaves, `shrunk` finishes. A count, to be the same every time."""


class FoundError(Exception):
    """Tells Hypothesis that this run fails."""


class _Enough(BaseException):
    """The limit of the run is reached: not an error, and not for Hypothesis to catch."""


class _Search:
    """What the machine's instances share: the pair, the limit, and the smallest finding so far."""

    def __init__(
        self, pair: Pair, limit: Limit, progress: Callable[[str], None] | None, interruption: Interruption
    ) -> None:
        self.pair = pair
        self.interruption = interruption
        self.limit = limit
        self.progress = progress
        self.finding: Finding | None = None
        self.tally = pair.tally

    def take(self, finding: Finding | None) -> None:
        """Keep the finding if it is the smallest; from the first one on, what runs is shrinking, counted apart."""
        if finding is None:
            return
        if self.finding is None:
            self.pair.tally = Tally()
        if self.finding is None or len(finding.trace.steps) <= len(self.finding.trace.steps):
            self.finding = finding
        raise FoundError(type(finding).__name__)

    def go_on(self) -> None:
        """Raise if the limit of looking for something, or of shrinking it, is reached, or if Ctrl-C came."""
        self.interruption.raise_if_any()
        if self.finding is None and self.limit.reached(self.tally):
            raise _Enough
        if self.finding is not None and self.pair.tally.episodes > RUNS_TO_SHRINK:
            raise _Enough
        if self.progress is not None and self.pair.tally.steps % STEPS_BETWEEN_PROGRESS == 0:
            doing = "no difference" if self.finding is None else "shrinking"
            about = f"{self.pair.subject.component.name} {self.pair.subject.variant.tag}"
            done = f"{count(self.tally.steps, 'step')}, {count(self.tally.episodes, 'example')}"
            self.progress(f"{about}: {done}, {doing}")


def machine(search: _Search, operations: Sequence[type[Operation]]) -> type[RuleBasedStateMachine]:
    """The state machine: a rule for each operation of the vocabulary."""

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            search.take(search.pair.restart())

    rules: dict[str, Any] = {kind.wire_name(): _rule_for(search, kind) for kind in operations}
    rules["begin_again"] = _begin_again(search)
    return type("Lockstep", (Machine,), rules)


def _rule_for(search: _Search, kind: type[Operation]) -> Any:
    def offered() -> list[Operation]:
        return [operation for operation in search.pair.offered if type(operation) is kind]

    def perform(self: RuleBasedStateMachine, data: st.DataObject) -> None:
        search.go_on()
        if kind.kind is Kind.FAULT and data.draw(st.integers(0, FAULT_EVERY - 1)) != FAULT_EVERY - 1:
            return
        search.take(search.pair.apply(data.draw(st.sampled_from(offered()))))

    perform.__name__ = kind.wire_name()
    return precondition(lambda self: bool(offered()))(rule(data=st.data())(perform))


def _begin_again(search: _Search) -> Any:
    def begin_again(self: RuleBasedStateMachine) -> None:
        """Where nothing is offered any more, the episode is over."""
        search.go_on()
        search.take(search.pair.restart())

    return precondition(lambda self: not search.pair.offered)(rule()(begin_again))


def run_machine(
    pair: Pair,
    limit: Limit,
    seed_number: int,
    home: Path,
    *,
    reuse: bool,
    steps_in_example: int = STEPS_IN_EXAMPLE,
    seconds_to_shrink: float = SECONDS_TO_SHRINK,
    progress: Callable[[str], None] | None = None,
) -> Campaign:
    """Run until a finding, the limit, or Ctrl-C. With `reuse`, examples that failed before are tried first.

    Failing examples are kept under `home`, by component, variant and target.
    """
    campaign = Campaign(seed_number, pair.tally)
    set_hypothesis_home_dir(home)
    chosen = settings(
        max_examples=10**9,  # the limit counts steps and seconds
        stateful_step_count=steps_in_example,
        database=DirectoryBasedExampleDatabase(home / "examples" / _folder(pair)),
        phases=(*([Phase.reuse] if reuse else []), Phase.generate, Phase.shrink),
        deadline=None,
        verbosity=Verbosity.quiet,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    with remembered() as interruption:
        search = _Search(pair, limit, progress, interruption)
        try:
            seeded = seed(seed_number)(machine(search, pair.subject.component.operations))
            run_state_machine_as_test(seeded, settings=chosen)
        except (FoundError, Flaky, _Enough):
            pass
        except KeyboardInterrupt:
            campaign.interrupted = search.finding is None
    if search.finding is not None:
        campaign.finding, campaign.came_again = shrunk(pair, search.finding, seconds_to_shrink, progress)
    campaign.seconds = campaign.tally.seconds
    return campaign


def _folder(pair: Pair) -> str:
    """A folder for each subject and target: examples of one say nothing about another."""
    parts = (pair.subject.component.name, pair.subject.variant.tag, pair.name)
    return "-".join("".join(letter if letter.isalnum() else "_" for letter in part) for part in parts)
