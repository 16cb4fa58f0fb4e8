"""Hostile files for every parameter that names a file to read, under a memory limit of 2 GiB.

The parameters come from the verbs' own signatures: a test fails if one is missing here. A call may refuse the file or
do its work; it ends by itself, with a status of its own, without a traceback.
"""

from __future__ import annotations

import atexit
import gzip
import io
import json
import random
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple, get_args, get_type_hints

from tests.attacks.attack import PROGRAM, Attack, Program, called, environment_in
from tests.proofs.validate.logs import header_for, log_of, walked

import cacheproof
from cacheproof.command.frame import verbs
from cacheproof.search.checkpoint import MANIFEST

LIMIT_BYTES = 2 << 30
UNDER_A_LIMIT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
from cacheproof.command import main
main(sys.argv[2:])
"""
LIMITED: Program = (sys.executable, "-c", UNDER_A_LIMIT, str(LIMIT_BYTES))
PACKAGE = Path(cacheproof.__file__).parent
TESTS = Path(__file__).parents[1]

# Right files, which are then spoilt ----------------------------------------------------------------------------------


def trace(folder: Path) -> Path:
    """A slice of a recorded workload."""
    return copied(PACKAGE / "replay/data/mooncake_slice.jsonl.gz", folder)


def log(folder: Path) -> Path:
    """A log of a random run."""
    header = header_for("lru")
    return written(folder / "log.ndjson", log_of(header, walked(header, 60, 1)))


def vectors(folder: Path) -> Path:
    """Released vectors of a component."""
    (folder / "vectors").mkdir()
    return copied(min((PACKAGE / "vectors/released").glob("lru.*")), folder / "vectors")


def shown(folder: Path) -> Path:
    """A trace as `show` writes it."""
    return copied(prepared() / "shown.json", folder)


def stored_run(folder: Path) -> Path:
    """A run in the store."""
    shutil.copytree(prepared() / "home", folder / "home", dirs_exist_ok=True)
    return min((folder / "home/runs").rglob("*.json"))


def manifest(folder: Path) -> Path:
    """What a checkpoint says of itself."""
    return checkpoint(folder).parent / MANIFEST


def checkpoint(folder: Path) -> Path:
    """The progress of an exploration: its largest file."""
    shutil.copytree(checkpointed() / "kept", folder / "kept")
    files = [path for path in (folder / "kept").rglob("*") if path.is_file()]
    return max(files, key=lambda path: (path.stat().st_size, path.name))


def scope_file(folder: Path) -> Path:
    """The scopes of the toy component."""
    copied(TESTS / "quality/toy/shelf.py", folder)
    return copied(TESTS / "quality/toy/shelf.toml", folder)


def ledger(folder: Path) -> Path:
    """The ledger of mutants that may survive."""
    return copied(PACKAGE / "mutants/survivors.toml", folder)


def page(folder: Path) -> Path:
    """A page of the book."""
    return written(folder / "page.md", b"# A page\n\n<!-- properties: lru -->\n\n| old |\n\n<!-- end -->\n\nText.\n")


def device_result(folder: Path) -> Path:
    """Results of a device."""
    known = {"version": "0.2.0", "device": "cpu", "small": True, "seed": 1, "checks": [], "machine": {"device": "cpu"}}
    return written(folder / "device.json", json.dumps(known).encode())


def recording(folder: Path) -> Path:
    """What the recorder writes in a running engine."""
    settings = {"format": "cacheproof-recorded-events", "version": "0.1", "component": "encoder_cache", "capacity": 4}
    request = {"request": "a", "items": [["picture", 2], ["another", 1]]}
    looked = {"op": "check_and_update", "request": "a", "input": 0, "code": "miss", "shown": {}}
    taken = {"op": "allocate", "request": "a", "input": 0, "code": "done", "values": []}
    lines = [settings, request, looked, taken]
    (folder / "recordings").mkdir()
    return written(
        folder / "recordings/encoder_cache.1.0.events", b"".join(json.dumps(x).encode() + b"\n" for x in lines)
    )


def answers(folder: Path) -> Path:
    """What a child process says: one line for each that it hears."""
    written(folder / "child", b'while read -r line && read -r answer <&3; do printf "%s\\n" "$answer"; done 3<"$1"\n')
    said = [{"answer": "hello", "protocol": "1.0", "component": "lru"}, {"answer": "ready", "observations": {}}]
    return written(folder / "answers", b"".join(json.dumps(line).encode() + b"\n" for line in said * 20))


def archive(folder: Path) -> Path:
    """A wheel that is none."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        wheel.writestr("vllm-0.33.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    return written(folder / "vllm-0.33.0-py3-none-any.whl", packed.getvalue())


