"""What is not the release's own code while its caches are driven, each entry with its reason; and what is driven."""

from __future__ import annotations

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
COMPONENTS = {"radix": ("radix", "RadixDriver"), "radix_rust": ("radix", "RustDriver")}
"""The drivers: of the tree in Python, and of the compiled core in Rust."""
