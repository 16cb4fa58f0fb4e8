"""Encoder outputs of a step, stored and read in chunks: in one buffer, and in a dictionary of tensors.

The dictionary keeps each tensor without a copy, and a chunk is a slice of it, so storing costs almost nothing. The
arena copies into its buffer. Both return one tensor for each step. A unit is an output.
"""

from __future__ import annotations

from collections.abc import Mapping

from cacheproof.bench.measure import Benchmark, Contender

PLAIN = "a dictionary of tensors"
ARENA = "arena"


def sizes(call: str, rows: int, *, small: bool) -> dict[str, int | str]:
    """`outputs` outputs of `rows` rows each; a row has 1,024 halves."""
    return {"call": call, "outputs": 4 if small else 32, "rows": 4 if small else rows, "hidden": 32 if small else 1024}


def benchmark(call: str, rows: int) -> Benchmark:
    """The benchmark of one call, for outputs of one length."""

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
