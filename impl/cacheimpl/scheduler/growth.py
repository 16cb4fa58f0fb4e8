"""Larger tables for what items show: as many rows as there are encoder outputs, and not as there could be.

An encoder output may be as small as one embedding, so there could be as many as the encoder cache has slots. Every
operation on items passes over these rows.
"""

from __future__ import annotations

from cacheimpl.encoder_cache.growth import enlarged, extent_of, grown_cache
from cacheimpl.recency import OUTSIDE
from cacheimpl.scheduler.connector import NOT_REMOTE
from cacheimpl.scheduler.state import Plan, State


def grown_plan(plan: Plan, contents: int) -> Plan:
    """Nothing of the new contents is dropped or loaded."""
    shape = (plan.dropped.shape[0], contents)
    return plan._replace(dropped=enlarged(plan.dropped, shape, OUTSIDE), fetched=enlarged(plan.fetched, shape, 0))


def grown(state: State, contents: int) -> State:
    """The new contents are absent."""
    cache = grown_cache(state.encoder, extent_of(state.encoder)._replace(contents=contents))
    shape = (state.dropped.shape[0], contents)
    return state._replace(
        encoder=cache,
        remote=enlarged(state.remote, (contents,), NOT_REMOTE),
        dropped=enlarged(state.dropped, shape, OUTSIDE),
        fetched=enlarged(state.fetched, shape, 0),
    )
