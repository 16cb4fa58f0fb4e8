"""One random load in the loop of a release, for its own scheduler and for `BatchedScheduler`.

It stands alone, as `engine_loads.py` does. It is the load of text (`engine_load.py`) with more checks: clients hear
what was sampled, once; workers have each encoder output that a step reads; and a step begins where the last one of its
request has ended.
"""

from __future__ import annotations

import importlib
import random
from typing import Any

loads: Any = importlib.import_module("engine_load")
random_loads: Any = importlib.import_module("random_loads")

PLACEHOLDER = 9
CONTENTS, LONGEST_ITEM = 7, 5
"""Different items. The length of each follows from its number."""
COMPUTE, CAPACITY = 6, 9
"""Embeddings that the encoder makes in a step, and those that the cache has room for."""
ROOMY = 40, 16
"""The same, so that hardly any item is refused, and some are evicted: all of them need 18."""
MODES = {
    f"{steps}{images}{priority}": (steps, bool(images), bool(priority))
    for steps in ("sync", "async", "drafts")
    for images in ("", ", images")
    for priority in ("", ", by priority")
}
"""Steps one by one, ahead of their output, or with drafts; text or images; by arrival or by priority."""


def length_of(content: int) -> int:
    """Tokens of the item that shows this."""
    return 1 + content % LONGEST_ITEM


class Worker(loads.Worker):  # type: ignore[misc]  # a module that is found at run time
    """Workers that also have encoder outputs."""

    def __init__(self, classes: Any, rng: random.Random, budgets: tuple[int, int]) -> None:
        super().__init__(classes, rng)
        self.compute, self.capacity = budgets
        self.items: dict[int, list[tuple[int, int]]] = {}
        """By request, content and first token of each item."""
        self.outputs: set[int] = set()
        self.encoded = self.most = 0

    def execute(self, said: Any) -> dict[str, list[int]]:
        """As for text; beside, outputs are dropped and encoded, and those that are read have to be there."""
        self.outputs.difference_update(self.classes.dropped(said))
        compute = 0
        for name, numbers in said.scheduled_encoder_inputs.items():
            contents = [self.items[int(name)][number][0] for number in numbers]
            self.outputs.update(contents)
            compute += sum(map(length_of, contents))
        self.encoded += compute
        self.most = max(self.most, sum(map(length_of, self.outputs)))
        if compute > self.compute or self.most > self.capacity:
            raise random_loads.WrongReadError(f"{compute} embeddings in a step, {self.most} in the cache")
        starts = self.classes.starts(said)
        for part in said.scheduled_new_reqs:  # what was sampled for nothing is forgotten
            self.tokens[int(part.req_id)] = list(part.prefill_token_ids)
        fresh = {part.req_id for part in said.scheduled_new_reqs}
        for name, count in said.num_scheduled_tokens.items():
            if name not in fresh and starts[name] != self.computed[int(name)]:
                raise random_loads.WrongReadError(
                    f"request {name} goes on at {starts[name]}, not {self.computed[int(name)]}"
                )
            for content, first in self.items[int(name)]:
                ends = first + length_of(content)
                if first < starts[name] + count and starts[name] < ends and content not in self.outputs:
                    raise random_loads.WrongReadError(f"request {name} reads an encoder output that is not there")
        sampled: dict[str, list[int]] = super().execute(said)
        return sampled

    def shown(self, request: int) -> list[tuple[int, int | None]]:
        """The token at each position, and the item that begins there."""
        begins = {first: content for content, first in self.items[request]}
        return [(token, begins.get(position)) for position, token in enumerate(self.tokens[request])]


