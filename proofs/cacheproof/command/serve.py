"""`cacheproof serve`: the oracle."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cacheproof.foundation.errors import ExitStatus
from cacheproof.foundation.limits import MEGABYTES, SECONDS, limit_address_space
from cacheproof.model.serve import serve

PANEL = "Your implementation"


def command(
    *,
    answer: Annotated[float, typer.Option(min=0.001, help="Time limit for each answer, in seconds.")] = SECONDS,
    memory: Annotated[int, typer.Option(min=64, help="Memory limit of the process, in megabytes.")] = MEGABYTES,
) -> ExitStatus:
    """Serve the specification as an oracle on standard input and output.

    Each line is one JSON object: a request or its answer. If a request exceeds the time or memory limit, its answer is
    the error no_answer. The next request is served as usual.
    """
    limit_address_space(memory << 20)
    serve(sys.stdin.buffer, sys.stdout.buffer, answer)
    return ExitStatus.AS_EXPECTED
