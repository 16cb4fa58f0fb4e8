"""The decisions of a scheduling step in which schedulers differ: the normative ones and those of the eras.

Each decision is a rule with a type of its own. The functions of a step take a table of rules first. The normative table
is in `normative`; an era is that table with some rules replaced, each with its number in the catalogue.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from cachespec import encoder_cache, kv_blocks
from cachespec.kernel import Variant
from cachespec.scheduler.configuration import Config, ItemIndex, Request
from cachespec.scheduler.round_state import Fit, Prefix, Round, Slots
from cachespec.scheduler.state import Line, Plan, Scheduled, State
from cachespec.scheduler.worker import Key


class Accepts(Protocol):
    """Whether a request is queued when it arrives."""

    def __call__(self, config: Config, request: Request) -> bool: ...


class Queued(Protocol):
    """The state after an arrival was placed among the waiting requests."""

    def __call__(self, config: Config, state: State, request: Request) -> State: ...


class Ended(Protocol):
    """The request's tokens once it is finished."""

    def __call__(self, config: Config, request: Request) -> int: ...


class MayJoin(Protocol):
    """Whether a waiting request may join those that run now, whatever room there is."""

    def __call__(self, config: Config, current: Round, request: Request) -> bool: ...


class PassedBy(Protocol):
    """The round after a waiting request that may not join."""

    def __call__(self, rules: Table, config: Config, current: Round, request: Request) -> Round: ...


class Phase(Protocol):
    """One phase of a round: it serves running requests, or admits waiting ones."""

    def __call__(self, rules: Table, config: Config, current: Round) -> Round: ...


class Wanted(Protocol):
    """The tokens that a running request has to compute from `start` on."""

    def __call__(self, config: Config, state: State, request: Request, start: int) -> int: ...


class InSight(Protocol):
    """The tokens that the request has, and those that steps in flight may sample."""

    def __call__(self, config: Config, state: State, request: Request) -> int: ...


class Offered(Protocol):
    """How many of these `tokens` may be scheduled within `budget`, before the items are looked at."""

    def __call__(self, config: Config, state: State, request: Request, start: int, tokens: int, budget: int) -> int: ...


class FitItem(Protocol):
    """Fits the tokens of a request to one of its items."""

    def __call__(
        self, rules: Table, config: Config, fit: Fit, request: Request, index: ItemIndex, start: int
    ) -> Fit: ...


class Trimmed(Protocol):
    """How many of these `tokens` are scheduled, after the items were looked at."""

    def __call__(self, config: Config, state: State, request: Request, start: int, tokens: int) -> int: ...


class OutputKey(Protocol):
    """The name under which the workers keep the encoder output of an item."""

    def __call__(self, config: Config, request: Request, index: ItemIndex) -> Key: ...


class IsCount(Protocol):
    """Whether this number of tokens is scheduled."""

    def __call__(self, tokens: int) -> bool: ...


class PassedOver(Protocol):
    """The round after a running request got no tokens."""

    def __call__(self, rules: Table, config: Config, current: Round, request: Request, fit: Fit) -> Round: ...


class Victim(Protocol):
    """The running request that is preempted next."""

    def __call__(self, config: Config, state: State) -> Request: ...


class GivesBack(Protocol):
    """The state after a request gave back what it loses: when it is preempted, finished or aborted."""

    def __call__(self, rules: Table, config: Config, state: State, request: Request) -> State: ...


class Placed(Protocol):
    """The line with the request at its place."""

    def __call__(self, config: Config, line: Line, request: Request) -> Line: ...


class CachedPrefix(Protocol):
    """The prefix of a waiting request that need not be computed."""

    def __call__(self, rules: Table, config: Config, state: State, request: Request) -> Prefix: ...


class SlotsForWaiting(Protocol):
    """Blocks for a waiting request, whose prefix is known."""

    def __call__(
        self, rules: Table, config: Config, state: State, request: Request, prefix: Prefix, tokens: int
    ) -> Slots: ...


class Allocated(Protocol):
    """The call to the pool that takes blocks."""

    def __call__(
        self,
        rules: Table,
        config: Config,
        state: State,
        request: Request,
        computed: int,
        tokens: int,
        hits: tuple[int, ...],
    ) -> Slots: ...


class IsReserved(Protocol):
    """Whether an admission takes blocks that others must find; `state` has the blocks after it."""

    def __call__(self, config: Config, state: State, request: Request) -> bool: ...


class Loads(Protocol):
    """The round after a waiting request was found to have external KV that is loaded before it is admitted."""

    def __call__(self, rules: Table, config: Config, current: Round, request: Request, prefix: Prefix) -> Round: ...


class TurnedDown(Protocol):
    """The round after a waiting request was not admitted, for want of an item or of blocks (`cause`)."""

    def __call__(self, rules: Table, config: Config, current: Round, request: Request, cause: int) -> Round: ...


class AfterRound(Protocol):
    """The state after a part of a plan was made, before it is executed."""

    def __call__(self, rules: Table, config: Config, state: State, part: Scheduled) -> State: ...


class Executed(Protocol):
    """The state after a part of a plan was executed; `accepted` of its drafts were right."""

    def __call__(self, rules: Table, config: Config, state: State, part: Scheduled, accepted: int) -> State: ...


class StepDone(Protocol):
    """The state when the step of a plan is done, before its output is looked at. The plan is no longer in flight."""

    def __call__(self, rules: Table, config: Config, state: State, plan: Plan) -> State: ...


class NextTurn(Protocol):
    """The state after a turn was finished: the next turn of its session may begin."""

    def __call__(self, rules: Table, config: Config, state: State, request: Request) -> State: ...


class Table(NamedTuple):
    """The caches of a scheduler, and its rules."""

    kv: Variant[kv_blocks.Config, kv_blocks.Pool, kv_blocks.View]
    encoder: Variant[encoder_cache.Config, Any, encoder_cache.View]
    accepts: Accepts
    queued: Queued
    serve_running: Phase
    admit_waiting: Phase
    in_sight: InSight
    wanted: Wanted
    offered: Offered
    """For a running request."""
    fit_item: FitItem
    trimmed: Trimmed
    output_key: OutputKey
    """The name under which the workers keep the encoder output of an item."""
    is_count: IsCount
    passed_over: PassedOver
    victim: Victim
    lose: GivesBack
    """When it is preempted."""
    lose_at_reset: GivesBack
    """When a reset preempts it."""
    joined: Placed
    """The running requests, with an admitted one."""
    back_in_line: Placed
    """The waiting requests, with a preempted one."""
    may_join: MayJoin
    passed_by: PassedBy
    cached_prefix: CachedPrefix
    offered_whole: Offered
    """For a waiting request."""
    slots: SlotsForWaiting
    allocated: Allocated
    is_reserved: IsReserved
    load: Loads
    turned_down: TurnedDown
    after_round: AfterRound
    step_done: StepDone
    executed: Executed
    ended: Ended
    leave: GivesBack
    """When it is finished."""
    next_turn: NextTurn
    abort: GivesBack
    """When it is aborted."""
