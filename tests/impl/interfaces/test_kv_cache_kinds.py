"""Kinds of layers: the groups that the later `KVCacheManager` serves and refuses, and the classes of the releases."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces.kv_requests import later_request

from cacheimpl.kv_cache_manager import KV_2025_10, KVCacheManager
from cacheimpl.kv_cache_manager.errors import InvalidCountError, UnsupportedError
from cacheimpl.kv_cache_manager.kinds import PAGED, REFUSED, SERVED, UNIFORM, kind_of, window_of
from cacheproof.targets.vllm.release import START, Release, add, needed_environment

ABSTRACT = {"KVCacheSpec", "AttentionSpec"}


READS: dict[str, dict[str, Any]] = {
    "SlidingWindowSpec": {"sliding_window": 32},
    "SlidingWindowMLASpec": {"sliding_window": 32},
    "ChunkedLocalAttentionSpec": {"attention_chunk_size": 32},
    "MambaSpec": {"mamba_cache_mode": "align"},
}
"""What the classes of some kinds say of what they read."""


def spec(name: str, **more: Any) -> Any:
    """A spec whose class has this name, and a base as in the releases."""
    more = {**READS.get(name, {}), **more}
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
    with pytest.raises(UnsupportedError, match=f"group 1 of kv_cache_groups has .* \\(`{name}`\\)") as refused:
        manager_of(spec("FullAttentionSpec"), spec(name))
    assert refused.value.what is REFUSED[name]


def test_refused_behind_another_layer_of_its_group() -> None:
    both = spec(UNIFORM, kv_cache_specs={"a": spec("FullAttentionSpec"), "b": spec("SinkFullAttentionSpec")})
    with pytest.raises(UnsupportedError, match="attention sinks"):
        manager_of(both)


def test_layers_of_a_group_that_read_different_tokens_are_refused() -> None:
    both = spec(UNIFORM, kv_cache_specs={"a": spec("FullAttentionSpec"), "b": spec("SlidingWindowSpec")})
    with pytest.raises(UnsupportedError, match="must read the same tokens"):
        manager_of(both)


@pytest.mark.parametrize(
    ("problem", "more"),
    [("mode 'align'", {"mamba_cache_mode": "all"}), ("mode 'align'", {"mamba_cache_mode": "none"})],
)
def test_states_that_are_refused(problem: str, more: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match=problem):
        manager_of(spec("MambaSpec", **more))


def test_settings_of_groups_that_are_refused() -> None:
    """Whole blocks only; states under rules that find none; drafts beside states; wrong intervals."""
    states = SimpleNamespace(num_blocks=8, kv_cache_groups=[SimpleNamespace(kv_cache_spec=spec("MambaSpec"))])
    with pytest.raises(UnsupportedError, match="need partial_hits"):
        KVCacheManager(states, max_model_len=64, hash_block_size=8, partial_hits=False)
    with pytest.raises(UnsupportedError, match="use_eagle drops the last block"):
        KVCacheManager(states, max_model_len=64, hash_block_size=8, use_eagle=True)
    window = SimpleNamespace(kv_cache_spec=spec("SlidingWindowSpec", sliding_window=16))
    both = SimpleNamespace(num_blocks=8, kv_cache_groups=[*states.kv_cache_groups, window])
    with pytest.raises(UnsupportedError, match="sliding window and blocks of 16 tokens"):
        KVCacheManager(both, max_model_len=64, hash_block_size=8)
    with pytest.raises(UnsupportedError, match="are not supported under the rules"):
        KVCacheManager(states, max_model_len=64, rules=KV_2025_10)
    with pytest.raises(UnsupportedError, match="states of drafts"):
        KVCacheManager(states, max_model_len=64).allocate_slots(later_request("0", [1] * 4), 4, num_lookahead_tokens=1)
    for interval, problem in ((15, "a multiple of scheduler_block_size 16"), (-16, "non-negative")):
        states.prefix_cache_retention_interval = interval
        with pytest.raises(InvalidCountError, match=problem):
            KVCacheManager(states, max_model_len=64)


def test_what_no_release_has_is_refused_if_it_derives_from_a_spec() -> None:
    with pytest.raises(UnsupportedError, match=r"unknown kind \(NewSpec\)"):
        manager_of(spec("NewSpec"))
    assert manager_of(SimpleNamespace(block_size=16)).num_kv_cache_groups == 1


def test_layers_without_a_prefix_cache_and_other_roles_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="without a prefix cache"):
        manager_of(spec("SlidingWindowMLASpec", prefix_cacheable=False))
    refused: list[tuple[str, dict[str, Any]]] = [
        ("must be of the host's pool", {"role": SimpleNamespace(value="hisparse_source")}),
        ("must be of the device's pool", {"host_resident": True}),
        ("has the role 'unheard_of'; the supported roles are default", {"role": "unheard_of"}),
    ]
    for problem, more in refused:
        with pytest.raises(UnsupportedError, match=problem):
            manager_of(spec("FullAttentionSpec"), **more)


def test_a_pool_sized_for_a_window_serves_its_longest_request() -> None:
    """7 blocks are there. A request of 64 tokens takes 4 of full attention, and 2 of the window at once."""
    manager = manager_of(spec("FullAttentionSpec"), spec("SlidingWindowSpec", sliding_window=16))
    request: Any = later_request("0", [1] * 64)
    for end in (16, 32, 48, 64):
        assert manager.allocate_slots(request, 16) is not None
        request.num_computed_tokens = end
    assert [sum(number > 0 for number in its) for its in manager.get_block_ids("0")] == [4, 2]


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
    assert names <= {*ABSTRACT, *SERVED, *PAGED, *REFUSED, UNIFORM}
