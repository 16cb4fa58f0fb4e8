"""`python -m cacheproof.recorded PATH`: is what was recorded a run of the specification?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cacheproof.errors import ExitStatus, InputError
from cacheproof.fuzz.difference import Difference
from cacheproof.recorded.mirror import read_folder
from cacheproof.recorded.run import RecordedRun, Verdict, read, validated, written
from cacheproof.trace import Violation


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0 for a run of the specification, 1 for none, 2 for wrong input."""
    parser = argparse.ArgumentParser(prog="python -m cacheproof.recorded", description=__doc__)
    parser.add_argument("path", type=Path, help="a recorded run, or the folder of a recorded mirror")
    parser.add_argument("--write", type=Path, help="where to write the run as one file")
    given = parser.parse_args(arguments)
    try:
        run = read_folder(given.path) if given.path.is_dir() else read(given.path)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return ExitStatus.WRONG_INPUT
    if given.write is not None:
        given.write.write_text("\n".join(written(run)) + "\n", encoding="utf-8")
    verdict = validated(run)
    sys.stdout.write(f"{told(run, verdict)}\n")
    return ExitStatus.AS_EXPECTED if verdict.possible else ExitStatus.FELL_SHORT


def told(run: RecordedRun, verdict: Verdict) -> str:
    """The verdict as people read it."""
    subject = run.subject
    whose = f"{subject.component.name} ({subject.variant.title})"
    if verdict.possible:
        return f"all {verdict.performed:,} operations are a run of {whose}"
    begun = f"{verdict.performed:,} operations are a run of {whose}; then"
    if verdict.finding is None:
        return f"{begun} the recordings do not go on: {verdict.trouble}"
    operation = run.steps[verdict.performed].operation if verdict.performed < len(run.steps) else None
    finding = verdict.finding
    if isinstance(finding, Difference):
        return "\n".join([f"{begun} this cannot have happened, {verdict.source}: {operation}", *finding.statements])
    what = f"{finding.property}, {finding.statement}" if isinstance(finding, Violation) else finding.reason
    return f"{begun} at {verdict.source}, {operation}: {what}"


if __name__ == "__main__":
    sys.exit(main())
