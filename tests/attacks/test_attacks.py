"""Each attack holds for a few trials, and a planted bug makes it fall short: so the nightly run can fail.

`python -m tests.attacks` makes many more trials (`make nightly-attacks`).
"""

from __future__ import annotations

import itertools
import random
import signal
import sys
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from tests.attacks import files, interruptions, kills, proxy, surroundings
from tests.attacks.attack import Attack, Ended, FellShortError, Program, attacked, called, repeated
from tests.impl import store_load
from tests.planting import Change, planted

from cacheimpl.mirror import MirrorSender
from cacheimpl.object_store import SingleWriterShmObjectStorage


def program(bug: str) -> Program:
    """`cacheproof` with a bug: the statements come before its command line."""
    return (sys.executable, "-c", f"import sys\n{bug}\nfrom cacheproof.command import main\nmain(sys.argv[1:])")


def reader(verb: str, parameter: str) -> files.Reader:
    return next(one for one in files.READERS if (one.verb, one.parameter) == (verb, parameter))


# The form -------------------------------------------------------------------------------------------------------------


def unlucky(source: random.Random, folder: Path) -> str:
    if source.random() < 0.5:
        raise FellShortError("no luck")
    return "luck"


UNLUCKY = Attack("unlucky", "a coin", unlucky)


def test_a_trial_is_repeated_by_its_seed() -> None:
    result = attacked(UNLUCKY, seed=3, seconds=0, trials=30)
    assert 0 < len(result.failures) < 30
    assert result.did["luck"] + len(result.failures) == result.trials == 30
    for trial, reason in result.failures:
        with pytest.raises(FellShortError, match=reason):
            repeated(UNLUCKY, trial)


def test_a_call_that_hangs_falls_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.attacks.attack.SECONDS_TO_END", 1.0)
    with pytest.raises(FellShortError, match="still at work"):
        called(program("import time; time.sleep(60)"), ("list",), tmp_path)


@pytest.mark.parametrize(
    ("status", "err"), [(-signal.SIGSEGV, ""), (1, "Traceback (most recent call last)"), (3, "a bug in cacheproof")]
)
def test_a_crash_and_a_traceback_fall_short(status: int, err: str) -> None:
    with pytest.raises(FellShortError):
        Ended(("list",), status, "", err).checked(0, 1, 2, 3)


# Files ----------------------------------------------------------------------------------------------------------------


def test_every_parameter_that_names_a_file_is_attacked_or_written() -> None:
    attacked_too = {f"{one.verb}.{one.parameter}" for one in files.READERS}
    assert files.WRITTEN <= set(files.parameters()) <= attacked_too | files.WRITTEN


def test_a_reader_without_care_falls_short(tmp_path: Path) -> None:
    """Planted: a log is parsed without an answer to what is no JSON."""
    bug = (
        "import json, pathlib\n"
        "import cacheproof.command.validate as verb\n"
        "def command(file: pathlib.Path) -> None:\n"
        "    for line in file.read_bytes().splitlines(): json.loads(line)\n"
        "verb.command = command"
    )
    with pytest.raises(FellShortError, match=r"a traceback|status 1"):
        files.read(program(bug), reader("validate", "file"), random.Random(2), tmp_path)


def test_a_reader_without_a_limit_falls_short(tmp_path: Path) -> None:
    """Planted: whatever is read takes three gigabytes, which `MemoryError` ends; here nothing catches it."""
    bug = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "import cacheproof.command.failures as failures\n"
        "failures._known = lambda error: None\n"
        "import cacheproof.command.list as verb\n"
        "def command() -> None: bytearray(3 << 30)\n"
        "verb.command = command"
    )
    with pytest.raises(FellShortError, match="MemoryError"):
        called(program(bug), ("list",), tmp_path).checked(0, 1, 2, 3)


@pytest.mark.parametrize("verb", ["validate", "status"])
def test_hostile_files_are_survived(verb: str, tmp_path: Path) -> None:
    chosen = next(one for one in files.READERS if one.verb == verb)
    files.read(files.LIMITED, chosen, random.Random(1), tmp_path)


# Surroundings ---------------------------------------------------------------------------------------------------------

CHECK = ("check", "lru", "--scope", "pins", "--jobs", "1", "--json")


def test_a_verdict_that_is_lost_with_the_store_falls_short(tmp_path: Path) -> None:
    """Planted: what cannot be stored is an error."""
    (tmp_path / "home").write_text("")
    good = Ended(CHECK, 0, '{"ok": true}', "")
    surroundings.same_verdict(good, called(program(""), CHECK, tmp_path).checked(0))
    bug = (
        "import cacheproof.model.store as store\n"
        "def unwritable(error: OSError) -> None: raise error\n"
        "store.announce = lambda text: (_ for _ in ()).throw(OSError(30, text))"
    )
    with pytest.raises(FellShortError):
        surroundings.same_verdict(good, called(program(bug), CHECK, tmp_path).checked(0))


def test_another_verdict_falls_short() -> None:
    with pytest.raises(FellShortError, match="the verdict is False"):
        surroundings.same_verdict(Ended(CHECK, 0, '{"ok": true}', ""), Ended(CHECK, 0, '{"ok": false}', ""))


# Interruptions --------------------------------------------------------------------------------------------------------

FUZZ = ("fuzz", "lru", "--target", "spec:normative", "--driver", "lockstep", "--seconds", "20", "--json")


class Chosen(random.Random):
    """SIGINT after a while, once, to the process alone."""

    def random(self) -> float:
        return 0.5

    def choice(self, given: object) -> object:  # type: ignore[override]  # of signals only
        return signal.SIGINT


def test_an_interruption_is_survived(tmp_path: Path) -> None:
    assert interruptions.interrupted(program(""), FUZZ, Chosen(), tmp_path) == "fuzz, SIGINT"


def test_an_interruption_that_is_not_heard_falls_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.attacks.interruptions.SECONDS_TO_END", 2.0)
    deaf = program("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
    with pytest.raises(FellShortError, match="is not heard"):
        interruptions.interrupted(deaf, FUZZ, Chosen(), tmp_path)


def test_an_interruption_that_is_a_traceback_falls_short(tmp_path: Path) -> None:
    raising = program(
        "import signal\ndef broken(n, f): raise RuntimeError('broken')\nsignal.signal(signal.SIGINT, broken)"
    )
    with pytest.raises(FellShortError, match="a traceback"):
        interruptions.interrupted(raising, FUZZ, Chosen(), tmp_path)


# Processes and the network --------------------------------------------------------------------------------------------


def test_a_mirror_with_a_bug_falls_short(tmp_path: Path) -> None:
    """Planted: P0 does not send again what got lost."""
    with planted(Change(MirrorSender.receive, "self._sent = 0", "pass")):
        result = attacked(proxy.ATTACK, seed=1, seconds=0, trials=8)
    assert result.failures


def test_a_store_that_reads_wrongly_falls_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a reader takes one item for another, now and then."""
    get, count = SingleWriterShmObjectStorage.get, itertools.count()

    def wrong(self: SingleWriterShmObjectStorage, *handle: Any) -> Any:
        found = get(self, *handle)
        return found if next(count) % 7 else {**found, "version": 0}

    monkeypatch.setattr(store_load, "PROCESSES", get_context("fork"))
    monkeypatch.setattr(kills, "KILLS", 3)
    assert kills.trial(random.Random(1), tmp_path) == "loads with 3 kills"
    monkeypatch.setattr(SingleWriterShmObjectStorage, "get", wrong)
    (tmp_path / "again").mkdir()
    with pytest.raises(FellShortError):
        kills.trial(random.Random(1), tmp_path / "again")
