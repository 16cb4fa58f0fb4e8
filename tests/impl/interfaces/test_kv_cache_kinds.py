"""Kinds of layers: the groups that the later `KVCacheManager` serves and refuses, and the classes of the releases."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from cacheimpl.kv_cache_manager import KVCacheManager
from cacheimpl.kv_cache_manager.errors import UnsupportedError
from cacheimpl.kv_cache_manager.kinds import REFUSED, SERVED, UNIFORM, kind_of, window_of
from cacheproof.targets.vllm.release import START, Release, add, needed_environment

ABSTRACT = {"KVCacheSpec", "AttentionSpec"}


def spec(name: str, **more: Any) -> Any:
    """A spec whose class has this name, and a base as in the releases."""
    made = type(name, (type("KVCacheSpec", (), {}),), {"block_size": 16})()
    for field, value in more.items():
        setattr(made, field, value)
    return made


def manager_of(*specs: Any, **more: Any) -> Any:
    groups = [SimpleNamespace(kv_cache_spec=its, **more) for its in specs]
    return KVCacheManager(SimpleNamespace(num_blocks=8, kv_cache_groups=groups), max_model_len=64)


@pytest.mark.parametrize("name", SERVED)
def test_served(name: str) -> None:
    assert manager_of(spec(name)).num_kv_cache_groups == 1


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"group 1 of kv_cache_groups has {REFUSED[name]} \\({name}\\)"):
        manager_of(spec("FullAttentionSpec"), spec(name))


def test_refused_behind_another_layer_of_its_group() -> None:
    both = spec(UNIFORM, kv_cache_specs={"a": spec("FullAttentionSpec"), "b": spec("MambaSpec")})
    with pytest.raises(UnsupportedError, match="state-space layers"):
        manager_of(both)


def test_what_no_release_has_is_refused_if_it_derives_from_a_spec() -> None:
    with pytest.raises(UnsupportedError, match=r"unknown kind \(NewSpec\)"):
        manager_of(spec("NewSpec"))
    assert manager_of(SimpleNamespace(block_size=16)).num_kv_cache_groups == 1


def test_layers_without_a_prefix_cache_and_other_roles_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="without a prefix cache"):
        manager_of(spec("SlidingWindowMLASpec", prefix_cacheable=False))
    for more in ({"role": SimpleNamespace(value="hisparse_source")}, {"host_resident": True}):
        with pytest.raises(UnsupportedError, match="default role"):
            manager_of(spec("FullAttentionSpec"), **more)


def test_a_pool_sized_for_a_window_is_refused() -> None:
    """Served as full attention, a request of 64 tokens takes 4 blocks in each group, and 7 are there."""
    window, full = spec("SlidingWindowSpec", sliding_window=16), spec("FullAttentionSpec")
    assert manager_of(window).num_kv_cache_groups == 1
    assert manager_of(full, full).num_kv_cache_groups == 2
    with pytest.raises(UnsupportedError, match="takes 8 beside the null block, and num_blocks is 8"):
        manager_of(full, window)


def test_kinds_for_events() -> None:
    both = spec(UNIFORM, kv_cache_specs={"a": spec("FullAttentionSpec"), "b": spec("MLAAttentionSpec")})
    window = spec("SlidingWindowSpec", sliding_window=32)
    full = spec("FullAttentionSpec", sliding_window=32)
    assert [kind_of(its) for its in (both, window, full)] == ["full_attention", "sliding_window", "full_attention"]
    assert [window_of(its) for its in (both, window, full)] == [None, 32, None]
    assert kind_of(SimpleNamespace(block_size=16)) is None


NAMES = """
import importlib, sys
from pathlib import Path
driver, source = sys.argv[1:]
sys.path.insert(0, driver)
answers, sys.stdout = sys.stdout, sys.stderr
importlib.import_module("driver.stand_ins").install(Path(source))
interface = importlib.import_module("vllm.v1.kv_cache_interface")
specs = [one for one in vars(interface).values() if isinstance(one, type) and issubclass(one, interface.KVCacheSpec)]
print(*{one.__name__ for one in specs}, file=answers)
"""


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["0.11.0", "0.20.2", "0.33.0"])
def test_each_class_of_a_release_is_served_or_refused(version: str) -> None:
    there = add(Release(version), print)
    command = [str(needed_environment().python), "-I", "-c", NAMES, str(START.parent), str(there.source)]
    names = set(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.split())
    assert {"FullAttentionSpec", "MambaSpec", "CrossAttentionSpec"} <= names
    assert names <= {*ABSTRACT, *SERVED, *REFUSED, UNIFORM}
