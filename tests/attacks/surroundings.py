"""Shared memory and the store of past runs are full or cannot be written: no verdict is lost, and no process is killed.

The calls run in a mount namespace of their own, in which these folders are small or read-only.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.attacks.attack import PROGRAM, Attack, Ended, FellShortError, Program, called
from tests.impl.test_full_shared_memory import AGAIN_AND_AGAIN, call_of

CALLS = (
    ("check", "lru", "--scope", "pins", "--jobs", "1"),
    ("check", "lru", "--scope", "pins", "--variant", "M3", "--jobs", "1"),
    ("fuzz", "lru", "--target", "spec:M2", "--steps", "300", "--driver", "lockstep"),
    ("fuzz", "lru", "--target", "spec:normative", "--steps", "200", "--driver", "lockstep"),
    ("catalogue", "C-LRU-1", "--jobs", "1"),
    ("mutants", "lru", "--sample", "2", "--jobs", "1"),
    ("prove", "ring", "--jobs", "1"),
    ("stalls", "spec:normative", "--steps", "200"),
    ("explore", "lru", "--variant", "M2", "--configurations", "3", "--states", "500", "--jobs", "1"),
    ("replay", "--shipped"),
    ("status",),
)
"""Verbs that keep what they find, with and without a finding."""
PAGES = (0, 1, 2, 3, 5, 8, 13)
"""Pages that the store may take before it is full."""


def in_namespace(script: str) -> list[str]:
    """What a shell does before the call in a mount namespace of its own."""
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    return [*namespace, "sh", "-c", f'{script} && exec "$@"', "sh"]


@cache
def obstacle() -> str:
    """Why there is no such namespace here; empty if there is."""
    if shutil.which("unshare") is None:
        return "there is no unshare"
    call = [*in_namespace("mount -t tmpfs tmpfs /mnt"), "true"]
    return subprocess.run(call, capture_output=True, text=True, check=False).stderr.strip()[-200:]


def trial(source: random.Random, folder: Path) -> str:
    """Shared memory, or the store."""
    return of_shared_memory(source) if source.random() < 0.3 else of_the_store(source, folder, PROGRAM)


def of_shared_memory(source: random.Random) -> str:
    """Rings are made and refused at random in 4 MiB."""
    call = call_of(AGAIN_AND_AGAIN, str(source.randrange(1 << 32)))
    ended = subprocess.run(call, capture_output=True, text=True, check=False, timeout=300)
    if (ended.returncode, ended.stdout) != (0, "True 0 []\n"):
        raise FellShortError(f"full shared memory: status {ended.returncode}: {ended.stdout} {ended.stderr[-400:]}")
    return "rings in full shared memory"


def of_the_store(source: random.Random, folder: Path, program: Program) -> str:
    """A verb has the status and the verdict that it has with a good store."""
    call = (*source.choice(CALLS), "--json")
    good = called(program, seeded(call), folder)
    broken, how = folder / "broken", source.choice(("full", "read-only", "a file", "no folder"))
    broken.mkdir()
    prefix: list[str] = []
    if how == "full":
        prefix = in_namespace(f"mount -t tmpfs -o size={source.choice(PAGES) + 1}p tmpfs {broken}")
    elif how == "read-only":
        prefix = in_namespace(f"mount -t tmpfs -o ro tmpfs {broken}")
    elif how == "a file":
        (broken / "home").write_text("")
    else:
        broken.rmdir()
        broken.symlink_to(folder / "nowhere" / "at all")
    ended = called((*prefix, *program), seeded(call), folder, CACHEPROOF_HOME=str(broken / "home"))
    ended.checked(good.checked(0, 1, 3).status)
    same_verdict(good, ended)
    return f"{call[0]}, {how}"


def seeded(call: tuple[str, ...]) -> tuple[str, ...]:
    """The same choices every time."""
    return (*call, "--seed", "1") if call[0] in ("explore", "fuzz", "mutants", "stalls") else call


def same_verdict(good: Ended, ended: Ended) -> None:
    """Both print one JSON value, with the same `ok`."""
    try:
        verdicts = [json.loads(one.out)["ok"] for one in (good, ended)]
    except (ValueError, KeyError) as error:
        raise FellShortError(f"{ended.said()}: no verdict in {ended.out[-200:]!r} ({error})") from error
    if verdicts[0] != verdicts[1]:
        raise FellShortError(f"{ended.said()}: the verdict is {verdicts[1]}, and {verdicts[0]} with a good store")


ATTACK = Attack("surroundings", "full shared memory, and a store that cannot be written", trial, obstacle)
