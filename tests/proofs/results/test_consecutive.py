"""Consecutive releases: records of each beside its eras and the one before it, and the page that is made of them.

The releases are eras of the specification.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.proofs.results.making import Ends, on_the_era

from cacheproof.command import conform
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.target import Target, TargetError
from cacheproof.releases import conformance
from cacheproof.releases.against import sides
from cacheproof.releases.results.consecutive import NO_CALL, failure_of, failure_of_row
from cacheproof.releases.results.record import Beside, Row, load
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.targets.vllm.release import Installed, Release
from cachespec.kernel import Operation, Outcome
from cachespec.lru import Touch

LRU = component_named("lru")
NAMES = ("vllm==0.22.0", "vllm==0.23.0", "vllm==0.24.0", "vllm==0.25.0")
FILE = "vllm/utils/cache.py"
RUN = ("results", "run", *NAMES, "--consecutive", "--steps", "300", "--seed", "1")
PAGE = "\n".join(f"<!-- consecutive: {part} -->" for part in ("failures", "eras", "neighbours", "runs", "differences"))


class Unwilling(SpecificationTarget):
    """Its driver fails at each touch."""

    def apply(self, operation: Operation) -> Outcome:
        if isinstance(operation, Touch):
            raise TargetError("the driver is gone")
        return super().apply(operation)


def of_release(name: str) -> Target:
    """The recency of a released LRU cache changed with 0.24.0."""
    return on_the_era("lru", "M3" if name in NAMES[2:] else "M2")


Pretended = Callable[[Callable[[str], Target]], None]


@pytest.fixture
def pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pretended:
    """Every release is installed, has nothing but an LRU cache, and is this. The file of the cache changed twice."""

    def needed(release: Release) -> Installed:
        folder = tmp_path / release.version
        file = folder / "source" / FILE
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"FROM = {min(release.name, NAMES[2])!r}\n")
        return Installed(release, folder, {"components": {"lru": ""}, "files": [FILE]})

    def pretend(opened: Callable[[str], Target]) -> None:
        monkeypatch.setattr(conform, "needed", needed)
        monkeypatch.setattr(sides, "needed", needed)
        monkeypatch.setattr(sides, "opened", lambda name, component, variant, window: opened(name))
        monkeypatch.setattr(conformance, "open_target", lambda name, component, variant, seconds: opened(name))

    return pretend


@pytest.fixture
def page(book: Path) -> Path:
    path = book / "consecutive.md"
    path.write_text(f"# Consecutive releases\n\n{PAGE}\n")
    return path


def test_releases_are_beside_their_eras_and_the_one_before(
    book: Path, page: Path, ends: Ends, pretended: Pretended
) -> None:
    pretended(of_release)
    assert ends(*RUN) == 0
    assert ends("results", "write") == 0
    text = page.read_text()
    assert "No driver failed in these 4 releases." in text
    assert [line for line in text.splitlines() if line.startswith("| 0.2")] == [
        "| 0.22.0 | M2 |",
        "| 0.23.0 | M2 |",
        "| 0.24.0 | M3 |",
        "| 0.25.0 | M3 |",
        "| 0.22.0, 0.23.0 | 1 | no difference |",
        "| 0.23.0, 0.24.0 | 1 | [differs](#0240-lru-m2) |",
        "| 0.24.0, 0.25.0 | 0 | same files |",
    ]
    assert "### 0.24.0: lru M2\n" in text
    assert "0.24.0 differs at touch (order, sizes), after 1 call" in text
    assert "- 0.23.0 breaks LRU-1, and 0.24.0 does not: " in text
    assert "touch(key=" in text
    assert ends("results", "write", "--check") == 0
    page.write_text(text.replace("M3", "M2"))
    assert ends("results", "write", "--check") == 1
    first, *others = (load(book / "consecutive" / "records" / f"{name.replace('==', '-')}.json") for name in NAMES)
    assert (first.base, [one.base for one in others]) == ("", [*NAMES[:3]])


def test_what_is_recorded_is_not_run_again(book: Path, ends: Ends, pretended: Pretended) -> None:
    pretended(of_release)
    assert ends(*RUN) == 0
    path = book / "consecutive" / "records" / "vllm-0.24.0.json"
    before = path.read_text()

    def gone(name: str) -> Target:
        raise TargetError(f"{name} is opened again")

    pretended(gone)
    assert ends(*RUN) == 0
    assert ends(*RUN[:2], *NAMES[1:], *RUN[6:]) == 0, "the first one keeps the release before it"
    assert ends(*RUN, "--steps", "301") == 3, "another budget is another run, and a driver that does not start has none"
    assert path.read_text() == before


def test_a_driver_that_fails_is_shown_and_run_again(page: Path, ends: Ends, pretended: Pretended) -> None:
    failing = Unwilling(LRU, variant_named(LRU, "M2"))
    pretended(lambda name: failing if name == NAMES[1] else of_release(name))
    assert ends(*RUN) == 3
    assert ends("results", "write") == 0
    text = page.read_text()
    assert "- vllm==0.23.0: `lru` beside M2: the driver is gone" in text
    assert "- vllm==0.24.0: `lru` M2 beside vllm==0.23.0: vllm==0.23.0: the driver is gone" in text
    assert "| 0.23.0 | **driver failed** |" in text
    assert "| 0.23.0, 0.24.0 | 1 | **driver failed** |" in text
    pretended(of_release)
    assert ends(*RUN) == 0
    assert ends("results", "write") == 0
    assert "No driver failed" in page.read_text()


@pytest.mark.parametrize(
    "arguments",
    [("run", "sglang==0.5.23", "--consecutive"), ("write", "--consecutive"), ("reproduce", NAMES[0], "--consecutive")],
)
def test_wrong_use_is_one_line(book: Path, ends: Ends, arguments: tuple[str, ...]) -> None:
    assert book.is_dir()
    assert ends("results", *arguments) == 2


@pytest.mark.parametrize(("calls", "breakdown", "reason"), [(0, "", NO_CALL), (0, "gone", "gone"), (9, "", "")])
def test_a_component_without_a_call_is_a_failure(calls: int, breakdown: str, reason: str) -> None:
    assert failure_of_row(Row("lru", "M2", calls, "", agrees=True, breakdown=breakdown)) == reason
    assert failure_of(Beside("lru", "M2", calls, 0.0, failure=breakdown)) == reason


def test_a_component_that_reads_the_same_files_needs_no_call() -> None:
    assert failure_of(Beside("lru", "M2", 0, 0.0, unchanged=True)) == ""
