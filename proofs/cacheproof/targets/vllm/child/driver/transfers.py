"""Loads and sends of a release's scheduler: what the workers tell it of the connector, with a step or without one.

A load that a request waits for ends with a step that computes nothing, as an engine makes it while it has no other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from .calls import ABSENT, Calls, DriverError, Reply
from .connector import Connector, Load, report
from .schedulers import Step
from .worker import Worker

CONNECTED = "_update_from_kv_xfer_finished"
"""A method of the schedulers that are driven with a connector."""

FAILS = "_handle_invalid_blocks"
"""A method of those of them that can be told of failed loads."""

FREES_LATE = "defer_block_free"
"""What a scheduler with a consumer of KV and several steps in flight sets when it is made."""


class Transfers(ABC):
    """The part of a scheduler's driver that is about its connector."""

    _calls: Calls
    _classes: Any
    _scheduler: Any
    _config: Mapping[str, Any]
    _requests: dict[int, Any]
    _gone: set[int]
    _steps: list[Step]
    _workers: list[Worker]
    _connector: Connector | None = None

    @abstractmethod
    def _take(self, accepted: int, said: Any) -> Reply:
        """The oldest step is done; of the drafts in it `accepted` were right, and `said` is the connector's report."""

    @abstractmethod
    def _is_over(self, number: int) -> bool:
        """Whether the release has finished the request."""

    @abstractmethod
    def _live(self) -> dict[int, Any]:
        """Requests that the scheduler knows, ascending."""

    @abstractmethod
    def _fatal(self, reply: Reply) -> Reply:
        """The same reply, of an engine that goes on or has failed."""

    def _lacking_transfers(self) -> tuple[tuple[str, bool], ...]:
        """Its operations, each with whether the release lacks it."""
        lacks = {method: not hasattr(self._classes.scheduler, method) for method in (CONNECTED, FAILS)}
        ends = tuple((name, lacks[CONNECTED]) for name in ("finish_load", "finish_send"))
        return (*ends, *((name, any(lacks.values())) for name in ("fail_load", "fail_step")))

    def _connect(self, config: Mapping[str, Any]) -> Connector | None:
        """The connector of this configuration, if it has one."""
        if not config.get("external") and not any(config.get("sends", ())):
            return None
        if not hasattr(self._classes.scheduler, CONNECTED):
            raise DriverError("external and sends are not driven: the release's scheduler has no such connector")
        stored = config.get("external") or [0] * len(config["prompts"])
        self._scheduler.connector = Connector({**config, "external": stored})
        self._scheduler.recompute_kv_load_failures = not config.get("failed_loads_end", 0)
        if hasattr(self._scheduler, FREES_LATE):
            setattr(self._scheduler, FREES_LATE, bool(any(stored) and config["ahead"] > 1))
        connector: Connector = self._scheduler.connector
        return connector

    @property
    def _loads(self) -> dict[int, Load]:
        return self._connector.loads if self._connector is not None else {}

    def _load_of(self, number: int, *, late: bool) -> Load | None:
        """The load that the request waits for, or that the step in flight makes for it."""
        load = self._loads.get(number)
        return load if load is not None and load.late == late else None

    def _blocks_of(self, number: int) -> list[int]:
        """The release's blocks of a request."""
        return [int(block) for block in self._scheduler.kv_cache_manager.get_block_ids(str(number))[0]]

    def _invalid(self, number: int, load: Load, whole: int) -> tuple[int, ...]:
        """The blocks of a failed load, behind those that are whole."""
        size = self._config["block_size"]
        return tuple(self._blocks_of(number)[max(whole, load.start // size) : -(-load.end // size)])

    def do_finish_load(self, request: int) -> Reply:
        """The load is over, also one whose request was aborted."""
        load = self._load_of(request, late=True)
        if load is None:
            return ABSENT
        del self._loads[request]
        if request not in self._gone:
            self._load(request, load.start, load.end)
        return self._tell(report(received=(request,)))

    def do_fail_load(self, request: int, blocks: int) -> Reply:
        """The load of a waiting request is over, and has brought its first blocks."""
        load = self._load_of(request, late=True)
        if load is None or request in self._gone:
            return ABSENT
        del self._loads[request]
        invalid = self._invalid(request, load, blocks)
        self._load(request, load.start, min(load.end, blocks * self._config["block_size"]))
        reply = self._tell(report(received=(request,), invalid=invalid))
        self._gone.update({request} if self._is_over(request) else ())
        return reply

    def do_fail_step(self, request: int, blocks: int) -> Reply:
        """What requests have computed behind a failed block is lost: the release sets them back."""
        load = self._load_of(request, late=False)
        if load is None or not self._steps or request not in self._steps[0].counted():
            return ABSENT
        before = {part: self._requests[part.request].num_computed_tokens for part in self._steps[0].parts}
        reply = self._take(0, report(invalid=self._invalid(request, load, blocks)))
        self._gone.update(ended for ended, live in self._live().items() if live.is_finished())
        for part, computed in before.items():
            after = self._requests[part.request].num_computed_tokens
            if after <= computed - part.tokens:
                for worker in self._workers:
                    worker.lose(part.request, after)
        return reply

    def _load(self, number: int, start: int, end: int) -> None:
        """Every worker has the KV of these tokens of a request."""
        blocks = self._blocks_of(number)
        for worker in self._workers:
            worker.load(number, blocks, start, end)

    def do_finish_send(self, request: int) -> Reply:
        if request not in self._gone or str(request) not in self._scheduler.requests or request in self._loads:
            return ABSENT
        return self._tell(report(sent=(request,)))

    def _tell(self, said: Any) -> Reply:
        """A step without requests, with which the workers report the end of transfers."""
        output = self._classes.output({})
        output.kv_connector_output = said
        return self._fatal(
            self._calls.done(lambda: self._scheduler.update_from_output(self._classes.empty_step(), output))
        )
