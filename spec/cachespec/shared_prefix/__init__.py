"""Requests that share a prefix with an item in it: is room for one more item enough (#11895)?

A request whose prefix is cached begins where the cached blocks end. That may be inside an item, whose encoder output is
needed for the rest and need not be there. When there is no room for it either, how many tokens can be scheduled? The
first engines said `start of the item - computed`, which is negative; #11895 proposed to make the budgets larger, by one
item, so that the question does not come up. This component decides that claim, and says what would have been enough.

Read `configuration`, `transitions` and `eras` in this order. The formulas themselves are in `encoder_budget`.
"""

from __future__ import annotations

from typing import Any

from cachespec.kernel import NORMATIVE, Component, Variant, variants
from cachespec.shared_prefix.configuration import Config, interchangeable, malformed
from cachespec.shared_prefix.environment import calls
from cachespec.shared_prefix.eras import (
    CONSTANT,
    ENOUGH,
    ENOUGH_SHARED,
    MERGED,
    ONE_MORE,
    ONE_MORE_AS_REVIEWED,
    ONE_MORE_SHARED,
)
from cachespec.shared_prefix.operations import OPERATIONS, Add, Finish, Step
from cachespec.shared_prefix.properties import PROGRESS, SAFETY, STEPS
from cachespec.shared_prefix.state import GROUPING, OBSERVABLES, State, View, observe, view
from cachespec.shared_prefix.transitions import TRANSITIONS, initial

NORMATIVE_SHARED_PREFIX: Variant[Config, Any, View] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=State,
    initial=initial,
    transitions=TRANSITIONS,
    view=view,
    alphabet=calls,
)

COMPONENT: Component[Config, Any, View] = Component(
    name="shared_prefix",
    summary="a cached prefix that ends inside an item: is room for one more item enough (#11895)?",
    config=Config,
    malformed=malformed,
    operations=OPERATIONS,
    variants=variants(
        NORMATIVE_SHARED_PREFIX,
        CONSTANT,
        ONE_MORE,
        ONE_MORE_AS_REVIEWED,
        ONE_MORE_SHARED,
        MERGED,
        ENOUGH,
        ENOUGH_SHARED,
    ),
    observe=observe,
    observables=OBSERVABLES,
    grouping=GROUPING,
    interchangeable=interchangeable,
    safety=SAFETY,
    steps=STEPS,
    progress=PROGRESS,
)

__all__ = ["COMPONENT", "NORMATIVE_SHARED_PREFIX", "Add", "Config", "Finish", "State", "Step", "View"]