class Load(loads.Load):  # type: ignore[misc]  # a module that is found at run time
    """One engine with random requests; what it has told its workers and its clients."""

    def __init__(self, schedulers: Any, mode: str, seed: int, budgets: tuple[int, int] = (COMPUTE, CAPACITY)) -> None:
        steps, self.images, by_priority = MODES[mode]
        super().__init__(schedulers, f"{steps}, by priority" if by_priority else steps, seed)
        self.worker = Worker(self.classes, random.Random(seed + 1), budgets)
        self.shortest = 2 if self.drafts else 1
        """Tokens of a prompt at least: the release pads one of a single token with drafts."""
        self.proposals = random.Random(seed + 3)
        self.heard: dict[int, list[int]] = {}
        self.preempted = self.drafted = self.accepted = 0

    def add(self) -> None:
        """A request arrives, with items or without."""
        number, tokens, items = len(self.requests), self.worker.tokens, self.worker.items
        prompt = [self.rng.randrange(loads.VOCABULARY) for _ in range(self.rng.randint(self.shortest, 40))]
        shown = list[tuple[int, int]]()
        if self.images and self.rng.random() < 0.7:
            content = self.rng.randrange(CONTENTS)
            shown.append((content, self.rng.randint(0, len(prompt))))
            prompt[shown[0][1] : shown[0][1]] = [PLACEHOLDER] * length_of(content)
        if self.requests and self.rng.random() < 0.7:  # it goes on where another one is
            other = self.rng.randrange(number)
            kept = self.rng.randint(1, min(len(tokens[other]), 40))
            shared = [one for one in items[other] if one[1] + length_of(one[0]) <= kept]
            prompt = [*tokens[other][:kept], *prompt][:48]
            shown = [*shared, *((content, kept + first) for content, first in shown)]
        shown = [one for one in shown if one[1] + length_of(one[0]) <= len(prompt)]
        tokens[number], items[number] = list(prompt), shown
        output, priority = self.rng.randint(1, 14), self.rng.randint(0, 2) if self.mode.by_priority else 0
        made = [(content, first, length_of(content)) for content, first in shown]
        given = [self.classes.item(*one) for one in made]
        request = self.classes.new_request(str(number), prompt, output, self.hasher, given, priority, float(number))
        self.requests[number], self.heard[number] = request, []
        self.scheduler.add_request(request)

    def step(self) -> None:
        """One step of the engine."""
        said = self.scheduler.schedule()
        told = [tuple(news) for news in self.classes.told(said)]
        self.plans.append(
            (
                dict(said.num_scheduled_tokens),
                sorted(told),
                sorted(said.finished_req_ids),
                sorted(said.preempted_req_ids or ()),
                {name: len(tokens) for name, tokens in said.scheduled_spec_decode_tokens.items()},
                {name: list(numbers) for name, numbers in said.scheduled_encoder_inputs.items()},
                list(said.free_encoder_mm_hashes),
            )
        )
        began = {request for request, _, whole in told if whole}
        self.resumed += len(began & self.begun)
        self.begun |= began
        self.hits += sum(part.num_computed_tokens for part in said.scheduled_new_reqs)
        self.drafted += sum(map(len, said.scheduled_spec_decode_tokens.values()))
        sampled = self.worker.execute(said)
        self.accepted += sum(max(0, len(tokens) - 1) for tokens in sampled.values())
        self.steps.append((said, sampled))
        if len(self.steps) > self.ahead:
            self.update()

    def update(self) -> None:
        """The scheduler hears of the oldest step, and the clients of what it has sampled."""
        said, sampled = self.steps.popleft()
        self.worker.tell()
        made = self.scheduler.update_from_output(said, self.classes.output(sampled))
        for output in (one for its in made.values() for one in its.outputs):
            self.heard[int(output.request_id)].extend(output.new_token_ids)
        if self.drafts and not self.ahead:
            self.propose(sampled)

    def propose(self, sampled: dict[str, list[int]]) -> None:
        """The drafter has as many drafts for each request as it finds."""
        proposed = {}
        for name, tokens in sampled.items():
            request = self.scheduler.requests.get(name)
            if request is not None:
                whole = min(request.num_prompt_tokens + request.max_tokens, loads.LIMIT)
                count = min(self.drafts, whole - 1 - request.num_tokens) if tokens else 0
                proposed[name] = [0] * self.proposals.randint(0, max(0, count))
        self.scheduler.update_draft_token_ids(self.classes.drafts(list(proposed), list(proposed.values())))

    def unheard(self) -> list[int]:
        """Requests of which clients have heard other tokens than the request has."""
        return [
            number for number, request in self.requests.items() if self.heard[number] != list(request.output_token_ids)
        ]
