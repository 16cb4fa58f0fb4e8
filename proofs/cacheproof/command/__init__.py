"""The command line: one module per verb, found by scanning this package.

A verb's name shadows what else has it here (`list` is a verb), so nothing but the entry point stands in this file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cacheproof.foundation.errors import ExitStatus


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its status. Ctrl-C while modules are imported is answered too."""
    try:
        from cacheproof.command import frame  # noqa: PLC0415  # imports take a tenth of a second
    except KeyboardInterrupt:
        sys.stderr.write("cacheproof: interrupted: nothing is known yet\n")
        sys.exit(int(ExitStatus.INCONCLUSIVE))
    frame.main(arguments)
