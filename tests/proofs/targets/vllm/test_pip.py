"""What pip says, in one line that says what can be done."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.targets.pip import failure, run_pip, versions_offered

RETRYING = (
    "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError(': "
    "Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/vllm/"
)
UNKNOWN = "ERROR: Could not find a version that satisfies the requirement vllm==0.0.99 (from versions: 0.7.2, 0.7.3)"
NONE = "ERROR: Could not find a version that satisfies the requirement vllm==0.7.3 (from versions: none)"
NO_MATCH = "ERROR: No matching distribution found for vllm==0.0.99"
FULL = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"


@pytest.mark.parametrize(
    ("lines", "sort", "said"),
    [
        ([RETRYING, NONE, NO_MATCH], InconclusiveError, "pip cannot reach its package index"),
        ([UNKNOWN, NO_MATCH], InputError, "there is no such version; the newest there are: 0.7.2, 0.7.3"),
        ([RETRYING, UNKNOWN, NO_MATCH], InputError, "the newest there are: 0.7.2, 0.7.3"),
        ([NONE, NO_MATCH], InconclusiveError, "out of reach, or has none for this Python"),
        (["Collecting torch", FULL], InconclusiveError, "no space left on the disk"),
        (["Collecting torch", "ERROR: Invalid requirement: 'torch='"], InconclusiveError, "said: Invalid requirement"),
        (["Killed"], InconclusiveError, "said: Killed"),
        ([], InconclusiveError, "said: nothing"),
    ],
)
def test_failures(tmp_path: Path, lines: list[str], sort: type[Exception], said: str) -> None:
    error = failure(lines, "vllm==0.0.99", tmp_path / "scratch")
    assert isinstance(error, sort)
    assert said in str(error)
    assert "\n" not in str(error)


def test_the_versions_that_there_are() -> None:
    assert versions_offered(UNKNOWN) == ["0.7.2", "0.7.3"]
    assert versions_offered(NONE) == versions_offered("") == []


def test_a_pip_that_fails_is_waited_for_and_quoted(tmp_path: Path) -> None:
    with pytest.raises(InconclusiveError, match="trying: pip failed, and said: unknown command"):
        run_pip(Path(sys.executable), ["no-such-command"], "trying", tmp_path / "scratch", progress=str)