def copied(path: Path, folder: Path) -> Path:
    """A copy in this folder."""
    return Path(shutil.copy(path, folder))


def written(path: Path, content: bytes) -> Path:
    """A new file."""
    path.write_bytes(content)
    return path


def kept_until_the_end() -> Path:
    """A new folder, which goes with this process."""
    folder = mkdtemp(prefix="cacheproof-attack-right-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@cache
def prepared() -> Path:
    """A folder with a store of runs and a trace."""
    folder = kept_until_the_end()
    called(PROGRAM, ("check", "lru", "--scope", "pins", "--jobs", "1"), folder).checked(0)
    shown = called(PROGRAM, ("show", "C-LRU-1", "--format", "json"), folder).checked(0)
    (folder / "shown.json").write_text(shown.out)
    return folder


@cache
def checkpointed() -> Path:
    """A folder with the checkpoint of an exploration that was killed."""
    folder = kept_until_the_end()
    call = (*PROGRAM, "check", "mirror", "--scope", "all-faults", "--checkpoint", "kept", "--jobs", "1")
    with subprocess.Popen(
        call, cwd=folder, env=environment_in(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None and not any(path.is_file() for path in (folder / "kept").rglob("*")):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    return folder


# The parameters -----------------------------------------------------------------------------------------------------


class Reader(NamedTuple):
    """A parameter that names a file to read: a call with it, and what makes a right file."""

    verb: str
    parameter: str
    call: tuple[str, ...]
    right: Callable[[Path], Path]
    given: bool = False
    """The file comes on standard input."""


RESUMED = ("mirror", "--scope", "all-faults", "--jobs", "1")
KV = ("--component", "kv_blocks", "--capacity", "10")
READERS = (
    Reader("replay", "traces", ("{file}", *KV), trace),
    Reader("validate", "file", ("{file}",), log),
    Reader("validate", "file", ("-",), log, given=True),
    Reader("consume", "vectors", ("{file}", "--target", "spec:normative"), vectors),
    Reader("consume", "vectors", ("{folder}/vectors", "--target", "spec:normative"), vectors),
    Reader("show", "what", ("{file}",), shown),
    Reader("show", "what", ("C-LRU-1",), stored_run),
    Reader("status", "store", (), stored_run),
    Reader("check", "store", ("lru", "--scope", "pins", "--jobs", "1"), stored_run),
    Reader("check", "checkpoint", (*RESUMED, "--checkpoint", "{folder}/kept", "--resume"), checkpoint),
    Reader("check", "checkpoint", (*RESUMED, "--checkpoint", "{folder}/kept", "--resume"), manifest),
    Reader("check", "scope file", ("shelf", "--jobs", "1"), scope_file),
    Reader("list", "scope file", ("shelf",), scope_file),
    Reader("mutants", "survivors", ("lru", "--sample", "1", "--jobs", "1", "--survivors", "{file}"), ledger),
    Reader("fill", "output", ("lru", "--check", "--scope", "pins", "--output", "{folder}/vectors"), vectors),
    Reader("book", "paths", ("--check", "{file}"), page),
    Reader(
        "device",
        "output",
        ("components", "--device", "cpu", "--output", "{file}", "--resume", "--small"),
        device_result,
    ),
    Reader("record", "folder", ("{folder}/recordings",), recording),
    Reader("target", "name", ("add", "vllm@{file}"), archive),
    Reader("fuzz", "target", ("lru", "--target", "exec:sh {folder}/child {file}", "--steps", "20"), answers),
    Reader("consume", "target", ("lru", "--target", "exec:sh {folder}/child {file}"), answers),
    Reader("serve", "standard input", (), answers, given=True),
)
WRITTEN = frozenset(
    {
        *(
            "check.junit",
            "fuzz.junit",
            "fuzz.write",
            "replay.junit",
            "validate.junit",
            "consume.junit",
            "consume.write",
        ),
        *("show.output", "stalls.junit", "conform.summary", "conform.junit", "planted.junit", "reproduce.written"),
        *(
            "bench.plot",
            "catalogue.junit",
            "detection.junit",
            "explore.junit",
            "mutants.junit",
            "prove.junit",
            "regions.junit",
        ),
        "init.folder",
    }
)
"""Parameters that name what is written, and is not read."""


def parameters() -> Iterator[str]:
    """Every parameter of every verb that names a path."""
    for verb, module in verbs().items():
        for name, kind in get_type_hints(import_module(module).command).items():
            if name != "return" and Path in (kind, *get_args(kind), *(b for a in get_args(kind) for b in get_args(a))):
                yield f"{verb}.{name}"


# What is done to a right file ---------------------------------------------------------------------------------------

PIECES = (
    *(b"null", b"-1", b"1e999", b"NaN", b"[]", b"{}", b'""', b"true", b"0.5", b"9" * 5000, b"9223372036854775808"),
    *(b'"\\ud800"', b"\xff\xfe", b"\x00", b"[" * 200_000, b'{"a":' * 50_000, b"inf", b"999999999999"),
)
"""What stands in the place of a number, a text or a list."""


def spoilt(source: random.Random, content: bytes) -> bytes:
    """Other bytes, other values, fewer lines or more, or something else altogether."""
    how = source.randrange(8)
    if how == 0:
        return source.choice((b"", b"\x00" * 100, source.randbytes(5000), b"[" * 1_000_000, b"\n" * 100_000, b"{" * 9))
    if how == 1:
        return content[: source.randrange(len(content) + 1)]
    if how == 2:
        lines = content.splitlines(keepends=True)
        source.shuffle(lines)
        return b"".join(lines[: source.randrange(len(lines) + 1)] * source.choice((1, 1, 2, 50)))
    changed = bytearray(content)
    for _ in range(source.choice((1, 1, 2, 5, 30))):
        begin = source.randrange(len(changed) + 1)
        if how < 6:
            begin, end = value_near(source, bytes(changed))
            changed[begin:end] = source.choice(PIECES)
        else:
            changed[begin : begin + source.randrange(9)] = source.randbytes(source.randrange(6))
    return bytes(changed)


def value_near(source: random.Random, content: bytes) -> tuple[int, int]:
    """Where a random value of a text begins and ends: a number, or what is between quotation marks."""
    at = source.randrange(len(content) + 1)
    begin = next((place for place in range(at, len(content)) if content[place : place + 1] in b'0123456789"'), at)
    if content[begin : begin + 1] == b'"':
        end = content.find(b'"', begin + 1)
        return begin, end + 1 if end >= 0 else begin
    end = begin
    while end < len(content) and content[end : end + 1] in b"0123456789.":
        end += 1
    return begin, end


def hostile(source: random.Random, path: Path) -> str:
    """Put a spoilt file, or no file at all, in the place of a right one."""
    how = source.random()
    if how < 0.06:
        path.unlink()
        if how < 0.02:
            path.mkdir()
        else:
            path.symlink_to(source.choice(("/dev/zero", "/dev/null", "/proc/self/mem", path.name, "/nowhere/at/all")))
        return "no regular file"
    content, packed = path.read_bytes(), path.suffix == ".gz"
    if packed and source.random() < 0.7:
        content = spoilt(source, gzip.decompress(content)[:200_000])
        if source.random() < 0.1:
            content += b" " * (3 << 29)
        path.write_bytes(gzip.compress(content, 1))
    else:
        path.write_bytes(spoilt(source, content))
    return "spoilt"


def trial(source: random.Random, folder: Path) -> str:
    """A verb reads a hostile file."""
    return read(LIMITED, source.choice(READERS), source, folder)


def read(program: Program, reader: Reader, source: random.Random, folder: Path) -> str:
    """The verb reads one that is made from a right file."""
    path = reader.right(folder)
    what = hostile(source, path)
    call = (reader.verb, *(part.format(file=path, folder=folder) for part in reader.call))
    given = path.read_bytes() if reader.given and path.is_file() and not path.is_symlink() else b""
    called(program, call, folder, given=given, CACHEPROOF_PATH=str(folder)).checked(0, 1, 2, 3)
    return f"{reader.verb} {reader.parameter}, {what}"


ATTACK = Attack("files", "hostile files under 2 GiB, for every verb that reads one", trial)
