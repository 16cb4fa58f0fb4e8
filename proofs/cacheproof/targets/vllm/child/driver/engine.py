"""A whole engine of a release: its frontends' caches, its scheduler with both managers, and made-up workers.

The mirror, the scheduler and the worker are driven as they are alone; what ties them together is written here. A
request goes to the scheduler when P1 has taken its message, a plan becomes a step in the inbox of each worker, and its
output is taken when all workers have executed it. Items travel with messages, or through shared memory, where each
worker reads what the plan sends before it executes the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .calls import ABSENT, DONE, Calls, Reply, operations_of
from .mirror import MirrorDriver
from .scheduler import PRESENT, REFUSED, SchedulerDriver
from .shared_items import STALE, WRONG, SharedItems
from .sides import Release
from .worker import Stage, Worker

NO_TENSOR, NO_BYTES, DROPPED_TWICE, NO_ITEM = 1, 2, 3, 4
"""What a worker finds missing: an encoder output, KV, an output that it is told to drop, an item of a request."""
FAILED = Reply("failed")
OF_SOME_RELEASES = (
    *("retry", "compile", "fail_step", "finish_load", "fail_load", "finish_send"),
    *("reset_receiver", "reset_prefix_cache", "reset_running", "reset_encoder_cache"),
)
"""Operations that not every release's mirror or scheduler has."""


@dataclass(slots=True)
class Process:
    """One worker process. A step of None is a reset of the encoder outputs. `sent`: the items of the next step."""

    memory: Worker
    inbox: list[Stage | None] = field(default_factory=list)
    sent: list[tuple[int, Sequence[Any]]] = field(default_factory=list)
    finding: int = 0

    def execute(self) -> None:
        """The oldest step; the first finding stands."""
        stage = self.inbox.pop(0)
        if stage is None:
            self.memory.reset_outputs()
            return
        twice = self.memory.lacks(stage.dropped)
        self.memory.execute(stage)
        found = (
            (DROPPED_TWICE, twice),
            (NO_TENSOR, self.memory.missing_outputs),
            (NO_BYTES, self.memory.missing_slots),
        )
        self.finding = self.finding or next((number for number, missing in found if missing), 0)


@dataclass(slots=True)
class Clients:
    """What the clients of one frontend wait for: requests in the order of the mirror's own lists."""

    messages: list[int] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    retries: list[int] = field(default_factory=list)


