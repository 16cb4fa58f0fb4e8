"""One check in a process of its own: `python -m cacheproof.device.child NAME DEVICE SMALL SEED FILE`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from cacheproof.device.listing import Asked, checks_named
from cacheproof.device.running import performed
from cacheproof.foundation.console import announce
from cacheproof.foundation.files import replace_file


def main(arguments: Sequence[str]) -> None:
    """Perform it, and write what became of it."""
    name, device, small, seed, path = arguments
    (check,) = checks_named([name])
    outcome = performed(check, Asked(device, small == "1", int(seed)), announce)
    replace_file(Path(path), json.dumps(outcome))


if __name__ == "__main__":
    main(sys.argv[1:])
