"""How groups of layers serve a recorded workload: full attention, and a sliding window beside it if there is one.

A request is looked up and computed in steps when it is admitted, and it keeps its blocks until it finishes. Between two
steps the blocks behind the window go back. If a step lacks room, the request gives back all blocks and waits.

Where a workload does not say what its requests are in tokens, a content is a block of one token.
"""

from __future__ import annotations

from cachespec.kernel import Check, Code, Demand, Gauge, Operation, Request, Script, Served, Service, Tokens
from cachespec.layer_groups.configuration import FULL, WINDOW, Config, prompt_of
from cachespec.layer_groups.operations import AllocateSlots, Commit, FreeRequest, GetComputedBlocks

STEP = 8192
"""The most tokens that a step computes."""


def configure(demand: Demand) -> Config:
    """The capacity of the workload is blocks, the null block not counted; its sizes are not looked at."""
    tokens = demand.tokens or tuple(Tokens(len(contents), len(contents)) for contents in demand.requests)
    kinds, spans = ((FULL, WINDOW), (0, demand.window)) if demand.window else ((FULL,), (0,))
    return Config(
        blocks=demand.capacity + 1,
        kinds=kinds,
        chains=tuple(contents + sequence.appended for contents, sequence in zip(demand.requests, tokens, strict=True)),
        lengths=tuple(sequence.length for sequence in tokens),
        spans=spans,
        hash_size=demand.block_size,
        prompts=tuple(sequence.prompt for sequence in tokens),
        steps=(STEP,),
    )


def admit(config: Config, request: Request) -> Script:
    """Look up, then slots and execution step by step; where a step has no room, the request waits."""
    length, prompt = config.lengths[request.name], prompt_of(config, request.name)
    if length == 0:
        return Served(())
    lookup = yield GetComputedBlocks(request.name)
    found = lookup.values[0] if lookup.values else 0
    count = found // config.hash_size
    hits = (True,) * count + (False,) * (len(request.contents) - count)
    end = found
    while end < length:
        tokens = min(STEP, (prompt if end < prompt else length) - end)
        answer = yield AllocateSlots(request.name, 0, tokens)
        if answer.code is not Code.DONE:
            if end > found:
                yield FreeRequest(request.name)
            return Served(hits, admitted=False)
        yield Commit(request.name)
        end += tokens
    return Served(hits)


def finish(config: Config, request: Request) -> tuple[Operation, ...]:
    """The request holds blocks if it had any token."""
    return (FreeRequest(request.name),) if config.lengths[request.name] > 0 else ()


CHECKS: tuple[Check, ...] = (
    Check(
        "LG-2",
        "free blocks, held blocks and the null block add up to the pool",
        lambda c, s: s.free.length + s.references.length + 1 == c.blocks,
    ),
    Check("LG-7", "findable blocks have their KV", lambda c, s: s.registered.length <= s.bytes.length),
)

GAUGES: tuple[Gauge, ...] = (
    Gauge("held", "blocks that requests hold", lambda c, s: s.references.length),
    Gauge(
        "duplicates",
        "blocks with the same content as another block of their group",
        lambda c, s: s.registered.length - s.prefix_map.length,
    ),
)

SERVICE: Service[Config] = Service(
    configure=configure, admit=admit, finish=finish, checks=CHECKS, gauges=GAUGES, windows=True
)
"""Of the whole component."""
