"""The explorers as contenders: each turn explores the whole scope."""

from __future__ import annotations

import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cacheproof.bench.measure import Benchmark, Contender, InTurns, Peers, Work
from cacheproof.bench.peers.models import Counts, PeerScope
from cacheproof.bench.peers.ours import SMALLEST, explored, explored_apart, subject_of
from cacheproof.bench.peers.process import Finished
from cacheproof.bench.peers.spin import Spin
from cacheproof.bench.peers.tlc import Tlc
from cacheproof.search.worker import NATIVE, REFERENCE

MIRROR = PeerScope("mirror", "all-faults")
ENCODER_CACHE = PeerScope("encoder_cache", "siblings")
MIRROR_WIDE = PeerScope("mirror", "two-senders", (("duplicate", 1), ("impatient", 1)))
ENCODER_CACHE_WIDE = PeerScope("encoder_cache", "any-call-larger", (("requests", ((0, 1), (2, 0), (1, 3))),))
TURNS = 5
BARE = "native, no properties"
SPIN, TLC = "Spin", "TLC"


class Exploring(InTurns):
    """One explorer in processes of its own. Its memory is the growth of the peak over that of the smallest scope."""

    def __init__(self, scope: PeerScope) -> None:
        self.scope, self.smallest = scope, SMALLEST[scope.component]
        self._first: tuple[int, int] | None = None

    @abstractmethod
    def explore(self, scope: PeerScope) -> tuple[Counts, Finished]:
        """Explore a scope to its end, once."""

    def warm_up(self) -> None:
        """Explore the smallest scope, which compiles what is to be compiled, and tells the memory of the start."""
        self._beginning()

    def turn(self, number: int) -> Work:
        """Explore the scope; all turns are alike."""
        del number
        small_states, small_bytes = self._beginning()
        counts, finished = self.explore(self.scope)
        also = {"states/s": counts.states / max(finished.seconds, 1e-9)}
        if self.scope != self.smallest:
            grown = max(0, finished.peak_bytes - small_bytes)
            also["bytes a state"] = grown / max(1, counts.states - small_states)
        return Work(counts.transitions, counts, finished.seconds, also)

    def _beginning(self) -> tuple[int, int]:
        if self._first is None:
            counts, finished = self.explore(self.smallest)
            self._first = counts.states, finished.peak_bytes
        return self._first


class Ours(Exploring):
    """One of our engines, with or without properties."""

    def __init__(self, scope: PeerScope, engine: str, *, properties: bool = True) -> None:
        super().__init__(scope)
        self.engine, self.properties = engine, properties

    def explore(self, scope: PeerScope) -> tuple[Counts, Finished]:
        """In a child process, after the smallest scope, so that nothing is compiled or translated in the time."""
        with scratch() as folder:
            return explored_apart(scope, self.engine, folder, properties=self.properties)


class SpinContender(Exploring):
    """Spin with its best reduction off, as ours are: every transition is explored."""

    def __init__(self, scope: PeerScope) -> None:
        super().__init__(scope)
        self._built: dict[PeerScope, tuple[Spin, int]] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="cacheproof-spin-")

    def explore(self, scope: PeerScope) -> tuple[Counts, Finished]:
        """The verifier is built before its first run; the time of that does not count."""
        if scope not in self._built:
            folder = Path(self._folder.name) / str(len(self._built))
            self._built[scope] = Spin(scope, folder), explored(scope, NATIVE, subject_of(scope.component)).states
        spin, states = self._built[scope]
        run = spin.run(states)
        return run.counts, run.finished

    def warm_up(self) -> None:
        """Build the verifier of the scope too."""
        super().warm_up()
        if self.scope not in self._built:
            self.explore(self.scope)


class TlcContender(Exploring):
    """TLC with one worker. The time includes the start of its virtual machine."""

    def __init__(self, scope: PeerScope, jar: Path) -> None:
        super().__init__(scope)
        self.jar = jar

    def explore(self, scope: PeerScope) -> tuple[Counts, Finished]:
        """Each run has a folder of its own."""
        with scratch() as folder:
            run = Tlc(scope, self.jar, folder).run()
        return run.counts, run.finished


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one run."""
    folder = Path(tempfile.mkdtemp(prefix="cacheproof-peers-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Peered:
    """A scope that all explorers explore. `slow`: the reference engine and TLC take part, too."""

    name: str
    scope: PeerScope
    slow: bool = True

    def benchmark(self) -> Benchmark:
        """The measurement; with peers, the first of them is the yardstick."""
        return Benchmark(
            name=self.name,
            about="a scope is explored to its end, without symmetry, one thread each",
            unit="transitions",
            size=str(self.scope),
            contenders=self.ours,
            most_repeats=TURNS,
            peers=self.peers,
        )

    def ours(self, *, small: bool) -> Mapping[str, Contender]:
        """Our engines; the reference engine is first."""
        scope = self._scope(small=small)
        reference = {REFERENCE: Ours(scope, REFERENCE)} if self.slow else {}
        return {**reference, NATIVE: Ours(scope, NATIVE), BARE: Ours(scope, NATIVE, properties=False)}

    def peers(self, peers: Peers, *, small: bool) -> Mapping[str, Contender]:
        """The explorers of others that were asked for."""
        scope = self._scope(small=small)
        spin: Mapping[str, Contender] = {SPIN: SpinContender(scope)} if peers.spin else {}
        if peers.tlc is None or not self.slow:
            return spin
        return {**spin, TLC: TlcContender(scope, peers.tlc)}

    def _scope(self, *, small: bool) -> PeerScope:
        return SMALLEST[self.scope.component] if small else self.scope
