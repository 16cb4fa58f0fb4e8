"""Runs that tested too little to be green, and the option that accepts them.

A verb takes `--allow-partial` by a parameter annotated `AllowPartialOption`. Its record has the reason under `partial`,
unless the user accepts such a run: `status` counts no run with a reason.
"""

from __future__ import annotations

from typing import Annotated

import typer

AllowPartialOption = Annotated[
    bool,
    typer.Option(
        "--allow-partial", help="Exit 0 although the run tested little. Without it, such a run exits 3: no answer."
    ),
]


def worded(reason: str) -> str:
    """The line of a report about a run that tested too little."""
    return f"no answer: {reason} (--allow-partial accepts this)"
