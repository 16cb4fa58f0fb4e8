"""A made-up engine around a manager with HiSparse: requests come, are preempted and aborted; workers are late.

Each step is planned, told to the workers and executed as a scheduler with vLLM's connector does it. Up to `ahead` steps
are planned before the first one is executed.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from tests.impl import hisparse_checks
from tests.impl.hisparse_worker import Part, Step, Worker, reported

from cacheimpl.hisparse import HiSparseCoordinator, get_hisparse_coordinator
from cacheimpl.kv_cache_manager import NORMATIVE, LaterKVCacheManager, Rules
from cacheimpl.kv_cache_manager.errors import SharedBlocksError, StaleCountError

PAGE = 4
WAITING, RUNNING, LOADING = "WAITING", "RUNNING", "LOADING"


def spec(name: str, **more: Any) -> Any:
    """A spec of a release's class, by its name."""
    return type(name, (SimpleNamespace,), {})(block_size=PAGE, **more)


def config_of(device: int, host: int | None, groups: int = 1, region: int = 2) -> Any:
    """A configuration with so many blocks of the device and of the host, and groups of pages on the device."""
    made = [
        SimpleNamespace(kv_cache_spec=spec("MLAAttentionSpec"), role="hisparse_source", host_resident=True),
        SimpleNamespace(kv_cache_spec=spec("MLAAttentionSpec"), role="hisparse_indexer"),
    ]
    for _ in range(groups):
        made.append(SimpleNamespace(kv_cache_spec=spec("HiSparseResidentSpec")))
        made.append(SimpleNamespace(kv_cache_spec=spec("HiSparseHotSpec", blocks_per_request=region)))
    return SimpleNamespace(num_blocks=device, kv_cache_groups=made, hisparse_host_num_blocks=host)


@dataclass(eq=False)
class Request:
    """A request as 0.33 has it, as far as a manager reads it."""

    request_id: str
    all_token_ids: list[int]
    wanted: int
    """Tokens to sample."""
    num_computed_tokens: int = 0
    num_in_flight_tokens: int = 0
    state: str = WAITING
    prompt: int = 0
    epoch: int = 0
    finished: bool = False
    doomed: bool = False
    """It is aborted as soon as its load has ended."""
    loaded: tuple[int, int] = (0, 0)

    @property
    def status(self) -> Any:
        """The state, as managers read it."""
        return SimpleNamespace(name=self.state)

    def is_finished(self) -> bool:
        """Whether it has ended, or was aborted."""
        return self.finished


@dataclass(frozen=True)
class Load:
    """What comes of a run: sizes, and how often what happens (in percent)."""

    device: int = 24
    host: int = 20
    groups: int = 1
    workers: int = 2
    ahead: int = 1
    latest: int = 3
    longest: int = 40
    budget: int = 10
    rules: Rules = NORMATIVE
    aborts: int = 3
    preemptions: int = 3
    loads: int = 20
    failures: int = 40
    going_back: int = 0
    silent: int = 0
    """Steps for which no worker reports a completion."""
    families: int = 3
    mirrored: bool = False
    """Whether workers write rows to the host with each step. Without it the host has what transfers bring."""


@dataclass
class Planned:
    """A step that is not executed."""

    step: Step
    scheduled: dict[str, tuple[Request, int, int, int]] = field(default_factory=dict)
    """Request, its epoch, its first and its last token."""


