"""Releases of vLLM as `target` and `conform` see them."""

from __future__ import annotations

from cacheproof.foundation.console import Show
from cacheproof.targets.families import Added
from cacheproof.targets.vllm.release import Installed, Release, add, all_installed, discard


class VllmFamily:
    """Its releases are compared with the eras that describe them, component by component."""

    package = "vllm"
    example = "vllm==0.33.0"
    observed: str | None = None

    def canonical(self, text: str) -> str:
        return Release.parsed(text).name

    def add(self, text: str, progress: Show, era: str = "") -> Added:
        release = Release.parsed(text)
        return _added(add(release.counted_as(era) if era else release, progress))

    def discard(self, text: str) -> int:
        return discard(Release.parsed(text))

    def all_added(self) -> list[Added]:
        return [_added(one) for one in all_installed()]


def _added(one: Installed) -> Added:
    return Added(one.release.name, one.folder, one.record)


FAMILY = VllmFamily()
