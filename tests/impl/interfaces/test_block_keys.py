"""The contents and keys of blocks beside the specification of keys."""

from __future__ import annotations

from typing import Any

import pytest
from tests.impl.interfaces.lockstep import differs, findings

from cacheimpl.kv_cache_manager import contents
from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.targets.tensor.block_keys import open_keys


def test_lockstep_in_every_scope() -> None:
    found = dict(findings("block_hash", "normative", open_keys, steps=250))
    assert len(found) >= 5
    assert set(found.values()) == {None}


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_long_runs() -> None:
    assert set(dict(findings("block_hash", "normative", open_keys, steps=5000, seed=3)).values()) == {None}


@pytest.mark.parametrize("variant", ["K0b", "K1", "K1b"])
def test_no_earlier_era_has_these_keys(variant: str) -> None:
    assert differs("block_hash", variant, open_keys, steps=600)


def without(tag: str) -> Any:
    original = contents.generate_block_hash_extra_keys

    def wrong(*arguments: Any) -> Any:
        keys, place = original(*arguments)
        return tuple(key for key in keys or () if key[0] != tag) or None, place

    return wrong


def without_offsets(*arguments: Any) -> Any:
    keys, place = ORIGINAL(*arguments)
    return tuple(key[:2] if key[0] == "mm" else key for key in keys or ()) or None, place


ORIGINAL = contents.generate_block_hash_extra_keys


@pytest.mark.parametrize("wrong", [without("mm"), without("cache_salt"), without("lora"), without_offsets])
def test_planted_bugs_are_found(monkeypatch: pytest.MonkeyPatch, wrong: Any) -> None:
    monkeypatch.setattr(contents, "generate_block_hash_extra_keys", wrong)
    try:
        found = differs("block_hash", "normative", open_keys, steps=1500)
    except InconclusiveError:
        found = True
    assert found


def test_a_target_of_another_component() -> None:
    with pytest.raises(InputError, match="not of ring"):
        open_keys("ring")
