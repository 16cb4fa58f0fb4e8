"""The example of the README, as it stands there: what it says on the device is what it says on the CPU."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path

import torch

from cacheproof.device.listing import Asked, DifferenceError, Found
from cacheproof.device.tensor.comparing import other_side
from cacheproof.foundation.console import Show

ROOT = Path(__file__).parents[4]
README = ROOT / "README.md"
BLOCK = re.compile(r"^```python\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "cacheimpl.kv_blocks"
TIME = re.compile(r"[0-9.,]+ (?:ms|us|s)\b")


def readme(asked: Asked, found: Found, show: Show) -> None:
    """Served twice: here, and on the CPU. All that is printed is compared but times."""
    if not README.is_file():
        found.leave_out("example", "there is no README beside the package: run it from a checkout")
        return
    text = block(README.read_text(encoding="utf-8"))
    show("example: on the CPU")
    wanted = said(text, "cpu", contextlib.nullcontext())
    show(f"example: on {asked.device}")
    ours = said(text, asked.device, other_side(asked))
    if untimed(ours) != untimed(wanted):
        raise DifferenceError(f"it says '{ours.strip()}', and on the CPU '{wanted.strip()}'")
    if not re.search(r"\d", wanted):
        raise DifferenceError("it says no figure")
    found.count("runs", 2)
    found.figures.append({"name": "example", "says": ours.strip(), "device": asked.device})


def block(text: str) -> str:
    """The block of Python that serves with the implementation."""
    bodies = [one["body"] for one in BLOCK.finditer(text) if MARK in one["body"]]
    if not bodies:
        raise DifferenceError(f"{README.name} has no example with {MARK}")
    return bodies[0]


def said(text: str, device: str, side: contextlib.AbstractContextManager[object]) -> str:
    """What it prints, with new tensors on the device."""
    torch.set_num_threads(1)
    output = io.StringIO()
    with in_folder(ROOT), contextlib.redirect_stdout(output), torch.device(device), side:
        exec(compile(text, str(README), "exec"), {"__name__": "example"})  # noqa: S102  # our own page
    return output.getvalue()


def untimed(said: str) -> str:
    """Without what is different each time."""
    return TIME.sub("", said)


@contextlib.contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    """The example names files of the checkout."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
