"""Who has to do what for a violation to happen: fair to whoever wrote the release, and no more than was run."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Literal

from cacheproof.releases.searching import SCHEDULER

Reach = Literal["running engine", "engine", "class", "misuse"]
RUNNING: Reach = "running engine"
ENGINE: Reach = "engine"
CLASS: Reach = "class"
MISUSE: Reach = "misuse"

REACHES: dict[Reach, str] = {
    RUNNING: "a whole running engine with a model showed an entry of the catalogue that explains it",
    ENGINE: "the release's own scheduler, driven by requests that arrive and are aborted, did this by itself",
    CLASS: "the release's own classes did this, called as the specification lets callers; their engine was not run",
    MISUSE: "a caller violates the order that the class expects; the engine's own callers were not seen to do this",
}
"""In a sentence. From what says most about an engine to what says least."""

SHORT: dict[Reach, str] = {
    RUNNING: "its running engine",
    ENGINE: "its scheduler did",
    CLASS: "its classes alone",
    MISUSE: "misuse",
}
"""In a table."""

STRENGTH: tuple[Reach, ...] = tuple(reversed(REACHES))
"""From what says least about an engine to what says most."""

DISCIPLINED = ("encoder_cache", "kv_blocks")
"""Components whose `disciplined` says whether callers keep the engine's order; elsewhere there is no other."""
WHOLE = (SCHEDULER, "engine")
"""Components that are driven by requests alone."""
FORGED = "forge"
"""A call that only somebody outside of the engine makes up."""


def reach_of(component: str, sorts: AbstractSet[str], config: object) -> Reach:
    """By the sorts of calls, and by whether callers are held to the order of the engine's own."""
    free = component in DISCIPLINED and getattr(config, "disciplined", 1) == 0
    if free or FORGED in sorts:
        return MISUSE
    return ENGINE if component in WHOLE else CLASS
