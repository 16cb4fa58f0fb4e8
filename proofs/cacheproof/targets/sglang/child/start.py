"""The script that an environment's Python runs: `python -I start.py SHARED SOURCE VERSION [--probe]`.

`SHARED` is the folder of the driver for vLLM: its conversation, its stand-ins and its way of making calls are used as
they are, with lists of this package's own.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

RE_EXPORTS = "its __init__ only re-exports, and would import the whole engine"
ANNOTATIONS = "named in annotations only"
OTHER_PATHS = "called only by functions that are not driven"

PACKAGES = {
    "sglang": RE_EXPORTS,
    "sglang.srt": RE_EXPORTS,
    "sglang.srt.mem_cache.rust_tree_core": RE_EXPORTS + "; the adapter is not driven, the compiled core is",
    "sglang.srt.mem_cache.unified_cache": RE_EXPORTS,
}
MODULES = {
    "triton": "kernels for accelerators: pages are given out whole, in plain torch",
    "sglang.kernels": "kernels for accelerators, likewise",
    "sglang.srt.disaggregation": "events about the cache are off",
    "sglang.srt.environ": "settings of what is not driven",
    "sglang.srt.mem_cache.cpp_utils": "hashes for events and for storage, both off",
    "sglang.srt.mem_cache.memory_pool": ANNOTATIONS + ": the bytes are the workers'",
    "sglang.srt.observability": ANNOTATIONS + "; metrics are off",
    "sglang.srt.platforms": "asked for one thing, which is answered below",
    "sglang.srt.runtime_context": OTHER_PATHS,
    "sglang.srt.utils": "asked for two things, which are answered below",
}
ANSWERS: dict[str, tuple[Any, str]] = {
    "sglang.srt.utils.is_hip": (False, "the allocator asks for one kind of accelerator: there is none"),
    "sglang.srt.utils.get_bool_env_var": (
        False,
        "the allocator's own check for pages freed twice is off, as by default",
    ),
}

if __name__ == "__main__":
    shared, *rest = sys.argv[1:]
    sys.path[:0] = [shared, str(Path(__file__).parent)]
    stand_ins = importlib.import_module("driver.stand_ins")
    conversation = importlib.import_module("driver.conversation")
    for theirs, ours in (
        (stand_ins.PACKAGES, PACKAGES),
        (stand_ins.MODULES, MODULES),
        (stand_ins.ANSWERS, ANSWERS),
        (conversation.COMPONENTS, {"radix": ("radix", "RadixDriver"), "radix_rust": ("radix", "RustDriver")}),
    ):
        theirs.clear()
        theirs.update(ours)
    importlib.import_module("radix")
    sys.path[:2] = []
    sys.exit(conversation.main(rest))
