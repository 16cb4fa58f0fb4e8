"""The texts of the files, as they lie in the folder `templates`, with `{name}` where a value goes."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent / "templates"


def filled(template: str, **values: str) -> str:
    """The text of a template with these values; other braces stay as they are."""
    text = (FOLDER / template).read_text(encoding="utf-8")
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), text)