class EngineDriver:
    """The parts of one release, together."""

    def __init__(self, calls: Calls) -> None:
        self._mirror = MirrorDriver(calls)
        self._scheduler = SchedulerDriver(calls)
        self._items = SharedItems(calls, Release())
        self._config: Mapping[str, Any] = {}
        self._clients: list[Clients] = []
        self._workers: list[Process] = []
        self._submitted: set[int] = set()
        self._received: set[int] = set()
        self._cancelled: set[int] = set()
        self._failed: set[int] = set()
        self._refused: set[int] = set()
        self._heard: set[int] = set()
        self._resets_left = 0
        parts = {**self._mirror.operations, **self._scheduler.operations}
        self.operations = operations_of(self, calls, *((name, name not in parts) for name in OF_SOME_RELEASES))

    def reset(self, config: Mapping[str, Any]) -> None:
        """New caches, a new scheduler and new workers; no client has sent anything."""
        self._config = config
        senders = max(config["senders"], default=0) + 1
        mirrored = {"capacity": config["mirror_capacity"], "sizes": config["sizes"], "senders": senders, "rendered": 0}
        self._mirror.reset(mirrored)
        self._scheduler.reset(config)
        self._clients = [Clients() for _ in range(senders)]
        self._workers = [Process(self._scheduler.new_worker()) for _ in range(config["workers"])]
        self._submitted, self._received, self._cancelled = set(), set(), set()
        self._failed, self._refused, self._heard = set(), set(), set()
        if config["shared_memory"]:
            self._items.reset(config["store_capacity"], config["sizes"], config["workers"])
        self._resets_left = config["resets"]

    def observe(self) -> dict[str, Any]:
        """What the parts show, and the workers. A dead engine shows nothing."""
        if self._scheduler.dead:
            return {}
        shown = {**self._mirror.observe(), **self._scheduler.observe()}
        shown.update(self._items.observe() if self._config["shared_memory"] else {})
        for name, worker in enumerate(self._workers):
            shown[f"tensors_{name}"] = sorted(content for (content,) in worker.memory.outputs)
            shown[f"finding_{name}"] = worker.finding
        return shown

    # Frontends and the mirror ---------------------------------------------------------------------------------------

    def do_submit_request(self, request: int) -> Reply:
        """A request without items concerns no mirror. One that fails at P0 may have to be sent again."""
        if request in self._submitted:
            return PRESENT
        self._submitted.add(request)
        items = self._scheduler.sends_items_of(request)
        if self._config["shared_memory"]:
            return self._submit_handles(request, items)
        if not items:
            return DONE if self._mirror.is_deaf else self._take(request)
        sender = self._sender(request)
        before = self._mirror.repeated(sender)
        reply = self._of_mirror("submit", sender=sender, items=items)
        if reply.code == "done":
            self._clients[sender].messages.append(request)
        elif self._mirror.repeated(sender) > before:
            self._clients[sender].retries.append(request)
        return reply

    def _submit_handles(self, request: int, items: Sequence[int]) -> Reply:
        """A request that fails while P0 walks its items is over."""
        reply, sent = self._items.render(items)
        self._failed |= {request} if reply.code == "failed" else set()
        self._scheduler.item_data[request] = sent
        return reply

    def do_deliver_request(self, request: int) -> Reply:
        if request not in self._submitted or request in self._received or request in self._failed:
            return ABSENT
        return self._take(request)

    def _take(self, request: int) -> Reply:
        """P1 knows the request, and hands it to the scheduler."""
        self._received.add(request)
        reply = self._of_scheduler("add", request=request)
        self._refused |= {request} if reply.code == "too_large" else set()
        return reply

    def _is_over(self, request: int) -> bool:
        """The request is finished, aborted or refused."""
        return request in self._refused or self._scheduler.is_gone(request)

    def do_end(self, request: int) -> Reply:
        """P0 hears of the end of a request; a release has nothing to do there."""
        if not self._is_over(request) or request in self._heard:
            return ABSENT
        self._heard.add(request)
        return DONE

    def do_deliver(self, sender: int) -> Reply:
        clients = self._clients[sender]
        reply = self._of_mirror("deliver", sender=sender)
        if reply.code == "absent":
            return reply
        request = clients.messages.pop(0)
        if self._mirror.is_deaf:
            return reply
        clients.answers.append(request)
        if reply.code == "hit":
            return self._take(request)
        if reply.code != "retry":
            self._received.add(request)
        return reply

    def do_receive(self, sender: int) -> Reply:
        """A client that is told to send its request again does so, if it is there still."""
        before = self._mirror.repeated(sender)
        reply = self._of_mirror("receive", sender=sender)
        if reply.code == "absent":
            return reply
        request = self._clients[sender].answers.pop(0)
        if self._mirror.repeated(sender) == before:
            return reply
        if request in self._cancelled:
            self._mirror.give_up_newest(sender)
            self._received.add(request)
        else:
            self._clients[sender].retries.append(request)
        return reply

    def do_retry(self, sender: int) -> Reply:
        clients = self._clients[sender]
        reply = self._of_mirror("retry", sender=sender)
        if reply.code == "done":
            clients.messages.append(clients.retries.pop(0))
        return reply

    def _sender(self, request: int) -> int:
        return int(self._config["senders"][request]) if self._config["senders"] else 0

    def _of_mirror(self, operation: str, **fields: Any) -> Reply:
        return self._mirror.operations[operation](fields)

    def _of_scheduler(self, operation: str, **fields: int) -> Reply:
        return self._scheduler.operations[operation](fields)

    # Clients that go away -------------------------------------------------------------------------------------------

    def do_cancel(self, request: int) -> Reply:
        if request not in self._submitted or request in self._cancelled:
            return ABSENT
        self._cancelled.add(request)
        return DONE

    def do_deliver_abort(self, request: int) -> Reply:
        if request not in self._cancelled or request not in self._received or self._mirror.is_deaf:
            return ABSENT
        self._cancelled.discard(request)
        return self._of_scheduler("abort", request=self._scheduler.under_way(request))

    # Scheduler and workers ------------------------------------------------------------------------------------------

    def do_compile(self, request: int) -> Reply:
        return self._of_scheduler("compile", request=request)

    def do_schedule(self) -> Reply:
        reply = self._of_scheduler("schedule")
        if reply.code == "done":
            for worker in self._workers:
                worker.inbox.append(self._scheduler.newest_stage)
                worker.sent = self._scheduler.newest_features if self._config["shared_memory"] else []
        return reply

    def do_execute(self, worker: int) -> Reply:
        process = self._workers[worker]
        if not process.inbox:
            return ABSENT
        if not self._read_items(worker, process):
            return FAILED
        process.execute()
        return FAILED if process.finding else DONE

    def _read_items(self, name: int, worker: Process) -> bool:
        """The items that the plan has sent. An error ends the worker, and the engine with it."""
        sent, worker.sent = worker.sent, []
        wanted = [not self._is_over(request) for request, _ in sent]
        found = self._items.read(name, [features for _, features in sent], wanted)
        if found == WRONG:
            worker.finding = worker.finding or NO_ITEM
        self._scheduler.dead = found == STALE
        return found != STALE

    def do_update(self, accepted: int) -> Reply:
        return self._of_scheduler("update", accepted=accepted) if self._is_executed() else ABSENT

    def do_fail_step(self, request: int, blocks: int) -> Reply:
        return self._of_scheduler("fail_step", request=request, blocks=blocks) if self._is_executed() else ABSENT

    def _is_executed(self) -> bool:
        """Whether every worker has executed the oldest plan."""
        plans = self._scheduler.steps_in_flight
        return all(sum(stage is not None for stage in worker.inbox) < plans for worker in self._workers)

    def do_finish_load(self, request: int) -> Reply:
        """The scheduler hears of transfers, whatever steps are in flight."""
        return self._of_scheduler("finish_load", request=request)

    def do_fail_load(self, request: int, blocks: int) -> Reply:
        return self._of_scheduler("fail_load", request=request, blocks=blocks)

    def do_finish_send(self, request: int) -> Reply:
        return self._of_scheduler("finish_send", request=request)

    # Resets ---------------------------------------------------------------------------------------------------------

    def _reset(self, call: Callable[[], Reply]) -> Reply:
        """One of the permitted resets is used up, whatever comes of it."""
        if self._resets_left == 0:
            return REFUSED
        self._resets_left -= 1
        return call()

    def do_clear(self) -> Reply:
        return self._reset(self._items.clear)

    def do_reset_receiver(self) -> Reply:
        return self._reset(lambda: self._of_mirror("reset_receiver"))

    def do_reset_prefix_cache(self) -> Reply:
        return self._reset(lambda: self._of_scheduler("reset_prefix_cache"))

    def do_reset_running(self) -> Reply:
        return self._reset(lambda: self._of_scheduler("reset_running"))

    def do_reset_encoder_cache(self) -> Reply:
        """The workers are told in the order of their steps."""
        reply = self._reset(lambda: self._of_scheduler("reset_encoder_cache"))
        if reply.code == "done":
            for worker in self._workers:
                worker.inbox.append(None)
        return reply
