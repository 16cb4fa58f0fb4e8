"""The script that a release's Python runs: `python -I start.py DRIVER BUG START ARGUMENTS...`, with a bug planted.

`DRIVER` is the folder of what drives releases of vLLM, which is used for others too; `BUG` is as in
`lru/touch-does-nothing`, or nothing for the release as it is; `START` is the script that the driver has of its own, and
the rest is what that takes.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path
from typing import Any

FOLDER = str(Path(__file__).parent)

if __name__ == "__main__":
    driver, bug, start, *rest = sys.argv[1:]
    sys.path[:0] = [FOLDER, driver]
    conversation: Any = importlib.import_module("driver.conversation")
    planting = importlib.import_module("bugs.planting")
    if bug:
        conversation.driver_of = planting.with_bug(conversation.driver_of, planting.bug_named(bug))
    sys.path[:2] = []
    sys.argv = [start, *rest]
    runpy.run_path(start, run_name="__main__")
