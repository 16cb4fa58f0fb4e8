"""A search of the tensor explorer that is ended at whatever moment goes on from its checkpoint to the same result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from cacheimpl import layout
from cacheproof.foundation.errors import InputError
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.search import clock, tensor
from cacheproof.search.checkpoint import MANIFEST, Checkpoint, identity_of
from cacheproof.search.result import Ending, Exploration, Snapshot
from cacheproof.search.tensor import resumption
from cachespec.encoder_cache.configuration import Config as EncoderConfig
from cachespec.lru.configuration import Config as LruConfig

torch.set_num_threads(1)

Plant = Callable[[str, str, str], None]

LRU = LruConfig(capacity=3, sizes=(1, 1, 2), lookups=1, pins=1)
ENCODER = EncoderConfig(capacity=2, sizes=(1, 2), requests=((0,), (1,)), failures=1)


def explored(config: Any, folder: Path | None = None, *, resume: bool = True, **how: Any) -> Exploration:
    component = component_named("lru" if isinstance(config, LruConfig) else "encoder_cache")
    plan = how.pop("plan", Plan())
    if folder is not None:
        identity = identity_of(component, component.normative, config, plan)
        how["checkpoint"] = Checkpoint(folder, identity, resume)
    found = tensor.explore(component, component.normative, config, plan, how.pop("watch", None), **how)
    return replace(found, seconds=0.0, peak_bytes=0)


def interrupted(config: Any, folder: Path, done: float, monkeypatch: pytest.MonkeyPatch, **how: Any) -> None:
    """Leave a checkpoint behind, of a search that was ended with about so many of its states."""
    monkeypatch.setattr(clock, "BETWEEN_SNAPSHOTS", -1.0)
    states = done * explored(config, **how).states

    def watch(snapshot: Snapshot) -> None:
        if snapshot.states >= states:
            raise KeyboardInterrupt

    assert explored(config, folder, resume=False, watch=watch, **how).ending is Ending.INTERRUPTED


@pytest.mark.parametrize("config", [LRU, ENCODER], ids=["lru", "encoder"])
@pytest.mark.parametrize("done", [0.01, 0.6])
@pytest.mark.parametrize("largest", [layout.LARGEST_WORD, 100], ids=["one word", "several words"])
def test_it_goes_on_to_the_same_result(
    config: Any, done: float, largest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "LARGEST_WORD", largest)
    whole = explored(config, share=0.5)
    interrupted(config, tmp_path / "kept", done, monkeypatch, share=0.5)
    kept = json.loads((tmp_path / "kept" / MANIFEST).read_text())
    assert 0 < kept["states"] < whole.states
    assert explored(config, tmp_path / "kept", share=0.5) == whole
    assert not (tmp_path / "kept").exists(), "what is finished needs no checkpoint"


def test_violations_are_remembered(plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant("cacheimpl.lru.operations.removed", "$cache.pinned & ~$leaving", "$cache.pinned")
    whole = explored(LRU)
    assert whole.violations
    interrupted(LRU, tmp_path, 0.9, monkeypatch)
    assert json.loads((tmp_path / MANIFEST).read_text())["broken"].keys() >= {"LRU-3"}
    assert explored(LRU, tmp_path) == whole


def test_nothing_to_resume_is_a_beginning(tmp_path: Path) -> None:
    assert explored(LRU, tmp_path) == explored(LRU)


def test_a_difference_leaves_no_checkpoint(plant: Plant, tmp_path: Path) -> None:
    plant("cacheimpl.lru.operations.get", "choose($found, $hit, $counted)", "choose($found, $hit, cache)")
    assert explored(LRU, tmp_path / "kept", share=1.0).ending is Ending.DIFFERED
    assert not (tmp_path / "kept").exists()


# What is refused ------------------------------------------------------------------------------------------------------


def test_a_checkpoint_of_other_tensor_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(LRU, tmp_path, 0.5, monkeypatch)
    monkeypatch.setattr(resumption, "implementation_digest", lambda: "0123456789abcdef")
    with pytest.raises(InputError, match="a checkpoint of another run: its implementation is"):
        explored(LRU, tmp_path)


def test_a_checkpoint_that_compared_another_share_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(LRU, tmp_path, 0.5, monkeypatch, share=0.5)
    with pytest.raises(InputError, match=r"its share is 0\.5, now it is 1\.0"):
        explored(LRU, tmp_path, share=1.0)


def test_a_level_that_was_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(LRU, tmp_path, 0.5, monkeypatch)
    level = tmp_path / "level-00001.0"
    level.write_text(level.read_text() + "7\n")
    with pytest.raises(InputError, match=r"level-00001\.0: a level of the checkpoint was changed"):
        explored(LRU, tmp_path)


@pytest.mark.parametrize("text", ["seven\n", "1 2\n", "1\n2 3\n"])
def test_what_is_no_level_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "level"
    path.write_text(text)
    with pytest.raises(InputError, match="not a level of a checkpoint"):
        resumption.read_level(path, torch.zeros(1, 1, dtype=torch.int64))


def test_a_level_is_read_as_it_was_written(tmp_path: Path) -> None:
    for words in (torch.tensor([[3, 2**62], [0, 1]]), torch.zeros(0, 2, dtype=torch.int64)):
        resumption.write_level(tmp_path / "level", words)
        assert torch.equal(resumption.read_level(tmp_path / "level", words), words)


# kill -9 --------------------------------------------------------------------------------------------------------------

RUN = [
    "check",
    "encoder_cache",
    "--variant",
    "normative",
    "--scope",
    "three-requests",
    "--engine",
    "tensor",
    "--refine",
    "9000",
]


def command_line(folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "cacheproof", *RUN, "--checkpoint", str(folder / "kept"), "--json", *more]


def test_it_goes_on_after_kill_9(tmp_path: Path) -> None:
    environment = {**os.environ, "CACHEPROOF_HOME": str(tmp_path)}
    manifest = tmp_path / "kept" / "encoder_cache.normative.three-requests.tensor" / MANIFEST
    killed = subprocess.Popen(
        command_line(tmp_path), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not manifest.is_file() or json.loads(manifest.read_text())["depth"] < 4:
        assert killed.poll() is None, "it was over before it was ended"
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    before = json.loads(manifest.read_text())
    last = subprocess.run(
        command_line(tmp_path, "--resume"), env=environment, capture_output=True, text=True, check=False
    )
    assert last.returncode == 0, last.stderr
    (run,) = json.loads(last.stdout)["runs"]
    golden = scope_named(component_named("encoder_cache"), "three-requests").expectation("normative")
    assert (run["states"], run["transitions"], run["digest"]) == (golden.states, golden.transitions, golden.digest)
    assert 4 <= before["depth"] < run["depth"]
    assert run["triples"] > before["triples"]
    assert not manifest.exists()
