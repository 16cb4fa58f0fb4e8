"""`cacheproof serve`: the oracle."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cacheproof.foundation.errors import ExitStatus
from cacheproof.foundation.limits import MEGABYTES, SECONDS, limit_address_space
from cacheproof.model.serve import serve


def command(
    *,
    answer: Annotated[float, typer.Option(min=0.001, help="Seconds that an answer may take.")] = SECONDS,
    memory: Annotated[int, typer.Option(min=64, help="Megabytes that the whole process may have.")] = MEGABYTES,
) -> ExitStatus:
    """Answer for the specification: requests on standard input, answers on standard output, one JSON object a line.

    What would take more time or memory is answered with the error `no_answer`, and the conversation goes on.
    """
    limit_address_space(memory << 20)
    serve(sys.stdin.buffer, sys.stdout.buffer, answer)
    return ExitStatus.AS_EXPECTED
