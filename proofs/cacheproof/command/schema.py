"""`cacheproof schema`: the form of messages and of vectors, for programs that check it."""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated

import typer

from cacheproof.command.console import Report
from cacheproof.registry import component_named, components
from cacheproof.schema import protocol_schema, vectors_schema


class What(Enum):
    """What there are schemas of."""

    PROTOCOL = "protocol"
    VECTORS = "vectors"


def command(
    what: Annotated[
        What, typer.Argument(help="Messages of the line protocol, or lines of vectors.", show_default=False)
    ],
    names: Annotated[list[str] | None, typer.Argument(metavar="[COMPONENT]...", help="All without one.")] = None,
) -> Report:
    """Print a JSON Schema (draft 2020-12), generated from the declarations of the components.

    In `$defs` are `request` and `answer` of the protocol, `header` and `case` of vectors.
    """
    chosen = [component_named(name) for name in names] if names else list(components().values())
    schema = protocol_schema(chosen) if what is What.PROTOCOL else vectors_schema(chosen)
    return Report({"schema": schema}, [json.dumps(schema, indent=1)])
