"""What properties and observers see of a scheduler, whichever variant it is."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from cachespec.kernel import Grouping, Observation, Operation
from cachespec.scheduler.configuration import Config, encoder_config, is_asynchronous, is_read, items_of, kv_config
from cachespec.scheduler.operations import Schedule
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import LOADED, LOADING, Plan, Scheduled, State, View
from cachespec.scheduler.worker import Key, view_of

EMPTY = Plan((), (), (), ())


def new_plan(before: View, op: Operation, after: View) -> Plan:
    """The plan that a round has made, if this was one and it has."""
    return after.plans[-1] if isinstance(op, Schedule) and len(after.plans) > len(before.plans) else EMPTY


def seen(rules: Table, config: Config, state: State) -> View:
    """The state with the views of its parts."""
    return View(
        kv=rules.kv.view(kv_config(config), state.kv),
        encoder=rules.encoder.view(encoder_config(config), state.encoder),
        waiting=state.waiting,
        running=state.running,
        computed=tuple(state.computed.items()),
        produced=tuple(state.produced.items()),
        proposed=tuple(state.proposed.items()),
        compiling=tuple(request for request, _ in state.compiling.items()),
        queued=tuple(request for request, _ in state.queued.items()),
        gone=tuple(request for request, _ in state.gone.items()),
        leaving=tuple(request for request, _ in state.leaving.items()),
        transfers=tuple(state.transfers.items()),
        remote=tuple(state.remote.items()),
        plans=state.plans,
        worker=view_of(state.worker),
    )


def live(view: View) -> tuple[int, ...]:
    """The requests that wait or run."""
    return (*view.waiting, *view.running)


def holders_of_blocks(view: View) -> set[int]:
    """Requests that have a table."""
    return {request for request, blocks in view.kv.tables if blocks}


def holders_of_items(view: View) -> set[int]:
    """Requests that hold an item."""
    return {request for request, _ in view.encoder.held}


def in_phase(view: View, phases: tuple[int, ...]) -> tuple[int, ...]:
    """The requests with a transfer in one of these phases."""
    return tuple(request for request, transfer in view.transfers if transfer.phase in phases)


def in_turn(view: View) -> tuple[int, ...]:
    """The waiting requests in the order in which they may be admitted: those first whose KV is loaded."""
    first = in_phase(view, (LOADED,))
    return (*(r for r in view.waiting if r in first), *(r for r in view.waiting if r not in first))


def counted(view: View) -> tuple[tuple[int, int], ...]:
    """Requests and their computed tokens, those of waiting requests included whose KV is loaded."""
    loads = {request: transfer.tokens for request, transfer in view.transfers if transfer.phase in (LOADING, LOADED)}
    there = {request: tokens for request, tokens in loads.items() if tokens > 0}
    return tuple(sorted({**there, **dict(view.computed)}.items()))


def touched(config: Config, part: Scheduled) -> tuple[int, ...]:
    """The places of the items of which this part of a plan reads the output."""
    end = part.start + part.tokens
    return tuple(
        index for index, item in enumerate(items_of(config, part.request)) if is_read(config, item, part.start, end)
    )


def is_resident(config: Config, view: View, request: int, index: int) -> bool:
    """Whether the item's entry is there: by content or, before items were shared, by request and place."""
    content = items_of(config, request)[index][0]
    return any(key in ((content,), (request, index)) for key, _ in view.encoder.entries)


def waits_for_item(config: Config, view: View, request: int) -> bool:
    """Its next token is one of an item that it does not hold."""
    computed = dict(view.computed)[request]
    return any(
        is_read(config, item, computed, computed + 1) and (request, index) not in view.encoder.held
        for index, item in enumerate(items_of(config, request))
    )


def in_order_of_service(before: View, after: View) -> tuple[int, ...]:
    """The running requests: what ran before comes first, even if a request with a higher priority was admitted."""
    return tuple(sorted(after.running, key=lambda request: request not in before.running))


