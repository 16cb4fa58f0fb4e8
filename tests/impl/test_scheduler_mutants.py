"""Planted bugs in the scheduler's tensor code: each is caught in the triples of a small scope, or on a short run.

Those that leave the layout are caught earlier, by its bounds or by a derived field that disagrees.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.impl.scheduler_runs import Extent, Lockstep, Tensors, crowded, of_sort, pictured

from cacheimpl.layout import OutOfBoundsError, RoundTripError
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scopes_of
from cacheproof.search.tensor import compare
from cacheproof.tensor_models import model_of
from cachespec.scheduler import Config
from cachespec.scheduler.configuration import STORED
from cachespec.scheduler.operations import Add, Schedule

torch.set_num_threads(1)

Plant = Callable[[str, str, str], None]

CODE = "cacheimpl.scheduler"

MUTANTS: dict[str, tuple[str, str, str, str]] = {
    # many requests at once
    "each request has the whole budget": (
        "drafts-in-turn",
        f"{CODE}.burst.serve_first",
        "$state.tokens_left + $counts - $counts.cumsum(0)",
        "$state.tokens_left + 0 * $counts",
    ),
    "who is not settled is passed over": ("outrun", f"{CODE}.burst.leading", "(~$good).cumsum(0) == 0", "$good"),
    "blocks that are lacking are not noticed": (
        "line",
        f"{CODE}.burst.serve_first",
        "torch.minimum($slots.served, $x)",
        "$x",
    ),
    "an item that is refused is read": (
        "outrun",
        f"{CODE}.burst.serve_first",
        "$reservation.settled if $settled is None else $x",
        "$reservation.settled | True if $settled is None else $x",
    ),
    "an item that was computed is waited for": (
        "many pictures on a run",
        f"{CODE}.reserving.up_to_barred",
        "$ends >= $start[:, None]",
        "$ends >= 0",
    ),
    "blocks that a transfer holds are given back": (
        "loads",
        f"{CODE}.single.given_back_from",
        "$x($ranks, $sides, value=OUTSIDE)",
        "$x(torch.where(queued($ranks), $ranks, count), $sides, value=count)",
    ),
    "the void step of a request that was stopped counts": (
        "stops-ahead",
        f"{CODE}.requests.update",
        "$state.turns.shape[0] > 1",
        "False",
    ),
    "a failed step keeps its computed tokens": (
        "failed-step-ahead",
        f"{CODE}.transfers.failed_step",
        "torch.where($mine, $tokens, $after.computed)",
        "$after.computed",
    ),
    "the next turn of a session waits on": ("longer-turns", f"{CODE}.requests.release", "$config.sessions", "False"),
    "a session that is aborted between turns goes on": (
        "sessions",
        f"{CODE}.requests.abort",
        "$live | row(awaited($config, $state), $request)",
        "$live",
    ),
    "what many encode is not charged": (
        "compute-budget",
        f"{CODE}.burst.with_items",
        "torch.where(*$rest).sum()",
        "0 * torch.where(*$rest).sum()",
    ),
    "what is pinned in vain keeps its age": (
        "pictures on a run",
        f"{CODE}.burst.admit_first",
        "$refused & ~$reservation.reads.any(1)",
        "$refused",
    ),
    "one runs too many": (
        "limits",
        f"{CODE}.burst.admit_first",
        "$x < $config.max_running",
        "$x <= $config.max_running",
    ),
    "who waits for an item is admitted without it": (
        "three-requests",
        f"{CODE}.burst.admit_first",
        "$settled & $reservation.settled",
        "$settled",
    ),
    "a budget that chunks do not use up is used up": (
        "twelve on a run",
        f"{CODE}.burst.serve_first",
        "$wants <= $left",
        "$wants >= 0",
    ),
    # one at a time
    "one victim too many": (
        "outrun",
        f"{CODE}.single.with_room",
        "$x < $lacking",
        "$x <= $lacking",
    ),
    "nobody preempts itself": (
        "line",
        f"{CODE}.single.with_room",
        "$short & ($places > $state.served) & $z",
        "$short & ($places > $state.served + 1) & $z",
    ),
    "a shared block is given back by the first that goes": (
        "four on a run",
        f"{CODE}.single.given_back_from",
        "$x(0, $held.flatten(), $ranks.flatten(), 'amin')",
        "$x(0, $held.flatten(), $ranks.flatten(), 'amax', include_self=False)",
    ),
    "victims wait in the wrong order": (
        "six on a run",
        f"{CODE}.single.set_back",
        "before_equals(*$first, $turns)",
        "before_equals(*$first, -$turns)",
    ),
    "what is in flight for a victim counts": (
        "overtaken",
        f"{CODE}.single.set_back",
        "voided($state, $victims)",
        "$state",
    ),
    "a victim keeps its items": (
        "circular-wait",
        f"{CODE}.single.set_back",
        "released_in_turn($config, $state.encoder, $everything, $x)",
        "$state.encoder",
    ),
    "who is passed over keeps its pins": (
        "circular-wait",
        f"{CODE}.single.one",
        "choose($passed_over | $turned_down, *$rest)",
        "choose($passed_over, *$rest)",
    ),
    "who is behind overtakes": (
        "outrun",
        f"{CODE}.single.one",
        "$state.closed | $x",
        "$state.closed",
    ),
    "grants are not counted": (
        "overcommit",
        f"{CODE}.items._with_item",
        "$granted + torch.where($room, $length, 0)",
        "$granted",
    ),
    "what an item costs is not charged": (
        "costly pictures on a run",
        f"{CODE}.items._with_item",
        "$fit.embeds - torch.where($room, $length, 0)",
        "$fit.embeds",
    ),
    "idle in the order of the first input": (
        "interleaved",
        f"{CODE}.items.released_in_turn",
        "$x(0, $entries, $moments.flatten(), 'amax')",
        "$x(0, $entries, $moments.flatten(), 'amin', include_self=False)",
    ),
    # encoder outputs from a connector
    "an output is not awaited": (
        "outputs-elsewhere-and-room",
        f"{CODE}.readiness.candidates",
        "$out | awaits_output($config, $state)",
        "$out",
    ),
    "one output costs compute budget": (
        "pictures from elsewhere on a run",
        f"{CODE}.items._with_item",
        "torch.where($stored, $length, $fit.embeds)",
        "$fit.embeds",
    ),
    "one output is loaded and paid for": (
        "few pictures from elsewhere on a run",
        f"{CODE}.items._with_item",
        "torch.where($stored, 0, $length)",
        "$length",
    ),
    "many outputs cost compute budget": (
        "many pictures from elsewhere on a run",
        f"{CODE}.burst.with_items",
        "torch.where($encode, *$rest).sum()",
        "torch.where(new, *$rest).sum()",
    ),
    "an output that is loaded is encoded, too": (
        "outputs-elsewhere-and-room",
        f"{CODE}.reserving.reserved",
        "$first.absent & ~$stored.flatten()",
        "$first.absent",
    ),
    "a loaded output has no slots": (
        "outputs-elsewhere-and-room",
        f"{CODE}.burst.with_items",
        "$encode | ($x & $y)",
        "$encode",
    ),
    "a load is not told to the workers": (
        "outputs-elsewhere-and-room",
        f"{CODE}.plans.with_parts",
        "$state.fetched | $x",
        "$state.fetched",
    ),
    "an output that is lost is still expected": (
        "outputs-elsewhere-and-room",
        f"{CODE}.connector.lose_output",
        "with_phase($state, $content, NOT_REMOTE)",
        "$state",
    ),
    "an output that arrives twice is answered as the first time": (
        "outputs-elsewhere-and-room",
        f"{CODE}.connector.bring_output",
        "int(Code.PRESENT)",
        "int(Code.DONE)",
    ),
    "a prompt as long as a pooling model is refused": (
        "pooling",
        f"{CODE}.feasibility.limits_of",
        "$config.max_model_len + int($config.pools)",
        "$config.max_model_len",
    ),
    # counts and plans
    "the last token is computed": (
        "read-in-flight",
        f"{CODE}.counts.wanted",
        "$config.finals - constant(1, $sight.device)",
        "$config.finals",
    ),
    "a step samples a token late": ("line", f"{CODE}.plans.with_parts", "$end >= $sight", "$end > $sight"),
    "a chunk is not aligned": (
        "aligned-again",
        f"{CODE}.counts.aligned",
        "torch.where($cut, $boundary - $start, $tokens)",
        "$tokens",
    ),
    "the workers are told twice": ("line", f"{CODE}.plans.concluded", "$state.leaving & ~$says", "$state.leaving"),
    "a round with nothing to say is a plan": (
        "line",
        f"{CODE}.plans.concluded",
        "$over & events",
        "$over",
    ),
    # outputs
    "what is void counts": (
        "aborted",
        f"{CODE}.requests.executed",
        "if $void:\n    $turns = torch.where(*$rest)\n    $body",
        "if False:\n    $turns = torch.where(*$rest)\n    $body",
    ),
    "drafts that were wrong count": (
        "drafts-in-turn",
        f"{CODE}.requests.executed",
        "($end - $rejected, $x)",
        "($end, $x)",
    ),
    "an item is released too late": (
        "shared-item",
        f"{CODE}.items.are_behind",
        "$x <= $end[:, None]",
        "$x < $end[:, None]",
    ),
    "who is finished last goes first": (
        "shared-item",
        f"{CODE}.requests.release",
        "$turns < $extent.releases",
        "$turns > $extent.releases",
    ),
    "a request that just fits is turned away": (
        "limits",
        f"{CODE}.feasibility.request_fits",
        "$computed <= $limits.room",
        "$computed < $limits.room",
    ),
}

INTERLEAVED = Config(
    block_size=2,
    kv_blocks=4,
    token_budget=4,
    encoder_compute=4,
    encoder_capacity=4,
    max_running=1,
    max_model_len=8,
    prompts=(4,),
    outputs=(2,),
    items=(((0, 0, 1), (1, 1, 1), (0, 2, 1)),),
)
"""The first item again behind the second one: it is released last."""

SHARED = Config(
    block_size=2,
    kv_blocks=13,
    token_budget=5,
    encoder_compute=1,
    encoder_capacity=1,
    max_running=4,
    max_model_len=20,
    prompts=(18, 2, 16, 9),
    outputs=(5, 6, 2, 6),
    groups=(0, 0, 0, 1),
    shared=(12, 1, 11, 7),
    long_prefill_threshold=3,
    aborts=1,
    resets=1,
)
"""Requests that begin alike, and blocks for two of them."""

STORED_TWICE = Config(
    block_size=1,
    kv_blocks=8,
    token_budget=8,
    encoder_compute=2,
    encoder_capacity=4,
    max_running=2,
    max_model_len=4,
    prompts=(3, 3),
    outputs=(1, 1),
    items=(((0, 0, 2),), ((1, 0, 2),)),
    encoder_connector=(STORED, STORED),
)
"""Two requests whose encoder outputs a connector has; the compute budget is enough for one item."""

RUNS: dict[str, tuple[Config, int]] = {
    "four on a run": (SHARED, 5),
    "six on a run": (crowded(6, 36, room=0.3), 36),
    "twelve on a run": (crowded(12, 1, room=0.3), 1),
    "pictures on a run": (pictured(4, 23), 23),
    "costly pictures on a run": (pictured(4, 22), 22),
    "many pictures on a run": (pictured(12, 8), 8),
    "pictures from elsewhere on a run": (of_sort("from_a_connector", pictured(6, 10), 10), 10),
    "few pictures from elsewhere on a run": (of_sort("from_a_connector", pictured(4, 6), 6), 6),
    "many pictures from elsewhere on a run": (of_sort("from_a_connector", pictured(12, 32), 32), 32),
}
"""Loads, and the seed of a run of operations on each."""

CONFIGS = {scope.name: scope.config for scope in scopes_of(component_named("scheduler"))} | {"interleaved": INTERLEAVED}

HERE_ONLY = [*RUNS, "interleaved"]
"""That there is no difference without a bug in a scope, is a test of its own."""


def caught(scope: str) -> str:
    """How a comparison of the whole scope, or of the run, ends: nothing, or what differs."""
    if scope in RUNS:
        return caught_on_run(*RUNS[scope])
    try:
        difference = compare(model_of(component_named("scheduler"), CONFIGS[scope])).difference
    except (OutOfBoundsError, RoundTripError) as error:
        return type(error).__name__
    return "nothing" if difference is None else difference.operation.wire_name()


def caught_on_run(config: Config, seed: int) -> str:
    requests = len(config.prompts)
    extent = Extent(width=2, wide=0, admissions=requests, rounds=1, fills=32, releases=requests)
    try:
        Lockstep(config, extent, seed).play(80)
    except AssertionError:
        return "a difference"
    return "nothing"


@pytest.mark.parametrize("scope", HERE_ONLY)
def test_without_a_bug_nothing_is_caught(scope: str) -> None:
    assert caught(scope) == "nothing"


@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_bug_is_caught(plant: Plant, mutant: str) -> None:
    scope, function, right, wrong = MUTANTS[mutant]
    plant(function, right, wrong)
    assert caught(scope) != "nothing"


def calls_to_load() -> int:
    """How often a round goes on that admits both requests and loads both outputs."""
    engine = Tensors(STORED_TWICE, Extent(width=1, wide=0, admissions=2, rounds=1, fills=4, releases=2))
    for op in (Add(0), Add(1), Schedule()):
        engine.apply(op)
    (plan,) = engine.decoded().plans
    assert plan.brought == (0, 1)
    return engine.calls


def test_outputs_are_loaded_at_once_whatever_the_compute_budget(plant: Plant) -> None:
    """A request that is charged for a load is taken alone. Its answer is the same, so the calls are counted."""
    assert calls_to_load() == 0
    plant(
        f"{CODE}.reserving.reserved",
        "computed = torch.where($encoded, $lengths, 0).cumsum(0)",
        "computed = upto",
    )
    assert calls_to_load() > 0
