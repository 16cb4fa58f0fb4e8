"""For people: a compiled function beside its Python original."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import msgspec

from cacheproof.search.native.glue import Glue
from cacheproof.search.native.text import function_text


class Shown(msgspec.Struct, frozen=True):
    """One function: its position, its source, and the result of its translation."""

    place: str
    python: str
    cpp: str


def functions_named(glue: Glue, name: str) -> list[Shown]:
    """Every form of the functions of this name, in the order in which they were compiled."""
    found = []
    for instance in glue.unit.instances.values():
        source = instance.source
        if source is None or name not in (source.qualname, source.qualname.rpartition(".")[2]):
            continue
        text = Path(source.filename).read_text(encoding="utf-8")
        original = ast.get_source_segment(text, source.node, padded=True) or ""
        found.append(Shown(instance.about, dedent(original), function_text(glue.unit, instance)))
    return found
