"""The encoder's budgets: how much a step computes, how much the cache holds, and which requests are admitted.

Both follow from the engine's settings and from the largest item of the model, once, when the engine starts. Afterwards
each item that arrives is let in or turned down: what is let in must be schedulable, for nothing else ever looks.

Read `operations`, `state` and `transitions` in this order, then `properties`; `eras` has the formulas of real systems.
"""

from __future__ import annotations

from cachespec.encoder_budget.configuration import Config, interchangeable, malformed
from cachespec.encoder_budget.environment import calls, unknown
from cachespec.encoder_budget.eras import (
    AS_SET,
    CHECKED,
    CONSTANT,
    IN_EMBEDDINGS,
    MERGED,
    ONE_MORE,
    ONE_MORE_AS_REVIEWED,
)
from cachespec.encoder_budget.operations import OPERATIONS, Admit, Configure
from cachespec.encoder_budget.properties import SAFETY, STEPS
from cachespec.encoder_budget.state import GROUPING, OBSERVABLES, Budget, Settings, View, initial, observe, view
from cachespec.encoder_budget.transitions import TRANSITIONS, longest_item
from cachespec.kernel import NORMATIVE, Component, Variant, variants

NORMATIVE_BUDGET: Variant[Config, Budget, View] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=Budget,
    initial=initial,
    transitions=TRANSITIONS,
    view=view,
    alphabet=calls,
)

COMPONENT: Component[Config, Budget, View] = Component(
    name="encoder_budget",
    summary="the encoder's compute and cache budgets, and which items are admitted",
    config=Config,
    malformed=malformed,
    operations=OPERATIONS,
    variants=variants(
        NORMATIVE_BUDGET, CONSTANT, ONE_MORE, ONE_MORE_AS_REVIEWED, MERGED, CHECKED, IN_EMBEDDINGS, AS_SET
    ),
    observe=observe,
    observables=OBSERVABLES,
    grouping=GROUPING,
    interchangeable=interchangeable,
    unknown=unknown,
    safety=SAFETY,
    steps=STEPS,
)

__all__ = [
    "AS_SET",
    "CHECKED",
    "COMPONENT",
    "CONSTANT",
    "IN_EMBEDDINGS",
    "MERGED",
    "NORMATIVE_BUDGET",
    "ONE_MORE",
    "ONE_MORE_AS_REVIEWED",
    "Admit",
    "Budget",
    "Config",
    "Configure",
    "Settings",
    "View",
    "longest_item",
]
