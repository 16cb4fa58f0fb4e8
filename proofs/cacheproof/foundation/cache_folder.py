"""The user's cache folder: what can be made again, such as released packages and compiled specifications."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "CACHEPROOF_CACHE"


def cache_folder() -> Path:
    """`CACHEPROOF_CACHE`, or `cacheproof` in `XDG_CACHE_HOME`, or `~/.cache/cacheproof`; it need not exist."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    general = os.environ.get("XDG_CACHE_HOME")
    return (Path(general) if general else Path.home() / ".cache").absolute() / "cacheproof"
