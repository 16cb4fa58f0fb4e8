"""Requests that are never served: a scheduler is driven alone, and watched when nothing arrives any more.

No specification runs beside it. In each load every request could be served if it were alone; so when all have arrived,
steps that schedule nothing and change nothing, again and again, are a deadlock (SCH-8). How long they are watched: for
twice as many steps as there are requests.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from cacheproof.foundation.console import Show
from cacheproof.foundation.minimise import descended
from cacheproof.lockstep.loads import could_be_served, load, without
from cacheproof.lockstep.tally import Limit, Tally
from cacheproof.model.target import Target
from cacheproof.model.wording import not_plain
from cachespec.kernel import Code, Observation, Operation, Outcome
from cachespec.scheduler import COMPONENT, Abort, Add, Config, ResetPrefixCache, Schedule, Update

Calls = tuple[Operation, ...]
Shown = Mapping[str, Observation]

RUNS_OF_A_LOAD = 8
"""Orders of arrival that are tried with one load."""
OTHER_ORDERS = 60
"""In which a load is tried that has stalled."""
LONGER = 6
"""By so many calls one of them may be longer, and is still made smaller."""
RARELY = 0.05
"""How often a request is aborted, or the cached blocks forgotten, where a load has that."""
ROUNDS_PER_TOKEN = 8
"""A load is given up as circling when it takes so many steps for each of its tokens."""


class Sort(Enum):
    """What is found."""

    STALL = "no request is scheduled any more, and nothing changes"
    CIRCLING = "requests are scheduled and preempted, and nobody is finished"
    FAILED = "an assertion of the scheduler fails"
    DIVERGED = "a call does not return"


@dataclass(frozen=True, slots=True)
class Stall:
    """The calls after which nothing happens any more, and how long that was watched."""

    sort: Sort
    config: Config
    calls: Calls
    outcomes: tuple[Outcome, ...]
    shown: Shown
    """What the target shows at the end, and showed all the time."""
    idle: int
    """Steps that were asked for after that, and scheduled nothing."""
    remark: str = ""
    """What the target said of the last call beside its outcome: the exception of one that failed."""


@dataclass(slots=True)
class StallSearch:
    """What a search did."""

    seed: int
    tally: Tally = field(default_factory=Tally)
    loads: int = 0
    """That were tried, each in several orders of arrival."""
    passed: Counter[Sort] = field(default_factory=Counter)
    """Findings of sorts that were not asked for."""
    finding: Stall | None = None
    interrupted: bool = False
    seconds: float = 0.0


def search(
    target: Target,
    *,
    limit: Limit,
    seed: int,
    wanted: Collection[Sort] = tuple(Sort),
    wide: bool = False,
    suitable: Callable[[Config], bool] = lambda config: True,
    progress: Show | None = None,
) -> StallSearch:
    """Random loads, one after the other, until one ends as is wanted; it is made smaller then.

    Ctrl-C ends it with what is known: what was found, as far as it was made smaller.

    `wide`: with drafts, prompts that are not cut, and what else there is in `loads.widened`.

    Loads that are not `suitable` are passed over: those with settings that the target does not have.

    Raises TargetError where the target's driver fails.
    """
    done, tried = StallSearch(seed), None
    try:
        for run, config, source in runs(seed, wide=wide):
            if limit.reached(done.tally):
                break
            if not suitable(config):
                continue
            if run // RUNS_OF_A_LOAD != tried:
                done.loads, tried = done.loads + 1, run // RUNS_OF_A_LOAD
            found = Watch(target, config, done.tally).random(source)
            if found is not None and found.sort in wanted:
                done.finding = found
                done.finding = smaller(target, found)
                done.finding = in_another_order(target, done.finding, seed)
                break
            if found is not None:
                done.passed[found.sort] += 1
            if progress is not None:
                progress(
                    f"{done.tally.steps:,} calls, {done.loads:,} loads, {done.passed.total():,} findings passed over"
                )
    except KeyboardInterrupt:
        done.interrupted = True
    done.seconds = done.tally.seconds
    return done


def runs(seed: int, *, wide: bool = False) -> Iterator[tuple[int, Config, random.Random]]:
    """Each load with several orders of arrival; the same seed gives the same ones."""
    run = 0
    while True:
        config = load(random.Random(f"{seed}/{run}"), wide=wide)  # noqa: S311  # not a secret
        for _ in range(RUNS_OF_A_LOAD):
            yield run, config, random.Random(f"{seed}/{run}/order")  # noqa: S311  # not a secret
            run += 1


class Watch:
    """One run of a load."""

    def __init__(self, target: Target, config: Config, tally: Tally) -> None:
        self._target, self._config, self._tally = target, config, tally
        self._calls: list[Operation] = []
        self._outcomes: list[Outcome] = []
        self._shown: Shown = {}

    def _disturbed(self, source: random.Random, operation: Operation) -> Operation:
        """With drafts, some of them are right; where a load has aborts or resets, one of them now and then instead."""
        if isinstance(operation, Update) and self._config.drafts:
            return Update(source.randint(0, self._config.drafts))
        live = (*_names(self._shown["waiting"]), *_names(self._shown["running"]))
        if self._config.aborts and live and source.random() < RARELY:
            return Abort(source.choice(live))
        return ResetPrefixCache() if self._config.resets and source.random() < RARELY else operation

    def random(self, source: random.Random) -> Stall | None:
        """Requests arrive in any order, between steps and their output; then nothing arrives."""
        arriving = list(range(len(self._config.prompts)))
        source.shuffle(arriving)
        self._restart()
        while arriving:
            possible = [*self._steps(), *([Add(arriving[-1])] * 2)]
            operation = self._disturbed(source, source.choice(possible))
            if isinstance(operation, Add):
                arriving.pop()
            if self._does_not_return(operation):
                return self._found()
        return self._settled()

    def again(self, calls: Calls) -> Stall | None:
        """These calls, and then nothing arrives."""
        self._restart()
        for operation in calls:
            if self._does_not_return(operation):
                return self._found()
        return self._settled()

    def _settled(self) -> Stall | None:
        """Steps until all are served; or until there is nothing but idle ones, or there are too many."""
        made, patience = len(self._calls), 2 * len(self._config.prompts)
        idle = 0
        for _ in range(ROUNDS_PER_TOKEN * (sum(self._config.prompts) + sum(self._config.outputs))):
            if not self._shown["waiting"] and not self._shown["running"]:
                return None
            before = self._shown
            operation = next(iter(self._steps()))
            if self._does_not_return(operation):
                return self._found()
            if not isinstance(operation, Schedule):
                continue
            idle = idle + 1 if self._shown == before and not self._outcomes[-1].values else 0
            if idle == 0:
                made = len(self._calls)
            if idle >= patience:
                return self._found(Sort.STALL, made, idle)
        return self._found(Sort.CIRCLING, made, 0)

    def _found(self, sort: Sort | None = None, made: int | None = None, idle: int = 0) -> Stall:
        """The calls until then; for a call that ended badly, all."""
        ended = Sort.DIVERGED if self._outcomes[-1].code is Code.DIVERGED else Sort.FAILED
        end = len(self._calls) if made is None else made
        calls, outcomes = tuple(self._calls[:end]), tuple(self._outcomes[:end])
        remark = str(getattr(self._target, "remark", ""))
        return Stall(sort or ended, self._config, calls, outcomes, self._shown, idle, remark)

    def _steps(self) -> Iterable[Operation]:
        """What the engine can do: the output of a step that is in flight, or another step."""
        plans = self._shown["plans"]
        assert isinstance(plans, int)
        if plans > 0:
            yield Update(0)
        if plans < self._config.ahead:
            yield Schedule()

    def _restart(self) -> None:
        self._target.reset(self._config)
        self._calls, self._outcomes, self._shown = [], [], self._target.observe()
        self._tally.episodes += 1

    def _does_not_return(self, operation: Operation) -> bool:
        """Make the call; whether it ended so that there is nothing to go on with."""
        outcome = self._target.apply(operation)
        self._calls.append(operation)
        self._outcomes.append(outcome)
        self._tally.count(operation, outcome)
        if outcome.code in (Code.DIVERGED, Code.FAILED):
            return True
        self._shown = dict(self._target.observe())
        return False


def _names(shown: Observation) -> tuple[int, ...]:
    """A queue as it is shown."""
    assert isinstance(shown, tuple)
    return shown


def in_another_order(target: Target, finding: Stall, seed: int) -> Stall:
    """The smallest finding of the same sort that this load comes to in other orders of arrival, or the given one."""
    best, tally = finding, Tally()
    for order in range(OTHER_ORDERS):
        source = random.Random(f"{seed}/other/{order}")  # noqa: S311  # not a secret
        found = Watch(target, best.config, tally).random(source)
        if found is not None and found.sort is best.sort and len(found.calls) <= len(best.calls) + LONGER:
            best = min(best, smaller(target, found), key=size)
    return best


def smaller(target: Target, finding: Stall) -> Stall:
    """The same sort of finding with fewer requests and calls, as far as leaving out one at a time reaches."""
    tally = Tally()

    def accepted(best: Stall, candidate: tuple[Config, Calls]) -> Stall | None:
        config, calls = candidate
        stall = Watch(target, config, tally).again(calls)
        return stall if stall is not None and stall.sort is best.sort and size(stall) < size(best) else None

    return descended(finding, candidates, accepted)


def size(finding: Stall) -> tuple[int, int, int]:
    """Requests, then calls, then settings that are not as they are by default."""
    return len(finding.config.prompts), len(finding.calls), len(not_plain(finding.config))


def candidates(finding: Stall) -> Iterator[tuple[Config, Calls]]:
    """Without one request, without one call or two that are no arrivals, or with a setting as it is by default."""
    config, calls = finding.config, finding.calls
    for request in range(len(config.prompts)) if len(config.prompts) > 1 else ():
        yield without(config, request), tuple(renamed(calls, request))
    for many in (1, 2):
        for place in range(len(calls) - many + 1):
            if not any(isinstance(operation, Add) for operation in calls[place : place + many]):
                yield config, (*calls[:place], *calls[place + many :])
    for name in not_plain(config):
        plainer = config._replace(**{name: config._field_defaults[name]})
        if COMPONENT.invalid(plainer) is None and all(
            could_be_served(plainer, one) for one in range(len(config.prompts))
        ):
            yield plainer, calls


def renamed(calls: Calls, gone: int) -> Iterator[Operation]:
    """The calls of the others, who move up."""
    for operation in calls:
        if not isinstance(operation, Add | Abort):
            yield operation
        elif operation.request != gone:
            yield type(operation)(operation.request - (operation.request > gone))
