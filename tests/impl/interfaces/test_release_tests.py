"""The check of vLLM's own tests over our classes: a ledger that is wrong in either direction, and the import hook."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from tests.impl.interfaces.release_tests import hisparse, ledger
from tests.impl.interfaces.release_tests.__main__ import counted
from tests.impl.interfaces.release_tests.ledger import Entry, Outcome
from tests.impl.interfaces.release_tests.suites import CHILD, LEDGERS, SUITES

from cacheimpl.object_store import ReleasedObjectStorage, SingleWriterShmObjectStorage
from cacheimpl.ring import ReleasedRingBuffer, SingleWriterShmRingBuffer
from cacheproof.foundation.console import Progress
from cacheproof.foundation.errors import ExitStatus, InputError

RELEASED = {name: Outcome("passed") for name in ("f::good", "f::private", "f::new")} | {"f::broken": Outcome("failed")}
OURS = {
    "f::good": Outcome("passed", used=("KVCacheManager",)),
    "f::private": Outcome("failed", "assert 1 == 2"),
    "f::new": Outcome("passed"),
    "f::broken": Outcome("failed"),
}
STORE, SIDES = "cacheimpl.object_store", ("Sender", "Receiver")
LISTED = [Entry("f::private", "private", "It reads a field."), Entry("f::broken", "release", "It needs a network.")]


def test_a_right_ledger() -> None:
    """It lists just what fails, and tells what the release itself fails."""
    assert ledger.judged(LISTED, RELEASED, OURS).right
    assert counted(RELEASED, OURS) == {"f": {"released": 3, "ours": 2, "used": 1, "tests": 4}}


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        (LISTED[1:], "f::private fails and is not listed"),
        ([*LISTED, Entry("f::good", "private", "It reads a field.")], "f::good is listed and passes"),
        ([*LISTED, Entry("f::gone", "private", "It reads a field.")], "f::gone is listed and does not exist"),
        ([LISTED[0], LISTED[1]._replace(kind="private")], "f::broken is listed with a wrong kind"),
        ([LISTED[0]._replace(kind="release"), LISTED[1]], "f::private is listed with a wrong kind"),
    ],
)
def test_a_wrong_ledger(entries: list[Entry], named: str) -> None:
    """In either direction, and the test is named."""
    verdict = ledger.judged(entries, RELEASED, OURS)
    assert not verdict.right
    assert [line for line in verdict.lines() if line.startswith(named)]


def test_what_is_accepted_is_right(tmp_path: Path) -> None:
    """A ledger that is written from the outcomes is right; entries that still hold keep their reasons."""
    path = tmp_path / "1.2.3.toml"
    other = Entry("g::elsewhere", "private", 'It says "no".\\')
    ledger.write(path, ledger.accepted([LISTED[0], other], [LISTED[0]], RELEASED, OURS))
    entries = ledger.read(path)
    assert ledger.judged([entry for entry in entries if entry != other], RELEASED, OURS).right
    assert LISTED[0] in entries
    assert other in entries


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[test]]\nid = 'a'\n", "kind"),
        ("[[test]]\nid = 'a'\nkind = 'whim'\nreason = 'b'\n", "whim"),
        ("[[test]]\nid = 'a'\nkind = 'private'\nreason = ' '\n", "no reason"),
        ("[[test]]\nid = 'a'\nkind = 'private'\nreason = 'b'\n" * 2, "twice"),
        ("nothing", "ledger.toml"),
    ],
)
def test_a_damaged_ledger(tmp_path: Path, text: str, problem: str) -> None:
    """It is refused, with what is wrong."""
    path = tmp_path / "ledger.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=problem):
        ledger.read(path)


@pytest.mark.parametrize("version", SUITES)
def test_committed_ledgers(version: str) -> None:
    """Each release has a ledger; every entry is of a file that is run, and its reason is a sentence."""
    entries = ledger.read(LEDGERS / f"{version}.toml")
    assert entries
    for entry in entries:
        assert entry.test.partition("::")[0] in SUITES[version].files, entry.test
        assert entry.reason.endswith("."), entry.test


@pytest.mark.parametrize(
    ("found", "line"),
    [
        ({}, "6 of 6 loads have the release's plans"),
        ({"different": ["seed 1"]}, "5 of 6 loads have the release's plans"),
        ({"problems": ["seed 1: r0 reads a wrong row"]}, "  seed 1: r0 reads a wrong row"),
    ],
)
def test_loads_of_hisparse_are_judged(found: dict[str, Any], line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"loads": 6, "served": 9, "aborted": 1, "preempted": 2, "host_reads": 3}
    told = {"counts": counts, "different": [], "problems": [], **found}
    monkeypatch.setattr(hisparse, "loops", lambda *_: told)
    report = hisparse.reported(0, 2, Progress())
    assert line in report.rendered
    assert (report.status is ExitStatus.AS_EXPECTED) is (not found)


def test_classes_are_replaced_when_they_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another module that imports a name of the release gets ours; without rules it keeps the release's."""
    package = tmp_path / "vllm" / "v1" / "core"
    package.mkdir(parents=True)
    for folder in (tmp_path / "vllm", tmp_path / "vllm" / "v1", package):
        (folder / "__init__.py").touch()
    (package / "kv_cache_manager.py").write_text("class KVCacheManager: ...\nclass Other: ...\n", encoding="utf-8")
    (package / "user.py").write_text(
        "from vllm.v1.core.kv_cache_manager import KVCacheManager, Other\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for rules, owner in (("", "vllm.v1.core.kv_cache_manager"), ("KV_2026_11", "ours")):
        monkeypatch.setenv("CACHEPROOF_RULES", rules)
        spec = importlib.util.spec_from_file_location("ours", CHILD / "ours.py")
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
        user = importlib.import_module("vllm.v1.core.user")
        assert user.KVCacheManager.__module__ == owner
        assert user.Other.__module__ == "vllm.v1.core.kv_cache_manager"
        for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
            monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(("era", "rules"), [("", False), ("STORE_2026_11", True)])
def test_the_object_store_has_the_rules_of_its_era(era: str, rules: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of the release names no era. Without one, the ring, the store and the caches are the normative ones."""
    for kind in (SingleWriterShmRingBuffer, ReleasedRingBuffer, SingleWriterShmObjectStorage, ReleasedObjectStorage):
        monkeypatch.setattr(kind, "__init__", kind.__init__)
    monkeypatch.setenv("CACHEPROOF_STORE", era)
    spec = importlib.util.spec_from_file_location("ours", CHILD / "ours.py")
    assert spec is not None
    assert spec.loader is not None
    hook: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    made = hook.REPLACED["vllm.distributed.device_communicators.shm_object_storage"]
    kinds = {name: hook.ours_for(name, *there) for name, there in made.items()}
    ring = kinds["SingleWriterShmRingBuffer"](4096, create=True)
    store = kinds["SingleWriterShmObjectStorage"](1024, 1, ring, reader_lock=Lock())
    try:
        assert isinstance(ring, ReleasedRingBuffer) is rules
        assert isinstance(store, ReleasedObjectStorage) is rules
        assert isinstance(store.handle(), kinds["ShmObjectStorageHandle"])
        handle = store.put("a", b"text")
        store.clear()
        assert (len(store.id_index), handle) == (0 if rules else 1, (0, 0))
        senders = [hook.ours_for(f"ShmObjectStore{side}Cache", STORE, f"ShmObjectStore{side}Cache") for side in SIDES]
        assert [kind.__module__ == "ours" for kind in senders] == [rules, rules]
    finally:
        store.close()
