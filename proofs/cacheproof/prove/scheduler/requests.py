"""Every operation of a scheduler, for any number of requests: where they are, what they hold, what is planned.

`LIFE` runs all transitions from any state in which the invariants of `life.py` hold. In the middle of a round
each part of the plan is judged where the only function that makes parts makes it. The caches are stand-ins that know
who may hold something (`caches.py`); queues and plans are those of `queues.py`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.proof import Proof
from cacheproof.prove.scheduler import stand_ins
from cacheproof.prove.scheduler.caches import Blocks, Items
from cacheproof.prove.scheduler.laws import LAWS
from cacheproof.prove.scheduler.life import (
    INVARIANTS,
)
from cacheproof.prove.scheduler.outputs import LAWS as LAWS_OF_OUTPUTS
from cacheproof.prove.scheduler.queues import Members
from cacheproof.prove.scheduler.rounds import LOOPS, scheduled_and_judged
from cacheproof.prove.scheduler.settings import (
    RULES,
    drafts_from,
    emptied,
    final_length,
    is_asynchronous,
    is_first,
    is_live,
    is_turn,
    later_turns,
    left_out,
    listed,
    loaded_first,
    pinning,
    placed,
    promised,
    switched_on,
    taking,
    the_same_state,
    voided,
)
from cacheproof.prove.scheduler.stand_ins import any_answer, any_count, opaque
from cacheproof.prove.scheduler.values import SMALL, environment, fresh, lift
from cacheproof.prove.sequences import Unknown
from cachespec import scheduler
from cachespec.scheduler import (
    configuration,
    counts,
    feasibility,
    loading,
    normative,
    parts,
    readiness,
    remote,
    requests,
    rounds,
    transfers,
)
from cachespec.scheduler import state as first_state
from cachespec.scheduler.configuration import Config

MODULES = (
    configuration, counts, feasibility, loading, normative, parts, readiness, remote, requests, rounds, transfers,
    first_state,
)  # fmt: skip

WITHOUT_FORKS = tuple(
    (module, name, function)
    for module in (configuration, counts, feasibility, requests, rounds)
    for name, function in (("min", stand_ins.least), ("max", stand_ins.greatest))
)


def cache_at_first(name: str, state: Any) -> SimpleNamespace:
    """In the place of the module of a cache, as the initial state of the scheduler asks for it."""
    return SimpleNamespace(**{name: SimpleNamespace(initial=lambda config, containers: state)})


NO_HOLDERS = Members(z3.K(z3.IntSort(), z3.BoolVal(False)))

REPLACED: tuple[tuple[Any, str, Any], ...] = (
    *WITHOUT_FORKS,
    (normative, "RULES", RULES),
    (first_state, "kv_blocks", cache_at_first("NORMATIVE_KV_BLOCKS", Blocks(NO_HOLDERS))),
    (first_state, "encoder_cache", cache_at_first("NORMATIVE_ENCODER_CACHE", Items(NO_HOLDERS, NO_HOLDERS))),
    (first_state, "remote_at_first", lambda config, containers: containers.map()),
    (first_state, "initial_worker", lambda containers: opaque()),
    *((module, name, lambda config: opaque()) for module in (parts, requests, rounds, first_state, transfers)
      for name in ("kv_config", "encoder_config") if hasattr(module, name)),
    *((module, "left_out", left_out) for module in (requests, rounds)),
    (requests, "placed", placed),
    (requests, "is_live", is_live),
    (requests, "items_of", lambda config, request: config.items[request]),
    (requests, "later_turns", later_turns),
    (requests, "with_rejected", the_same_state),
    (requests, "with_outputs_cleared", the_same_state),
    *((module, "voided", voided) for module in (requests, rounds, transfers)),
    (counts, "promised", promised),
    (counts, "verifying", lambda *_: any_answer()),
    *((module, name, lambda *_: any_answer()) for module, name in (
        (feasibility, "fits_blocks"), (feasibility, "fits_one_step"), (feasibility, "fits_first_step"),
        (readiness, "adapter_fits"), (readiness, "awaits_output"),
        (rounds, "takes_watermark"), (rounds, "may_be_overwritten"), (rounds, "brings"), (loading, "brings"))),
    *((module, "final_length", final_length) for module in (requests, counts)),
    *((module, "is_asynchronous", is_asynchronous) for module in (counts,)),
    *((module, "is_turn", is_turn) for module in (requests, configuration)),
    (requests, "has_grammar", switched_on("grammars")),
    (requests, "is_sent", switched_on("sends")),
    (rounds, "loads_later", switched_on("loads_later")),
    (feasibility, "items_of", lambda config, request: ()),
    (rounds, "fitted", pinning),
    (rounds, "scheduled", scheduled_and_judged),
    (rounds, "take", taking),
    (rounds, "drafts_from", drafts_from),
    (rounds, "loaded_first", loaded_first),
    (rounds, "listed", listed),
    (rounds, "emptied", emptied),
    (rounds, "ascending", lambda *_: Unknown()),
    (rounds, "with_contents", lambda config, brought, request, bring: brought),
    (rounds, "blocks_of", lambda *_: Unknown()),
    (rounds, "chunks_told", lambda *_: Unknown()),
    *((rounds, name, the_same_state) for name in ("loaded", "with_new_blocks", "load_lost", "executed_by_workers")),
    *((transfers, name, the_same_state) for name in ("load_written", "load_lost")),
    (transfers, "whole_tokens", any_count),
    (transfers, "is_first", is_first),
)  # fmt: skip

LIFE = Proof(
    component="scheduler",
    variant=scheduler.NORMATIVE_SCHEDULER,
    config=Config,
    invariants=INVARIANTS,
    laws=(*LAWS, *LAWS_OF_OUTPUTS),
    witnesses=(
        SMALL,
        SMALL._replace(running_resets=1, grammars=()),
        SMALL._replace(items=((), ()), grammars=(), aborts=0, external=(2, 2), loads_later=(1, 0), load_failures=1),
        SMALL._replace(items=((), ()), grammars=(), aborts=0, sends=(1, 0)),
        SMALL._replace(grammars=(), aborts=0, resets=0, encoder_connector=(2, 1)),
    ),
    environment=environment,
    loops=LOOPS,
    modules=MODULES,
    replaced=REPLACED,
    fresh=fresh,
    lift=lift,
    second_opinion=False,
)
