"""What a scheduler did, in the words of `scheduler`: requests that arrive, steps that are planned, outputs, aborts.

Not every run can be put so. Requests of a log share prefixes by groups; one number of accepted drafts is given for all
requests of a step; and connectors, adapters, sessions and structured output are not recorded.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from cacheproof.logs.record.events import Event, Recording, source_of
from cacheproof.logs.record.numbering import Numbers
from cacheproof.logs.record.prefixes import ForkError, beginnings
from cacheproof.model.wire import Message

COMPONENT = "scheduler"
SETTINGS = (
    *("block_size", "kv_blocks", "token_budget", "max_running", "max_model_len", "whole_items", "chunked_prefill"),
    *("long_prefill_threshold", "prefix_caching", "watermark", "admit_by_chunk", "policy", "ahead"),
)
STOPPED = "FINISHED_STOPPED"


class NotSaidError(Exception):
    """The run cannot be put in the words of the specification."""


class Translation:
    """One recording, read twice: for its configuration, and for its lines."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._contents: Numbers[str] = Numbers()
        self._now: dict[str, int] = {}
        """The number of each name; that of the last request with this name."""
        self._items: list[list[tuple[int, int, int]]] = []
        self._idle = set[int]()
        """Steps whose plan was empty: their output is none."""

    def config(self) -> Message:
        """The settings, and every request. Raises NotSaidError."""
        settings = self._recording.settings
        reasons = [str(what) for what in settings["strange"]]
        if settings["drafts"]:
            reasons.append("drafts")
        added = [event for event in self._recording.events() if event.get("op") == "add"]
        reasons += [str(what) for event in added for what in event.get("strange", ())]
        if reasons:
            raise NotSaidError(f"the scheduler is not judged: {', '.join(dict.fromkeys(reasons))}")
        if not added:
            raise NotSaidError("no request arrived")
        chains, ends = self._ends(added)
        self._items = [[self._item(item) for item in event["items"]] for event in added]
        prompts = [len(event["tokens"]) for event in added]
        try:
            groups, shared = beginnings(chains, prompts, settings["block_size"])
        except ForkError as error:
            raise NotSaidError(f"the scheduler is not judged: {error}") from None
        priorities = [int(event.get("priority", 0)) for event in added]
        return {
            **{name: settings[name] for name in SETTINGS},
            "encoder_compute": settings["encoder_compute"] or 1,
            "encoder_capacity": settings["encoder_capacity"] or 1,
            "prompts": prompts,
            "outputs": [int(event["outputs"]) for event in added],
            "items": [list(map(list, items)) for items in self._items] if any(self._items) else [],
            "priorities": priorities if any(priorities) else [],
            "groups": groups,
            "shared": shared,
            "stops": ends if any(ends) else [],
            "min_tokens": [int(event.get("least", 0)) for event in added]
            if any("least" in one for one in added)
            else [],
            "aborts": 1,
        }

    def _item(self, item: Sequence[Any]) -> tuple[int, int, int]:
        content, start, length, embeddings, _ = item
        if embeddings != length:
            raise NotSaidError("the scheduler is not judged: items have tokens without an embedding")
        return self._contents.of(str(content)), int(start), int(length)

    def _ends(self, added: Sequence[Event]) -> tuple[list[list[Hashable]], list[int]]:
        """Of each request what its whole blocks hold, and the output token that stopped it, or 0."""
        size = self._recording.settings["block_size"]
        tokens, ends = [list(event["tokens"]) for event in added], [0] * len(added)
        now: dict[str, int] = {}
        for event in self._recording.events():
            if event.get("op") == "add":
                now[event["request"]] = len(now)
            for name, status, outputs in event.get("ended", ()):
                tokens[now[name]] += outputs
                ends[now[name]] = len(outputs) if status == STOPPED else 0
        return [_blocks(*one, size) for one in zip(tokens, (event["items"] for event in added), strict=True)], ends

    def lines(self) -> Iterator[Message]:
        """The calls; `config` was asked for before."""
        self._now.clear()
        self._idle.clear()
        for event in self._recording.events():
            for line in self.of(event):
                yield {**line, **source_of(event)}

    def of(self, event: Event) -> Iterator[Message]:
        """The lines of the next event."""
        match event.get("op"):
            case "add":
                number = self._now[event["request"]] = len(self._now)
                yield _call({"op": "add", "request": number}, "done")
            case _ if "failed" in event:
                yield from _failed(event)
            case "schedule":
                yield self._scheduled(event)
            case "update" if event["of"] not in self._idle:
                ended = [self._now[name] for name, *_ in event["ended"]]
                yield _call({"op": "update", "accepted": 0}, "done", ended) | self._queues(event)
            case "abort":
                over = {name for name, *_ in event["ended"]}
                for name in event["requests"]:
                    if name in self._now:
                        yield _call({"op": "abort", "request": self._now[name]}, "done" if name in over else "absent")
            case _:
                return

    def _scheduled(self, event: Event) -> Message:
        if not (event["parts"] or event["dropped"] or event["over"] or event["preempted"]):
            self._idle.add(event["step"])
            return _call({"op": "schedule"}, "miss") | self._queues(event)
        parts = [part for name, first, count, _ in event["parts"] for part in (self._now[name], first, count)]
        line = _call({"op": "schedule"}, "done", parts) | self._queues(event)
        line["observations"] |= {
            "encoded": [part for name, place in event["encoded"] for part in (self._now[name], place)],
            "dropped": [self._contents.of(str(content)) for content in event["dropped"]],
        }
        return line

    def entries(self, event: Event) -> tuple[list[tuple[int, int]], list[int]] | None:
        """Contents with the requests that hold them, ascending, and the idle contents in the order of eviction."""
        entries = event.get("entries")
        if entries is None:
            return None
        held = [
            (self._contents.of(str(content)), self._now[name]) for content, names in entries["held"] for name in names
        ]
        return sorted(held), [self._contents.of(str(content)) for content in entries["idle"]]

    def tables(self, event: Event, before: Mapping[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
        """The blocks of each request after an event, from those before it; requests without blocks are left out."""
        tables = dict(before)
        for name, *_ in event.get("ended", ()):
            tables.pop(self._now[name], None)
        for name in event.get("preempted", ()):
            tables.pop(self._now[name], None)
        for name, blocks, whole in event.get("told", ()):
            kept = () if whole else tables.get(self._now[name], ())
            tables[self._now[name]] = (*kept, *blocks)
        return {number: blocks for number, blocks in tables.items() if blocks}

    def _queues(self, event: Event) -> Message:
        shown: Message = {name: [self._now[one] for one in event[name]] for name in ("waiting", "running")}
        for name in ("computed", "produced"):
            pairs = sorted((self._now[one], count) for one, count in event[name])
            shown[name] = [part for pair in pairs for part in pair]
        if event["kv_free"] is not None:
            shown["kv_free"] = event["kv_free"]
        if self._recording.settings["encoder_capacity"]:
            shown["encoder_free"] = event["encoder_free"]
        return {"observations": shown}


def _blocks(tokens: Sequence[int], items: Sequence[Sequence[Any]], size: int) -> list[Hashable]:
    """What each whole block holds: its tokens, and the images that show in it with their places; not what is before."""
    return [
        (
            tuple(tokens[begin : begin + size]),
            tuple((one, start - begin) for one, start, length, *_ in items if begin - length < start < begin + size),
        )
        for begin in range(0, len(tokens) - size + 1, size)
    ]


def _call(operation: Message, code: str, values: Sequence[int] = ()) -> Message:
    return {
        "operation": operation,
        "outcome": {"code": code, **({"values": list(values)} if values else {})},
        "observations": {},
    }


def _failed(event: Event) -> Iterator[Message]:
    """A call that has raised an error."""
    match event["op"]:
        case "schedule":
            yield _call({"op": "schedule"}, "failed")
        case "update_from_output":
            yield _call({"op": "update", "accepted": 0}, "failed")
