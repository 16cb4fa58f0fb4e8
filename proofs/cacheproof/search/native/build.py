"""From the text of a unit to a library that is loaded; the user's cache folder keeps it by what it is made of."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

from cacheproof.foundation.cache_folder import cache_folder
from cacheproof.foundation.errors import InconclusiveError, InputError, NoCompilerError
from cacheproof.foundation.locks import locked_file
from cacheproof.foundation.workers import BETWEEN_LOOKS, raise_if_stopped
from cacheproof.search.native.unit import HEADERS

HERE = Path(__file__).parent
COMMON = ("-std=c++17", "-w", "-fPIC", "-shared", "-fno-strict-aliasing", "-fno-plt", "-pthread")
QUICK, THOROUGH, TRAINED = "-O1", "-O3", "-trained"
"""How the compiler optimises. Each way takes longer to compile than the one before, and mostly less long to run.

For a trained library it compiles thoroughly twice. The first library counts what runs in some explorations; with these
counts the compiler knows what is usual.
"""
WAYS = (QUICK, THOROUGH, TRAINED)
COUNTING = ("-fprofile-generate", "-DCP_COUNTING")
COUNTED = ("-fprofile-use", "-fprofile-partial-training")
"""What counts, and what uses the counts. Partial training: what never ran is optimised as if nothing was counted."""
NATIVE = "-march=native"
"""The instructions of this machine's processor. A library with them is used on such processors only."""
PROCESSOR = ("vendor_id", "cpu family", "model", "model name", "flags", "CPU implementer", "CPU part", "Features")
"""The lines of /proc/cpuinfo that say which instructions a processor has."""


NONE = (
    "there is no C++ compiler on this machine: install g++, clang++ or the Python package ziglang, or name one in CXX"
)


def compiler_of_this_machine() -> list[str] | None:
    """How the C++ compiler is called: `CXX`, else g++, clang++ or the package ziglang; None without one."""
    named = os.environ.get("CXX")
    if named:
        return named.split()
    for name in ("g++", "clang++"):
        found = shutil.which(name)
        if found:
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "c++"]
    return None


@cache
def version_of(*command: str) -> str:
    """What a compiler says of itself."""
    asked = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)  # noqa: S603  # the user's compiler
    return asked.stdout


@cache
def takes(command: tuple[str, ...], *options: str) -> bool:
    """Whether a compiler has these options."""
    tried = subprocess.run(  # noqa: S603  # likewise
        [*command, *options, "-x", "c++", "-fsyntax-only", "-"], input="", capture_output=True, text=True, check=False
    )
    return tried.returncode == 0


def flags_for(*command: str) -> tuple[str, ...]:
    """The options of a compiler, without how it optimises."""
    return (*COMMON, NATIVE) if takes(command, NATIVE) else COMMON


def attainable(optimised: str, *command: str) -> str:
    """How a compiler optimises if it is asked to optimise in this way. Only gcc has what training needs."""
    return THOROUGH if optimised == TRAINED and not takes(command, *COUNTED) else optimised


@cache
def processor() -> str:
    """What decides for which machines a library is compiled."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n", 1)[0].splitlines()
    except OSError:
        lines = []
    known = [line for line in lines if line.partition(":")[0].strip() in PROCESSOR]
    return "\n".join([platform.machine(), platform.processor(), *known])


class RefusedError(InputError):
    """The C++ compiler refuses a unit. `lines` are those of the unit that it names."""

    def __init__(self, about: str, lines: tuple[int, ...]) -> None:
        super().__init__(about)
        self.lines = lines


def ready(
    text: str,
    name: str,
    folder: Path | None = None,
    optimised: str = QUICK,
    more: tuple[str, ...] = (),
    headers: tuple[str, ...] = HEADERS,
    train: Callable[[Path], None] | None = None,
) -> Path:
    """The file of a unit's library, which is there then, in the folder of the cache or in another one.

    `optimised` is one of `WAYS`, or another option of the compiler for that. A kept library that was compiled in a
    better way serves, too. `TRAINED` needs `train`, which uses the library of a file that counts, and has its counts
    written. `more` are further options, and `headers` those that the unit includes. Raises NoCompilerError,
    RefusedError and InconclusiveError.
    """
    command = compiler_of_this_machine()
    if command is None:
        raise NoCompilerError(NONE)
    optimised = attainable(optimised, *command)
    kept = kept_at(text, name, folder, optimised, more, headers)
    assert kept is not None
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with locked_file(kept.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
            if not kept.exists():
                call = [*command, THOROUGH if optimised == TRAINED else optimised, *flags_for(*command), *more]
                if optimised == TRAINED:
                    assert train is not None, "what is trained needs an exercise"
                    counting = _compile([*call, *COUNTING], text, Path(scratch), kept)
                    train(counting)
                    counting.unlink()
                    call += COUNTED
                _compile(call, text, Path(scratch), kept).replace(kept)
    return kept


def kept_at(
    text: str,
    name: str,
    folder: Path | None = None,
    optimised: str = QUICK,
    more: tuple[str, ...] = (),
    headers: tuple[str, ...] = HEADERS,
) -> Path | None:
    """Where a unit's library is kept, if it was made; None without a compiler. Arguments as of `ready`."""
    command = compiler_of_this_machine()
    if command is None:
        return None
    flags = (*flags_for(*command), *more)
    folder, whole_name = folder or cache_folder() / "native", f"{name}-{_digest(text, command, flags, headers)}"
    better = WAYS[: WAYS.index(optimised) : -1] if optimised in WAYS else ()
    places = [folder / f"{whole_name}{way}.so" for way in (*better, optimised)]
    return next((place for place in places if place.exists()), places[-1])


def _digest(text: str, command: list[str], flags: tuple[str, ...], headers: tuple[str, ...]) -> str:
    """What a library is made of, in short. How it is optimised has no effect on its results."""
    included = [(HERE / header).read_text(encoding="utf-8") for header in headers]
    made_of = [text, *included, *flags, version_of(*command), processor()]
    return blake2b("\0".join(made_of).encode(), digest_size=12).hexdigest()


def _compile(command: list[str], text: str, scratch: Path, kept: Path) -> Path:
    """Compile in a folder of its own; the library is to be moved from there when it is whole."""
    source, made = scratch / "unit.cpp", scratch / "unit.so"
    source.write_text(text, encoding="utf-8")
    run = ended([*command, f"-I{HERE}", str(source), "-o", str(made)])
    if run.returncode < 0 or "signal terminated program" in run.stderr:
        raise InconclusiveError(f"{command[0]} was ended by a signal: the specification is not compiled")
    if run.returncode:
        shown = kept.with_suffix(".cpp")
        shutil.copy(source, shown)
        first = next((line for line in run.stderr.splitlines() if "error" in line), run.stderr[:300])
        lines = tuple(int(line) for line in re.findall(r"unit\.cpp:(\d+)", run.stderr))
        raise RefusedError(f"{command[0]} refuses the compiled specification ({shown}): {first}", lines)
    return made


def ended(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a compiler to its end. If the user ends the run, the compiler is killed, and KeyboardInterrupt is raised."""
    output = subprocess.PIPE
    # A compiler starts others, which are in its group.
    with subprocess.Popen(command, stdout=output, stderr=output, text=True, process_group=0) as process:  # noqa: S603  # the user's
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    out, err = process.communicate(timeout=BETWEEN_LOOKS)
                    return subprocess.CompletedProcess(command, process.returncode, out, err)
                raise_if_stopped()
        except BaseException:
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(process.pid, signal.SIGKILL)
            raise
