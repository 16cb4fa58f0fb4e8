"""Encoder-decoder models in 0.11.0, whose encoder cache manager is the one of all other models.

The scheduler does not look for an entry before it allocates one, so an entry that is there is charged again (C-ENC-2).
It is then in use and in the order of eviction, and the counts part. In the end the manager evicts from an empty order,
and the engine does not outlive that error.
"""

from __future__ import annotations

from cachespec.encoder_cache import CanAllocate
from cachespec.encoder_cache.operations import ENCODER
from cachespec.kernel import Code
from cachespec.scheduler.configuration import LENGTH, Config, Request, encoder_config, items_of
from cachespec.scheduler.counts import known_length
from cachespec.scheduler.era_placeholders import DEAD
from cachespec.scheduler.era_rules import skipped_if_long
from cachespec.scheduler.era_states import marks, with_marks
from cachespec.scheduler.feasibility import limited
from cachespec.scheduler.round_state import Round
from cachespec.scheduler.rules import Table


def skipped_or_dead(rules: Table, config: Config, current: Round, request: Request, cause: int) -> Round:
    """S2. C-ENC-2: a request for room may end the engine."""
    looked_at = limited(config, known_length(config, current.state, request)) <= current.tokens
    if config.encoder_decoder == 1 and cause == ENCODER and looked_at and fails(rules, config, current, request):
        dead = with_marks(current.state, DEAD, marks(current.state, DEAD).set(request, 1))
        return current._replace(state=dead, ended=1)
    return skipped_if_long(rules, config, current, request, cause)


def fails(rules: Table, config: Config, current: Round, request: Request) -> bool:
    """Whether the pass over the items of the request has failed. Asked again, the manager answers the same."""
    encoder, embeds, granted = current.state.encoder, current.embeds, 0
    parts = encoder_config(config)
    failed, refused = False, False
    for index in range(len(items_of(config, request))):
        if not failed and not refused:
            encoder, outcome = rules.encoder.step(parts, encoder, CanAllocate(request, index, embeds, granted))
            failed, refused = outcome.code is Code.FAILED, outcome.code is Code.REFUSED
            length = items_of(config, request)[index][LENGTH]
            embeds, granted = embeds - length, granted + length
    return failed
