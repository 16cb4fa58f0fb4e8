"""What each slot of KV holds and each entry of the workers' encoder cache shows, from what was recorded.

The ledger knows no rule of any scheduler or manager. A token's KV depends on all tokens up to it; so a slot that a
request reads for a position must hold what was computed from the request's own tokens up to there, images included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cacheproof.logs.judge.wrong import Wrong
from cacheproof.logs.record.events import Event

JUDGE = "workers"
NOTHING = -1
"""In a slot that no step has written."""
UNKNOWN = -1
"""A token that is not known yet: steps ahead of their output."""


@dataclass(slots=True)
class Request:
    """A request as the ledger knows it."""

    prompt: list[int]
    items: list[list[Any]]
    """Identifier, first position, tokens, embeddings, digest of the data."""
    outputs: list[int]
    """All that it will have, as the scheduler has them at its end."""
    whole: bool
    """Whether `outputs` are all."""
    chain: list[int] = field(default_factory=list)
    """For each position a number that all tokens up to it determine."""
    table: list[int] = field(default_factory=list)
    holds: bool = False

    def token(self, position: int) -> int:
        """The token at a position; UNKNOWN if the recording ends before it is known."""
        behind = position - len(self.prompt)
        if behind < 0:
            return self.prompt[position]
        return self.outputs[behind] if behind < len(self.outputs) else UNKNOWN

    def shown_at(self, position: int) -> str:
        """The image whose embedding stands at a position, with the place in it; empty for a word."""
        for identifier, start, length, *_ in self.items:
            if start <= position < start + length:
                return f"{identifier} {position - start}"
        return ""

    def read_by(self, first: int, end: int) -> list[str]:
        """The images of which tokens from `first` up to `end` read embeddings."""
        return [one for one, start, length, *_ in self.items if start < end and first < start + length]


class Ledger:
    """Takes what was recorded in its order. `wrong` is the first thing that cannot be right."""

    def __init__(self, settings: Mapping[str, Any], requests: Mapping[int, Request]) -> None:
        self._settings, self._requests = settings, requests
        self._block: int = settings["block_size"]
        self._now: dict[str, int] = {}
        self._slots: dict[int, list[int]] = {}
        """Of each block, what its slots hold."""
        self._entries: dict[str, str] = {}
        """Of each entry of the workers' encoder cache, the digest of the data that it was computed from."""
        self._data: dict[str, str] = {}
        """Of each identifier, the digest of the data that came with it first."""
        self._plan: Event = {}
        self.counts = {"written": 0, "read": 0, "computed": 0, "entries_read": 0, "freed": 0}

    def take(self, event: Event) -> Wrong | None:
        """Take one event of the scheduler or of the workers."""
        found = next(self._looked_at(event), None)
        return None if found is None else Wrong(event.get("step", 0), JUDGE, *found)

    def _looked_at(self, event: Event) -> Iterator[tuple[str, str, str]]:
        match event.get("op"):
            case "add":
                yield from self._added(event)
            case "receive" if "sides" in event:
                sent, there = event["sides"]
                if sent != there:
                    says = f"the frontend has {len(sent)} images cached, the engine core {len(there)}, in one order"
                    at = next((one for one, two in zip(sent, there, strict=False) if one != two), "their number")
                    yield "mirror", f"{says}: they differ", at
            case "schedule" if "failed" not in event:
                yield from self._planned(event)
            case "work":
                yield from self._worked(event)
            case "update" | "abort" if "failed" not in event:
                for name, *_ in event["ended"]:
                    self._live(name).table.clear()
                yield from self._free_blocks(event)
                yield from self._counts(event)
            case name if "failed" in event:
                yield "engine", f"{name} has raised an error", str(event["failed"])
            case _:
                return

    def _live(self, name: str) -> Request:
        return self._requests[self._now[name]]

    def _added(self, event: Event) -> Iterator[tuple[str, str, str]]:
        self._now[event["request"]] = len(self._now)
        for identifier, _, _, _, digest in event["items"]:
            if not digest:
                yield "image", f"request {event['request']} came without the data of an image", identifier
            elif self._data.setdefault(identifier, digest) != digest:
                yield "image", f"request {event['request']} came with other data under a known identifier", identifier

    def _planned(self, event: Event) -> Iterator[tuple[str, str, str]]:
        self._plan = event
        for name in event["preempted"]:
            self._live(name).table.clear()
        for name, blocks, whole in event["told"]:
            request = self._live(name)
            request.table = list(blocks) if whole else [*request.table, *blocks]
        total = sum(count for _, _, count, _ in event["parts"])
        if total > self._settings["token_budget"]:
            yield "budget", f"the plan has {total} tokens, and may have {self._settings['token_budget']}", str(total)
        if len(event["running"]) > self._settings["max_running"]:
            yield "running", f"{len(event['running'])} requests run", str(event["running"])
        for name, first, count, _ in event["parts"]:
            if count <= 0 or first + count > len(self._live(name).table) * self._block:
                yield "table", f"the table of {name} has no room for the plan", str([name, first, count])
        for content in event["dropped"]:
            self.counts["freed"] += 1
            self._entries.pop(content, None)
        for block in event["zeroed"]:
            self._slots.pop(block, None)
        yield from self._free_blocks(event)

    def _free_blocks(self, event: Event) -> Iterator[tuple[str, str, str]]:
        """A block is free, or in the table of a request."""
        if event.get("kv_free") is None or self._settings["strange"]:
            return
        held = {block for request in map(self._live, self._now) for block in request.table}
        there = self._settings["kv_blocks"] - 1
        if event["kv_free"] + len(held) != there:
            says = f"{event['kv_free']} blocks are free and {len(held)} are in tables; there are {there}"
            yield "blocks", says, str(event["kv_free"])

    def _counts(self, event: Event) -> Iterator[tuple[str, str, str]]:
        """After the output of a step, the last token of each request is not computed; drafts may have been rejected."""
        if self._settings["ahead"] > 1:
            return
        produced = dict(event["produced"])
        for name, computed in event["computed"]:
            request = self._live(name)
            known = len(request.prompt) + produced.get(name, 0)
            if computed >= known:
                yield "counts", f"{name} has {known} tokens, and {computed} count as computed", str(computed)
            del request.chain[known - 1 :]

    def _worked(self, event: Event) -> Iterator[tuple[str, str, str]]:
        parts = {name: (first, count) for name, first, count, _ in self._plan["parts"]}
        if "failed" in event:
            yield from self._rows(event, parts)
            yield from self._embeddings(event)
            yield "engine", "the workers have raised an error", str(event["failed"])
        if {name for name, *_ in event["rows"]} != set(parts):
            yield "plan", "the workers' batch has other requests than the plan", str([row[0] for row in event["rows"]])
        yield from self._rows(event, parts)
        yield from self._embeddings(event)
        yield from self._memory(event)

    def _rows(self, event: Event, parts: Mapping[str, tuple[int, int]]) -> Iterator[tuple[str, str, str]]:
        rows = event.get("rows", ())
        for name, first, tokens, slots, table in rows:
            yield from self._row(name, first, tokens, slots, table, parts)
        for name, first, tokens, slots, _ in rows:  # each layer writes the whole batch before any row of it reads
            yield from self._writes(name, first, tokens, slots)
        for name, first, _, _, table in rows:
            yield from self._reads(name, first, table)

    def _row(
        self,
        name: str,
        first: int,
        tokens: list[int],
        slots: list[int],
        table: list[int],
        parts: Mapping[str, tuple[int, int]],
    ) -> Iterator[tuple[str, str, str]]:
        """The row is the part of the plan, its blocks are those that were told, and its slots are in these."""
        request = self._live(name)
        if parts.get(name) != (first, len(tokens)) and not self._settings["drafts"]:
            yield "plan", f"the workers compute other tokens of {name} than planned", str([name, first, len(tokens)])
        if table != request.table[: len(table)]:
            yield "table", f"the workers' blocks of {name} are not {request.table[: len(table)]}", str([name, table])
        positions = range(first, first + len(tokens))
        if slots != [table[one // self._block] * self._block + one % self._block for one in positions]:
            yield "slots", f"the slots of {name} are not those of its positions", str([name, first, slots])
        drafts = next((part[3] for part in self._plan["parts"] if part[0] == name), 0)
        for place in range(len(tokens) - drafts):
            right = request.token(first + place)
            if right not in (UNKNOWN, tokens[place]) and not request.shown_at(first + place):
                yield "input", f"{name} has token {right} at position {first + place}", str([name, tokens[place]])

    def _reads(self, name: str, first: int, table: list[int]) -> Iterator[tuple[str, str, str]]:
        request = self._live(name)
        self.counts["read"] += first
        self._extend(request, first, ())
        for place in range(-(-first // self._block)):
            begin = place * self._block
            wanted = request.chain[begin : min(first, begin + self._block)]
            there = self._slots.get(table[place], [NOTHING] * self._block)[: len(wanted)]
            if there != wanted:
                at = next(one for one, (has, wants) in enumerate(zip(there, wanted, strict=True)) if has != wants)
                what = "that no step has written" if there[at] == NOTHING else "with the KV of other tokens"
                slot = table[place] * self._block + at
                yield "read", f"{name} reads slot {slot} for position {begin + at}, {what}", str([name, first, table])

    def _writes(self, name: str, first: int, tokens: list[int], slots: list[int]) -> Iterator[tuple[str, str, str]]:
        request = self._live(name)
        self.counts["written"] += len(tokens)
        self._extend(request, first, ())
        del request.chain[first:]
        self._extend(request, first + len(tokens), tokens)
        for number, slot in enumerate(slots):
            block, place = divmod(slot, self._block)
            there = self._slots.setdefault(block, [NOTHING] * self._block)
            value = request.chain[first + number]
            if there[place] != value:
                for other in self._holders(slot, value, name):
                    says = f"{name} writes slot {slot}, which {other} holds with other tokens"
                    yield "write", says, str([name, slots])
            there[place] = value

    def _holders(self, slot: int, value: int, name: str) -> Iterator[str]:
        """Other requests that have something else at this slot of their tables."""
        block, place = divmod(slot, self._block)
        for other in self._now:
            request = self._live(other)
            if other != name and block in request.table:
                position = request.table.index(block) * self._block + place
                if position < len(request.chain) and request.chain[position] != value:
                    yield other

    def _extend(self, request: Request, end: int, tokens: Any) -> None:
        """What the positions up to `end` hold; `tokens` are the input of the last of them."""
        chain, first = request.chain, end - len(tokens)
        while len(chain) < end:
            position = len(chain)
            token = tokens[position - first] if position >= first else request.token(position)
            shown = request.shown_at(position)
            what = f"{shown} {self._data.get(shown.rpartition(' ')[0], '')}" if shown else token
            chain.append(hash((chain[-1] if chain else 0, position, what)))

    def _embeddings(self, event: Event) -> Iterator[tuple[str, str, str]]:
        """The encoder computes what was planned, from the right data, and tokens read what is there."""
        planned = [self._live(name).items[place][0] for name, place in self._plan["encoded"]]
        inputs = dict(event.get("inputs", ()))
        for identifier, digest in inputs.items():
            if digest != self._data.get(identifier, digest):
                yield "image", "an image is encoded from other data than came with it", identifier
        if sorted(inputs) != sorted(set(planned)):
            yield (
                "encode",
                f"the plan has {len(planned)} images to encode, and the encoder got {len(inputs)}",
                str(planned),
            )
        for identifier in event.get("encoded", ()):
            self.counts["computed"] += 1
            self._entries[identifier] = inputs.get(identifier, "")
        wanted = [
            one
            for name, first, tokens, *_ in event.get("rows", ())
            for one in self._live(name).read_by(first, first + len(tokens))
        ]
        read = [identifier for identifier, _ in event.get("read", ())]
        for identifier, there in event.get("read", ()):
            self.counts["entries_read"] += 1
            if not there or identifier not in self._entries:
                yield "embedding", "the workers read an encoder output that is not there", identifier
            elif there != 1:
                yield "embedding", "the workers read the encoder output of another image", identifier
            elif self._entries[identifier] != self._data.get(identifier):
                yield "embedding", "the workers read the encoder output of other data", identifier
        if event.get("outputs", len(self._entries)) != len(self._entries):
            says = f"the workers keep {event['outputs']} encoder outputs, and {len(self._entries)} were not dropped"
            yield "entries", says, str(event["outputs"])
        if read != wanted[: len(read)] or ("failed" not in event and len(read) != len(wanted)):
            yield (
                "embedding",
                f"the tokens of the batch show {len(wanted)} images, and {len(read)} were read",
                str(read),
            )

    def _memory(self, event: Event) -> Iterator[tuple[str, str, str]]:
        """Memory has changed in the blocks of the slots that were written, and in no other one."""
        if "changed" not in event:
            return
        written = {slot // self._block for _, _, _, slots, _ in event["rows"] for slot in slots}
        strange = sorted(set(event["changed"]) - written - set(self._plan["zeroed"]))
        if strange:
            yield (
                "memory",
                f"the memory of blocks {strange} has changed, and the plan does not write them",
                str(strange),
            )


def requests_of(events: Iterator[Event]) -> dict[int, Request]:
    """All requests of a recording, with the tokens that the scheduler has of them at their end."""
    found, now = dict[int, Request](), dict[str, int]()
    for event in events:
        if event.get("op") == "add":
            now[event["request"]] = len(found)
            found[len(found)] = Request(event["tokens"], event["items"], [], whole=False)
        for name, _, tokens in event.get("ended", ()):
            request = found[now[name]]
            request.outputs, request.whole = [int(token) for token in tokens], True
    return found
