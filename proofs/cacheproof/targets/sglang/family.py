"""Releases of SGLang: where their modules are, and what they are walked in."""

from __future__ import annotations

from pathlib import Path

from cacheproof.model.declaration import EVICTION_ORDER
from cacheproof.targets.prefixes.configurations import CONFIGURATIONS
from cacheproof.targets.prefixes.package import PrefixFamily

FAMILY = PrefixFamily(
    package="sglang",
    newest="0.5.23",
    child=Path(__file__).parent / "child",
    inside="sglang/srt/mem_cache/",
    endings=(".py", ".so"),
    claims=(EVICTION_ORDER,),
    configurations=CONFIGURATIONS,
)