class Engine:
    """One run."""

    def __init__(self, load: Load, seed: int) -> None:
        self.load, self.draw = load, random.Random(seed)
        self.manager = LaterKVCacheManager(
            config_of(load.device, load.host, load.groups),
            load.longest,
            scheduler_block_size=PAGE,
            max_in_flight_tokens=load.budget * max(1, load.ahead),
            rules=load.rules,
        )
        self.coordinator: HiSparseCoordinator = get_hisparse_coordinator(self.manager)
        self.workers = [Worker(PAGE, load.groups, random.Random(seed + n), load.latest) for n in range(load.workers)]
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.loading: list[Request] = []
        self.planned: deque[Planned] = deque()
        self.begun: list[list[int]] = []
        self.problems: list[str] = []
        self.number = 0
        self.counts = dict.fromkeys(
            ("served", "aborted", "preempted", "loads", "failed", "hits", "host_reads", "adopted", "back", "refused"), 0
        )

    # The run --------------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> list[str]:
        """Some steps, then all requests end and all transfers are completed. Returns the first problems."""
        for _ in range(steps):
            self._arrive()
            self._step()
            if self.problems:
                return self.problems
        for request in [*self.waiting, *self.running]:
            self._end(request)
        for _ in range(2000):
            requests = [*self.waiting, *self.running, *self.loading]
            if not (self.planned or requests or self.coordinator.has_pending_work()):
                break
            self._step(last=True)
        self._check()
        return self.problems or hisparse_checks.leaks(self.manager)

    def _chance(self, percent: int) -> bool:
        return self.draw.random() * 100 < percent

    def _arrive(self) -> None:
        if len(self.waiting) > 3 or not self._chance(60):
            return
        family, length = self.draw.randrange(self.load.families), self.draw.randint(1, self.load.longest - 6)
        tokens = [1000 * family + n for n in range(length)]
        if self._chance(30) and length > 2:
            tokens[self.draw.randrange(length)] += 500
        self.number += 1
        name = f"r{self.number % 7 if self._free_name() else self.number}"
        self.waiting.append(Request(name, tokens, self.draw.randint(1, 6), prompt=length))

    def _free_name(self) -> bool:
        """Whether the next short name is no request's: names come again when they are free."""
        return f"r{self.number % 7}" not in {its.request_id for its in (*self.waiting, *self.running, *self.loading)}

    def _step(self, *, last: bool = False) -> None:
        if not last:
            for request in list(self.running):
                if self._chance(self.load.aborts):
                    self._end(request)
                    self.counts["aborted"] += 1
            if self.running and self._chance(self.load.preemptions):
                self._preempt(self.draw.choice(self.running))
            if self.load.going_back and not self.planned and self.running and self._chance(self.load.going_back):
                self._go_back(self.draw.choice(self.running))
        self._plan()
        self._check()
        while len(self.planned) > (0 if last else self.load.ahead - 1):
            self._execute(self.planned.popleft())
            self._check()
        self._report(all_of_them=last and self._chance(30))
        self._finish_loads()
        self._check()

    def _check(self) -> None:
        self.problems = self.problems or hisparse_checks.problems(self.manager, self.workers)

    # Planning -------------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        budget = self.load.budget
        scheduled = dict[str, tuple[Request, int, int, int]]()
        again = set[str]()
        for request in list(self.running):
            if request not in self.running or budget == 0:
                continue
            budget -= self._go_on(request, budget, scheduled)
        while self.waiting and budget and len(self.running) < 6:
            request = self.waiting[0]
            taken = self._admit(request, budget, scheduled, again)
            if taken is None:
                self.counts["refused"] += 1
                break
            budget -= taken
        if not scheduled and not self.coordinator.spills_to_send:
            return
        computed = [(name, min(end, len(its.all_token_ids))) for name, (its, _, _, end) in scheduled.items()]
        self.coordinator.advance_scheduled(computed)
        transfers = self.coordinator.build_offload_command().page_transfers
        mirrors = [
            mirror
            for name, (_, _, start, end) in scheduled.items()
            for mirror in self.coordinator.build_row_mirrors([(name, start, end - start)])
            if self.load.mirrored
        ]
        updates = self.coordinator.take_residency_updates(scheduled)
        parts = []
        for name, (request, _, start, end) in scheduled.items():
            resident = self.coordinator.all_context_pages_resident([(name, start, end - start)])
            changed = [its.residency_changes.get(name, {}) for its in self.coordinator.resident_managers]
            self.counts["host_reads"] += not resident
            self.counts["adopted"] += name in again and any(
                not block.is_null for its in changed for block in its.values()
            )
            hot = all(its.has_hot(name) for its in self.coordinator.hot_managers)
            parts.append(Part(name, request.all_token_ids[:end], start, self.manager.get_block_ids(name)[0], hot))
        self.planned.append(Planned(Step(parts, transfers, mirrors, updates, again), scheduled))

    def _go_on(self, request: Request, budget: int, scheduled: dict[str, Any]) -> int:
        tokens = min(budget, len(request.all_token_ids) - request.num_computed_tokens)
        if tokens <= 0:
            return 0
        while self.manager.allocate_slots(request, tokens) is None:
            if self.coordinator.has_pending_reclamation():
                return 0
            victim = self.running[-1]
            if victim.request_id in scheduled:
                return 0
            self._preempt(victim)
            if victim is request:
                return 0
        return self._scheduled(request, tokens, scheduled)

    def _scheduled(self, request: Request, tokens: int, scheduled: dict[str, Any]) -> int:
        start = request.num_computed_tokens
        scheduled[request.request_id] = request, request.epoch, start, start + tokens
        request.num_computed_tokens += tokens
        request.num_in_flight_tokens += tokens
        return tokens

    def _admit(self, request: Request, budget: int, scheduled: dict[str, Any], again: set[str]) -> int | None:
        """Tokens that the request takes of the budget; None if there is no room."""
        if self.load.ahead > 1 and any(request.request_id in its.scheduled for its in self.planned):
            return None  # steps of a request that had this name are on their way
        hits, local, _ = self.manager.get_computed_blocks(request)
        outside = len(request.all_token_ids) - local
        if self.load.ahead == 1 and outside > 0 and self._chance(self.load.loads):
            return self._load(request, hits, local, self.draw.randint(1, outside))
        tokens = min(budget, outside)
        fits = self.manager.allocate_slots(
            request,
            tokens,
            num_new_computed_tokens=local,
            new_computed_blocks=hits,
            full_sequence_must_fit=self._chance(50),
        )
        if fits is None:
            return None
        self.counts["hits"] += local > 0
        self._begin(request)
        again.add(request.request_id)
        request.num_computed_tokens = local
        return self._scheduled(request, tokens, scheduled)

    def _begin(self, request: Request) -> None:
        self.waiting.popleft()
        self.running.append(request)
        request.state = RUNNING
        request.epoch += 1

    # Loads from outside ---------------------------------------------------------------------------------------------

    def _load(self, request: Request, hits: Any, local: int, tokens: int) -> int | None:
        fits = self.manager.allocate_slots(
            request,
            0,
            num_new_computed_tokens=local,
            new_computed_blocks=hits,
            num_external_computed_tokens=tokens,
            delay_cache_blocks=True,
            full_sequence_must_fit=True,
        )
        if fits is None:
            return None
        self.counts["loads"] += 1
        self.waiting.popleft()
        request.state, request.num_computed_tokens, request.loaded = LOADING, local + tokens, (local, local + tokens)
        self.loading.append(request)
        return 0

    def _finish_loads(self) -> None:
        for request in [its for its in self.loading if self._chance(40)]:
            self.loading.remove(request)
            begin, end = request.loaded
            failed = self._chance(self.load.failures)
            there = self.draw.randrange(begin, end) // PAGE * PAGE if failed else end
            blocks = self.manager.get_block_ids(request.request_id)[0]
            for worker in self.workers:
                worker.load(request.all_token_ids, blocks, begin, max(there, begin))
            self.counts["failed"] += failed
            self.coordinator.finish_host_import(request.request_id, failed=failed)
            request.num_computed_tokens = max(there, begin)
            if request.doomed:
                request.finished = True
                self.manager.free(request)
            elif request.num_computed_tokens == 0:
                self.manager.free(request)
                request.state = WAITING
                self.waiting.append(request)
            else:
                self.manager.cache_blocks(request, request.num_computed_tokens)
                request.num_computed_tokens = min(request.num_computed_tokens, len(request.all_token_ids) - 1)
                request.state = RUNNING
                request.epoch += 1
                self.running.append(request)
                for worker in self.workers:
                    worker.pages[request.request_id] = [[] for _ in range(self.load.groups)]

    # Execution ------------------------------------------------------------------------------------------------------

    def _execute(self, planned: Planned) -> None:
        self.begun = [*self.begun, *(worker.run(planned.step) for worker in self.workers)]
        for request, epoch, _, end in planned.scheduled.values():
            if request.epoch != epoch or request.finished:
                continue
            request.num_in_flight_tokens -= min(
                request.num_in_flight_tokens, end - planned.scheduled[request.request_id][2]
            )
            if end < len(request.all_token_ids):
                continue
            request.all_token_ids.append(7_000_000 + len(request.all_token_ids))
            if len(request.all_token_ids) >= request.prompt + request.wanted:
                self._end(request)
                self.counts["served"] += 1

    def _report(self, *, all_of_them: bool) -> None:
        if self._chance(self.load.silent) and not all_of_them:
            self.coordinator.update_spills(*reported(self.begun, []))
        else:
            completed = [worker.complete(all_of_them=all_of_them) for worker in self.workers]
            self.coordinator.update_spills(*reported(self.begun, completed))
        self.begun = []

    # Ends -----------------------------------------------------------------------------------------------------------

    def _end(self, request: Request) -> None:
        if request in self.loading:
            request.doomed = True
            return
        request.finished, request.state = True, "FINISHED"
        if request in self.running:
            self.running.remove(request)
            self.manager.free(request)
        elif request in self.waiting:
            self.waiting.remove(request)

    def _preempt(self, request: Request) -> None:
        self.running.remove(request)
        request.state = "PREEMPTED"
        self.manager.free(request)
        request.num_computed_tokens = request.num_in_flight_tokens = 0
        request.epoch += 1
        self.waiting.appendleft(request)
        self.counts["preempted"] += 1

    def _go_back(self, request: Request) -> None:
        """Tokens are computed again, as after a load that failed: what blocks of this request alone hold is wrong."""
        if request.num_computed_tokens < 2:
            return
        computed = self.draw.randrange(1, request.num_computed_tokens)
        if self._chance(50):
            request.num_computed_tokens = computed  # the next call of `allocate_slots` says so
            return
        try:
            self.manager.roll_back(request, computed)
        except (SharedBlocksError, StaleCountError):  # others have the blocks, or a step has not told of its tokens
            return
        request.num_computed_tokens = computed
        self._spoil(request, computed)
        self.counts["back"] += 1

    def _spoil(self, request: Request, computed: int) -> None:
        """Rows from token `computed` on are wrong in all blocks that no other request reads."""
        name = request.request_id
        for page, host_block in enumerate(self.coordinator.host_blocks(name)):
            rows = [n for n in range(PAGE) if page * PAGE + n >= computed]
            blocks = [its.get_resident_page(name, page) for its in self.coordinator.resident_managers]
            for worker in self.workers:
                if host_block.ref_cnt == 1:
                    worker.host.update({(host_block.block_id, n): -1 for n in rows})
                mine = [block.block_id for block in blocks if block is not None and block.ref_cnt == 1]
                worker.device.update({(number, n): -1 for number in mine for n in rows})
