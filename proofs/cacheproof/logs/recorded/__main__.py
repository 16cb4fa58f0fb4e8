"""`python -m cacheproof.logs.recorded FOLDER`: is what was recorded a run of the specification?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.logs.recorded.mirror import read_folder
from cacheproof.logs.recorded.run import RecordedRun, Verdict, validated, write
from cacheproof.logs.validate.verdict import Inconclusive
from cacheproof.model.trace import Violation


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0 for a run of the specification, 1 for none, 2 for wrong input."""
    parser = argparse.ArgumentParser(prog="python -m cacheproof.logs.recorded", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a recorded mirror")
    parser.add_argument("--write", type=Path, help="where to write the run as a log, for `cacheproof validate`")
    given = parser.parse_args(arguments)
    try:
        run = read_folder(given.folder)
        if given.write is not None:
            with given.write.open("wb") as stream:
                write(run, stream)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return ExitStatus.WRONG_INPUT
    except OSError as error:
        sys.stderr.write(f"{given.write}: cannot be written: {error.strerror}\n")
        return ExitStatus.WRONG_INPUT
    verdict = validated(run)
    sys.stdout.write(f"{told(run, verdict)}\n")
    if isinstance(verdict.finding, Inconclusive):
        return ExitStatus.INCONCLUSIVE
    return ExitStatus.AS_EXPECTED if verdict.possible else ExitStatus.FELL_SHORT


def told(run: RecordedRun, verdict: Verdict) -> str:
    """The verdict as people read it."""
    subject = run.subject
    whose = f"{subject.component.name} ({subject.variant.title})"
    if verdict.possible:
        return f"all {verdict.performed:,} operations are a run of {whose}"
    begun = f"{verdict.performed:,} operations are a run of {whose}; then"
    finding = verdict.finding
    if finding is None:
        return f"{begun} the recordings do not go on: {verdict.trouble}"
    operation = run.steps[verdict.performed].operation
    if isinstance(finding, Violation):
        return f"{begun} at {verdict.source}, {operation}: {finding.property}, {finding.statement}"
    if isinstance(finding, Inconclusive):
        return f"{begun} at {verdict.source}, {operation}, it is not known any more: {finding.reason}"
    statements = [part.statement for tried in finding.tried[:1] for part in tried.differences] or [finding.reason]
    return "\n".join([f"{begun} this cannot have happened, {verdict.source}: {operation}", *statements])


if __name__ == "__main__":
    sys.exit(main())
