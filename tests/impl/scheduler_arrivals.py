"""Bursts of arrivals and aborts between steps: an engine as it is called, beside one that is written call by call."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from tests.impl.scheduler_engines import Asked, Both, Feature, Place

from cacheimpl.kv_blocks.state import wrapped
from cacheimpl.scheduler.engine import Scheduler
from cacheimpl.scheduler.errors import SchedulerError
from cacheimpl.scheduler.settings import Settings

IDS, SHARED, CONTENTS = 14, 9, 600
"""Names of requests, of which each comes again and again; items that several requests show; and all items."""


def play_bursts(both: Both, seed: int, steps: int) -> None:
    """Beside the specification: in each step some arrive and some are aborted, in any order, then it is planned."""
    draw, left = random.Random(seed), list(range(len(both.config.prompts)))
    for _ in range(steps):
        for _ in range(draw.choice((0, 0, 1, 6))):
            live = [*both.state.waiting, *both.state.running]
            if live and draw.random() < 0.3:
                both.abort(draw.sample(live, draw.randint(1, min(3, len(live)))))
            elif left and len(live) < both.rows // 2:
                left = left[both.add(left[0]) :]
        if len(both.state.plans) < both.config.ahead and draw.random() < 0.7:
            both.schedule()
        elif both.state.plans:
            both.update(draw.randint(0, both.config.drafts))
        assert both.scheduler.get_num_unfinished_requests() == len(both.state.waiting) + len(both.state.running)


def settings(seed: int) -> Settings:
    """A small engine in which there is too little of everything."""
    draw = random.Random(f"settings {seed}")
    return Settings(
        block_size=draw.choice((1, 2, 4)),
        num_gpu_blocks=draw.choice((10, 24, 60)),
        max_num_batched_tokens=draw.choice((12, 40)),
        max_num_seqs=draw.choice((2, 6)),
        max_model_len=14,
        max_requests=draw.choice((7, 12)),
        max_items=2,
        encoder_compute_budget=8,
        encoder_cache_size=draw.choice((5, 12)),
        plans_in_flight=draw.choice((1, 2)),
        by_priority=draw.random() < 0.4,
    )


def engine(**changes: Any) -> Scheduler:
    """A small one, with room for what a test asks for."""
    wanted: dict[str, Any] = {
        "block_size": 2,
        "num_gpu_blocks": 40,
        "max_num_batched_tokens": 100,
        "max_num_seqs": 80,
        "max_model_len": 12,
        "max_requests": 80,
        "max_items": 1,
        "encoder_compute_budget": 4,
        "encoder_cache_size": 4,
        **changes,
    }
    return Scheduler(Settings(**wanted))


def step_of(made: Scheduler) -> dict[str, int]:
    """The tokens of a step, which is executed."""
    output = made.schedule()
    assert output is not None
    made.update_from_output()
    return output.num_scheduled_tokens


class Twins:
    """`burst` is called as an engine is; the state of `single` is read after each call, so each is written alone."""

    def __init__(self, asked: Settings, seed: int) -> None:
        self.burst, self.single = Scheduler(asked), Scheduler(asked)
        self.asked, self.draw = asked, random.Random(f"twins {seed}")
        self.plans, self.live = 0, dict[str, Asked]()
        self.seen: Counter[str] = Counter()

    def both(self, call: Callable[[Scheduler], Any]) -> Any:
        """What both say to a call; what is raised is compared by its kind and text."""
        found, wanted = said(self.burst, call), said(self.single, call)
        assert self.single.state is not None
        assert found == wanted
        assert self.burst.get_num_unfinished_requests() == self.single.get_num_unfinished_requests()
        return found

    def request(self) -> Asked:
        """Most begin like others; now and then one that is refused."""
        draw, size = self.draw, self.draw.randint(1, 12)
        own = draw.randrange(3, 6)
        tokens = [draw.randrange(2)] * min(size, draw.choice((0, 2, 5, 9)))
        tokens += [own] * (size - len(tokens))
        items, end = list[Feature](), 0
        for _ in range(draw.choice((0, 1, 1, 2))):
            content = draw.randrange(draw.choice((SHARED, CONTENTS)))
            start = end + draw.randint(0, 2)
            end = start + 1 + content % 3
            if end <= size or draw.random() < 0.1:
                items.append(Feature(f"item {content}", Place(start, 1 + content % 3)))
        most = 0 if draw.random() < 0.03 else draw.randint(1, 5)
        return Asked(f"request {draw.randrange(IDS)}", tokens, most, draw.randrange(3), tuple(items))

    def play(self, steps: int) -> None:
        """So many steps, each with some calls before it."""
        for _ in range(steps):
            for _ in range(self.draw.choice((0, 1, 3, 8))):
                self.call()
            if self.plans < self.asked.plans_in_flight and self.draw.random() < 0.6:
                planned = self.both(step)
                self.plans += planned is not None
                self.seen["rounds"] += planned is not None
            elif self.plans:
                ended = self.both(lambda engine: engine.update_from_output())
                self.plans -= 1
                for name in ended:
                    del self.live[name]
            if self.draw.random() < 0.3:
                assert named_apart(self.burst, self.live)
                assert picture(self.burst, self.live) == picture(self.single, self.live)

    def call(self) -> None:
        """One that comes between steps."""
        draw, chance = self.draw, self.draw.random()
        if chance < 0.04 and self.plans == 0:
            self.both(lambda engine: (engine.reset_prefix_cache(), engine.reset_encoder_cache()))
        elif chance < 0.3 and self.live:
            victims = draw.sample(sorted(self.live), draw.randint(1, min(3, len(self.live))))
            victims += draw.sample([*victims, "nobody"], 1)
            self.both(lambda engine: engine.finish_requests(victims))
            self.live = {name: asked for name, asked in self.live.items() if name not in victims}
            self.seen["aborted"] += 1
        else:
            asked = self.request()
            refused = self.both(lambda engine: engine.add_request(asked))
            self.seen[refused[0].__name__ if refused else "arrived"] += 1
            if refused is None:
                self.live[asked.request_id] = asked


def said(engine: Scheduler, call: Callable[[Scheduler], Any]) -> Any:
    """What comes of a call."""
    try:
        return call(engine)
    except SchedulerError as error:
        return type(error), str(error)


def step(engine: Scheduler) -> Any:
    """A plan as plain data; None where there is nothing to say."""
    output = engine.schedule()
    if output is None:
        return None
    return (
        list(output.num_scheduled_tokens.items()),
        output.scheduled_encoder_inputs,
        output.free_encoder_mm_hashes,
        output.finished_req_ids,
        output.preempted_req_ids,
    )


def named_apart(engine: Scheduler, live: Mapping[str, Asked]) -> bool:
    """Whether the tables call the same what is the same, and nothing else: blocks of prompts and of outputs, items."""
    config, size = engine.config, engine.settings.block_size
    blocks, items = dict[Any, Any](), dict[Any, Any]()
    for name, asked in live.items():
        row = engine.row_of(name)
        numbers = config.kv.contents[row].tolist()
        shown = [(one.identifier, one.mm_position.offset) for one in asked.mm_features]
        for place, number in enumerate(numbers[: int(config.finals[row]) // size]):
            end = (place + 1) * size
            known: Any = tuple(asked.prompt_token_ids[:end]), tuple(one for one in shown if one[1] < end)
            if blocks.setdefault(known if end <= len(asked.prompt_token_ids) else (name, place), number) != number:
                return False
        for (identifier, _), number in zip(shown, config.encoder.contents[row].tolist(), strict=False):
            if items.setdefault(identifier, number) != number:
                return False
    return all(len({*known.values()}) == len(known) for known in (blocks, items))


def picture(engine: Scheduler, live: Collection[str]) -> dict[str, Any]:
    """All that decides anything, with numbers of contents only by which of them are the same."""
    config, state = engine.config, engine.state
    kv, rows = state.kv, sorted(engine.row_of(name) for name in live)
    queue = kv.order[wrapped(kv, kv.head + torch.arange(int(kv.free)))]
    own = ("running", "waiting", "computed", "produced", "proposed", "gone", "leaving", "void", "finished", "dropped")
    tables = {"prompts": config.prompts, "finals": config.finals, "priorities": config.priorities}
    tables |= {"starts": config.item_starts, "shown": config.encoder.contents, "claims": config.encoder.claims}
    return {
        **{name: getattr(state, name).tolist() for name in own},
        **{name: table[rows].tolist() for name, table in tables.items()},
        **{name: getattr(kv, name).tolist() for name in ("blocks", "registered", "references")},
        "encoder": [field.tolist() for field in state.encoder],
        "queue": queue.tolist(),
        "lengths": config.kv.lengths[rows].tolist(),
        "contents": alike([*config.kv.contents[rows].flatten().tolist(), *kv.carried.tolist()]),
    }


def alike(numbers: list[int]) -> list[int]:
    """Equal ones stay equal, and are called by when they come first."""
    called: dict[int, int] = {}
    return [called.setdefault(number, len(called)) for number in numbers]
