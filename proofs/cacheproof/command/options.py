"""Options that several verbs take, each declared once. A verb takes one by a parameter with this annotation."""

from __future__ import annotations

from typing import Annotated

import typer

from cacheproof.foundation.seeds import LARGEST_SEED
from cacheproof.foundation.workers import MOST_PROCESSES

AnswerOption = Annotated[
    float, typer.Option(min=0.001, help="Time limit for each answer of a child process, in seconds.")
]

JobsOption = Annotated[
    int, typer.Option(min=0, max=MOST_PROCESSES, help="Number of worker processes. 0: one for each core.")
]

NewSeedOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=LARGEST_SEED,
        help="Seed of the random choices. The same seed repeats a run.",
        show_default="a new one, which is printed",
    ),
]
"""For a verb that draws other calls in every run."""

SeedOption = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of the random choices.")]
"""For a verb that makes the same run every time."""

WithoutOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OPERATION", help="Do not call this operation. May be repeated.", show_default="call all operations"
    ),
]
