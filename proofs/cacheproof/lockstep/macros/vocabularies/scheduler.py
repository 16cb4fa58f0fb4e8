"""Macros of the scheduler: requests arrive and are aborted many at a time, and rounds serve whoever is there."""

from __future__ import annotations

import random
from typing import ClassVar

from cacheproof.lockstep.macros import scheduler_sorts
from cacheproof.lockstep.macros.macro import Macro, Play, Side, Vocabulary
from cacheproof.model.burst import Together
from cachespec.kernel import Operation
from cachespec.scheduler import COMPONENT
from cachespec.scheduler.configuration import Config
from cachespec.scheduler.environment import awaits_input, transfers
from cachespec.scheduler.operations import Abort as AbortOne
from cachespec.scheduler.operations import (
    Add,
    BringOutput,
    FailLoad,
    FailStep,
    FinishLoad,
    FinishSend,
    LoseOutput,
    ResetEncoderCache,
    ResetPrefixCache,
    ResetRunning,
    Schedule,
    Update,
)
from cachespec.scheduler.operations import Compile as CompileOne

ODD = 0.05
"""How many of those that arrive or are aborted were there before, or are gone."""
LOST = 0.2
"""How many of the encoder outputs that are delivered are lost."""


def live(side: Side) -> list[int]:
    """Who waits or runs."""
    return [*side.state.waiting, *side.state.running]


def fresh(side: Side) -> list[int]:
    """Who has not arrived yet."""
    there = {*live(side), *(request for request, _ in side.state.gone.items())}
    return [request for request in range(len(side.config.prompts)) if request not in there]


def awaited(side: Side) -> list[int]:
    """Next turns of sessions that are between two turns: with these, such a session is aborted."""
    if not any(side.config.turns):
        return []
    return [turn for turn in range(len(side.config.prompts)) if awaits_input(side.config, side.state, turn)]


def ends(side: Side) -> dict[int, list[Operation]]:
    """By request, how its load, or the sending of its blocks, may end or fail."""
    found: dict[int, list[Operation]] = {}
    for operation in transfers(side.config, side.state):
        assert isinstance(operation, FinishLoad | FinishSend | FailLoad | FailStep)
        found.setdefault(operation.request, []).append(operation)
    return found


class Burst(Macro):
    """New requests arrive at once, turns of a session in their order; now and then one that arrived before."""

    __slots__ = ()

    def play(self, side: Side) -> Play:
        """All, then the odd one."""
        arriving = self.chosen(fresh(side))
        yield Together("arrive", tuple(map(Add, sorted(arriving) if any(side.config.turns) else arriving)))
        if self.source(0).random() < ODD:
            yield Together("arrive", tuple(map(Add, self.chosen(range(len(side.config.prompts)))[:1])))


class Rounds(Macro):
    """So many rounds, each with the output of one; a few of its drafts are right. No more when nobody is left."""

    __slots__ = ()
    MOST: ClassVar[int | None] = 12

    def play(self, side: Side) -> Play:
        """Round by round."""
        for turn in range(self.count):
            if turn > 0 and not side.state.plans and not live(side):
                return
            yield Together("schedule", (Schedule(),))
            yield Together("update", (Update(self.source(turn).randint(0, side.config.drafts)),))


class Ahead(Macro):
    """So many rounds before any output; those for which there is no place make no plan."""

    __slots__ = ()
    MOST: ClassVar[int | None] = 3

    def play(self, side: Side) -> Play:  # noqa: ARG002  # a round serves whoever is there
        """Without an update."""
        yield from (Together("schedule", (Schedule(),)) for _ in range(self.count))


class Outputs(Macro):
    """So many outputs, of plans in flight as long as there are some."""

    __slots__ = ()
    MOST: ClassVar[int | None] = 3

    def play(self, side: Side) -> Play:
        """Without a round."""
        drafts = side.config.drafts
        yield from (Together("update", (Update(self.source(turn).randint(0, drafts)),)) for turn in range(self.count))


class Abort(Macro):
    """Requests are aborted, wherever they are; at most a few at once, and now and then one that is not there."""

    __slots__ = ()
    MOST: ClassVar[int | None] = 32

    def play(self, side: Side) -> Play:
        """One after the other."""
        odd = self.source(0).random() < ODD
        fit = range(len(side.config.prompts)) if odd else [*live(side), *awaited(side)]
        yield Together("abort", tuple(map(AbortOne, self.chosen(fit))))


