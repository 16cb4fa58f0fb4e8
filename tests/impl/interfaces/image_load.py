"""One random load of requests with images in a release's own scheduler, and its made-up worker.

The worker also has encoder outputs, by content: it drops those that a plan drops, makes those that it schedules, and
reports the first read of one that is not there.
"""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING or __package__:
    from tests.impl.interfaces import engine_load, engine_modes, random_loads
else:
    sys.path.append(str(Path(__file__).parent))
    engine_load, engine_modes, random_loads = map(
        importlib.import_module, ("engine_load", "engine_modes", "random_loads")
    )

STEPS, PLACEHOLDER, MOST_ITEMS = 50, 9, 3
WITHDRAWN, SHARED = "later", "in the same step"
"""When a step reads an output whose item left the plan that was to encode it (C-ENC-26)."""


class Item(NamedTuple):
    """An item of a prompt, before it has a position."""

    content: int


class Placed(NamedTuple):
    """An item of a prompt: its first token, and how many there are."""

    content: int
    first: int
    length: int


class Worker(engine_load.Worker):
    """Workers that also have encoder outputs."""

    def __init__(self, classes: Any, rng: random.Random) -> None:
        super().__init__(classes, rng)
        self.items: dict[int, list[Placed]] = {}
        self.outputs: set[int] = set()
        self.phantoms: dict[int, str] = {}
        """Contents whose entry the manager has although no plan encodes it, and when they are read."""
        self.encoded = self.parts = self.split = 0
        self.unsplit = False

    def encode(self, said: Any) -> None:
        """Outputs are dropped, then made, then read."""
        self.outputs.difference_update(self.classes.dropped(said))
        for name, numbers in said.scheduled_encoder_inputs.items():
            self.outputs.update(self.items[int(name)][number].content for number in numbers)
            self.encoded += len(numbers)
        for name, count in said.num_scheduled_tokens.items():
            start = self.computed[int(name)]
            for item in self.items[int(name)]:
                if item.first < start + count and start < item.first + item.length:
                    self._read(item, start, start + count)

    def _read(self, item: Placed, start: int, end: int) -> None:
        """The step computes these tokens of a request, and some are placeholders of the item."""
        self.parts += start > item.first or end < item.first + item.length
        self.split += self.unsplit and start <= item.first and end < item.first + item.length
        if item.content in self.outputs:
            return
        when = self.phantoms.get(item.content)
        cause = f"C-ENC-26, {when}" if when else "of no known cause"
        raise random_loads.WrongReadError(f"an encoder output that is not there: {cause}")

    def shown(self, request: int) -> Sequence[Any]:
        """Tokens; and for placeholders, what is shown there."""
        shown: list[Any] = list(self.tokens[request])
        for item in self.items[request]:
            shown[item.first : item.first + item.length] = [(item.content, place) for place in range(item.length)]
        return shown

    def shown_in(self, content: Any) -> Sequence[Any]:
        """The same of a block that our manager has registered."""
        items = [(int(key[1]), key[2]) for key in content.extra_keys or () if key[0] == "mm"]
        shown = list[Any](content.token_ids)
        for place, token in enumerate(content.token_ids):
            if token == PLACEHOLDER:
                of, first = max((its for its in items if its[1] <= place), key=lambda its: its[1])
                shown[place] = of, place - first
        return shown


