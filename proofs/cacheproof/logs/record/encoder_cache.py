"""What a manager of the encoder cache did, in the words of `encoder_cache`; a content is the identifier of an item."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cacheproof.logs.record.events import Recording, source_of
from cacheproof.logs.record.numbering import Lives, Numbers
from cacheproof.model.wire import Message

COMPONENT = "encoder_cache"
OPERANDS = ("input", "budget", "pending")


class Translation:
    """One recording, read twice: for its configuration, and for its lines."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._contents: Numbers[str] = Numbers()

    def config(self) -> Message:
        """The capacity, every item with the size that was claimed for it first, and what each request claims."""
        lives, sizes = Lives(), dict[int, int]()
        for event in self._recording.events():
            if "items" in event:
                lives.grown(event["request"], 0, list(map(tuple, event["items"])))
        requests, claims = [], []
        for items in lives.parts:
            pairs: list[Any] = list(items)
            named = [(self._contents.of(str(content)), int(size)) for content, size in pairs]
            for content, size in named:
                sizes.setdefault(content, size)
            requests.append([content for content, _ in named])
            claims.append([size for _, size in named])
        same = all(
            sizes[content] == size
            for contents, claimed in zip(requests, claims, strict=True)
            for content, size in zip(contents, claimed, strict=True)
        )
        return {
            "capacity": self._recording.settings["capacity"],
            "sizes": [sizes[content] for content in range(len(sizes))] or [0],
            "requests": requests or [[]],
            **({} if same else {"claims": claims}),
        }

    def lines(self) -> Iterator[Message]:
        """The calls; `config` was asked for before."""
        lives = Lives()
        for event in self._recording.events():
            if "items" in event:
                lives.grown(event["request"], 0, list(map(tuple, event["items"])))
            if "op" not in event:
                continue
            named = {"request": lives.number(event["request"])} if "request" in event else {}
            operands = {name: event[name] for name in OPERANDS if name in event}
            values = [self._contents.of(str(content)) for content in event.get("values", ())]
            yield {
                "operation": {"op": event["op"], **named, **operands},
                "outcome": {"code": event["code"], **({"values": values} if values else {})},
                "observations": event.get("shown", {}),
                **source_of(event),
            }
