"""One random load of text in a release's own scheduler, and its made-up worker.

The worker has a slot for each token of each block, executes steps in order, accepts drafts at random, and reports the
first read of a slot that does not have the KV of the request's token.
"""

from __future__ import annotations

import importlib
import random
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from tests.impl.interfaces import engine_modes, load_connector, random_loads
else:
    sys.path.append(str(Path(__file__).parent))
    engine_modes, load_connector, random_loads = map(
        importlib.import_module, ("engine_modes", "load_connector", "random_loads")
    )

BLOCK, BLOCKS, LIMIT, STEPS, BUDGET, RUNNING = 4, 24, 64, 120, 24, 5
VOCABULARY = 3
"""Few tokens, so that requests share prefixes that their outputs have filled, too."""
LONGEST = 48
"""Tokens of a prompt."""


def prefixes(shown: Iterable[Any], before: int = 0) -> list[int]:
    """For each position a number for what is there and at all before it. `before` is that of the position before."""
    return list(accumulate(shown, lambda one, its: hash((one, its)), initial=before))[1:]


class Worker:
    """The memory of the workers, and what they know of each request."""

    def __init__(self, classes: Any, rng: random.Random) -> None:
        self.classes, self.rng, self.block_size = classes, rng, BLOCK
        self.slots: dict[tuple[int, int], int] = {}
        self.looks_back = LIMIT
        """Tokens before the next one that are read."""
        self.goes_back = False
        """The scheduler says where each request begins, which may be before what it had."""
        self.failed: set[int] = set()
        """Blocks whose load has failed in this step."""
        self.settled: dict[tuple[int, int], int] = {}
        """The same, as far as the scheduler has been told that steps were executed."""
        self.writes: deque[list[tuple[tuple[int, int], int]]] = deque()
        """What the steps write of which the scheduler has not been told."""
        self.tables: dict[int, list[int]] = {}
        self.tokens: dict[int, list[int]] = {}
        self.computed: dict[int, int] = {}
        self.withdrawn = set[tuple[int, int]]()
        """Slots that a step was to write for a request which then left its plan; of failed loads, too."""
        self.contents: dict[Any, list[int]] = {}
        """What is at the positions of registered blocks, as far as it was looked at."""

    def execute(self, said: Any) -> dict[str, list[int]]:
        """What each request of the step samples."""
        self.writes.append([])
        starts = self.classes.starts(said)
        for news in self.classes.told(said):
            self.tables[news.request] = [*(() if news.whole else self.tables[news.request]), *news.blocks]
            if news.whole or self.goes_back:  # new or resumed
                self.computed[news.request] = starts[str(news.request)]
        for name in said.num_scheduled_tokens if self.goes_back else ():
            self.computed[int(name)] = starts[name]
        self.encode(said)
        drafted = said.scheduled_spec_decode_tokens
        return {
            name: self._computed(int(name), count, len(drafted.get(name, ())))
            for name, count in said.num_scheduled_tokens.items()
        }

    def encode(self, said: Any) -> None:
        """The encoder's part of a step. Text has none."""

    def _computed(self, request: int, count: int, drafts: int) -> list[int]:
        tokens, start = self.tokens[request], self.computed[request]
        known = prefixes(self.shown(request))
        for position in range(max(0, start - self.looks_back), start):
            if self.slots.get(self._slot(request, position)) != known[position]:
                if self._slot(request, position)[0] in self.failed:
                    return []  # the scheduler drops what this step makes of it
                cause = "C-KV-6, withdrawn" if self._slot(request, position) in self.withdrawn else "of no known cause"
                raise random_loads.WrongReadError(f"keys and values that are not there: {cause}")
        end = start + count - drafts
        assert end <= len(tokens), (request, start, count, drafts, len(tokens))
        if end < len(tokens):  # a part of a prompt, or of a resumed request
            assert not drafts
            self._write(request, start, end)
            self.computed[request] = end
            return []
        accepted = self.rng.randint(0, drafts)
        sampled = [self.rng.randrange(VOCABULARY) for _ in range(accepted + 1)]
        tokens.extend(sampled[:accepted])
        self._write(request, start, end + accepted)
        for position in range(end + accepted, end + drafts):
            self.slots.pop(self._slot(request, position), None)
        tokens.append(sampled[-1])
        self.computed[request] = end + accepted
        return sampled

    def _write(self, request: int, start: int, end: int) -> None:
        known = prefixes(self.shown(request)[:end])
        for position in range(start, end):
            slot = self._slot(request, position)
            self.slots[slot] = known[position]
            self.withdrawn.discard(slot)
            self.writes[-1].append((slot, known[position]))

    def tell(self) -> None:
        """The scheduler is told of the oldest step."""
        self.settled.update(self.writes.popleft())

    def lacking(self, memory: dict[tuple[int, int], int], blocks: Any) -> int:
        """How many of our manager's registered blocks do not have their KV in this memory."""
        return sum(not self._there(memory, block) for block in blocks if getattr(block, "content", None) is not None)

    def _there(self, memory: dict[tuple[int, int], int], block: Any) -> bool:
        known = self._known_in(block.content)
        return all(memory.get((block.block_id, place)) == known[place] for place in range(BLOCK))

    def _known_in(self, content: Any) -> list[int]:
        """What is at each position of a block that our manager has registered."""
        if content is None:
            return [0]
        if content not in self.contents:
            self.contents[content] = prefixes(self.shown_in(content), self._known_in(content.parent)[-1])
        return self.contents[content]

    def _slot(self, request: int, position: int) -> tuple[int, int]:
        return self.tables[request][position // BLOCK], position % BLOCK

    def known(self, request: int, position: int) -> int:
        """What is at this position and at all before it."""
        return prefixes(self.shown(request)[: position + 1])[-1]

    def shown(self, request: int) -> Sequence[Any]:
        """What is at each position of a request: of text, its token."""
        return self.tokens[request]

    def shown_in(self, content: Any) -> Sequence[Any]:
        """The same of a block that our manager has registered."""
        tokens: Sequence[Any] = content.token_ids
        return tokens


class Load(random_loads.Load):
    """One engine with random requests of text, aborts and resets of the prefix cache."""

    LIMIT = LIMIT

    def __init__(self, schedulers: Any, mode: str, seed: int) -> None:
        self.mode = engine_modes.MODES[mode]
        super().__init__(seed, STEPS, int(self.mode.asynchronous), self.mode.drafts)
        self.classes = schedulers.Classes()
        self.ABORTED = self.classes.status.FINISHED_ABORTED
        self.scheduler = self.classes.make(self.settings(schedulers.Settings))
        self.hasher = self.classes.hasher(BLOCK)
        self.worker = Worker(self.classes, random.Random(seed + 1))
        self.worker.looks_back = self.mode.window - 1 if self.mode.window else LIMIT
        self.connector: load_connector.Connector | None = None
        if self.mode.outside:
            self.connector = load_connector.Connector(self.worker, random.Random(seed + 2))
            self.scheduler.connector, self.worker.goes_back = self.connector, True
        self.requests: dict[int, Any] = {}
        self.begun = set[int]()
        self.hits = self.resumed = self.early = self.unwritten = 0

    def settings(self, make: Any) -> Any:
        """How the engine is set."""
        whole = self.mode.unsplit == engine_modes.PROMPTS
        return make(
            BLOCK,
            BLOCKS,
            LIMIT if whole else BUDGET,
            RUNNING,
            LIMIT,
            asynchronous=self.mode.asynchronous,
            drafts=self.drafts,
            by_priority=self.mode.by_priority,
            window=self.mode.window,
            chunked_prefill=not whole,
        )

    def watch(self) -> None:
        """Notice for which requests the scheduler allocates slots and then leaves them out of its plan."""
        manager, schedule = self.scheduler.kv_cache_manager, self.scheduler.schedule
        allocate, taken = manager.allocate_slots, dict[str, range]()
        tables = dict[str, Sequence[int]]()

        def allocate_slots(request: Any, tokens: int, *more: Any, **named: Any) -> Any:
            blocks = allocate(request, tokens, *more, **named)
            if blocks is not None:
                name, first = request.request_id, request.num_computed_tokens
                taken[name], tables[name] = range(first, first + tokens), manager.get_block_ids(name)[0]
            return blocks

        def scheduled() -> Any:
            taken.clear()
            said = schedule()
            for name, positions in taken.items():
                if name not in said.num_scheduled_tokens and self.connector is None:
                    table = tables[name]
                    self.worker.withdrawn |= {(table[its // BLOCK], its % BLOCK) for its in positions}
            return said

        manager.allocate_slots, self.scheduler.schedule = allocate_slots, scheduled

    def add(self) -> None:
        """A request; mostly it begins as another one does."""
        number = len(self.requests)
        prompt = [self.rng.randrange(VOCABULARY) for _ in range(self.rng.randint(1, 40))]
        if self.requests and self.rng.random() < 0.7:  # it goes on where another one is
            other = self.worker.tokens[self.rng.randrange(number)]
            prompt = [*other[: self.rng.randint(1, min(len(other), 40))], *prompt][:LONGEST]
        self.admit(number, prompt)

    def admit(self, number: int, prompt: Sequence[int], items: Sequence[Any] = (), priority: int | None = None) -> None:
        """The scheduler gets the request. Without a `priority`, it is a random one if there are some."""
        self.worker.tokens[number] = list(prompt)
        output = self.rng.randint(1, 14)
        if priority is None:
            priority = self.rng.randint(0, 2) if self.mode.by_priority else 0
        request = self.classes.new_request(str(number), prompt, output, self.hasher, items, priority, float(number))
        self.requests[number] = request
        self.scheduler.add_request(request)

    def step(self) -> None:
        """Plan a step, and execute it."""
        said = self.scheduler.schedule()
        blocks = self.scheduler.kv_cache_manager.block_pool.blocks
        self.early += self.worker.lacking(self.worker.settled, blocks)
        self.unwritten += self.worker.lacking(self.worker.slots, blocks)
        told = [tuple(news) for news in self.classes.told(said)]
        self.plans.append(
            (
                dict(said.num_scheduled_tokens),
                told,
                sorted(said.finished_req_ids),
                {name: len(tokens) for name, tokens in said.scheduled_spec_decode_tokens.items()},
                {name: list(numbers) for name, numbers in said.scheduled_encoder_inputs.items()},
                list(said.free_encoder_mm_hashes),
            )
        )
        began = {request for request, _, whole in told if whole}
        self.resumed += len(began & self.begun)
        self.begun |= began
        self.hits += sum(part.num_computed_tokens for part in said.scheduled_new_reqs)
        if self.connector is not None:
            self.connector.load(self.scheduler.requests)
            self.worker.failed = self.connector.failed
        if said.num_scheduled_tokens or self.connector is not None or said.free_encoder_mm_hashes:
            self.steps.append((said, self.worker.execute(said)))
        if len(self.steps) > self.ahead or not said.num_scheduled_tokens:
            self.update()

    def output(self, sampled: Mapping[str, list[int]]) -> Any:
        """What the scheduler hears of the oldest step."""
        self.worker.tell()
        output = self.classes.output(sampled)
        if self.connector is not None:
            output.kv_connector_output = self.connector.report()
        return output

    def proposed(self, drafts: Mapping[str, list[int]]) -> Any:
        """Drafts, as the release has them."""
        return self.classes.drafts(list(drafts), list(drafts.values()))

    def counts(self) -> dict[str, int]:
        """What has occurred, by name."""
        failed = 0 if self.connector is None else self.connector.counts["failed"]
        counts = {name: int(getattr(self, name)) for name in ("hits", "resumed", "early", "unwritten")}
        return {**counts, "failed": failed}
