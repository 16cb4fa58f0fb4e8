"""Triton kernels for a CUDA device: the same calls as the tensor functions, in one to three launches.

- `FusedStep(config, pool, turns, most=...)`: `kv_blocks.step` in one launch up to 1,024 turns, in two launches above.
- `FusedLookUp(config, pool, turns)`: `kv_blocks.get_computed_blocks` in three launches.
- `FusedRound(config, state, extent)`: `scheduler.schedule` and `scheduler.update` without admissions, one launch each.

The tensor function is the specification of its kernel. Both work on the same pool, so an engine can use either for each
call. On a CPU the kernels run in Triton's interpreter, which is for tests: it is slower than the tensor functions by
orders of magnitude. Importing this package requires the `triton` extra.
"""

from cacheimpl.kernels.decoding import FusedStep
from cacheimpl.kernels.looking_up import FusedLookUp
from cacheimpl.kernels.rounds import FusedRound

__all__ = ["FusedLookUp", "FusedRound", "FusedStep"]
