"""What a manager of blocks did, in the words of `kv_blocks`.

A content is the key that the engine gave to a block, which is trusted to name all that is before it too. That workers
have written is no call of a release and is not recorded: from K0 on no release looks at it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cacheproof.logs.record.events import Event, Recording, source_of
from cacheproof.logs.record.numbering import Lives, Numbers
from cacheproof.model.wire import Message

COMPONENT = "kv_blocks"
OPERANDS = ("tokens", "computed", "hits")


class Translation:
    """One recording, read twice: for its configuration, and for its lines."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._contents: Numbers[str] = Numbers()

    def config(self) -> Message:
        """The pool, and every request with all the blocks and tokens that it came to have."""
        lives, lengths = Lives(), dict[int, int]()
        for event in self._recording.events():
            number = _request(lives, event)
            if number is not None and "length" in event:
                lengths[number] = max(lengths.get(number, 0), event["length"])
        settings = self._recording.settings
        size = settings["block_size"]
        chains = [[self._contents.of(str(key)) for key in keys] for keys in lives.parts]
        for number, chain in enumerate(chains):
            lacking = lengths.get(number, 0) // size - len(chain)
            chain.extend(self._contents.of(f"not hashed: {number}, {place}") for place in range(lacking))
        return {
            "block_size": size,
            "blocks": settings["blocks"],
            "limit": settings["limit"],
            "chains": chains or [[]],
            "lengths": [lengths.get(number, 0) for number in range(max(1, len(chains)))],
        }

    def lines(self) -> Iterator[Message]:
        """The calls, and what was shown; `config` was asked for before."""
        lives = Lives()
        for event in self._recording.events():
            number = _request(lives, event)
            line: Message = {}
            if "op" in event:
                named = {} if number is None else {"request": number}
                operands = {name: event[name] for name in OPERANDS if name in event}
                line["operation"] = {"op": event["op"], **named, **operands}
                values = {"values": event["values"]} if event.get("values") else {}
                line["outcome"] = {"code": event["code"], **values}
            if "free" in event:
                line["observations"] = self._shown(event)
            if line:
                yield {**line, **source_of(event)}

    def _shown(self, event: Event) -> Message:
        """What a block carries is a content of some request: its key was told before it was registered."""
        carried = [(block, self._contents.known(key)) for block, key in event["carried"]]
        return {
            "free": event["free"],
            "references": [part for pair in event["references"] for part in pair],
            "carried": [part for pair in carried for part in pair],
        }


def _request(lives: Lives, event: Event) -> int | None:
    """The request that the event is about."""
    name: Any = event.get("request")
    if name is None:
        return None
    if "keys" in event:
        return lives.grown(name, event["from"], event["keys"])
    return lives.number(name)
