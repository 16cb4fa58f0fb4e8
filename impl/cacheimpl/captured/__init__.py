"""Steps of an engine, recorded once and repeated: CUDA graphs, or on other devices the same calls on the same buffers.

- `Capture(function, changed)`: any function of tensors that stay at their addresses.
- `CapturedDecode(engine, turns)`: a decode step of `kv_blocks.Serving`, with what an attention kernel reads.
- `CapturedRounds(config, state, extent)`: the rounds of the scheduler and what their output changes.

What is read back to the host is one tensor a step. What cannot be recorded: the arrival of a request (its row is
written by the host), the growth of a table (addresses change), and how often `proceed` and `release` are repeated (the
host decides that from what it reads).
"""

from cacheimpl.captured.capture import Capture
from cacheimpl.captured.decode import CapturedDecode
from cacheimpl.captured.rounds import CapturedRounds, Round
from cacheimpl.kv_blocks import Step

__all__ = ["Capture", "CapturedDecode", "CapturedRounds", "Round", "Step"]
