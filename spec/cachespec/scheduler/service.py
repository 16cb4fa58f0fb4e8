"""How the scheduler serves a recorded workload: requests arrive, and a round is scheduled and executed at a time.

No items: the encoder cache is there and stays empty. Requests have nothing in common, for such a workload does not say
what its requests contain.
"""

from __future__ import annotations

from cachespec.kernel import Check, Demand, Engine, Gauge, Request, Rounds, Told
from cachespec.scheduler.configuration import Config
from cachespec.scheduler.operations import Add, Schedule, Update
from cachespec.scheduler.state import State

ALONE = Engine(token_budget=8192, max_running=256)
"""Where the workload assumes nothing of the engine."""


def configure(demand: Demand) -> Config:
    """The capacity of the workload is KV blocks. The model takes the longest request, and no engine less."""
    engine = demand.engine or ALONE
    return Config(
        block_size=demand.block_size,
        kv_blocks=demand.capacity,
        token_budget=engine.token_budget,
        encoder_compute=1,
        encoder_capacity=1,
        max_running=engine.max_running,
        max_model_len=max((1, *(tokens.prompt + tokens.output for tokens in demand.tokens))),
        prompts=tuple(tokens.prompt for tokens in demand.tokens),
        outputs=tuple(tokens.output for tokens in demand.tokens),
    )


def told(state: State) -> Told:
    """The newest plan."""
    plan = state.plans[-1]
    return Told(tuple((part.request, part.tokens) for part in plan.scheduled), len(plan.preempted))


def arrive(request: Request) -> Add:
    """A request arrives."""
    return Add(request.name)


def newest_is_positive(config: Config, state: State) -> bool:
    return all(part.tokens > 0 for plan in state.plans[-1:] for part in plan.scheduled)


def newest_is_within_budget(config: Config, state: State) -> bool:
    return all(sum(part.tokens for part in plan.scheduled) <= config.token_budget for plan in state.plans[-1:])


CHECKS: tuple[Check, ...] = (
    Check("SCH-1", "every count of the newest plan is positive", newest_is_positive),
    Check("SCH-1/budget", "the counts of the newest plan sum to at most the token budget", newest_is_within_budget),
    Check(
        "SCH-5/blocks",
        "the number of requests with blocks equals the number of running requests",
        lambda c, s: s.kv.holdings.length == s.computed.length,
    ),
    Check(
        "SCH-6",
        "the running requests are exactly those with computed tokens",
        lambda c, s: len(s.running) == s.computed.length,
    ),
    Check(
        "KV-1",
        "the reference counts sum to the number of table entries",
        lambda c, s: s.kv.references.total == s.kv.tables.length,
    ),
    Check(
        "KV-2",
        "free and held blocks add up to the pool",
        lambda c, s: s.kv.free.length + s.kv.references.length == c.kv_blocks,
    ),
)

GAUGES: tuple[Gauge, ...] = (
    Gauge("running", "requests that run", lambda c, s: len(s.running)),
    Gauge("waiting", "requests that wait", lambda c, s: len(s.waiting)),
    Gauge("held", "KV blocks that requests hold", lambda c, s: s.kv.references.length),
)

SERVICE: Rounds[Config] = Rounds(
    configure=configure,
    arrive=arrive,
    begin=Schedule(),
    end=Update(0),
    told=told,
    checks=CHECKS,
    gauges=GAUGES,
)
