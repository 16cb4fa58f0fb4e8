"""What the kernels of a round do not have (`cacheimpl.kernels.FusedRound`): the tensor functions have all of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cacheimpl.scheduler import NO_LIMIT, Config, Extent, State
from cacheimpl.scheduler.rounds import looks_at_items

REFUSED: Mapping[str, Callable[[Config, State, Extent], bool]] = {
    "items": lambda config, state, extent: looks_at_items(config, extent),  # the tables' size says it
    "several plans in flight": lambda config, state, extent: state.turns.shape[0] > 1,
    "drafts": lambda config, state, extent: config.drafts > 0,
    "an alignment of chunks": lambda config, state, extent: config.alignment > 0,
    "a limit of tokens of one request": lambda config, state, extent: config.most_of_one != NO_LIMIT,
    "pipeline stages": lambda config, state, extent: config.pipelined,
    "loads that fail": lambda config, state, extent: config.fails,
    "admissions": lambda config, state, extent: extent.admissions > 0,
    "an extent with width other than 1": lambda config, state, extent: extent.width != 1,
    "an extent with wide other than 0": lambda config, state, extent: extent.wide != 0,
    "an extent with fills other than 1": lambda config, state, extent: extent.fills != 1,
}
"""What the kernels of a round do not have."""


def unsupported(config: Config, state: State, extent: Extent) -> str | None:
    """What the kernels of a round do not have, by its name; None if there is nothing."""
    return next((name for name, lacks in REFUSED.items() if lacks(config, state, extent)), None)
