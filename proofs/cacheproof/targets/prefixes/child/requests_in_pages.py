"""What the drivers of prefix caches have in common: the tokens of requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driver.calls import (  # type: ignore[import-not-found]  # of the driver for vLLM, on the child's path only
    Reply,
)

REFUSED = Reply("refused")
SMALLEST: Mapping[str, Any] = {"block_size": 1, "blocks": 1, "chains": [], "lengths": []}
"""A configuration with which whatever a cache imports is imported."""
UNHASHED = 1 << 30
"""Tokens of a page that is never full; each request has its own."""


def tokens_of(config: Mapping[str, Any]) -> list[list[int]]:
    """Those of each request: a full page has tokens that name its content."""
    size = config["block_size"]
    found = []
    for number, (chain, length) in enumerate(zip(config["chains"], config["lengths"], strict=True)):
        tokens = [content * size + place for content in chain for place in range(size)][:length]
        found.append(tokens + [UNHASHED + number] * (length - len(tokens)))
    return found
