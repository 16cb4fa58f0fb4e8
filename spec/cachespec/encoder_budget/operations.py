"""What operators and clients do: the settings of an engine, and an item of a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.encoder_budget.configuration import Item
from cachespec.kernel import Operation


@dataclass(frozen=True, slots=True)
class Configure(Operation):
    """An engine starts with these settings and computes both budgets; it replaces any earlier engine.

    REFUSED if the engine would not start.
    """

    lane: ClassVar[tuple[str, str]] = ("operator", "engine")

    batch_tokens: int
    """`max_num_batched_tokens`: tokens of one step, of all requests together."""
    sequences: int
    """`max_num_seqs`: requests that run at once."""
    limits: tuple[int, ...]
    """`limit_mm_per_prompt`: items of each modality in one prompt; 0 turns the modality off."""
    embeddings: int
    """`enable_mm_embeds`: 1: clients may send embeddings ready made, of modalities that are turned off too."""
    chunked_prefill: int
    """`enable_chunked_prefill`. 0: a prompt is computed in one step."""
    whole_items: int
    """`disable_chunked_mm_input`. 1: no step ends inside an item."""
    threshold: int
    """`long_prefill_token_threshold`: tokens of one request in one step, while others wait; 0 for no such limit."""
    alignment: int
    """A step ends at a multiple of this number of tokens, unless it ends the prompt; 1 for no such rule."""
    compute: int
    """The compute budget that the operator configures, in embeddings; 0: nothing is said."""
    space: int
    """The size of the encoder cache that the operator configures, in embeddings; 0: nothing is said."""


@dataclass(frozen=True, slots=True)
class Admit(Operation):
    """A request with this item arrives. DONE if it is queued; otherwise its client is told at once.

    REFUSED if the modality is disabled, TOO_LARGE if the item could never be scheduled.
    """

    lane: ClassVar[tuple[str, str]] = ("client", "engine")

    item: Item


OPERATIONS: tuple[type[Operation], ...] = (
    Configure,
    Admit,
)
