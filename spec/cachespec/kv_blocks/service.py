"""How the KV blocks serve a recorded workload: a request is looked up, admitted, computed, and gives its blocks back.

A request has slots for its prompt and its output from the moment it is admitted: as many blocks are pinned as it ever
holds, and nobody is preempted. Blocks of the prompt can be found when it has been computed, those of the output when
the request finishes.

Where a workload does not say what its requests are in tokens, a content is a block of one token. So the last block of a
request is computed again even where it can be found, as an engine computes the last token again.
"""

from __future__ import annotations

from cachespec.kernel import Check, Code, Demand, Gauge, Operation, Request, Script, Served, Service, Tokens
from cachespec.kv_blocks.configuration import Config, prompt_of
from cachespec.kv_blocks.operations import AllocateSlots, Commit, FreeRequest, GetComputedBlocks


def configure(demand: Demand) -> Config:
    """The capacity of the workload is blocks; its sizes are not looked at."""
    tokens = demand.tokens or tuple(Tokens(len(contents), len(contents)) for contents in demand.requests)
    lengths = tuple(sequence.length for sequence in tokens)
    return Config(
        block_size=demand.block_size,
        blocks=demand.capacity,
        chains=tuple(
            contents + sequence.appended if sequence.appended else contents
            for contents, sequence in zip(demand.requests, tokens, strict=True)
        ),
        lengths=lengths,
        prompts=tuple(sequence.prompt for sequence in tokens),
        limit=max((1, *lengths)),
    )


def admit(config: Config, request: Request) -> Script:
    """Look up, and ask for slots behind what was found; where there is no room, the request waits."""
    length = config.lengths[request.name]
    if length == 0:
        return Served(())
    lookup = yield GetComputedBlocks(request.name, prompt_of(config, request.name))
    count = len(lookup.values)
    hits = (True,) * count + (False,) * (len(request.contents) - count)
    answer = yield AllocateSlots(request.name, 0, length - count * config.block_size, lookup.values)
    return Served(hits, admitted=answer.code is Code.DONE)


def compute(config: Config, request: Request) -> tuple[Operation, ...]:
    """The prompt was executed."""
    prompt = prompt_of(config, request.name)
    return (Commit(request.name, prompt),) if prompt > 0 else ()


def finish(config: Config, request: Request) -> tuple[Operation, ...]:
    """The output was executed; the request holds blocks if it had any token."""
    prompt, length = prompt_of(config, request.name), config.lengths[request.name]
    output = (Commit(request.name, length),) if length > prompt else ()
    return (*output, FreeRequest(request.name)) if length > 0 else ()


CHECKS: tuple[Check, ...] = (
    Check(
        "KV-1",
        "the reference counts sum to the number of table entries",
        lambda c, s: s.references.total == s.tables.length,
    ),
    Check(
        "KV-2",
        "free blocks, held blocks and the null block add up to the pool",
        lambda c, s: s.free.length + s.references.length + (1 if s.null >= 0 else 0) == c.blocks,
    ),
    Check("KV-7", "findable blocks have their KV", lambda c, s: s.registered.length <= s.bytes.length),
)

GAUGES: tuple[Gauge, ...] = (
    Gauge("held", "blocks that requests hold", lambda c, s: s.references.length),
    Gauge("shared", "table entries beyond the first of each block", lambda c, s: s.tables.length - s.references.length),
    Gauge(
        "duplicates",
        "blocks with the same content as another block",
        lambda c, s: s.registered.length - s.prefix_map.length,
    ),
)

SERVICE: Service[Config] = Service(
    configure=configure, admit=admit, compute=compute, finish=finish, checks=CHECKS, gauges=GAUGES
)
