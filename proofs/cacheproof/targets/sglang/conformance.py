"""The configurations in which a release is walked, and what came of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cacheproof.errors import ExitStatus
from cacheproof.targets.sglang.peer import ChildPeer
from cacheproof.targets.sglang.release import Package
from cacheproof.targets.sglang.walk import Walked, walk

SHARED_PREFIXES = [[0, 1, 2], [0, 1, 3], [4, 5], [0, 1, 2, 6, 7], [0, 8]]

CONFIGURATIONS: dict[str, Mapping[str, Any]] = {
    "slots, scarce": {"block_size": 1, "blocks": 7, "chains": SHARED_PREFIXES, "lengths": [3, 3, 2, 5, 2]},
    "slots, ample": {"block_size": 1, "blocks": 40, "chains": SHARED_PREFIXES, "lengths": [3, 3, 2, 5, 2]},
    "pages of 2, scarce": {"block_size": 2, "blocks": 8, "chains": SHARED_PREFIXES, "lengths": [7, 6, 5, 10, 4]},
    "pages of 4, scarce": {"block_size": 4, "blocks": 8, "chains": SHARED_PREFIXES, "lengths": [14, 12, 9, 20, 11]},
    "pages of 4, ample": {"block_size": 4, "blocks": 60, "chains": SHARED_PREFIXES, "lengths": [14, 12, 9, 20, 11]},
}
"""As of `kv_blocks`: pages of so many tokens, how many there are, what the requests hold, and how long they are."""


@dataclass(frozen=True, slots=True)
class Held:
    """One configuration, walked."""

    core: str
    """The tree: `radix`, in Python, or `radix_rust`."""
    name: str
    walked: Walked

    @property
    def status(self) -> ExitStatus:
        """What it says."""
        if self.walked.found is not None:
            return ExitStatus.FELL_SHORT
        unfinished = self.walked.broke_down or self.walked.interrupted or not self.walked.steps
        return ExitStatus.INCONCLUSIVE if unfinished else ExitStatus.AS_EXPECTED

    @property
    def verdict(self) -> str:
        """In words, and no stronger than what was seen."""
        walked = self.walked
        if walked.found is not None:
            return (
                f"{walked.found.rule}: {walked.found.said}, after {' '.join(map(str, walked.found.calls)) or 'nothing'}"
            )
        if walked.broke_down:
            return f"the driver failed: {walked.broke_down}"
        return "interrupted" if walked.interrupted else "nothing wrong was seen"


def held(package: Package, *, steps: int, seed: int, progress: Callable[[str], None] | None = None) -> Iterator[Held]:
    """The release in each configuration, with its part of the steps; the child is ended whatever happens."""
    command, record = package.command(), package.record()
    assert record is not None
    for core, obstacle in record["components"].items():
        if obstacle:
            yield Held(core, "none", Walked(broke_down=f"it cannot be driven: {obstacle}"))
            continue
        peer = ChildPeer(command, core)
        try:
            for name, config in CONFIGURATIONS.items():
                walked = walk(peer, config, steps=-(-steps // len(CONFIGURATIONS)), seed=seed, progress=progress)
                yield Held(core, name, walked)
                if walked.interrupted:
                    return
                if walked.broke_down:
                    break
        finally:
            peer.close()