def accounted(view: View) -> tuple[Key, ...]:
    """The entries that the encoder cache manager keeps. One that counts slots only keeps none, and lists outputs."""
    return tuple(key for key, _ in view.encoder.entries) if "cached" in view.encoder.shown else ()


def in_flight(view: View, request: int) -> tuple[Scheduled, ...]:
    """The request's parts in the plans in flight that still count."""
    parts = (part for plan in view.plans for part in plan.scheduled)
    return tuple(part for part in parts if part.request == request and not part.void)


def known_length(config: Config, view: View, request: int) -> int:
    """The tokens of the prompt and of the output that is there."""
    return config.prompts[request] + dict(view.produced).get(request, 0)


def length_in_sight(config: Config, view: View, request: int) -> int:
    """The request's tokens, those included that plans in flight may sample; drafts if steps are ahead of output."""
    drafts = int(is_asynchronous(config))
    sampled = sum(part.samples + drafts * part.drafts for part in in_flight(view, request))
    return known_length(config, view, request) + sampled


OBSERVABLES: Mapping[str, str] = MappingProxyType(
    {
        "waiting": "requests that wait, the next one first",
        "running": "requests that run, in their order",
        "computed": "pairs of request and computed tokens, ascending; of a waiting request, those that are loaded",
        "produced": "pairs of request and output tokens, ascending",
        "plans": "plans in flight",
        "scheduled": "of the newest plan: request, first token, tokens, and so on",
        "drafts": "of the newest plan: pairs of request and how many of its tokens are drafts, where any are",
        "encoded": "of the newest plan: pairs of request and item that the encoder computes",
        "dropped": "of the newest plan: encoder outputs that the workers drop, by content; by request and "
        "item where they are not shared",
        "encoder_free": "embeddings of the encoder cache that no entry occupies",
        "kv_free": "blocks of the free queue",
        "missing_outputs": "of the newest plan: pairs of request and item whose encoder output the plan reads and "
        "no step has computed",
        "missing_slots": "of the newest plan: pairs of request and the first token whose KV the plan reads and no "
        "step has computed",
    }
)
"""What each observable holds."""


GROUPING: Mapping[str, Grouping] = MappingProxyType(
    {
        "waiting": Grouping(row=("request",), lane="scheduler"),
        "running": Grouping(row=("request",), lane="scheduler"),
        "computed": Grouping(row=("request", ""), lane="scheduler"),
        "produced": Grouping(row=("request", ""), lane="scheduler"),
        "plans": Grouping(lane="scheduler"),
        "scheduled": Grouping(row=("request", "start", "tokens"), lane="scheduler"),
        "drafts": Grouping(row=("request", ""), lane="scheduler"),
        "encoded": Grouping(row=("request", "item"), lane="scheduler"),
        "dropped": Grouping(lane="scheduler"),
        "encoder_free": Grouping(lane="scheduler"),
        "kv_free": Grouping(lane="scheduler"),
        "missing_outputs": Grouping(row=("request", "item"), lane="workers"),
        "missing_slots": Grouping(row=("request", "token"), lane="workers"),
    }
)
"""Which integers of an observable belong together."""


def observe(config: Config, view: View) -> Mapping[str, Observation]:
    """What an implementation shows: see `OBSERVABLES`."""
    plan = view.plans[-1] if view.plans else EMPTY
    newest = plan.scheduled
    return {
        "waiting": view.waiting,
        "running": view.running,
        "computed": tuple(value for pair in counted(view) for value in pair),
        "produced": tuple(value for pair in view.produced for value in pair),
        "plans": len(view.plans),
        "scheduled": tuple(value for part in newest for value in (part.request, part.start, part.tokens)),
        "drafts": tuple(value for part in newest if part.drafts > 0 for value in (part.request, part.drafts)),
        "encoded": tuple(value for part in newest for index in part.encode for value in (part.request, index)),
        "dropped": plan.dropped,
        "encoder_free": view.encoder.free,
        "kv_free": len(view.kv.free),
        "missing_outputs": tuple(value for pair in view.worker.missing_outputs for value in pair),
        "missing_slots": tuple(value for pair in view.worker.missing_slots for value in pair),
    }
