"""Contracts that run the implementation beside the specification: what is shipped, and what their ledger refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.planting import Change, planted
from tests.proofs.prove.implementation.reaching import tensor_functions
from tests.proofs.prove.implementation.unconfirmed import OPEN, files_run, modules_with_functions, reason_of

from cacheimpl.encoder_budget import rules
from cacheimpl.encoder_cache.early import EarlyEncoderCacheManager
from cacheimpl.kv_cache_manager import contents
from cacheimpl.kv_cache_manager.blocks import FreeKVCacheBlockQueue
from cacheimpl.kv_cache_manager.reach import Reach
from cacheimpl.mirror.order import RecencyOrder
from cacheimpl.mirror.receiver import MirrorReceiver
from cacheimpl.mirror.sender import MirrorSender
from cacheimpl.processor_cache import selectors
from cacheimpl.processor_cache.lru_cache import LRUCache
from cacheimpl.ring.placement import Placement
from cacheimpl.scheduler import feasibility
from cacheproof.foundation.discover import modules_in
from cacheproof.model.registry import component_named
from cacheproof.model.store import HOME_VARIABLE, load
from cacheproof.present.evidence import evidence
from cacheproof.prove import confirmation, session
from cacheproof.prove.contract import Beside, Pair
from cacheproof.prove.finding import IMPLEMENTATION_CROSSHAIR, Finding, Verdict
from cacheproof.prove.ledger import confirm_beside, functions_with_contracts
from cacheproof.prove.planting import doing_nothing, plain, runs

MODULES = modules_in(session.BESIDE)
LEAST = 40
"""Contracts of the default set."""


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
def test_every_shipped_ledger_names_its_contracts_and_a_function_of_the_implementation(module: ModuleType) -> None:
    assert list(module.LEDGER) == functions_with_contracts(module)
    for entry in (*module.LEDGER.values(), *getattr(module, "PAIRS", {}).values()):
        assert entry.bound
        assert plain(entry.function).__module__.startswith("cacheimpl.")


def test_there_are_as_many_contracts_as_are_claimed() -> None:
    usual = [entry for module in MODULES.values() for entry in module.LEDGER.values() if not entry.nightly]
    assert len(usual) >= LEAST
    assert all(isinstance(entry, Beside) and entry.paths > 1 for entry in usual)


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
def test_each_example_runs_its_function_and_fails_without_it(module: ModuleType) -> None:
    for name, entry in {**module.LEDGER, **getattr(module, "PAIRS", {})}.items():
        example = confirmation.example_of(module, name)
        assert runs(example, entry.function), name
        assert confirmation.holds(example), name
        with doing_nothing(entry.function):
            assert not confirmation.holds(example), name


def test_each_module_is_run_or_named_with_the_reason() -> None:
    modules, run = modules_with_functions(), files_run(MODULES.values())
    tensors = {name.partition(":")[0] for name in tensor_functions()}
    open_ones = {name for name, file in modules.items() if file not in run and name not in tensors}
    assert {name for name in open_ones if reason_of(name) is None} == set(), "no contract runs it: give the reason"
    named = {name for name in modules if name in OPEN or any(name.startswith(f"{one}.") for one in OPEN)}
    assert {name for name in named if modules[name] in run and name in OPEN} == set(), "a contract runs it by now"
    assert {one for one in OPEN if not any(f"{name}.".startswith(f"{one}.") for name in modules)} == set()


# Planted bugs, under CrossHair ----------------------------------------------------------------------------------------

BUGS: tuple[tuple[str, str, Change], ...] = (
    ("encoder_budget", "compute_budget", Change(rules.budget_of, "max(settings.compute, $a)", "settings.compute")),
    ("encoder_budget", "whole_items", Change(rules.budget_of, "most_tokens > longest", "most_tokens >= longest")),
    ("encoder_budget", "intake", Change(rules.EncoderBudget.check_item, "$a > self.usable", "$a > self.compute + 1")),
    ("lru", "put", Change(LRUCache.put, "self.currsize - held + size > $a", "self.currsize + size > $a")),
    ("lru", "pop", Change(LRUCache._remove, "self.currsize -= $a", "self.currsize -= 0")),
    ("lru", "get", Change(LRUCache.get, "self._total += 1", "self._total += 0")),
    ("mirror", "walk_of_one_item", Change(RecencyOrder.plan, "size <= self.capacity", "size < self.capacity")),
    ("mirror", "receive_a_probe", Change(MirrorReceiver.receive, "$a.sequence > $b", "$a.sequence >= $b")),
    ("mirror", "take_an_answer", Change(MirrorSender.receive, "$a.sequence < $b", "$a.sequence <= $b")),
    ("ring", "reserve", Change(Placement.address_for, "at + total > capacity", "at + total >= capacity")),
    ("ring", "free_two", Change(Placement.rebase, "self.start >= self.capacity", "self.start > self.capacity")),
    ("encoder_cache", "can_allocate", Change(EarlyEncoderCacheManager.can_allocate, "size > budget", "size >= budget")),
    ("configuration", "sending_is_saved_for_pairs", Change(selectors.one_to_one, "$a._api_process_count == 1", "True")),
    ("scheduler", "item_fits_one_chunk", Change(feasibility.item_fits, "start + $a >= prompt", "start + $a > prompt")),
    ("block_hash", "extra_keys", Change(contents.generate_block_hash_extra_keys, "start_token_idx == 0", "True")),
    ("kv_blocks", "remove_and_add", Change(FreeKVCacheBlockQueue.remove, "$a.num_free_blocks -= 1", "pass")),
    ("layer_groups", "first_needed_window", Change(Reach.first_needed, "tokens - self.span + 1", "tokens - self.span")),
)  # fmt: skip


@pytest.mark.parametrize(
    ("component", "name", "change"), BUGS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_planted_bug_is_refuted(component: str, name: str, change: Change) -> None:
    module = MODULES[component]
    with confirmation.numbers_read_alike(), planted(change):
        entry = getattr(module, "PAIRS", {}).get(name)
        answer = confirmation.confirmed(getattr(module, name)) if entry is None else confirmation.compared(entry)
    assert answer.verdict == Verdict.REFUTED.value, answer
    assert answer.detail


# What the ledger refuses ----------------------------------------------------------------------------------------------


def verdict_of(name: str, entry: Any, monkeypatch: pytest.MonkeyPatch) -> Finding:
    """What comes of one contract of `lru` with another entry in the ledger, as the child process finds it."""
    module = MODULES["lru"]
    monkeypatch.setattr(module, "LEDGER", {name: entry})
    answer = confirmation.answer_of(module, name)
    return Finding("lru", name, "", IMPLEMENTATION_CROSSHAIR, Verdict(answer.verdict), "", 0.0, answer.detail)


EXAMPLE = {"sizes": (3, 4), "room": 2, "key": 0}


@pytest.mark.parametrize(
    ("entry", "verdict", "message"),
    [
        (Beside("", LRUCache.pop, EXAMPLE), Verdict.UNSOUND, "the example does not run"),
        (Beside("", Path.exists, EXAMPLE), Verdict.UNSOUND, "no function of the implementation"),
        (Beside("", LRUCache.__len__, EXAMPLE), Verdict.UNSOUND, "holds even if"),
        (Beside("", LRUCache.getsizeof, {**EXAMPLE, "key": 2}), Verdict.UNSOUND, "the example does not run"),
        (Beside("", LRUCache.touch, {**EXAMPLE, "key": 2}), Verdict.UNSOUND, "holds even if"),
        (Beside("", LRUCache.touch, EXAMPLE, paths=10_000), Verdict.VACUOUS, "at least 10000 are due"),
        (Beside("", LRUCache.touch, EXAMPLE), Verdict.CONFIRMED, ""),
    ],
)  # fmt: skip
def test_a_contract_that_does_not_depend_on_its_function_fails(
    entry: Beside, verdict: Verdict, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = verdict_of("touch", entry, monkeypatch)
    assert finding.verdict is verdict
    assert message in finding.detail


def test_an_entry_that_names_no_function_is_unsound(monkeypatch: pytest.MonkeyPatch) -> None:
    module = MODULES["lru"]
    monkeypatch.setattr(module, "LEDGER", {"touch": "any cache"})
    rows = {finding.name: finding.verdict for finding in confirm_beside("lru", module)}
    assert rows.pop("touch") is Verdict.UNSOUND
    assert set(rows.values()) == {Verdict.UNLISTED}
    monkeypatch.setattr(module, "LEDGER", {})
    assert Verdict.VACUOUS in {finding.verdict for finding in confirm_beside("lru", module)}


def same(number: int) -> int:
    """What the specification would say."""
    return number


def apart(number: int) -> int:
    """As `same`, but for one number."""
    return number if number != 77 else 78


def refusing(number: int) -> int:
    """As `same`, by a function of the implementation that takes no number below 1."""
    return rules.positive("number", number)


@pytest.mark.parametrize(("implementation", "shown"), [(apart, "'77'"), (refusing, "InvalidSettingError")])
def test_a_pair_that_differs_is_refuted_and_shows_where(implementation: Callable[[int], int], shown: str) -> None:
    with confirmation.numbers_read_alike():
        answer = confirmation.compared(Pair("", same, implementation, rules.positive, {"number": 3}))
    assert answer.verdict == Verdict.REFUTED.value
    assert shown in answer.detail


# The command ----------------------------------------------------------------------------------------------------------


def test_contracts_of_the_implementation_are_listed_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    arguments = ["prove", "--implementation", "--method", "crosshair", "configuration", "--json", "--jobs", "1"]
    ended = subprocess.run(
        [sys.executable, "-m", "cacheproof", *arguments], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    rows = {row["name"]: row for row in json.loads(ended.stdout)["obligations"]}
    assert set(rows) == set(MODULES["configuration"].LEDGER)
    assert {row["method"] for row in rows.values()} == {IMPLEMENTATION_CROSSHAIR}
    assert {row["verdict"] for row in rows.values()} == {"confirmed"}
    assert all(row["checks"] >= MODULES["configuration"].LEDGER[name].paths for name, row in rows.items())
    kept = load("prove", "configuration-implementation-crosshair")
    said = {one.method: one.text for one in evidence([component_named("configuration")], [kept])}
    assert said["implementation confirmed to a bound"] == (
        f"{len(rows)} obligations of the implementation confirmed, each to its bound"
    )
    assert said["confirmed to a bound"] == "no run yet"


def test_contracts_that_take_long_are_in_the_set_all() -> None:
    parts = [session.chosen_implementation(["lru"], "crosshair", nightly=nightly) for nightly in (False, True)]
    assert [one.shapes for one in parts] == [{}, {}]
    assert [one.beside for one in parts] == [("lru",), ("lru",)]
    assert [one.nightly for one in parts] == [False, True]
    both = session.chosen_implementation(["lru"], None, nightly=False)
    assert (list(both.shapes), both.beside) == (["lru"], ("lru",))