class Compile(Macro):
    """Grammars are compiled, of requests that wait for one."""

    __slots__ = ()
    MOST: ClassVar[int | None] = 32

    def play(self, side: Side) -> Play:
        """One after the other."""
        yield Together("compile", tuple(map(CompileOne, self.chosen(range(len(side.config.prompts))))))


class Transfers(Macro):
    """For `count` requests, loads of external KV end or fail, or their sent blocks arrive."""

    __slots__ = ()
    MOST: ClassVar[int | None] = 32

    def play(self, side: Side) -> Play:
        """One after the other: what one of them changes may end others."""
        for request in self.chosen(ends(side)):
            if found := ends(side).get(request):
                yield Together("transfer", (self.source(request).choice(found),))


class Deliver(Macro):
    """For `count` contents, encoder outputs arrive at the connector, some of them twice, or are lost."""

    __slots__ = ()
    MOST: ClassVar[int | None] = 32

    def play(self, side: Side) -> Play:
        """One after the other."""
        contents = self.chosen(range(len(side.config.encoder_connector)))
        yield Together("deliver", tuple(self.moved(content) for content in contents))

    def moved(self, content: int) -> Operation:
        """What becomes of one output."""
        return LoseOutput(content) if self.source(content).random() < LOST else BringOutput(content)


class Reset(Macro):
    """Both caches are emptied where that is allowed; now and then running requests are preempted for it."""

    __slots__ = ()
    MOST: ClassVar[int | None] = 1

    def play(self, side: Side) -> Play:
        """One after the other."""
        if side.config.running_resets and self.source(0).random() < 1 / 4:
            yield Together("reset_running", (ResetRunning(),))
        yield Together("reset_prefix_cache", (ResetPrefixCache(),))
        yield Together("reset_encoder_cache", (ResetEncoderCache(),))


