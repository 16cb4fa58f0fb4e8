"""What packages that keep prefixes in pages are walked in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SHARED_PREFIXES = [[0, 1, 2], [0, 1, 3], [4, 5], [0, 1, 2, 6, 7], [0, 8]]

CONFIGURATIONS: dict[str, Mapping[str, Any]] = {
    "slots, scarce": {"block_size": 1, "blocks": 7, "chains": SHARED_PREFIXES, "lengths": [3, 3, 2, 5, 2]},
    "slots, ample": {"block_size": 1, "blocks": 40, "chains": SHARED_PREFIXES, "lengths": [3, 3, 2, 5, 2]},
    "pages of 2, scarce": {"block_size": 2, "blocks": 8, "chains": SHARED_PREFIXES, "lengths": [7, 6, 5, 10, 4]},
    "prompts apart, scarce": {"block_size": 2, "blocks": 5, "chains": [[0], [1], [2], [3]], "lengths": [3, 3, 3, 3]},
    "pages of 4, scarce": {"block_size": 4, "blocks": 8, "chains": SHARED_PREFIXES, "lengths": [14, 12, 9, 20, 11]},
    "pages of 4, ample": {"block_size": 4, "blocks": 60, "chains": SHARED_PREFIXES, "lengths": [14, 12, 9, 20, 11]},
}
"""As of `kv_blocks`: pages of so many tokens, how many there are, what the requests hold, and how long they are."""

ENGINE: Mapping[str, Any] = {
    "block_size": 4,
    "blocks": 8,
    "prompts": [
        [1, 2, 3, 4, 5],
        [1, 2, 3, 4, 5, 6, 7, 8, 9],
        [1, 2, 3, 4, 6],
        [7, 8, 9],
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    ],
    "outputs": [24, 20, 22, 25, 18],
    "children": [0, 0, 0, 0, 0],
    "token_budget": 8,
    "running": 3,
    "sharing": 1,
    "ahead": 0,
    "cancellations": 0,
    "kept": 0,
}
"""Prompts with common beginnings, each of which could be served alone."""

AMPLE: Mapping[str, Any] = {**ENGINE, "blocks": 60, "outputs": [23, 19, 22, 25, 18], "kept": 1}
"""There is room for everything, and no request is complete with the last token of a block."""

SERVED: dict[str, Mapping[str, Any]] = {
    "scarce": ENGINE,
    "ample": AMPLE,
    "ample, outputs end with a block": {**AMPLE, "outputs": [24, 20, 23, 26, 19]},
    "nothing is shared": {**ENGINE, "sharing": 0},
    "cancellations": {**ENGINE, "cancellations": 1},
    "several outputs": {**ENGINE, "outputs": [12, 9, 14, 6, 3], "children": [1, 0, 2, 0, 1]},
    "a step ahead": {**ENGINE, "ahead": 1},
    "a step ahead, ample": {**AMPLE, "ahead": 1},
    "a step ahead, cancellations": {**ENGINE, "ahead": 1, "cancellations": 1},
}
"""What an engine that serves is walked in: blocks of so many tokens and how many there are; what each request has and
is to get, and how many outputs more; tokens and requests of a step; whether equal prefixes are shared, whether a step
is planned before the output of the last one is known, and whether requests are cancelled. `kept` says that blocks are
never short, so that whatever was computed can be found."""
