"""vLLM's own tests over our classes: `python -m tests.impl.interfaces.release_tests VERSION`.

The source package, an environment and settings of models are fetched into the cache folder at the first run. The tests
run with the release's own classes, then with ours in their places. A test that does not pass with ours has an entry in
`ledgers/VERSION.toml`. The run fails if a test fails that is not listed, or if a listed one passes.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import Any

from tests.impl.interfaces.release_tests import ledger, running, sources
from tests.impl.interfaces.release_tests.suites import LEDGERS, SUITES

from cacheproof.command.failures import guarded
from cacheproof.foundation.console import Progress, Report, progress, run
from cacheproof.foundation.errors import ExitStatus, InputError


def counted(released: ledger.Outcomes, ours: ledger.Outcomes) -> dict[str, dict[str, int]]:
    """By file: tests that the release passes, those of them that ours pass, and those that use our classes."""
    files: dict[str, Counter[str]] = {}
    for test, end in ours.items():
        count = files.setdefault(test.partition("::")[0], Counter(released=0, ours=0, used=0, tests=0))
        alone, together = (ends.get(test, end).outcome == "passed" for ends in (released, ours))
        count.update(tests=1, released=alone, ours=alone and together, used=alone and together and bool(end.used))
    return {file: dict(count) for file, count in files.items()}


def reported(version: str, show: Progress, *, only: list[str], accept: bool) -> Report:
    """Run the tests of a release, and judge its ledger."""
    if version not in SUITES:
        raise InputError(f"'{version}' has no ledger: choose from {', '.join(SUITES)}")
    suite = SUITES[version]
    files = [file for file in suite.files if not only or any(text in file for text in only)]
    if not files:
        raise InputError(f"--only names no file; there are {', '.join(suite.files)}")
    place = running.Place(*sources.ensured(version, show))
    released = running.outcomes(place, suite, files, show, ours=False)
    ours = running.outcomes(place, suite, files, show, ours=True)
    path = LEDGERS / f"{version}.toml"
    entries = [entry for entry in ledger.read(path) if any(entry.test.startswith(file) for file in files)]
    verdict = ledger.judged(entries, released, ours)
    if accept:
        ledger.write(path, [*ledger.accepted(ledger.read(path), entries, released, ours)])
    counts = counted(released, ours)
    data: dict[str, Any] = {
        "version": version,
        "rules": suite.rules,
        "files": counts,
        "listed": len(entries),
        "unlisted": {test: ours[test].reason for test in verdict.unlisted},
        "passing": verdict.passing,
        "unknown": verdict.unknown,
        "misjudged": verdict.misjudged,
    }
    lines = [f"vLLM {version}, its own tests with our classes ({suite.rules}):"]
    lines += [
        f"  {file}: {count['ours']} of {count['released']} that pass with the release's own; {count['used']} use ours"
        for file, count in counts.items()
    ]
    lines += verdict.lines() or [f"the ledger is right: {len(entries)} tests are listed"]
    status = ExitStatus.AS_EXPECTED if verdict.right or accept else ExitStatus.FELL_SHORT
    return Report(data, lines, status)


def main() -> None:
    """Run a release's tests, and exit with 0 if its ledger is right, 1 if it is not, 2 or 3 as `cacheproof` does."""
    parser = argparse.ArgumentParser(prog="python -m tests.impl.interfaces.release_tests", description=__doc__)
    parser.add_argument("version", help=f"one of {', '.join(SUITES)}")
    parser.add_argument(
        "--only", action="append", default=[], help="files with this text in their names; may be repeated"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    accepts = "write what fails into the ledger; new entries get the failure as their reason, to be replaced by hand"
    parser.add_argument("--accept", action="store_true", help=accepts)
    given = parser.parse_args()

    def verb() -> Report:
        with progress() as show:
            return reported(given.version, show, only=given.only, accept=given.accept)

    sys.exit(int(guarded(lambda: run(verb, as_json=given.json), as_json=given.json)))


if __name__ == "__main__":
    main()
