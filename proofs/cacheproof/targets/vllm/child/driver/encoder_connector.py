"""A made-up encoder connector: it says whose encoder outputs it has, and which of them are on their way.

The release asks it in `schedule`. What a step loads from it is read from the metadata of the step, as a worker does.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any

from .calls import ABSENT, DONE, Calls, DriverError, Reply

PRESENT = Reply("present")
STORED, EXPECTED = 1, 2
"""What the connector says of a content: it has the encoder output, or expects it."""
ASKED = "ec_connector"
"""The attribute of the schedulers that are driven with an encoder connector."""


class EncoderConnector:
    """What a release's scheduler asks of an encoder connector; whatever else it says to one is ignored."""

    def __init__(self, contents: Sequence[int]) -> None:
        self.remote = {content: phase for content, phase in enumerate(contents) if phase}
        self._loads: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None

    def has_cache_item(self, identifier: str) -> bool:
        """Whether the encoder output of this content is there."""
        return self.remote.get(int(identifier)) == STORED

    def ensure_cache_available(self, request: Any, computed: int) -> bool:
        """Whether no output of the request's items behind its computed tokens is on its way. 0.20.2 does not ask."""
        return not any(
            self.remote.get(int(feature.identifier)) == EXPECTED
            for feature in request.mm_features
            if feature.mm_position.offset + feature.mm_position.length > computed
        )

    def update_state_after_alloc(self, request: Any, index: int) -> None:
        """The cache has room for an item: its output is loaded, if it is here."""
        content = request.mm_features[index].identifier
        if self.has_cache_item(content):
            self._loads.append(int(content))

    def build_connector_meta(self, said: Any) -> tuple[int, ...]:
        """What the workers load in this step."""
        loads, self._loads = tuple(self._loads), []
        return loads

    def request_finished(self, request: Any) -> tuple[bool, None]:
        """Nothing is sent."""
        return False, None

    def take_unavailable_requests(self) -> set[str]:
        """A request whose output is lost is encoded here: it is not ended."""
        return set()

    def has_pending_push_work(self) -> bool:
        """Nothing is pushed."""
        return False


class Outputs(ABC):
    """The part of a scheduler's driver that is about its encoder connector."""

    _calls: Calls
    _classes: Any
    _scheduler: Any
    _outputs: EncoderConnector | None = None

    def _connect_encoder(self, config: Mapping[str, Any]) -> EncoderConnector | None:
        """The encoder connector of this configuration, if it has one."""
        contents = config.get("encoder_connector") or ()
        if not any(contents):
            return None
        if not hasattr(self._scheduler, ASKED):
            raise DriverError("encoder_connector is not driven: the release's scheduler has no such connector")
        connector = EncoderConnector(contents)
        setattr(self._scheduler, ASKED, connector)
        return connector

    def _loaded(self, said: Any) -> tuple[tuple[int, ...], ...]:
        """The encoder outputs that the workers load in this step."""
        loads = getattr(said, "ec_connector_metadata", None) if self._outputs is not None else None
        return tuple((content,) for content in loads or ())

    def do_bring_output(self, content: int) -> Reply:
        if self._outputs is None or content not in self._outputs.remote:
            return ABSENT
        if self._outputs.remote[content] == STORED:
            return PRESENT
        self._outputs.remote[content] = STORED
        return DONE

    def do_lose_output(self, content: int) -> Reply:
        if self._outputs is None or content not in self._outputs.remote:
            return ABSENT
        del self._outputs.remote[content]
        return DONE
