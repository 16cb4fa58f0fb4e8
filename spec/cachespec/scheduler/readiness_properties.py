"""What must hold of requests that wait for a grammar, for an adapter, or for output, and of requests that stop early.

What the transitions decide is said here once more, of the states before and after a round.
"""

from __future__ import annotations

from cachespec.kernel import Code, Operation, Outcome, Safety, Step
from cachespec.scheduler.configuration import (
    BY_PRIORITY,
    Config,
    adapter_of,
    ended_length,
    final_length,
    is_turn,
)
from cachespec.scheduler.connector_properties import expects
from cachespec.scheduler.operations import Add, Compile, FailStep, Schedule, Update
from cachespec.scheduler.state import LOADED, LOADING, View
from cachespec.scheduler.view import in_flight, in_phase, new_plan


def rank(config: Config, request: int) -> int:
    """The request's priority under the policy, said once more: the transitions' own helper would hide its faults."""
    return config.priorities[request] if config.policy == BY_PRIORITY and config.priorities else 0


def different_adapters(config: Config, requests: tuple[int, ...]) -> set[int]:
    """Of these requests; the base model is none."""
    return {adapter_of(config, request) for request in requests} - {0}


def could_join(config: Config, before: View, after: View, request: int) -> bool:
    """No grammar, adapter, load or encoder output keeps it from running beside those that run after the round."""
    there = different_adapters(config, after.running)
    fits = adapter_of(config, request) in {0, *there} or len(there) < config.max_adapters
    waits = config.grammars != () and config.grammars[request] == 1 and request in before.compiling
    return (
        fits
        and not waits
        and not expects(config, before, request)
        and request not in in_phase(after, (LOADING,))
        and not must_wait_to_load(config, before, request)
    )


def must_wait_to_load(config: Config, before: View, request: int) -> bool:
    """A step in flight may still write to blocks that were given back, so that no load begins."""
    loads = config.loads_later != () and config.loads_later[request] == 1
    return loads and any(part.void for plan in before.plans for part in plan.scheduled)


def adapters_are_few(config: Config, view: View) -> bool:
    return all(
        len(different_adapters(config, tuple(part.request for part in plan.scheduled))) <= config.max_adapters
        for plan in view.plans
    )


def grammars_are_there(config: Config, view: View) -> bool:
    return not set(view.compiling) & set(view.running)


def grammars_are_awaited(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """From the arrival of a request that has one, until it is compiled or the request is gone."""
    awaited, compiled = set(before.compiling), set[int]()
    if isinstance(op, Add) and op.request in after.waiting and config.grammars and config.grammars[op.request]:
        awaited |= {op.request} - set(before.waiting)
    if isinstance(op, Compile):
        compiled = {op.request}
        if outcome.code is not (Code.DONE if op.request in before.compiling else Code.ABSENT):
            return False
    return set(after.compiling) == awaited - compiled - set(after.gone)


def arrivals_are_last(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Except where a session keeps its KV between two turns: then its next turn goes first."""
    if not isinstance(op, Add) or op.request in before.waiting or op.request not in after.waiting:
        return True
    if is_turn(config, op.request) and op.request in in_phase(after, (LOADED,)):
        return True
    behind = after.waiting[after.waiting.index(op.request) + 1 :]
    return not any(rank(config, other) <= rank(config, op.request) for other in behind)


def known_tokens_only(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if config.pipelined == 0:
        return True
    produced = dict(before.produced)
    return all(
        part.start + part.tokens <= config.prompts[part.request] + produced.get(part.request, 0) + part.drafts
        for part in new_plan(before, op, after).scheduled
    )


def ends_are_the_outputs(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Of the requests that an update finishes: the stop token was among their output, or it is complete."""
    if not isinstance(op, Update | FailStep) or outcome.code is not Code.DONE:
        return True
    produced, accepted = dict(before.produced), op.accepted if isinstance(op, Update) else 0
    sampled = {part.request: 1 + min(accepted, part.drafts) for part in before.plans[0].scheduled if part.samples}
    return all(
        may_end(config, request, produced.get(request, 0) + sampled.get(request, 0))
        for request in outcome.values
        if not (isinstance(op, FailStep) and request == op.request)
    )


def may_end(config: Config, request: int, output: int) -> bool:
    """Whether `output` tokens are enough. The rule is written out here, so it does not follow an error of `stop_of`."""
    stop = config.stops[request] if config.stops else 0
    least = config.min_tokens[request] if config.min_tokens else 0
    stopped = 0 < stop <= output and least <= stop
    return stopped or config.prompts[request] + output >= final_length(config, request)


READY: tuple[Safety[Config, View], ...] = (
    Safety(
        "SCH-12",
        "the requests of a step have at most `max_adapters` different adapters",
        adapters_are_few,
        lambda c, v: (
            len(different_adapters(c, v.running)) == c.max_adapters
            and len(different_adapters(c, v.waiting) | different_adapters(c, v.running)) > c.max_adapters
        ),
    ),
    Safety(
        "SCH-13",
        "no request runs before the grammar of its output is compiled",
        grammars_are_there,
        lambda c, v: bool(v.compiling) and bool(v.running),
    ),
)

READINESS: tuple[Step[Config, View], ...] = (
    Step(
        "SCH-13/awaited",
        "a request waits for its grammar from its arrival until the grammar is compiled or the request ends",
        grammars_are_awaited,
        lambda c, b, op, o, a: isinstance(op, Compile) and len(b.compiling) > 1,
    ),
    Step(
        "SCH-8/last",
        "an arrival waits behind every waiting request that is as important",
        arrivals_are_last,
        lambda c, b, op, o, a: isinstance(op, Add) and op.request in a.compiling and bool(b.waiting),
    ),
    Step(
        "SCH-2/awaited",
        "with pipeline stages, only known tokens and drafts are scheduled",
        known_tokens_only,
        lambda c, b, op, o, a: (
            c.pipelined == 1
            and isinstance(op, Schedule)
            and any(part.samples for request in b.running for part in in_flight(b, request))
        ),
    ),
    Step(
        "SCH-2/least",
        "a request is finished by a stop token from `min_tokens` on, or with as many tokens as it may have",
        ends_are_the_outputs,
        lambda c, b, op, o, a: (
            isinstance(op, Update) and any(ended_length(c, r) < final_length(c, r) for r in o.values)
        ),
    ),
)
