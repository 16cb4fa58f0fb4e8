"""The eras of the groups of layers, each without one of their faults."""

from __future__ import annotations

from cacheproof.catalogue.mends import Change, Mend, transitions
from cachespec.layer_groups import era_0_11, era_drafts, era_later
from cachespec.layer_groups.configuration import (
    STATE,
    Config,
    Group,
    Position,
    Request,
    is_drafting,
    prompt_of,
    size_of,
)
from cachespec.layer_groups.era_drafts import EarlyRules, Hits, LookUp, answering, finding, finding_once
from cachespec.layer_groups.era_later import IN_0_20, IN_0_33, IN_THE_SAME_STEP
from cachespec.layer_groups.era_retention import is_reachable
from cachespec.layer_groups.era_rules import estimate_all, registered_where
from cachespec.layer_groups.operations import AllocateSlots, FreeRequest, GetComputedBlocks
from cachespec.layer_groups.retention import is_retained
from cachespec.layer_groups.state import Pool
from cachespec.layer_groups.transitions import TRANSITIONS, needed_by_new


def as_taken(config: Config, pool: Pool, request: Request, hits: Hits, start: int, end: int) -> int:
    """C-KV-14: what a new request takes is what it is said to need."""
    if pool.progress.has(request):
        return estimate_all(config, pool, request, hits, start, end)
    found = len(hits[0]) * (config.sizes[0] if config.sizes else config.hash_size)
    return needed_by_new(config, pool, request, found, start, end)


def named_always(config: Config, group: Group, *, fresh: bool) -> int:
    """C-KV-24: a running request needs no more than it has."""
    return era_0_11.named_at_first(config, group, fresh=True)


def whole_prompt(config: Config, request: Request) -> int:
    """C-KV-27: the block that is dropped may be the last one of the prompt."""
    return prompt_of(config, request) // config.hash_size * config.hash_size


def one_block_further(config: Config, group: Group, tokens: int) -> int:
    """C-KV-25: the second sort drops a block behind what the first one has left."""
    return tokens + size_of(config, group)


def no_state_behind(config: Config, request: Request, group: Group, tokens: int) -> int:
    """C-KV-26: a state is looked up within the prefix of the other groups."""
    if config.kinds[group] == STATE:
        return tokens
    return era_drafts.one_block_more(config, request, group, tokens)


def to_the_end(config: Config, request: Request, group: Group, tokens: int) -> int:
    """C-KV-27: the block behind the prefix may be the last one of the prompt; states as before."""
    if config.kinds[group] == STATE:
        return era_drafts.one_block_more(config, request, group, tokens)
    return min(tokens + size_of(config, group), whole_prompt(config, request))


def to_the_end_alone(config: Config, request: Request, group: Group, tokens: int) -> int:
    """C-KV-27: the same in one group."""
    if config.kinds[group] == STATE:
        return tokens
    return min(tokens + size_of(config, group), whole_prompt(config, request))


def drops_no_state(config: Config, group: Group) -> bool:
    """C-KV-36: a state that shortens the prefix lets the other sorts drop a block again."""
    return is_drafting(config, group) and config.kinds[group] != STATE


def needed_at_last(config: Config, request: Request, group: Group, position: Position) -> bool:
    """C-KV-35: what a hit at a retained prefix needs is registered, too."""
    return is_reachable(config, request, group, position) or is_retained(config, request, group, position)


EARLY = IN_0_20._replace(behind=era_later.give_back_processed)
TOUCHED = IN_0_20._replace(beginning=era_later.hits_first)
WAITING = IN_THE_SAME_STEP._replace(waits=IN_0_20.waits)
SETTLED = era_0_11.IN_0_11._replace(settled=lambda progress: progress.computed)
NAMED = era_0_11.IN_0_11._replace(named=named_always)
DROPPED_ONCE = finding_once(EarlyRules(era_drafts.most_of, one_block_further))
WHOLE_EARLY = finding_once(EarlyRules(whole_prompt, era_drafts.within))
BOUNDED = finding(era_drafts.IN_0_20._replace(limit=no_state_behind, trimmed=era_drafts.to_its_own))
WHOLE = finding(era_drafts.IN_0_20._replace(limit=to_the_end))
DROPPED_AGAIN = finding(era_drafts.IN_0_33._replace(drops=drops_no_state))
RETAINED = IN_0_33._replace(registering=registered_where(needed_at_last))
WHOLE_ALONE = finding(era_drafts.IN_0_33._replace(limit=to_the_end_alone))


def early(look_up: LookUp) -> Change:
    """0.11.0 with another look-up."""
    rules = era_0_11.IN_0_11._replace(look_up=look_up)
    return transitions({GetComputedBlocks: answering(look_up), AllocateSlots: era_0_11.allocating(rules)})


def later(rules: era_later.Rules, look_up: LookUp) -> Change:
    """0.20.2 or 0.33.0 with another look-up."""
    changed = era_later.allocating(rules._replace(look_up=look_up))
    return transitions({GetComputedBlocks: answering(look_up), AllocateSlots: changed})


MENDS = (
    Mend("C-KV-12", ("K1b",), transitions({AllocateSlots: era_later.allocating(TOUCHED)})),
    Mend("C-KV-14", ("K1b",), transitions({AllocateSlots: era_later.allocating(IN_0_20._replace(needed=as_taken))})),
    Mend("C-KV-14", ("K2",), transitions({AllocateSlots: era_later.allocating(IN_0_33._replace(needed=as_taken))})),
    Mend("C-KV-15", ("K1", "K1b"), transitions({FreeRequest: TRANSITIONS[FreeRequest]})),
    Mend("C-KV-22", ("K1b",), transitions({AllocateSlots: era_later.allocating(EARLY)})),
    Mend("C-KV-22", ("K1",), transitions({AllocateSlots: era_0_11.allocating(SETTLED)})),
    Mend("C-KV-23", ("K1b-same-step",), transitions({AllocateSlots: era_later.allocating(WAITING)})),
    Mend("C-KV-25", ("K1",), early(DROPPED_ONCE)),
    Mend("C-KV-26", ("K1b",), later(IN_0_20, BOUNDED)),
    Mend("C-KV-27", ("K1",), early(WHOLE_EARLY)),
    Mend("C-KV-27", ("K1b",), later(IN_0_20, WHOLE)),
    Mend("C-KV-27", ("K2",), later(IN_0_33, WHOLE_ALONE)),
    Mend("C-KV-36", ("K2",), later(IN_0_33, DROPPED_AGAIN)),
    Mend("C-KV-35", ("K2",), transitions({AllocateSlots: era_later.allocating(RETAINED)})),
    Mend("C-KV-24", ("K1",), transitions({AllocateSlots: era_0_11.allocating(NAMED)})),
)
