"""What an archive runs: its case, on the release that is installed beside it, in this process.

Only the standard library, the specification and the driver are needed besides the release and what that imports.
"""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.model.target import Failure, TargetError
from cacheproof.model.wire import (
    Message,
    config_to_message,
    observations_from_message,
    operation_to_message,
    outcome_from_message,
)
from cacheproof.releases.reproduce.case import Case
from cacheproof.releases.reproduce.judge import Ending, Judged, judged
from cachespec.kernel import Observation, Operation, Outcome

CASE = "case.json"
"""The case of an archive, beside this module."""
OF_ANSWERS = frozenset({"answer", "code", "values", "remark"})


class Driven:
    """The release in this process as a target: the driver's own conversation, without a pipe between."""

    def __init__(self, case: Case, driver: Any, source: Path, release: str) -> None:
        """The release's classes come from `source`, with the driver's stand-ins for all that they only name."""
        self._case = case
        version = tuple(map(int, re.findall("[0-9]+", release)))
        driver.stand_ins.install(source, version)
        calls = driver.calls.Calls(source, version)
        self._conversation = driver.conversation.Conversation(calls)
        self._shown: Mapping[str, Observation] = {}

    def reset(self, config: Any) -> None:
        named = {"component": self._case.component, "variant": self._case.variant}
        self._ask({"do": "init", **named, **config_to_message(config)})

    def apply(self, operation: Operation) -> Outcome:
        return outcome_from_message(self._ask({"do": "apply", **operation_to_message(operation)}))

    def observe(self) -> Mapping[str, Observation]:
        return self._shown

    def close(self) -> None:
        """The process ends."""

    def _ask(self, message: Message) -> Message:
        answer: Message = json.loads(json.dumps(self._conversation.answer(message)))
        if answer["answer"] == "error":
            raise TargetError(str(answer["text"]), Failure.REFUSED)
        self._shown = observations_from_message({name: answer[name] for name in answer if name not in OF_ANSWERS})
        return answer


def performed(case: Case, driver: Any) -> Judged:
    """The case on the package that this Python imports; everything that hinders it is CANNOT_RUN."""
    package = case.target.partition("==")[0]
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return Judged(case, (), Ending.CANNOT_RUN, f"there is no package {package}: pip install {case.target}")
    try:
        with redirect_stdout(sys.stderr):
            source = Path(next(iter(spec.submodule_search_locations))).parent
            return judged(case, Driven(case, driver, source, version_of(package) or case.target.partition("==")[2]))
    except ImportError as error:
        return Judged(case, (), Ending.CANNOT_RUN, f"the package cannot be imported: {error}")
    except InputError as error:
        return Judged(case, (), Ending.CANNOT_RUN, str(error))


def version_of(package: str) -> str:
    """The installed version; empty for a package that is only a folder on the path."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def notes(case: Case) -> list[str]:
    """Where the packages of this Python are others than those of the record."""
    wanted = [wanted.partition("==") for wanted in (case.target, case.first) if wanted]
    there = [(package, version_of(package), recorded) for package, _, recorded in wanted]
    return [
        f"note: {name} is {here} here, and {known} in the record"
        for name, here, known in there
        if here not in ("", known)
    ]


def main(driver: Any, arguments: Sequence[str] | None = None) -> int:
    """Perform the case through this package of drivers, and print it; the exit status says how it ended."""
    case = Case.from_message(json.loads(files(__package__).joinpath(CASE).read_text(encoding="utf-8")))
    parser = ArgumentParser(
        description=f"{case.id} on {case.target}: {case.statement}",
        epilog="Ends with 1 if the violation occurs, 0 if it does not, 2 for wrong arguments, 3 if it cannot be run.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    as_json = parser.parse_args(arguments).json
    result = performed(case, driver)
    text = json.dumps(result.as_message()) if as_json else "\n".join((*notes(case), *result.lines()))
    sys.stdout.write(f"{text}\n")
    return int(result.ending)
