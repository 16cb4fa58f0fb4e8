"""The script that a release's Python runs, `python -I run.py DRIVER SOURCE IMPL`: work of its classes, turn by turn.

`DRIVER` is the folder of the driver, whose stand-ins are used. `SOURCE` has the release's package, and `IMPL` has
`cacheimpl`, for work with our classes instead of the release's. Each line is one JSON object: `{"do": "make", "work":
NAME, ...sizes}`, then `{"do": "turn", "number": n}`. The answer has the seconds of processor time, the number of units
and the results. The script imports nothing of ours beside these folders, like the driver.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
from pathlib import Path
from typing import Any

FOLDER = str(Path(__file__).parent)


def main(driver: str, source: str, impl: str) -> int:
    """Answer line after line until the input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr
    sys.path[:0] = [FOLDER, driver, impl]
    importlib.import_module("driver.stand_ins").install(Path(source))
    modules = ("works", "in_place", "grouped")
    works = {name: work for module in modules for name, work in importlib.import_module(module).WORKS.items()}
    work: Any = None
    for line in sys.stdin:
        message = json.loads(line)
        try:
            if message.pop("do") == "make":
                work = works[message.pop("work")](**message)
                gc.collect()
                gc.freeze()
                answer: dict[str, Any] = {"made": True}
            else:
                gc.collect()
                answer = work.turn(message["number"])._asdict()
        except Exception as error:  # noqa: BLE001  # whatever a release does, it is told
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
