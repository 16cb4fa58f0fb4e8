"""Runs scripts in the environment of a release: `python -I launch.py CHILD SOURCE [--first FOLDER] SCRIPT...`.

Stands alone, as nothing of cacheproof is on the path of that Python. What scripts find as `vllm` are the modules that
were kept of the release; the same stand-ins as for its driver take the place of what was not. Each script runs in a
process of its own, made by forking when everything is imported. Writes a line of JSON for each.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import tempfile
import traceback
from argparse import ArgumentParser
from pathlib import Path

KILLED = 2


def run(script: str) -> dict[str, object]:
    """What a script printed, both streams together, and its exit status; one that broke off could not run."""
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            status = KILLED
            try:
                runpy.run_path(script, run_name="__main__")
            except SystemExit as ended:
                status = ended.code if isinstance(ended.code, int) else KILLED
            except BaseException:  # noqa: BLE001  # told, as by the interpreter; the process ends here
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        _, ended_with = os.waitpid(child, 0)
        said.seek(0)
        printed = said.read().decode(errors="replace")
    status = os.waitstatus_to_exitcode(ended_with)
    return {"script": script, "status": status if status >= 0 else KILLED, "printed": printed}


def main() -> None:
    """Every script that is named."""
    parser = ArgumentParser()
    parser.add_argument("child")
    parser.add_argument("source", type=Path)
    parser.add_argument("--first")
    parser.add_argument("scripts", nargs="+")
    given = parser.parse_args()
    if given.first is not None:
        sys.path.insert(0, given.first)
    sys.path.insert(0, given.child)
    stand_ins = importlib.import_module("driver.stand_ins")
    sys.path.remove(given.child)
    stand_ins.install(given.source)
    for script in given.scripts:
        sys.stdout.write(json.dumps(run(script)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
