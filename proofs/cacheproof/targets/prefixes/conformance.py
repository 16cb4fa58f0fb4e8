"""The configurations in which a release is walked, and what came of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import ExitStatus
from cacheproof.targets.prefixes.episodes import Walked
from cacheproof.targets.prefixes.package import Package
from cacheproof.targets.prefixes.peer import ChildPeer, Peer
from cacheproof.targets.prefixes.serving import ChildServer, serve
from cacheproof.targets.prefixes.walk import walk


@dataclass(frozen=True, slots=True)
class Held:
    """One configuration, walked."""

    driven: str
    """Which of the release's caches: of SGLang, `radix`, in Python, or `radix_rust`."""
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


def _named(progress: Show, about: str, text: str) -> None:
    progress(f"{about}: {text}")


def held(package: Package, *, steps: int, seed: int, progress: Show | None = None) -> Iterator[Held]:
    """Each of the release's drivers in each configuration, with its part of the steps; children are ended anyway."""
    command, record = package.command(), package.added().record
    for driven, obstacle in record["components"].items():
        if obstacle:
            yield Held(driven, "none", Walked(broke_down=f"it cannot be driven: {obstacle}"))
            continue
        served = package.family.served.get(driven)
        configurations = package.family.configurations if served is None else served
        peer = ChildPeer(command, driven, package.family.claims) if served is None else ChildServer(command, driven)
        show = None if progress is None else partial(_named, progress, f"{package.name} {driven}")
        try:
            for one in walked_in(peer, driven, configurations, steps=steps, seed=seed, progress=show):
                yield one
                if one.walked.interrupted:
                    return
        finally:
            peer.close()


def walked_in(
    peer: Peer | ChildServer,
    driven: str,
    configurations: Mapping[str, Mapping[str, Any]],
    *,
    steps: int,
    seed: int,
    progress: Show | None = None,
) -> Iterator[Held]:
    """One driver in each configuration, with its part of the steps, until it is interrupted or breaks down."""
    each = -(-steps // len(configurations))
    for name, config in configurations.items():
        show = None if progress is None else partial(_named, progress, name)
        if isinstance(peer, ChildServer):
            walked = serve(peer, config, steps=each, seed=seed, progress=show)
        else:
            walked = walk(peer, config, steps=each, seed=seed, progress=show)
        yield Held(driven, name, walked)
        if walked.interrupted or walked.broke_down:
            return