class Load(engine_load.Load):
    """One engine with random requests that have images, of which few are different."""

    worker: Worker

    def __init__(self, schedulers: Any, mode: str, seed: int) -> None:
        its = engine_modes.MODES[mode]
        shape = engine_modes.OVERCOMMITTED if its.urgent else engine_modes.SHAPES[seed % len(engine_modes.SHAPES)]
        self.shape = shape.within(its.unsplit, engine_load.LIMIT)
        super().__init__(schedulers, mode, seed)
        self.item, self.length = schedulers.Item, STEPS
        self.worker = Worker(self.classes, random.Random(seed + 1))
        self.worker.unsplit = self.mode.unsplit == engine_modes.ITEMS
        self.prompts: dict[int, list[int | Item]] = {}
        """Of each request, text and items in the order of its prompt."""
        self.entered = set[int]()
        """Contents that the manager enters in this step."""
        self.refused = self.shared = self.evicted = self.left = 0
        self.twice = self.resident = 0
        """Evictions that are reported twice (C-ENC-20), and those of contents that are entered again (C-ENC-8)."""

    def settings(self, make: Any) -> Any:
        """How the engine is set."""
        return (
            super()
            .settings(make)
            ._replace(
                blocks=self.shape.blocks,
                token_budget=self.shape.budget,
                encoder_compute=self.shape.compute,
                encoder_capacity=self.shape.capacity,
                reserves=self.shape.reserves,
                long_prefill_threshold=self.shape.threshold,
                whole_items=self.mode.unsplit == engine_modes.ITEMS,
            )
        )

    def watch(self) -> None:
        """Notice what the scheduler asks the manager of encoder outputs, too."""
        super().watch()
        manager = self.scheduler.encoder_cache_manager
        check, ask, enter = manager.check_and_update_cache, manager.can_allocate, manager.allocate

        def check_and_update_cache(request: Any, number: int) -> bool:
            hit = bool(check(request, number))
            self.shared += hit
            return hit

        def can_allocate(*given: Any, **named: Any) -> bool:
            granted = bool(ask(*given, **named))
            self.refused += not granted
            return granted

        def allocate(request: Any, number: int) -> None:
            enter(request, number)
            self.entered.add(int(request.mm_features[number].identifier))

        manager.check_and_update_cache = check_and_update_cache
        manager.can_allocate, manager.allocate = can_allocate, allocate
        schedule = self.scheduler.schedule

        def scheduled() -> Any:
            said = schedule()
            self.look_at(said)
            return said

        self.scheduler.schedule = scheduled

    def look_at(self, said: Any) -> None:
        """What a plan has made of the entries."""
        items, freed = self.worker.items, self.classes.dropped(said)
        encoded = {
            items[int(name)][number].content
            for name, numbers in said.scheduled_encoder_inputs.items()
            for number in numbers
        }
        known = self.worker.phantoms
        lasting = {content: WITHDRAWN for content in known if content not in encoded and content not in freed}
        known.clear()
        known.update(lasting)
        known.update(dict.fromkeys(self.entered - encoded, SHARED))
        self.left += len(self.entered - encoded)
        self.evicted += len(freed)
        self.twice += len(freed) - len(set(freed))
        cached = self.scheduler.encoder_cache_manager.cached if freed else {}
        self.resident += sum(str(content) in cached for content in set(freed))
        self.entered.clear()

    def add(self) -> None:
        """A request with no item, or with up to three; mostly it begins as another one does."""
        number = len(self.requests)
        if self.mode.urgent and self.rng.random() < 0.5:
            short = [self.rng.randrange(engine_load.VOCABULARY) for _ in range(self.rng.randint(1, 5))]
            self.prompts[number], self.worker.items[number] = list(short), []
            self.admit(number, short, priority=0)
            return
        prompt: list[int | Item] = [self.rng.randrange(engine_load.VOCABULARY) for _ in range(self.rng.randint(1, 24))]
        for _ in range(self.rng.randint(0, MOST_ITEMS)):
            item = Item(self.rng.randrange(len(self.shape.lengths)))
            prompt.insert(self.rng.randint(0, len(prompt)), item)
        if self.requests and self.rng.random() < 0.7:
            other = self.rng.randrange(number)
            begins = [*self.prompts[other], *self.requests[other].output_token_ids]
            prompt = [*begins[: self.rng.randint(1, len(begins))], *prompt]
        self.prompts[number] = prompt = self.fitting(prompt)
        tokens, placed = list[int](), list[Placed]()
        for part in prompt:
            if isinstance(part, Item):
                placed.append(Placed(part.content, len(tokens), self.shape.lengths[part.content]))
                tokens += [PLACEHOLDER] * placed[-1].length
            else:
                tokens.append(part)
        self.worker.items[number] = placed
        self.admit(number, tokens, [self.item(*item) for item in placed], 1 if self.mode.urgent else None)

    def fitting(self, prompt: Sequence[int | Item]) -> list[int | Item]:
        """As much of the prompt as may be, with as many items as may be."""
        kept, tokens, items = list[int | Item](), 0, 0
        for part in prompt:
            is_item = isinstance(part, Item)
            length = self.shape.lengths[part.content] if isinstance(part, Item) else 1
            if is_item and items == MOST_ITEMS:
                continue
            if tokens + length > engine_load.LONGEST:
                break
            kept.append(part)
            tokens, items = tokens + length, items + is_item
        return kept or [0]

    def counts(self) -> dict[str, int]:
        """What has occurred, by name."""
        seen = {name: int(getattr(self, name)) for name in ("refused", "shared", "evicted", "left")}
        read = {name: int(getattr(self.worker, name)) for name in ("encoded", "parts")}
        known = {"C-ENC-8": self.resident, "C-ENC-15": self.worker.split, "C-ENC-20": self.twice}
        return {**super().counts(), **seen, **read, **known}
