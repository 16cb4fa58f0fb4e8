"""From the text of a unit to a library with kernels: nvcc, or a C++ compiler for kernels that are emulated on a CPU."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from cacheproof.foundation.cache_folder import cache_folder
from cacheproof.foundation.errors import InconclusiveError, InputError, NoCompilerError
from cacheproof.foundation.locks import locked_file
from cacheproof.search.native import build as native
from cacheproof.search.native.unit import HEADERS

HERE = Path(__file__).parent
OWN_HEADERS = ("device_memory.hpp", "emulated.hpp", "kernels.hpp", "driver.hpp")
FLAGS = (
    "-std=c++20",
    "-O3",
    "-maxrregcount=128",
    "-w",
)
SHARED = ("-cudart", "static", "-cudadevrt", "none", "-Xcompiler", "-fPIC", "-shared")
EMULATED_FLAGS = ("-x", "c++", "-O1", *native.COMMON)
MAJOR, MINOR = 75, 76
"""The numbers by which the driver knows the two parts of the compute capability (`CUdevice_attribute`)."""

NO_DEVICE = "there is no CUDA device on this machine"
NO_NVCC = "there is no nvcc on this machine: install the CUDA toolkit or `nvidia-cuda-nvcc`, or name nvcc in NVCC"


ENTRY = re.compile(r"Compiling entry function '_ZN2cp\d+(\w+?)E\w+' for '(\w+)'")
NUMBERS = {
    "stack_bytes": re.compile(r"(\d+) bytes stack frame"),
    "spilled_bytes": re.compile(r"(\d+) bytes spill stores"),
    "registers": re.compile(r"Used (\d+) registers"),
    "shared_bytes": re.compile(r"(\d+) bytes smem"),
}
"""Where ptxas says what a kernel uses."""


class Usage(NamedTuple):
    """What a kernel uses on an architecture, as ptxas says it."""

    kernel: str
    architecture: str
    registers: int
    stack_bytes: int
    """Of the kernel's own frame; the frames of called functions come on top."""
    spilled_bytes: int
    shared_bytes: int


class NoDeviceError(InputError):
    """There is no CUDA device, or nothing that compiles for it."""


@cache
def architecture() -> str | None:
    """The architecture of the first CUDA device, as `sm_90`; None without a device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count, device, part = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return None
    driver.cuDeviceGet(ctypes.byref(device), 0)
    parts = []
    for which in (MAJOR, MINOR):
        driver.cuDeviceGetAttribute(ctypes.byref(part), which, device)
        parts.append(part.value)
    return "sm_" + "".join(map(str, parts))


def nvcc() -> str | None:
    """Where nvcc is: `NVCC`, the path, the usual folder of the toolkit, or its Python package."""
    named = os.environ.get("NVCC")
    if named:
        return named
    found = shutil.which("nvcc")
    if found:
        return found
    packages = Path(sysconfig.get_paths()["platlib"]) / "nvidia"
    for path in (Path("/usr/local/cuda/bin/nvcc"), *sorted(packages.glob("*/bin/nvcc"))):
        if path.exists():
            return str(path)
    return None


def missing() -> str | None:
    """Why nothing can be compiled and run on a device here, or None."""
    if architecture() is None:
        return NO_DEVICE
    return NO_NVCC if nvcc() is None else None


def ready(text: str, name: str, *, emulated: bool = False, seconds: float | None = None) -> Path:
    """The file of a unit's library, compiled if that was not done before, in at most so many `seconds`.

    Raises NoDeviceError and InputError; and InconclusiveError if the time is over.
    """
    command = _emulating() if emulated else _compiling()
    headers = [native.HERE / header for header in HEADERS] + [HERE / header for header in OWN_HEADERS]
    options = [word for word in command[1:] if not word.startswith("-L")]
    made_of = [text, *(header.read_text(encoding="utf-8") for header in headers), *options]
    made_of.append(native.version_of(command[0]))
    digest = blake2b("\0".join(made_of).encode(), digest_size=12).hexdigest()
    folder = cache_folder() / "cuda"
    kept = folder / f"{name}-{digest}.so"
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with locked_file(kept.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=folder) as scratch:
            if not kept.exists():
                _compile(command, text, Path(scratch), kept, seconds)
    return kept


def _emulating() -> list[str]:
    found = native.compiler_of_this_machine()
    if found is None:
        raise NoCompilerError(native.NONE)
    return [*found, *EMULATED_FLAGS]


def _compiling() -> list[str]:
    """The libraries of nvcc's Python package are where nvcc itself does not look."""
    reason, target, compiler = missing(), architecture(), nvcc()
    if reason is not None or target is None or compiler is None:
        raise NoDeviceError(reason or NO_DEVICE)
    libraries = Path(compiler).resolve().parent.parent / "lib"
    return [compiler, *FLAGS, *SHARED, f"-arch={target}", f"-L{libraries}", "-x", "cu"]


def _compile(command: list[str], text: str, scratch: Path, kept: Path, seconds: float | None) -> None:
    """Compile in a folder of its own, and move the library to its place when it is whole."""
    source, made = scratch / "unit.cu", scratch / "unit.so"
    source.write_text(text, encoding="utf-8")
    try:
        run = subprocess.run(  # noqa: S603  # the user's compiler
            [*command, f"-I{HERE}", f"-I{native.HERE}", str(source), "-o", str(made)],
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise InconclusiveError(f"{command[0]} was not done within {seconds:.0f} seconds") from None
    if run.returncode < 0:
        raise InconclusiveError(f"{command[0]} was ended by a signal: the specification is not compiled")
    if run.returncode:
        shown = kept.with_suffix(".cu")
        shutil.copy(source, shown)
        said = run.stderr + run.stdout
        first = next((line for line in said.splitlines() if "error" in line), said[:300])
        raise InputError(f"{command[0]} refuses the compiled specification ({shown}): {first}")
    made.replace(kept)


def usage(text: str, target: str) -> list[Usage]:
    """What each kernel of a unit uses on an architecture such as `sm_80`. It needs nvcc and no device.

    Raises NoDeviceError without nvcc, and InputError if it refuses the unit.
    """
    compiler = nvcc()
    if compiler is None:
        raise NoDeviceError(NO_NVCC)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "unit.cu"
        source.write_text(text, encoding="utf-8")
        words = ["-Xptxas", "-v", "-cubin", f"-arch={target}", f"-I{HERE}", f"-I{native.HERE}"]
        run = subprocess.run(  # noqa: S603  # the user's compiler
            [compiler, *FLAGS, *words, str(source), "-o", str(Path(folder) / "unit.cubin")],
            capture_output=True,
            text=True,
            check=False,
        )
    said = run.stderr + run.stdout
    if run.returncode:
        first = next((line for line in said.splitlines() if "error" in line), said[:300])
        raise InputError(f"{compiler} refuses the compiled specification for {target}: {first}")
    return list(_usages(said))


def _usages(said: str) -> Iterator[Usage]:
    """The part for a kernel begins where it is named, and has its own frame first."""
    starts = list(ENTRY.finditer(said))
    for start, end in zip(starts, [*(one.start() for one in starts[1:]), len(said)], strict=True):
        part = said[start.start() : end]
        own = part[part.index(f"{start[1]}E", len(start[0])) :]
        found = {name: pattern.search(own) for name, pattern in NUMBERS.items()}
        yield Usage(start[1], start[2], **{name: int(number[1]) if number else 0 for name, number in found.items()})
