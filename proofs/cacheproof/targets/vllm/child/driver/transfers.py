"""Loads and sends of a release's scheduler: what the workers tell it of the connector, with a step or without one.

A load that a request waits for ends with a step that computes nothing, as an engine makes it while it has no other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from .calls import ABSENT, Calls, DriverError, Reply, integer
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

    def _transfers(self) -> dict[str, Any]:
        """Its operations, as far as the release has them."""
        if not hasattr(self._classes.scheduler, CONNECTED):
            return {}
        ends = {"finish_load": self._finish_load, "finish_send": self._finish_send}
        if not hasattr(self._classes.scheduler, FAILS):
            return ends
        return {**ends, "fail_load": self._fail_load, "fail_step": self._fail_step}

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

    def _finish_load(self, message: Mapping[str, Any]) -> Reply:
        """The load is over, also one whose request was aborted."""
        number = integer(message, "request")
        load = self._load_of(number, late=True)
        if load is None:
            return ABSENT
        del self._loads[number]
        if number not in self._gone:
            self._load(number, load.start, load.end)
        return self._tell(report(received=(number,)))

    def _fail_load(self, message: Mapping[str, Any]) -> Reply:
        """The load of a waiting request is over, and has brought its first blocks."""
        number, whole = integer(message, "request"), integer(message, "blocks")
        load = self._load_of(number, late=True)
        if load is None or number in self._gone:
            return ABSENT
        del self._loads[number]
        invalid = self._invalid(number, load, whole)
        self._load(number, load.start, min(load.end, whole * self._config["block_size"]))
        reply = self._tell(report(received=(number,), invalid=invalid))
        self._gone.update({number} if self._is_over(number) else ())
        return reply

    def _fail_step(self, message: Mapping[str, Any]) -> Reply:
        """What requests have computed behind a failed block is lost: the release sets them back."""
        number, whole = integer(message, "request"), integer(message, "blocks")
        load = self._load_of(number, late=False)
        if load is None or not self._steps or number not in self._steps[0].counted():
            return ABSENT
        before = {part: self._requests[part.request].num_computed_tokens for part in self._steps[0].parts}
        reply = self._take(0, report(invalid=self._invalid(number, load, whole)))
        self._gone.update(ended for ended, request in self._live().items() if request.is_finished())
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

    def _finish_send(self, message: Mapping[str, Any]) -> Reply:
        number = integer(message, "request")
        if number not in self._gone or str(number) not in self._scheduler.requests or number in self._loads:
            return ABSENT
        return self._tell(report(sent=(number,)))

    def _tell(self, said: Any) -> Reply:
        """A step without requests, with which the workers report the end of transfers."""
        output = self._classes.output({})
        output.kv_connector_output = said
        return self._fatal(
            self._calls.done(lambda: self._scheduler.update_from_output(self._classes.empty_step(), output))
        )
