"""A made-up connector: it says how many tokens an external store has, and reports how loads and sends end.

The release asks it in `schedule`, and hears of the ends in `update_from_output`, as of a real one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

NORMAL_ENDS = ("FINISHED_STOPPED", "FINISHED_LENGTH_CAPPED")


class Load(NamedTuple):
    """What is loaded for a request: its tokens from `start` up to `end`, and whether it waits for them."""

    start: int
    end: int
    late: bool


class Connector:
    """What a release's scheduler asks of a connector; whatever else it says to one is ignored."""

    supports_divergent_local_hybrid_hits = False
    requires_kv_delivery = False

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._hits: dict[int, int] = {}
        self.loads: dict[int, Load] = {}
        """Loads that have begun and of whose end the scheduler has not been told."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None

    def get_num_new_matched_tokens(self, request: Any, local: int) -> tuple[int, bool]:
        """How many tokens behind the hits are loaded, and whether the request waits for them.

        A step computes one token at least of what it loads, so all tokens are loaded for a waiting request only.
        """
        number, late = int(request.request_id), self._is("loads_later", int(request.request_id))
        self._hits[number] = local
        most = request.num_tokens if late else request.num_tokens - 1
        count = max(0, min(self._config["external"][number], most) - local)
        return count, late and count > 0

    def update_state_after_alloc(self, request: Any, blocks: Any, count: int) -> None:
        """The request has blocks for so many tokens that are loaded."""
        number = int(request.request_id)
        if count:
            start = self._hits[number]
            self.loads[number] = Load(start, start + count, self._is("loads_later", number))

    def request_finished(self, request: Any, *_: Any) -> tuple[bool, None]:
        """Whether the blocks of a finished request are sent, and freed later."""
        return self._is("sends", int(request.request_id)) and request.status.name in NORMAL_ENDS, None

    def has_pending_block_frees(self) -> bool:
        """Blocks are freed when the scheduler frees them."""
        return False

    def get_loaded_kv_cache_group_ids(self, request: Any) -> tuple[int, ...]:
        """The one group is loaded."""
        return (0,)

    def _is(self, setting: str, number: int) -> bool:
        values = self._config.get(setting)
        return bool(values and values[number])


def report(
    received: tuple[int, ...] = (), sent: tuple[int, ...] = (), invalid: tuple[int, ...] = ()
) -> SimpleNamespace:
    """What the workers say of their transfers, with the output of a step."""
    return SimpleNamespace(
        finished_sending={str(number) for number in sent},
        finished_recving={str(number) for number in received},
        invalid_block_ids=set(invalid),
        failed_recving=set(),
        kv_connector_stats=None,
        kv_cache_events=None,
    )
