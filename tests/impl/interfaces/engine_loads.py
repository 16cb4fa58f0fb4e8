"""Random loads in a release's own scheduler, with our managers or with its own.

`engine_loads.py DRIVER SOURCE IMPL FIRST LAST [MANAGERS...] [--groups GROUP...]`. It stands alone: the Python of a
release's environment runs it. `MANAGERS` are rules of our KV cache manager, or those and our manager of encoder
outputs: `NORMATIVE+PlannedEncoderCacheManager`. One JSON object comes out: for each mode and each choice of managers,
how the loads ended.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from tests.impl.interfaces import engine_load, engine_modes, image_load, random_loads
else:
    sys.path.append(str(Path(__file__).parent))
    engine_load, engine_modes, image_load, random_loads = map(
        importlib.import_module, ("engine_load", "engine_modes", "image_load", "random_loads")
    )


def main() -> None:
    """Print how the loads ended."""
    with random_loads.answering() as answer:
        given = random_loads.arguments(engine_modes.GROUPS)
        schedulers: Any = importlib.import_module("driver.schedulers")

        def made(mode: str, seed: int) -> random_loads.Load:
            kind = image_load.Load if engine_modes.MODES[mode].images else engine_load.Load
            load = kind(schedulers, mode, seed)
            load.watch()
            return load

        modes = {name: mode for group in given.groups for name, mode in engine_modes.GROUPS[group].items()}
        if not schedulers.Classes().drafts_ahead:  # 0.11.0
            plain = {engine_modes.Mode(), engine_modes.Mode(asynchronous=True), engine_modes.Mode(drafts=3)}
            modes = {name: mode for name, mode in modes.items() if mode in plain}
        answer(random_loads.compared(made, modes, range(given.first, given.last), given.impl, given.ours))


if __name__ == "__main__":
    main()
