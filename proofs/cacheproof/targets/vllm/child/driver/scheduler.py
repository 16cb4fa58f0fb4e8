"""The release's scheduler, one call at a time: requests arrive and are aborted, steps are planned, and executed.

What an engine does around it is written here: prompts, whether a prompt is shorter than the model's length, and the
workers, who sample a token where a step has computed all that is known of a request, and propose drafts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .calls import ABSENT, DONE, MISS, Calls, DriverError, Operation, Reply, operations_of
from .early_scheduler import SCHEDULER as EARLY
from .early_scheduler import EarlyClasses
from .encoder_connector import Outputs
from .kv_managers import parameters
from .modules import module_if_there
from .schedulers import ALIGNED, SCHEDULER, STOP, Classes, Item, Part, Settings, Step
from .sessions import AWAITS_INPUT, TURN_OVER, Sessions
from .transfers import Transfers
from .worker import Chunk, Stage, Worker

REFUSED, PRESENT, TOO_LARGE = Reply("refused"), Reply("present"), Reply("too_large")

MIXED_IN = 1 << 20
"""Above all tokens of one request: the tokens of another one begin here."""
DRAFTED = -1
"""A draft, whose value plays no part."""
MERGED = "skipped_waiting"
"""With priorities, 0.20.2 serves the first of this queue and of the other one."""
FIRST_QUEUES = (MERGED, "kv_holding_waiting")

SMALLEST = Settings(block_size=1, blocks=4, token_budget=2, max_running=1, max_model_len=4)

LACKING_EARLY = ("whole_items", "long_prefill_threshold", "policy", "drafts", "grammars", "encoder_decoder", "pooling")
"""Settings that 0.7 does not have."""


def classes_of() -> Classes | EarlyClasses:
    """As this release has them."""
    if module_if_there(SCHEDULER) is not None:
        return Classes()
    if module_if_there(EARLY) is not None:
        return EarlyClasses()
    raise ModuleNotFoundError("nothing in the release schedules requests")


class SchedulerDriver(Transfers, Outputs):
    """One scheduler; with steps ahead of their output it is the release's asynchronous one."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._classes = classes_of()
        self._classes.make(SMALLEST)  # what a release lacks is found before anything is compared
        self._config: Mapping[str, Any] = {}
        self._pools = False
        self._scheduler: Any = None
        self._hasher: Any = None
        self._requests: dict[int, Any] = {}
        self._gone: set[int] = set()
        self._compiling: set[int] = set()
        self._sessions = Sessions({"prompts": ()})
        self._steps: list[Step] = []
        self._worker = Worker(1, self._token, self._output_key)
        self._workers = [self._worker]
        self.newest_stage = Stage((), (), (), ())
        """What the newest plan tells the workers."""
        self.item_data: dict[int, Sequence[Any]] = {}
        """What came with each request for its items; a request that is not here came without."""
        self.dead = False
        """Whether an error out of a step has ended the engine."""
        there = operations_of(self, calls, *self._lacking(), *self._lacking_transfers())
        self.operations = {name: self._while_alive(call) for name, call in there.items()}

    def _lacking(self) -> tuple[tuple[str, bool], ...]:
        scheduler = self._classes.scheduler
        return (
            ("compile", not isinstance(self._classes, Classes)),
            ("reset_running", "reset_running_requests" not in parameters(scheduler.reset_prefix_cache)),
            ("reset_encoder_cache", not hasattr(scheduler, "reset_encoder_cache")),
        )

    def _while_alive(self, call: Operation) -> Operation:
        """The call, which fails where the engine is dead."""
        return lambda message: Reply("failed") if self.dead else call(message)

    def reset(self, config: Mapping[str, Any]) -> None:
        """A new scheduler, and nobody waits."""
        if config.get("alignment") and not hasattr(self._classes.scheduler, ALIGNED):
            raise DriverError("alignment is not driven: the release's scheduler ends no chunk at a multiple")
        if not self._classes.later and (
            any(config.get(name) for name in LACKING_EARLY) or not config["chunked_prefill"]
        ):
            raise DriverError(f"0.7 has none of {', '.join(LACKING_EARLY)}, and always cuts prompts")
        asynchronous = config["ahead"] > 1 and not config.get("pipelined", 0)
        if asynchronous and config["drafts"] and not self._classes.drafts_ahead:
            raise DriverError("0.11 has no drafts in steps that are ahead of their output")
        self._config = config
        self._sessions = Sessions(config)
        if any(config.get("turns", ())) and "resumable" not in parameters(self._classes.request):
            raise DriverError("turns are not driven: the release has no sessions")
        self._pools = bool(config.get("pooling", 0))
        self._ahead_with_drafts = bool(asynchronous and config["drafts"])
        self._asynchronous = asynchronous
        self._scheduler = self._classes.make(
            Settings(
                block_size=config["block_size"],
                blocks=config["kv_blocks"],
                token_budget=config["token_budget"],
                max_running=config["max_running"],
                max_model_len=config["max_model_len"],
                encoder_compute=config["encoder_compute"],
                encoder_capacity=config["encoder_capacity"],
                whole_items=bool(config["whole_items"]),
                chunked_prefill=bool(config["chunked_prefill"]),
                long_prefill_threshold=config["long_prefill_threshold"],
                by_priority=bool(config["policy"]),
                asynchronous=asynchronous,
                drafts=config["drafts"],
                prefix_caching=bool(config.get("prefix_caching", 1)),
                watermark=config.get("watermark", 0),
                reserves=not config.get("admit_by_chunk", 0),
                window=self._calls.window,
                max_adapters=config.get("max_adapters", 1) if config.get("adapters") else 0,
                has_grammars=any(config.get("grammars", ())),
                encoder_decoder=bool(config.get("encoder_decoder", 0)),
                pools=self._pools,
                alignment=config.get("alignment", 0),
            )
        )
        self._connector = self._connect(config)
        self._outputs = self._connect_encoder(config)
        self._hasher = self._classes.hasher(config["block_size"])
        self._requests, self._gone, self._steps = {}, set(), []
        self._compiling.clear()
        self.item_data.clear()
        self._worker = Worker(config["block_size"], self._token, self._output_key)
        self._workers = [self._worker]
        self.dead = False

    def observe(self) -> dict[str, Any]:
        """Names of requests are their numbers. A request that waits and counts as computed is shown, too.

        An engine does not outlive an assertion in a step, and a dead one shows nothing.
        """
        if self.dead:
            return {}
        scheduler, live = self._scheduler, self._live()
        running = [self._number(request) for request in scheduler.running]
        computed = {number: self._classes.computed(request, self._steps) for number, request in live.items()}
        newest = self._steps[-1].parts if self._steps else ()
        return {
            **self._observed_drafts(),
            "waiting": [self._number(request) for request in self._waiting()],
            "running": running,
            "computed": _flat((number, count) for number, count in computed.items() if count or number in running),
            "produced": _flat(
                (number, request.num_output_tokens) for number, request in live.items() if request.num_output_tokens
            ),
            "plans": len(self._steps),
            "scheduled": _flat((part.request, part.start, part.tokens) for part in newest),
            "encoded": _flat((part.request, place) for part in newest for place in part.encodes),
            "dropped": self._classes.dropped(self._steps[-1].said) if self._steps else [],
            "encoder_free": scheduler.encoder_cache_manager.num_free_slots,
            "kv_free": self._classes.free_blocks(scheduler),
            "missing_outputs": _flat(self._worker.missing_outputs),
            "missing_slots": _flat(self._worker.missing_slots),
        }

    def _observed_drafts(self) -> dict[str, list[int]]:
        """What the newest plan says of drafts. 0.7 has none."""
        if not isinstance(self._classes, Classes):
            return {}
        return {"drafts": _flat(self._steps[-1].drafts if self._steps else ())}

    def _drafts_in(self, said: Any) -> tuple[tuple[int, int], ...]:
        """The drafts of a plan, by the turn that is under way: the next one may begin before the output of the plan."""
        if not isinstance(self._classes, Classes):
            return ()
        return tuple(
            (self._sessions.number(name), len(ids)) for name, ids in said.scheduled_spec_decode_tokens.items() if ids
        )

    def new_worker(self) -> Worker:
        """One more worker, which has computed nothing. It executes the plans that it is given.

        What loads bring, and what output rejects, is known to all workers at once.
        """
        self._workers.append(Worker(self._config["block_size"], self._token, self._output_key))
        return self._workers[-1]

    def is_gone(self, number: int) -> bool:
        """Whether the request is finished or aborted."""
        return number in self._gone

    def under_way(self, number: int) -> int:
        """The first turn of the request's session that is not over; the request itself if all of them are."""
        turns = range(self._sessions.first(number), number)
        return next((turn for turn in turns if turn not in self._gone), number)

    def sends_items_of(self, number: int) -> list[int]:
        """The contents that come with the request: of a turn, those of its own input."""
        if not self._config["items"]:
            return []
        items = self._new_items(number) if self._sessions.is_turn(number) else self._config["items"][number]
        return [int(content) for content, _, _ in items]

    @property
    def steps_in_flight(self) -> int:
        """Plans whose output has not been taken."""
        return len(self._steps)

    @property
    def newest_features(self) -> list[tuple[int, Sequence[Any]]]:
        """Requests whose items the newest plan sends to the workers, and what it sends; from 0.11 on."""
        said = self._steps[-1].said
        return [(self._sessions.number(name), sent) for name, sent in self._classes.features(said)]

    def _rejected(self, accepted: int) -> Iterable[tuple[int, int]]:
        """Requests of the oldest plan, and how many of their last tokens are drafts that its output rejects."""
        parts = self._steps[0].parts if self._steps else ()
        return [(part.request, max(0, part.drafts - accepted)) for part in parts if self._is_of_this_run(part)]

    def _is_of_this_run(self, part: Part) -> bool:
        """Whether the request of a part of the oldest step goes on where that ends: it was not preempted since."""
        behind = [other for step in self._steps[1:] for other in step.parts if other.request == part.request]
        planned = part.start + part.tokens + sum(other.tokens for other in behind)
        return part.request not in self._gone and planned == self._requests[part.request].num_computed_tokens

    def _live(self) -> dict[int, Any]:
        """Requests that the scheduler knows, ascending."""
        there = set(self._requests) - self._gone - self._sessions.queued
        return {number: self._requests[number] for number in sorted(there)}

    def _number(self, request: Any) -> int:
        """The number of a request of the release: of a session, the turn that is under way."""
        return self._sessions.number(request.request_id)

    def _waiting(self) -> Iterable[Any]:
        """In the order in which they will be looked at. Sessions that wait for input are left out."""
        names = [name for name in (*FIRST_QUEUES, "waiting") if hasattr(self._scheduler, name)]
        waiting = [request for name in names for request in getattr(self._scheduler, name)]
        waiting = [request for request in waiting if request.status.name != AWAITS_INPUT]
        return sorted(waiting) if MERGED in names and self._config["policy"] else waiting

    def do_add(self, request: int) -> Reply:
        """The front end turns down input that leaves no room for output, and an id that is known."""
        if request in self._requests or request in self._gone:
            return PRESENT
        if self._sessions.is_turn(request) and request - 1 not in self._requests:
            return ABSENT
        if self._sessions.new_tokens(request) >= self._config["max_model_len"] + self._pools:
            return TOO_LARGE
        if self._sessions.is_turn(request):
            self._add_turn(request)
            return DONE
        made = self._requests[request] = self._request(request)
        if isinstance(self._classes, Classes) and self._value("grammars", request):
            self._classes.await_grammar(made)
            self._compiling.add(request)
        self._scheduler.add_request(made)
        return DONE

    def _add_turn(self, number: int) -> None:
        """The input of a session's next turn; behind that of the last turn, what says that there is no more."""
        sessions = self._sessions
        name, kept = sessions.name(number), sessions.kept(number - 1)
        tokens = [self._token(number, position) for position in range(kept, self._config["prompts"][number])]
        items = [Item(content, start - kept, length) for content, start, length in self._new_items(number)]
        arrival = float(len(self._requests))
        new, output = self._classes.new_request, self._config["outputs"][number]
        inputs = [new(name, tokens, output, self._hasher, items, arrival=arrival, goes_on=True)]
        if not sessions.later(number):
            inputs.append(new(name, tokens[:1], 1, self._hasher, arrival=arrival))
        self._requests[number] = self._requests[number - 1]
        sessions.queued.add(number)
        if number - 1 in self._gone:
            sessions.begin(number)
        for request in inputs:
            self._scheduler.add_request(request)

    def _new_items(self, number: int) -> list[list[int]]:
        """The items of a turn that its session did not have before."""
        items = self._config["items"]
        return list(items[number][len(items[number - 1]) :]) if items else []

    def do_compile(self, request: int) -> Reply:
        """What a thread of the engine does in its time: the grammar is there."""
        if request not in self._compiling or request not in self._live():
            return ABSENT
        self._compiling.discard(request)
        self._requests[request].structured_output_request.grammar = object()
        return DONE

    def _value(self, name: str, number: int) -> int:
        """A setting of one request; 0 if no request has it."""
        values = self._config.get(name)
        return int(values[number]) if values else 0

    def _request(self, number: int) -> Any:
        config = self._config
        priorities = config["priorities"]
        return self._classes.new_request(
            str(number),
            [self._token(number, position) for position in range(config["prompts"][number])],
            config["outputs"][number],
            self._hasher,
            self._items(number),
            priorities[number] if priorities else 0,
            float(len(self._requests)),
            self._value("min_tokens", number),
            self._value("adapters", number),
            **({"goes_on": True} if self._sessions.later(number) else {}),
            **({"pools": True} if self._pools else {}),
        )

    def _items(self, number: int) -> Sequence[Item]:
        """The items of a request, each with what came for it."""
        if not self._config["items"]:
            return ()
        items = self._config["items"][number]
        sent = self.item_data.get(number) or [None] * len(items)
        return [Item(content, start, length, data) for (content, start, length), data in zip(items, sent, strict=True)]

    def _token(self, number: int, position: int) -> int:
        """Tokens are named by the group of the request as far as it shares them, and by the request behind.

        A turn begins with the tokens of the turn before.
        """
        while self._sessions.is_turn(number) and position < self._sessions.kept(number - 1):
            number -= 1
        groups = self._config["groups"]
        if groups and position < self._config["shared"][number]:
            return -(1 + int(groups[number])) * MIXED_IN + position
        return (1 + number) * MIXED_IN + position

    def _output_key(self, number: int, item: int) -> tuple[int, ...]:
        key: tuple[int, ...] = self._classes.output_key(self._config, number, item)
        return key

    def do_schedule(self) -> Reply:
        if len(self._steps) >= self._config["ahead"]:
            return REFUSED
        before = {number: request.num_computed_tokens for number, request in self._live().items()}
        running = {self._number(request) for request in self._scheduler.running}

        def scheduled() -> Reply:
            said = self._scheduler.schedule()
            preempted = running - {self._number(request) for request in self._scheduler.running}
            if not (said.num_scheduled_tokens or self._classes.dropped(said) or said.finished_req_ids or preempted):
                return MISS
            parts = tuple(self._part(said, name, before) for name in said.num_scheduled_tokens)
            self._steps.append(Step(said, parts, self._drafts_in(said)))
            items, crosses = self._config["items"], bool(self._config.get("encoder_decoder", 0))
            self.newest_stage = Stage(
                told=tuple(
                    told._replace(request=self._sessions.number(str(told.request))) for told in self._classes.told(said)
                ),
                chunks=tuple(part.chunk(items[part.request] if items else (), crosses=crosses) for part in parts),
                dropped=tuple(self._classes.dropped_keys(said)),
                finished=tuple(self._sessions.number(name) for name in said.finished_req_ids),
                loaded=tuple(
                    Chunk(part.request, load.start, load.end, (), ())
                    for part in parts
                    if (load := self._load_of(part.request, late=False)) is not None
                ),
                brought=self._loaded(said),
            )
            self._worker.execute(self.newest_stage)
            return Reply("done", tuple(_flat((part.request, part.start, part.tokens) for part in parts)))

        return self._fatal(self._calls.perform(scheduled))

    def _part(self, said: Any, name: str, before: Mapping[int, int]) -> Part:
        """What the workers are to do for a request. They sample where nothing that is known remains.

        Workers whose steps run ahead know of each token that they have sampled, as the request's own mark does.
        """
        number, tokens = self._sessions.number(name), said.num_scheduled_tokens[name]
        start = self._classes.starts(said).get(name, before[number])
        request = self._requests[number]
        is_prefill = getattr(request, "is_prefill_chunk", None) if self._asynchronous else None
        known = request.num_tokens + sum(
            part.samples for step in self._steps for part in step.parts if part.request == number and not part.dropped
        )
        return Part(
            request=number,
            start=start,
            tokens=tokens,
            drafts=len(said.scheduled_spec_decode_tokens.get(name, ())),
            samples=start + tokens >= known if is_prefill is None else not is_prefill,
            encodes=tuple(said.scheduled_encoder_inputs.get(name, ())),
        )

    def do_update(self, accepted: int) -> Reply:
        return self._take(accepted, None) if self._steps else ABSENT

    def _take(self, accepted: int, said: Any) -> Reply:
        """The output of the oldest step; `said` is what the workers say of transfers with it."""
        for request, tokens in self._rejected(accepted):
            for worker in self._workers:
                worker.reject(request, tokens)
            if self._ahead_with_drafts:
                self._steps[1:] = [step.begun_earlier(request, tokens) for step in self._steps[1:]]
        step = self._steps.pop(0)
        for number in step.counted():
            if self._load_of(number, late=False) is not None:
                del self._loads[number]
        sampled = {
            self._sessions.name(part.request): [
                self._next_token(part, place) for place in range(1 + min(accepted, part.drafts))
            ]
            if part.samples
            else []
            for part in step.parts
        }
        output = self._classes.output(sampled, pools=True) if self._pools else self._classes.output(sampled)
        if said is not None:
            output.kv_connector_output = said

        def executed() -> Reply:
            if step.parts:
                self._scheduler.update_from_output(step.said, output)
            over = tuple(one.request for one in step.parts if one.request not in self._gone)
            finished = tuple(number for number in over if self._is_over(number))
            self._gone.update(finished)
            for number in finished:
                self._sessions.end(number)
            self._propose(step)
            return Reply("done", finished)

        return self._fatal(self._calls.perform(executed))

    def _is_over(self, number: int) -> bool:
        """Whether the release has finished the request. One whose blocks are sent is known until they are."""
        request = self._requests[number]
        if self._sessions.later(number) and request.status.name in TURN_OVER:
            return True
        return self._sessions.name(number) not in self._scheduler.requests or bool(request.is_finished())

    def _fatal(self, reply: Reply) -> Reply:
        """What an engine's core does with an error out of a step: it ends."""
        self.dead = reply.code == "failed"
        return reply

    def _next_token(self, part: Part, place: int) -> int:
        """A token of the output, which nobody else has; or the token that ends it, not before `min_tokens`."""
        request, stop = self._requests[part.request], self._value("stops", part.request)
        output = int(request.num_output_tokens) + place + 1
        if output == stop and stop >= self._value("min_tokens", part.request):
            return STOP
        return (1 + part.request) * MIXED_IN + int(self._requests[part.request].num_tokens) + place

    def _propose(self, step: Step) -> None:
        """As many drafts as are of use behind each output, none behind a part of a prompt."""
        if not self._config["drafts"] or self._ahead_with_drafts or not isinstance(self._classes, Classes):
            return
        proposed: dict[str, list[int]] = {}
        for part in step.parts:
            request = self._requests[part.request]
            whole = min(
                self._config["prompts"][part.request] + self._config["outputs"][part.request],
                self._config["max_model_len"],
            )
            count = min(self._config["drafts"], whole - 1 - request.num_tokens) if part.samples else 0
            proposed[request.request_id] = [DRAFTED] * max(0, count)
        self._scheduler.update_draft_token_ids(self._classes.drafts(list(proposed), list(proposed.values())))

    def do_abort(self, request: int) -> Reply:
        sessions = self._sessions
        awaited = sessions.is_turn(request) and request - 1 in self._gone and request not in self._requests
        if request in self._gone or (request not in self._live() and not awaited):
            return ABSENT
        self._gone.update((request, *sessions.later(request)))
        sessions.queued -= self._gone
        self._scheduler.finish_requests(sessions.name(request), self._classes.status.FINISHED_ABORTED)
        return DONE

    def do_reset_prefix_cache(self) -> Reply:
        return DONE if self._scheduler.reset_prefix_cache() else REFUSED

    def do_reset_running(self) -> Reply:
        running = {self._number(request) for request in self._scheduler.running}
        self._steps = [step.without_output(running) for step in self._steps]
        return DONE if self._scheduler.reset_prefix_cache(reset_running_requests=True) else REFUSED

    def do_reset_encoder_cache(self) -> None:
        self._worker.reset_outputs()
        self._scheduler.reset_encoder_cache()


def _flat(groups: Iterable[Iterable[int]]) -> list[int]:
    return [part for group in groups for part in group]
