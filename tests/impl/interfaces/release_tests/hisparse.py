"""vLLM 0.33.0's scheduler with its HiSparse connector: `python -m tests.impl.interfaces.release_tests.hisparse`.

Random loads run with the release's managers and with ours. The command fails if a worker reads a wrong row, if a block
is held at the end, or if plans under the rules of the era differ from the release's. `--seeds` says how many seeds run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.impl.interfaces.release_tests import running, sources
from tests.impl.interfaces.release_tests.suites import CHILD, SUITES

from cacheproof.command.failures import guarded
from cacheproof.foundation.console import Progress, Report, progress, run
from cacheproof.foundation.errors import ExitStatus, InconclusiveError

VERSION = "0.33.0"
SECONDS_FOR_A_SEED = 120


def loops(first: int, seeds: int, show: Progress) -> Any:
    """What came of the loads. Raises InconclusiveError if the run ended early."""
    place = running.Place(*sources.ensured(VERSION, show))
    variables = running.environment(place, SUITES[VERSION], Path(os.devnull), ours=False)
    workers = Path(__file__).parents[2]
    variables["PYTHONPATH"] = os.pathsep.join((variables["PYTHONPATH"], str(workers)))
    done = subprocess.run(
        [str(place.python), str(CHILD / "hisparse_loop.py"), str(first), str(seeds)],
        cwd=place.source,
        env=variables,
        capture_output=True,
        text=True,
        timeout=SECONDS_FOR_A_SEED * seeds,
        check=False,
    )
    if done.returncode:
        raise InconclusiveError(f"the loads ended early: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def reported(first: int, seeds: int, show: Progress) -> Report:
    """Run the loads, and judge them."""
    data = loops(first, seeds, show)
    counts = data["counts"]
    lines = [
        f"{counts['loads'] - len(data['different'])} of {counts['loads']} loads have the release's plans",
        f"  in three runs of each load {counts['served']} requests were served, and {counts['aborted']} aborted",
        f"  {counts['preempted']} preemptions, and {counts['host_reads']} steps that read the host",
        *(f"  plans differ: {load}" for load in data["different"]),
        *(f"  {problem}" for problem in data["problems"]),
    ]
    right = not data["different"] and not data["problems"]
    return Report(data, lines, ExitStatus.AS_EXPECTED if right else ExitStatus.FELL_SHORT)


def main() -> None:
    """Exit with 0 if all is well, 1 if it is not, 2 or 3 as `cacheproof` does."""
    parser = argparse.ArgumentParser(prog="python -m tests.impl.interfaces.release_tests.hisparse", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="First seed (default: 0)")
    parser.add_argument("--seeds", type=int, default=2, help="Seeds, with three loads each (default: 2)")
    parser.add_argument("--json", action="store_true", help="Print the result as JSON")
    given = parser.parse_args()

    def verb() -> Report:
        with progress() as show:
            return reported(given.first, given.seeds, show)

    sys.exit(int(guarded(lambda: run(verb, as_json=given.json), as_json=given.json)))


if __name__ == "__main__":
    main()
