"""The modes of the random loads in a release's scheduler, as one table."""

from __future__ import annotations

from typing import NamedTuple

ITEMS, PROMPTS = "items", "prompts"
"""Parts of a prompt that stay whole: its items (`disable_chunked_mm_input`), or all of it (no chunked prefill)."""


class Mode(NamedTuple):
    """How an engine is set, and what its requests are."""

    asynchronous: bool = False
    """A step is in flight while the next one is scheduled."""
    drafts: int = 0
    """In each step."""
    by_priority: bool = False
    outside: bool = False
    """Keys and values come from outside, at once or later, and some fail to load."""
    window: int = 0
    """Tokens that a layer looks back; 0 for full attention."""
    images: bool = False
    """Requests have items."""
    unsplit: str = ""
    """`ITEMS`, `PROMPTS`, or neither."""
    urgent: bool = False
    """Half of the requests are short, without items, and more important than the others."""


STEPPING = {
    "sync": Mode(),
    "async": Mode(asynchronous=True),
    "drafts": Mode(drafts=3),
    "async and drafts": Mode(asynchronous=True, drafts=3),
}


def crossed(ending: str, *, images: bool = False, unsplit: str = "") -> dict[str, Mode]:
    """All ways of stepping, without priorities and with them."""
    return {
        f"{name}{ending}{', by priority' if by_priority else ''}": steps._replace(
            images=images, unsplit=unsplit, by_priority=by_priority
        )
        for by_priority in (False, True)
        for name, steps in STEPPING.items()
    }


GROUPS = {
    "text": {
        **crossed(""),
        **{f"{name}, loads": STEPPING[name]._replace(outside=True) for name in ("sync", "drafts")},
        **{f"{name}, window": STEPPING[name]._replace(window=9) for name in ("sync", "async and drafts")},
    },
    "whole prompts": crossed(", whole prompts", unsplit=PROMPTS),
    "images": crossed(", images", images=True),
    "images, whole": crossed(", images, whole", images=True, unsplit=ITEMS),
    "images, urgent": {
        f"{name}, images, urgent": steps._replace(images=True, urgent=True, by_priority=True)
        for name, steps in STEPPING.items()
    },
    "images, whole prompts": crossed(", images, whole prompts", images=True, unsplit=PROMPTS),
}
"""The modes by group."""
MODES = {name: mode for group in GROUPS.values() for name, mode in group.items()}


class Shape(NamedTuple):
    """What an engine with images may do, in tokens. Each item has one embedding a token."""

    budget: int
    """Tokens of a step."""
    lengths: tuple[int, ...]
    """Placeholders of each item, by content."""
    compute: int
    """Embeddings that the encoder makes in a step."""
    capacity: int
    """Embeddings that the encoder cache has room for."""
    blocks: int
    reserves: bool
    """A request is admitted only if all of its prompt finds blocks."""
    threshold: int = 0
    """The most tokens of a prompt in a step (`long_prefill_token_threshold`); 0 for no limit."""

    def within(self, unsplit: str, limit: int) -> Shape:
        """The settings of an engine that does not split these parts. Each fits into a step. `limit` is a prompt's."""
        if not unsplit:
            return self
        least = max(self.lengths) if unsplit == ITEMS else limit
        return self._replace(budget=max(self.budget, least), threshold=self.threshold and max(self.threshold, least))


SHAPES = (
    Shape(24, (1, 2, 3, 4, 5, 2, 1), 6, 9, 24, reserves=True),
    Shape(16, (2, 3, 6, 4, 2), 6, 10, 18, reserves=False, threshold=5),
    Shape(12, (2, 5, 14, 9, 16), 16, 20, 18, reserves=False),
    Shape(24, (3, 7, 28, 5, 2), 28, 32, 20, reserves=True),
)
"""By turns. An engine has both budgets at least as large as its largest item. Some items are longer than a step."""
OVERCOMMITTED = Shape(16, (2, 3, 6, 4, 2) * 4, 6, 12, 18, reserves=False, threshold=5)
"""With urgent requests. A long prompt begins although not all of it finds blocks, and many items are different."""