def crowded(
    requests: int, draw: random.Random, *, items: int = 2, room: float = 0.4, blocks: int | None = None
) -> Config:
    """A load with too few blocks, slots, tokens and places for its requests, some of which begin alike."""
    block_size = draw.choice((1, 2, 4))
    longest = 12 * block_size
    prompts = tuple(draw.randint(1, longest - 2) for _ in range(requests))
    outputs = tuple(draw.randint(1, 2 * block_size + 2) for _ in range(requests))
    groups = tuple(draw.randrange(max(1, requests // 3)) for _ in range(requests))
    lengths = [draw.randint(1, 2 * block_size) for _ in range(max(2, requests // 2))]
    begins = {group: _items_of(draw, longest, lengths, items) for group in sorted({*groups})}
    shared = tuple(draw.randint(0, prompt) for prompt in prompts)
    placed = tuple(
        tuple(item for item in begins[group] if item[1] + item[2] <= prompt)
        for group, prompt in zip(groups, prompts, strict=True)
    )
    needed = sum(-(-(prompt + output) // block_size) for prompt, output in zip(prompts, outputs, strict=True))
    budget = draw.choice((block_size + 1, 3 * block_size, longest))
    config = Config(
        block_size=block_size,
        kv_blocks=max(12, int(needed * room)) if blocks is None else blocks,
        token_budget=budget * max(1, requests // 8),
        encoder_compute=max(lengths) + draw.randint(0, 3),
        encoder_capacity=max(lengths) + draw.randint(0, 2 * requests),
        max_running=max(1, int(requests * draw.uniform(0.4, 1.2))),
        max_model_len=longest,
        prompts=prompts,
        outputs=outputs,
        items=placed if items else (),
        priorities=tuple(draw.randrange(3) for _ in range(requests)),
        groups=groups,
        shared=shared,
        external=tuple(draw.randint(0, 5) for _ in range(requests)) if draw.random() < 0.2 else (),
        drafts=draw.choice((0, 0, 2)),
        alignment=draw.choice((0, 0, 0, block_size)),
        whole_items=int(draw.random() < 0.2),
        chunked_prefill=int(draw.random() < 0.85),
        long_prefill_threshold=draw.choice((0, 0, 2 * block_size)),
        policy=int(draw.random() < 0.3),
        ahead=draw.choice((1, 2)),
        aborts=1,
        resets=1,
    )
    wrong = COMPONENT.invalid(config)
    return config if wrong is None else config._replace(groups=(), shared=())


def bounded(config: Config, draw: random.Random) -> Config:
    """The same load with stop tokens, adapters, grammars, stages of a pipeline and a watermark."""
    requests = len(config.prompts)
    stops = tuple(draw.choice((0, draw.randint(1, output))) for output in config.outputs)
    least = tuple(draw.randint(0, output) for output in config.outputs)
    adapters, most = tuple(draw.randint(0, 3) for _ in range(requests)), draw.randint(1, 3)
    return config._replace(
        stops=draw.choice(((), stops)),
        min_tokens=draw.choice(((), least)),
        adapters=draw.choice(((), adapters)),
        max_adapters=most,
        grammars=draw.choice(((), tuple(draw.choice((0, 0, 1)) for _ in range(requests)))),
        pipelined=draw.randint(0, 1),
        watermark=draw.choice((0, 0, 1, config.kv_blocks // 4)),
        prefix_caching=draw.choice((1, 1, 0)),
        running_resets=draw.randint(0, 1),
    )


def _items_of(draw: random.Random, longest: int, lengths: list[int], most: int) -> tuple[tuple[int, int, int], ...]:
    """Items one behind the other, some of them the same."""
    found, end = [], 0
    for _ in range(draw.randint(0, most)):
        content = draw.randrange(len(lengths))
        start = end + draw.randint(0, max(1, longest // 3))
        end = start + lengths[content]
        found.append((content, start, lengths[content]))
    return tuple(found)


def load(requests: int, blocks: int | None, draw: random.Random) -> Config:
    """A load of some shape, with items or without, in which more is contended for: preemption is no rare thing in it.

    Outputs may be as long as a request can be, so that blocks run out while requests are decoded; as many may run as
    there are; and the encoder cache, like one step of the encoder, has room for the largest item and little more.
    """
    items = draw.choice((0, 2, 4, 4))
    config = crowded(requests, draw, items=items, room=draw.choice((0.1, 0.25, 0.5)), blocks=blocks)
    few, most = 2 * config.block_size + 2, config.max_model_len
    largest = max((length for placed in config.items for _, _, length in placed), default=1)
    config = config._replace(
        outputs=tuple(draw.randint(1, max(1, draw.choice((few, most - prompt)))) for prompt in config.prompts),
        max_running=draw.choice((config.max_running, requests)),
        encoder_capacity=draw.choice((config.encoder_capacity, largest + draw.randint(0, 3))),
        encoder_compute=draw.choice((config.encoder_compute, largest)),
        ahead=draw.choice((1, 2, 3)),
    )
    if draw.random() < 1 / 2:
        wide = draw.choice((1, 4)) * config.token_budget
        config = config._replace(chunked_prefill=1, policy=0, token_budget=wide)
    return bounded(config, draw) if draw.random() < 1 / 2 else of_some_sort(config)


def of_some_sort(config: Config) -> Config:
    """The same load, or a load of another sort made of it, as its prompts say."""
    draw = random.Random(f"sort {config.prompts}")  # noqa: S311  # not a secret
    changed: Config = draw.choice(SORTS)(config, draw)
    return changed


def applies(config: Config, kind: type[Macro]) -> bool:
    """Whether the configuration has transfers, or an encoder connector, if the macro is about these."""
    if kind is Transfers:
        return any(config.loads_later) or any(config.sends) or config.load_failures == 1
    return kind is not Deliver or any(config.encoder_connector)


SORTS = (
    lambda config, _: config,
    scheduler_sorts.elsewhere,
    scheduler_sorts.from_a_connector,
    scheduler_sorts.conversing,
    scheduler_sorts.crossing,
    scheduler_sorts.pooled,
)
"""What makes another load of a load that is not `bounded`, the first of them the same."""

VOCABULARY = Vocabulary(
    weights={Burst: 3, Rounds: 8, Ahead: 2, Outputs: 2, Compile: 1, Abort: 1, Reset: 1, Transfers: 6, Deliver: 2},
    load=load,
    size=lambda config: len(config.prompts),
    applies=applies,
)
