"""Encoder outputs of a step, kept and read again in chunks: in one buffer, and in a dictionary of tensors.

The dictionary keeps what it is given, without a copy, and a chunk is a slice of it; so it stores for next to nothing.
The arena copies into its buffer. What is read is one tensor for the step in both. Counted are outputs.
"""

from __future__ import annotations

from collections.abc import Mapping

from cacheproof.bench.measure import Benchmark, Contender

PLAIN = "a dictionary of tensors"
ARENA = "arena"


def sizes(call: str, rows: int, *, small: bool) -> dict[str, int | str]:
    """So many outputs of so many rows, of 1,024 halves each."""
    return {"call": call, "outputs": 4 if small else 32, "rows": 4 if small else rows, "hidden": 32 if small else 1024}


def benchmark(call: str, rows: int) -> Benchmark:
    """Of one call, for outputs of one length."""

    def contenders(*, small: bool) -> Mapping[str, Contender]:
        from cacheproof.bench.tensor.arena import ArenaOutputs, DictionaryOutputs  # noqa: PLC0415  # torch is an extra

        asked = sizes(call, rows, small=small)
        return {
            PLAIN: DictionaryOutputs(**asked),  # type: ignore[arg-type]  # by their names
            ARENA: ArenaOutputs(**asked),  # type: ignore[arg-type]  # as above
        }

    return Benchmark(
        name=f"arena_{call}-{rows}",
        about=f"{call} of the encoder outputs of a step, 32 of {rows} rows",
        unit="outputs",
        size="32 outputs, rows of 1,024 halves",
        contenders=contenders,
        timed=True,
    )


BENCHMARKS = tuple(benchmark(call, rows) for call in ("store", "gather") for rows in (16, 576))
