"""`cacheproof schema`: the form of messages, of vectors and of logs, for programs that check it."""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated

import typer

from cacheproof.foundation.console import Report
from cacheproof.foundation.errors import InputError
from cacheproof.logs.validate.schema import log_schema
from cacheproof.model.registry import component_named, components
from cacheproof.present.schema import protocol_schema, vectors_schema

PANEL = "Your implementation"


class What(Enum):
    """What there are schemas of."""

    PROTOCOL = "protocol"
    VECTORS = "vectors"
    LOG = "log"


def command(
    what: Annotated[What, typer.Argument(help="The format: line protocol, vectors or log.", show_default=False)],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMPONENT", help="Components in the schema. A log needs exactly one.", show_default="all"
        ),
    ] = None,
) -> Report:
    """Print the JSON Schema (draft 2020-12) of the line protocol, of vectors or of logs.

    $defs has request and answer for the protocol; header and case for vectors; header, line and end for logs.
    """
    chosen = [component_named(name) for name in names] if names else list(components().values())
    if what is What.LOG:
        if len(chosen) != 1:
            raise InputError("a log is of one component: name it, as in `cacheproof schema log lru`")
        schema = log_schema(chosen[0])
    else:
        schema = protocol_schema(chosen) if what is What.PROTOCOL else vectors_schema(chosen)
    return Report({"schema": schema}, [json.dumps(schema, indent=1)])
