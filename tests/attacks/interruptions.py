"""SIGINT and SIGTERM at random moments of every long verb.

The status is 3, or that of a run that was over. There is no traceback, what is known is printed, and the store can be
read afterwards.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.attacks.attack import PROGRAM, SECONDS_TO_END, Attack, Ended, FellShortError, Program, called, environment_in

EXAMPLES = Path(__file__).parents[1] / "examples"
LONG = (
    ("check", "lru", "--jobs", "1"),
    ("check", "mirror", "--jobs", "2"),
    ("check", "lru", "--checkpoint", "kept", "--jobs", "1"),
    ("check", "mirror", "--scope", "all-faults", "--split", "2"),
    ("check", "lru", "--engine", "tensor", "--jobs", "1"),
    ("fuzz", "lru", "--target", "spec:normative", "--driver", "lockstep", "--seconds", "60"),
    ("fuzz", "lru", "--target", "spec:normative", "--seconds", "60"),
    ("fuzz", "lru", "--target", "spec:M2", "--seconds", "60"),
    ("fuzz", "lru", "--target", "exec:{python} -m cacheproof serve", "--seconds", "60"),
    ("fuzz", "kv_blocks", "--target", "spec:normative", "--macros", "--seconds", "60"),
    ("fit", "lru", "--target", "spec:M2", "--seconds", "60"),
    ("stalls", "spec:normative", "--seconds", "60"),
    ("explore", "lru", "ring", "--jobs", "2"),
    ("catalogue", "--everywhere", "--jobs", "2"),
    ("prove", "ring", "--jobs", "2"),
    ("mutants", "lru", "--jobs", "2"),
    ("replay", "--shipped"),
    ("consume", "lru", "--target", "spec:normative"),
    ("fill", "lru", "--output", "vectors"),
    ("conform", "exec:{python} {examples}/prefix_cache/page_tree_child.py", "--steps", "20000"),
)
LONGEST_WAIT = 8.0
"""Seconds until the signal comes, at most."""
SECONDS_TO_START = 2.0
"""Python may take so long until the command line hears signals."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOTHING_KNOWN = "interrupted: nothing is known yet"


def trial(source: random.Random, folder: Path) -> str:
    """One verb, and one signal or two."""
    call = [part.format(python=sys.executable, examples=EXAMPLES) for part in source.choice(LONG)]
    return interrupted(PROGRAM, [*call, "--json"], source, folder)


def interrupted(program: Program, call: Sequence[str], source: random.Random, folder: Path) -> str:
    """The call gets a signal after a while, now and then a second one soon after it."""
    wait, number = LONGEST_WAIT * source.random() ** 2, source.choice(SIGNALS)
    twice, to_all = source.random() < 0.2, source.random() < 0.5
    with subprocess.Popen(
        (*program, *call),
        cwd=folder,
        env=environment_in(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        send = os.killpg if to_all else os.kill
        time.sleep(wait)
        over = process.poll() is not None
        if not over:
            send(process.pid, number)
            if twice:
                time.sleep(0.3 * source.random())
                if process.poll() is None:
                    send(process.pid, number)
        try:
            out, err = heard(process, number, again=wait < SECONDS_TO_START)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise FellShortError(
                f"cacheproof {' '.join(call)}: {number.name} after {wait:.2f} s is not heard"
            ) from None
    ended = Ended(call, process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))
    try:
        judged(ended, number, wait, twice=twice)
    except FellShortError as error:
        raise FellShortError(f"{error} ({number.name} after {wait:.2f} s{', twice' if twice else ''})") from error
    store_is_whole(program, folder)
    return f"{call[0]}, {number.name}{' after its end' if over else ''}"


def heard(process: subprocess.Popen[bytes], number: int, *, again: bool) -> tuple[bytes, bytes]:
    """What the process prints until its end. Raises TimeoutExpired.

    While Python starts it may lose a signal, in the callback by which `import` gives a lock back: it is sent `again`.
    """
    if again:
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=SECONDS_TO_END)
        process.send_signal(number)
    return process.communicate(timeout=SECONDS_TO_END)


def judged(ended: Ended, number: int, wait: float, *, twice: bool) -> None:
    """Until our own code runs, and at the second signal, Python may end the process in its own way."""
    starting = wait < SECONDS_TO_START and ended.out == "" and "cacheproof/command" not in ended.err
    if (ended.status == -number and twice) or (ended.status in (-number, 1) and starting):
        return
    ended.checked(0, 1, 3)
    if ended.out == "" and NOTHING_KNOWN in ended.err:
        return
    try:
        printed = json.loads(ended.out)
    except ValueError:
        raise FellShortError(f"{ended.said()}: it printed {ended.out[-200:]!r}") from None
    known = printed.get("interrupted") is True or printed.get("error", NOTHING_KNOWN) != NOTHING_KNOWN
    if ended.status == 3 and not known:
        raise FellShortError(f"{ended.said()}: status 3, and nothing says that it was interrupted")


def store_is_whole(program: Program, folder: Path) -> None:
    """All stored runs can be read."""
    called(program, ("status", "--json"), folder).checked(0, 1)


ATTACK = Attack("interruptions", "SIGINT and SIGTERM at random moments of long verbs", trial)
