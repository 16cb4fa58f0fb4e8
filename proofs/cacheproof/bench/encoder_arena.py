"""Encoder outputs of a step, stored and read in chunks: in one buffer, and in a dictionary of tensors.

The dictionary keeps each tensor without a copy, and a chunk is a slice of it, so storing costs almost nothing. The
arena copies into its buffer. Both return one tensor for each step. A unit is an output.
"""

from __future__ import annotations

from cacheproof.bench.sized import Sizes, on_tensors, sized

KINDS = {"a dictionary of tensors": on_tensors("arena:DictionaryOutputs"), "arena": on_tensors("arena:ArenaOutputs")}


def sizes_of(call: str, rows: int) -> Sizes:
    """32 outputs of `rows` rows each; a row has 1,024 halves."""
    small_sizes, whole = {"outputs": 4, "rows": 4, "hidden": 32}, {"outputs": 32, "rows": rows, "hidden": 1024}
    return lambda small: {"call": call, **(small_sizes if small else whole)}


BENCHMARKS = tuple(
    sized(
        f"arena_{call}-{rows}",
        f"{call} of the encoder outputs of a step, 32 of {rows} rows",
        "outputs",
        "32 outputs, rows of 1,024 halves",
        sizes_of(call, rows),
        KINDS,
    )
    for call in ("store", "gather")
    for rows in (16, 576)
)
