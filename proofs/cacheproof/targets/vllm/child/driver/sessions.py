"""Sessions: the release knows a session by one id; here each of its turns has a number of its own.

The id is the number of the first turn. What the release reports by this id belongs to the turn that is under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

AWAITS_INPUT = "WAITING_FOR_STREAMING_REQ"
"""The status of a session between two turns."""
TURN_OVER = (AWAITS_INPUT, "WAITING")
"""The status after the end of a turn: a preempted request has another one."""


class Sessions:
    """Which turn of each session is under way, and which turns wait for its end."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._is_turn: list[int] = list(config.get("turns") or [0] * len(config["prompts"]))
        self._under_way: dict[str, int] = {}
        self.queued: set[int] = set()
        """Turns whose input has arrived before the end of the turn before."""

    def is_turn(self, number: int) -> bool:
        """Whether the request is a later turn of a session."""
        return self._is_turn[number] == 1

    def first(self, number: int) -> int:
        """The first turn of the request's session."""
        while self.is_turn(number):
            number -= 1
        return number

    def name(self, number: int) -> str:
        """The id by which the release knows the request."""
        return str(self.first(number))

    def number(self, name: str) -> int:
        """The turn that is under way under this id."""
        return self._under_way.get(name, int(name))

    def later(self, number: int) -> list[int]:
        """The turns behind this one."""
        behind = range(number + 1, len(self._is_turn))
        return [other for other in behind if self.first(other) == self.first(number)]

    def kept(self, number: int) -> int:
        """The tokens with which the next turn begins: those of the finished turn without the last one."""
        config, prompt = self._config, self._config["prompts"][number]
        return int(max(prompt + 1, min(prompt + config["outputs"][number], config["max_model_len"]))) - 1

    def new_tokens(self, number: int) -> int:
        """The tokens of the request's input: of a turn, those behind what its session keeps."""
        kept = self.kept(number - 1) if self.is_turn(number) else 0
        return int(self._config["prompts"][number]) - kept

    def begin(self, number: int) -> None:
        """The turn is under way."""
        self.queued.discard(number)
        self._under_way[self.name(number)] = number

    def end(self, number: int) -> None:
        """The turn is over. The next one is under way if it has arrived."""
        if number + 1 in self.queued:
            self.begin(number + 1)
