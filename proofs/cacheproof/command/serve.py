"""`cacheproof serve`: the oracle."""

from __future__ import annotations

import sys

from cacheproof.errors import ExitStatus
from cacheproof.serve import serve


def command() -> ExitStatus:
    """Answer for the specification: requests on standard input, answers on standard output, one JSON object a line."""
    serve(sys.stdin.buffer, sys.stdout.buffer)
    return ExitStatus.AS_EXPECTED
