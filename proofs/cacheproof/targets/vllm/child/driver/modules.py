"""Modules that some releases have and others do not."""

from __future__ import annotations

import importlib
from typing import Any


def module_if_there(name: str) -> Any:
    """The module, or None where the release has none of this name; any other failure is one."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        return None
