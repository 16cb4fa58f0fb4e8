"""What a user sets: the variable that switches the plug-in, and the rules of the KV cache manager."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from typing import Any

from cacheimpl.kv_cache_manager import KV_2025_10, KV_2026_11, NORMATIVE, Rules
from cacheimpl.vllm.unsupported import UnsupportedSettingError

VARIABLE = "CACHEIMPL_VLLM"
"""The environment variable that switches the plug-in."""
OPTION = "cacheimpl"
"""The key of our settings in `--additional-config`."""

RULES: Mapping[str, Rules] = {"NORMATIVE": NORMATIVE, "KV_2026_11": KV_2026_11, "KV_2025_10": KV_2025_10}
"""The rules that can be chosen, by the names that they have in `cacheimpl.kv_cache_manager`."""


class Switch(Enum):
    """The values of `CACHEIMPL_VLLM`."""

    NAMED = ""
    """Ours are used where an option names them."""
    OFF = "0"
    """The names stand for the release's own classes."""
    EVERYWHERE = "1"
    """Ours are used in every engine whose options name no other scheduler."""


def switch() -> Switch:
    """What the environment says. Raises `UnsupportedSettingError`."""
    given = os.environ.get(VARIABLE, "")
    try:
        return Switch(given)
    except ValueError:
        raise UnsupportedSettingError(f"{VARIABLE} must be 0 (off), 1 (everywhere) or unset, not {given!r}") from None


def rules_of(vllm_config: Any) -> str:
    """The name of the rules in `--additional-config`. Raises `UnsupportedSettingError`."""
    additional = getattr(vllm_config, "additional_config", None) or {}
    ours = additional.get(OPTION, {}) if isinstance(additional, Mapping) else {}
    if not isinstance(ours, Mapping) or set(ours) - {"rules"}:
        raise UnsupportedSettingError(f"{OPTION!r} of --additional-config must be {{'rules': NAME}}, not {ours!r}")
    name = ours.get("rules", "NORMATIVE")
    if name not in RULES:
        raise UnsupportedSettingError(f"'rules' must be one of {', '.join(RULES)}, not {name!r}")
    return str(name)
