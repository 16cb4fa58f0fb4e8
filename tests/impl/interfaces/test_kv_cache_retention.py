"""Retention intervals: which blocks of windows and which states look-ups still find (LG-15)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces.kv_requests import later_request
from tests.impl.interfaces.lockstep import differs
from tests.planting import Change, planted

from cacheimpl.kv_cache_manager import KV_2026_11, NORMATIVE, LaterKVCacheManager, Rules
from cacheimpl.kv_cache_manager.errors import InvalidCountError
from cacheimpl.kv_cache_manager.execution import Execution
from cacheimpl.kv_cache_manager.retention import Retention, Thinned
from cacheproof.targets.tensor import layer_groups_manager as targets

BOTH = pytest.mark.parametrize("rules", [NORMATIVE, KV_2026_11], ids=["normative", "0.33.0"])


def manager_of(interval: int | None, *others: tuple[str, int, dict[str, Any]], rules: Rules, **more: Any) -> Any:
    """Full attention in blocks of two tokens, and other groups."""
    kinds = (("FullAttentionSpec", 2, {}), *others)
    groups = [
        SimpleNamespace(kv_cache_spec=type(name, (SimpleNamespace,), {})(block_size=size, **its))
        for name, size, its in kinds
    ]
    if "drafting" in more:
        groups[more.pop("drafting")].is_eagle_group = True
        more["use_eagle"] = True
    config = SimpleNamespace(num_blocks=64, kv_cache_groups=groups, prefix_cache_retention_interval=interval)
    return LaterKVCacheManager(config, 64, scheduler_block_size=2, hash_block_size=1, rules=rules, **more)


WINDOW: tuple[str, int, dict[str, Any]] = ("SlidingWindowSpec", 1, {"sliding_window": 3})
STATES: tuple[str, int, dict[str, Any]] = ("MambaSpec", 1, {"mamba_cache_mode": "align"})


def findable(manager: Any, tokens: int, prompt: int | None = None, shared: int = 0) -> list[int]:
    """The positions of the last group that can be found after a request with so many tokens was executed."""
    request: Any = later_request("0", list(range(tokens)))
    request.num_prompt_tokens, request.shared_prefix_boundary = prompt or tokens, shared
    assert manager.allocate_slots(request, tokens) is not None
    manager.cache_blocks(request, tokens)
    table = manager.get_blocks("0").blocks[-1]
    return [position for position, block in enumerate(table) if block.block_hash is not None]


@BOTH
def test_the_window_of_the_prompt_can_be_found(rules: Rules) -> None:
    """The prompt of 9 tokens goes on behind 8, and reads the two before them; one of 8 goes on behind 6."""
    assert findable(manager_of(0, WINDOW, rules=rules), 9) == [6, 7]
    assert findable(manager_of(0, WINDOW, rules=rules), 8) == [4, 5]
    assert findable(manager_of(0, WINDOW, rules=rules), 12, prompt=7) == [4, 5]
    assert findable(manager_of(None, WINDOW, rules=NORMATIVE), 9) == [*range(9)]


@BOTH
def test_multiples_of_the_interval_and_a_shared_prefix_can_be_found(rules: Rules) -> None:
    assert findable(manager_of(6, WINDOW, rules=rules), 15) == [4, 5, 10, 11, 12, 13]
    assert findable(manager_of(0, WINDOW, rules=rules), 15, shared=5) == [2, 3, 12, 13]
    assert findable(manager_of(2, WINDOW, rules=rules), 8) == [*range(8)]


@BOTH
def test_a_state_can_be_found_where_a_step_ends_with_it(rules: Rules) -> None:
    manager = manager_of(0, STATES, rules=rules)
    request: Any = later_request("0", list(range(7)))
    for end in (2, 4, 6, 7):
        assert manager.allocate_slots(request, end - request.num_computed_tokens) is not None
        request.num_computed_tokens = end
        manager.cache_blocks(request, end)
    (_, states) = manager.get_blocks("0").blocks
    assert [position for position, block in enumerate(states) if block.block_hash is not None] == [5]
    again: Any = later_request("1", list(range(7)))
    assert manager.get_computed_blocks(again)[1] == 6


def test_a_block_of_draft_layers_is_one_of_the_prompt() -> None:
    """Of 7 tokens the same prompt could go on behind 6, where draft layers with blocks of two tokens have no proof."""
    assert [Retention(0, 2, proof, True, False).ends(7, 7) for proof in (0, 2)] == [(6, 6, 6), (4, 6, 4)]


def test_draft_layers_with_short_blocks() -> None:
    """The prompt of 7 tokens goes on behind 6, with block 6 as proof. 0.33.0 keeps the window behind 4 (C-KV-35)."""
    assert findable(manager_of(0, WINDOW, rules=NORMATIVE, drafting=1), 7) == [4, 5, 6]
    assert findable(manager_of(0, WINDOW, rules=KV_2026_11, drafting=1), 7) == [2, 3, 4]


@BOTH
def test_a_resend_finds_what_was_kept(rules: Rules) -> None:
    manager = manager_of(0, WINDOW, rules=rules)
    findable(manager, 9)
    again: Any = later_request("1", list(range(9)))
    hits, tokens, boundary = manager.get_computed_blocks(again)
    assert (tokens, boundary, len(hits.blocks[1])) == (8, 0, 8)
    shorter: Any = later_request("2", list(range(7)))
    assert manager.get_computed_blocks(shorter)[1:] == (0, 6)


def test_wrong_intervals() -> None:
    for interval in (1, -2, 2.0, "2"):
        with pytest.raises(InvalidCountError, match="a multiple of scheduler_block_size 2"):
            manager_of(interval, WINDOW, rules=NORMATIVE)  # type: ignore[arg-type]  # what is wrong
    with pytest.raises(InvalidCountError, match="retention has no effect"):
        manager_of(2, rules=NORMATIVE)
    assert findable(manager_of(0, rules=NORMATIVE), 4) == [0, 1]


BUGS: dict[str, tuple[str, Change]] = {
    "the prompt ends a token later": ("retention", Change(Retention.ends, "max(0, $prompt - 1)", "$prompt")),
    "shared prefixes are not kept": (
        "retention",
        Change(Retention.ends, "return $again, $whole, $proved", "return (again,)"),
    ),
    "multiples are not kept": ("retention-interval", Change(Retention._is_of_multiple, "not self.interval", "True")),
    "a window without its first block": (
        "retention",
        Change(Thinned.needs, "$first <= $position < $last", "$first < $position < $last"),
    ),
    "draft layers need no block": ("retention-drafting", Change(Thinned.needs, "$count + self.proofs", "$count")),
    "everything is kept": ("retention", Change(Execution._kept, "self.retention is None", "True")),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_noticed(bug: str) -> None:
    where, change = BUGS[bug]
    with planted(change):
        assert differs(
            "layer_groups", "normative", targets.open_later, steps=3000, only=lambda scope: scope.name == where
        )


RELEASED: dict[str, tuple[str, Change]] = {
    "one boundary of drafts": (
        "retention-drafting",
        Change(Retention.released_ends, "self._aligned($end) - self.alignment", "$end"),
    ),
    "a prompt with its last token": ("retention", Change(Retention.released_ends, "[$prompt - 1]", "[$prompt]")),
    "no segments": ("retention-interval", Change(Retention._ends_a_segment, "not self.interval", "True")),
}


@pytest.mark.parametrize("bug", RELEASED)
def test_planted_bugs_of_the_era_are_noticed(bug: str) -> None:
    where, change = RELEASED[bug]
    with planted(change):
        assert differs("layer_groups", "K2", targets.open_2026_11, steps=3000, only=lambda scope: scope.name == where)
