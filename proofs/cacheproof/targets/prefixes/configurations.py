"""What packages that keep prefixes in pages are walked in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SHARED_PREFIXES = [[0, 1, 2], [0, 1, 3], [4, 5], [0, 1, 2, 6, 7], [0, 8]]

CONFIGURATIONS: dict[str, Mapping[str, Any]] = {
    "slots, scarce": {"block_size": 1, "blocks": 7, "chains": SHARED_PREFIXES, "lengths": [3, 3, 2, 5, 2]},
    "slots, ample": {"block_size": 1, "blocks": 40, "chains": SHARED_PREFIXES, "lengths": [3, 3, 2, 5, 2]},
    "pages of 2, scarce": {"block_size": 2, "blocks": 8, "chains": SHARED_PREFIXES, "lengths": [7, 6, 5, 10, 4]},
    "pages of 4, scarce": {"block_size": 4, "blocks": 8, "chains": SHARED_PREFIXES, "lengths": [14, 12, 9, 20, 11]},
    "pages of 4, ample": {"block_size": 4, "blocks": 60, "chains": SHARED_PREFIXES, "lengths": [14, 12, 9, 20, 11]},
}
"""As of `kv_blocks`: pages of so many tokens, how many there are, what the requests hold, and how long they are."""
