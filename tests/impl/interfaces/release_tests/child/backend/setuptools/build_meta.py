"""A build backend that builds nothing: pip asks for the metadata of a source package before it keeps the package.

The package's own backend would need compilers. Some packages were published with metadata of another version, so
`CACHEPROOF_VERSION` says which one was asked for.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Nothing."""
    del config_settings
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    """The package's own metadata, with the version that was asked for."""
    del config_settings
    text, version = Path("PKG-INFO").read_text(encoding="utf-8"), os.environ["CACHEPROOF_VERSION"]
    name = re.findall(r"(?m)^Name: (.*)$", text)[0]
    folder = Path(metadata_directory, f"{name}-{version}.dist-info")
    folder.mkdir()
    changed = re.sub(r"(?m)^Version: .*$", f"Version: {version}", text, count=1)
    (folder / "METADATA").write_text(changed, encoding="utf-8")
    return folder.name
