"""How the KV blocks serve a recorded workload: a content is one block; a request is looked up, admitted, executed.

A block of the workload is one token here. So the last block of a request is computed again even where it can be found,
as an engine computes the last token again, and with it the block that the token is in.
"""

from __future__ import annotations

from cachespec.kernel import Check, Code, Demand, Operation, Request, Script, Served, Service
from cachespec.kv_blocks.configuration import Config
from cachespec.kv_blocks.operations import AllocateSlots, Commit, FreeRequest, GetComputedBlocks


def configure(demand: Demand) -> Config:
    """The capacity of the workload is blocks; its sizes are not looked at."""
    lengths = tuple(len(contents) for contents in demand.requests)
    longest = max(lengths, default=0)
    return Config(1, demand.capacity, demand.requests, lengths, limit=max(longest, 1))


def admit(config: Config, request: Request) -> Script:
    """Look up, ask for slots behind what was found, and execute all; where there is no room, the request waits."""
    tokens = len(request.contents)
    if tokens == 0:
        return Served(())
    found = yield GetComputedBlocks(request.name, tokens)
    hits = tuple(position < len(found.values) for position in range(tokens))
    answer = yield AllocateSlots(request.name, 0, tokens - len(found.values), found.values)
    if answer.code is not Code.DONE:
        return Served(hits, admitted=False)
    yield Commit(request.name, tokens)
    return Served(hits)


def finish(config: Config, request: Request) -> tuple[Operation, ...]:
    """The request is finished; it holds blocks if it had any content."""
    return (FreeRequest(request.name),) if request.contents else ()


CHECKS: tuple[Check, ...] = (
    Check("KV-1", "as many references as places in tables", lambda c, s: s.references.total == s.tables.length),
    Check(
        "KV-2",
        "free and held blocks, and the null block, add up to the pool",
        lambda c, s: s.free.length + s.references.length + (1 if s.null >= 0 else 0) == c.blocks,
    ),
    Check("KV-7", "what can be found has its KV", lambda c, s: s.carried.length <= s.bytes.length),
)

SERVICE: Service[Config] = Service(configure=configure, admit=admit, finish=finish, checks=CHECKS)
