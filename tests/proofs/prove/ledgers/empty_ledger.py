"""Nothing to confirm."""

from __future__ import annotations

LEDGER: dict[str, str] = {}
