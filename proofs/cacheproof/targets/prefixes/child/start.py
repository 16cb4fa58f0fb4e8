"""The script that an environment's Python runs: `python -I start.py SHARED DRIVER SOURCE VERSION [--probe]`.

`SHARED` is the folder of the driver for vLLM: its conversation, its stand-ins and its way of making calls are used as
they are, with the lists that `declared.py` in the folder `DRIVER` has. What lies beside this file is for every driver.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    shared, driver, *rest = sys.argv[1:]
    sys.path[:0] = folders = [shared, driver, str(Path(__file__).parent)]
    stand_ins = importlib.import_module("driver.stand_ins")
    conversation = importlib.import_module("driver.conversation")
    declared = importlib.import_module("declared")
    for theirs, ours in (
        (stand_ins.PACKAGES, declared.PACKAGES),
        (stand_ins.MODULES, declared.MODULES),
        (stand_ins.ANSWERS, declared.ANSWERS),
        (conversation.COMPONENTS, declared.COMPONENTS),
    ):
        theirs.clear()
        theirs.update(ours)
    for module in {module for module, _ in declared.COMPONENTS.values()}:
        importlib.import_module(module)
    sys.path[: len(folders)] = []
    sys.exit(conversation.main(rest))
