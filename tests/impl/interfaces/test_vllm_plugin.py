"""The plug-in for vLLM: it needs no vLLM to be imported, refuses by name, and its schedulers serve random loads."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.impl.hisparse_engine import config_of
from tests.impl.interfaces.test_engine_loads import answered

import cacheimpl
from cacheimpl.kv_cache_manager import LaterKVCacheManager
from cacheimpl.vllm import VARIABLE, UnsupportedSettingError, classes, hisparse, register
from cacheimpl.vllm.items import give_back_data
from cacheimpl.vllm.settings import RULES, Switch, rules_of, switch
from cacheimpl.vllm.unsupported import (
    REFUSED,
    calls_of,
    check_calls,
    check_connector,
    check_settings,
    check_version,
)
from cacheproof.targets.vllm.release import Release, installed

IMPL = Path(cacheimpl.__file__).parents[1]
ERAS = {"0.11.0": "KV_2025_10", "0.20.2": "KV_2025_10", "0.33.0": "KV_2026_11"}


def configuration(**changed: Any) -> SimpleNamespace:
    """An engine that is served."""
    parts: dict[str, Any] = {
        "model_config": SimpleNamespace(is_encoder_decoder=False, is_diffusion=False),
        "observability_config": SimpleNamespace(kv_cache_metrics=False),
        "parallel_config": SimpleNamespace(decode_context_parallel_size=1, prefill_context_parallel_size=1),
        "ec_manager_config": SimpleNamespace(manager_config={}),
        "ec_transfer_config": None,
        "additional_config": {},
    }
    return SimpleNamespace(**{**parts, **changed})


WRONG: dict[str, dict[str, Any]] = {
    "an encoder-decoder model": {"model_config": SimpleNamespace(is_encoder_decoder=True)},
    "a diffusion model": {"model_config": SimpleNamespace(is_encoder_decoder=False, is_diffusion=True)},
    "--ec-transfer-config": {"ec_transfer_config": object()},
    "manager_config of --ec-manager-config": {"ec_manager_config": SimpleNamespace(manager_config={"size": 1})},
    "--kv-cache-metrics": {"observability_config": SimpleNamespace(kv_cache_metrics=True)},
    "--decode-context-parallel-size": {"parallel_config": SimpleNamespace(decode_context_parallel_size=2)},
    "--prefill-context-parallel-size": {"parallel_config": SimpleNamespace(prefill_context_parallel_size=2)},
}


def test_importing_it_imports_no_vllm() -> None:
    code = "import sys, cacheimpl.vllm as p; p.register(); print([n for n in sys.modules if n.split('.')[0] == 'vllm'])"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={"PYTHONPATH": str(IMPL)}
    )
    assert (ended.stdout.strip(), ended.stderr) == ("[]", "")


def test_the_entry_point_is_the_function() -> None:
    project = tomllib.loads((IMPL.parent / "pyproject.toml").read_text())["project"]
    named = project["entry-points"]["vllm.general_plugins"]["cacheimpl"]
    assert EntryPoint("cacheimpl", named, "vllm.general_plugins").load() is register


def test_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert switch() is Switch.NAMED
    for value, meaning in (("0", Switch.OFF), ("1", Switch.EVERYWHERE)):
        monkeypatch.setenv(VARIABLE, value)
        assert switch() is meaning
    monkeypatch.setenv(VARIABLE, "yes")
    with pytest.raises(UnsupportedSettingError, match=r"CACHEIMPL_VLLM must be .*, not 'yes'"):
        switch()


def test_rules_are_chosen_by_name() -> None:
    assert rules_of(configuration()) == "NORMATIVE"
    for name in RULES:
        assert rules_of(configuration(additional_config={"cacheimpl": {"rules": name}})) == name
    for wrong in ({"cacheimpl": {"rules": "none"}}, {"cacheimpl": {"rule": "NORMATIVE"}}, {"cacheimpl": "NORMATIVE"}):
        with pytest.raises(UnsupportedSettingError, match="rules"):
            rules_of(configuration(additional_config=wrong))


def test_each_wrong_setting_is_refused_by_name() -> None:
    check_settings(configuration())
    assert len(WRONG) == len(REFUSED)
    for name, changed in WRONG.items():
        with pytest.raises(UnsupportedSettingError, match=f"^{name}"):
            check_settings(configuration(**changed))


def test_an_unknown_release_is_refused() -> None:
    for known in ("0.11.0", "0.33.0+cpu", "dev"):
        check_version(known)
    for unknown in ("0.34.0", "0.3.0", "1.0.0"):
        with pytest.raises(UnsupportedSettingError, match=f"vLLM {unknown} was never run"):
            check_version(unknown)


def test_new_requests_get_the_data_of_all_their_items() -> None:
    """C-ENC-30: what the release's plan has left out comes back, and a request that has ended changes nothing."""
    items = [SimpleNamespace(data="pixels"), SimpleNamespace(data="more")]
    left_out = [SimpleNamespace(data=None), items[1]]
    plan = SimpleNamespace(
        scheduled_new_reqs=[
            SimpleNamespace(req_id="hit", mm_features=left_out),
            SimpleNamespace(req_id="ended", mm_features=left_out),
        ]
    )
    give_back_data(plan, {"hit": SimpleNamespace(mm_features=items)})
    assert [new.mm_features for new in plan.scheduled_new_reqs] == [items, left_out]


def test_a_connector_that_reads_the_pool_is_refused() -> None:
    base = type("KVConnectorBase_V1", (), {"bind_gpu_block_pool": lambda *_: None})
    check_connector(None)
    check_connector(type("Plain", (base,), {})())
    with pytest.raises(UnsupportedSettingError, match=r"^Offloading.* is a KV connector that reads the inside"):
        check_connector(type("Offloading", (base,), {"bind_gpu_block_pool": lambda *_: None})())
    check_connector(type("HiSparseConnector", (base,), {"bind_gpu_block_pool": lambda *_: None})())


def test_the_connector_of_hisparse_gets_our_coordinator_for_our_managers(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {place: ModuleType(place) for place in hisparse.PLACES}
    for place, module in modules.items():
        vars(module)[hisparse.FUNCTION] = lambda manager: ("theirs", manager)
        monkeypatch.setitem(sys.modules, place, module)
    for _ in range(2):
        hisparse.choose()
    ours = LaterKVCacheManager(config_of(24, 20), max_model_len=8)
    for module in modules.values():
        chosen = vars(module)[hisparse.FUNCTION]
        assert chosen(ours) is ours.hisparse
        assert chosen("a manager") == ("theirs", "a manager")
    connectors = [SimpleNamespace(kv_connector="HiSparseConnector"), SimpleNamespace(kv_connector="Other"), None]
    wanted = [hisparse.is_wanted(SimpleNamespace(kv_transfer_config=its)) for its in connectors]
    assert wanted == [True, False, False]


def test_a_scheduler_that_reads_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [SimpleNamespace(kv_cache_spec=SimpleNamespace(block_size=2))]
    manager = LaterKVCacheManager(SimpleNamespace(num_blocks=4, kv_cache_groups=groups), max_model_len=8)
    source = "self.kv_cache_manager.free(r); self.kv_cache_manager.block_pool.free_blocks(x)"
    module = ModuleType("scheduler")
    monkeypatch.setattr("inspect.getsource", lambda _: source)
    assert calls_of((module,)) == ["kv_cache_manager.block_pool.free_blocks", "kv_cache_manager.free"]
    check_calls((module,), {"kv_cache_manager": manager})
    source += "; self.kv_cache_manager.block_pool.rewind(r)"
    with pytest.raises(UnsupportedSettingError, match=r"reads kv_cache_manager\.block_pool\.rewind"):
        check_calls((module,), {"kv_cache_manager": manager})


def test_an_executed_step_is_told_to_the_manager() -> None:
    """So that blocks that a step has copied can be found, even if none of its requests is left."""

    class Base:
        def update_from_output(self, said: str, output: str) -> tuple[str, str]:
            return said, output

    made: Any = classes._scheduler(Base)
    scheduler, told = made.__new__(made), list[str]()
    scheduler.kv_cache_manager = SimpleNamespace(commit_step=lambda: told.append("executed"))
    assert scheduler.update_from_output("plan", output="tokens") == ("plan", "tokens")
    assert told == ["executed"]


@pytest.mark.parametrize(
    "version", ["0.33.0", *(pytest.param(version, marks=pytest.mark.nightly) for version in ("0.20.2", "0.11.0"))]
)
def test_in_the_schedulers_of_a_release(version: str) -> None:
    """Under the rules of its era the plans are the release's; normatively no call fails. The log names the classes."""
    if installed(Release(version)) is None:
        pytest.skip(f"vllm=={version} is not installed: cacheproof target add vllm=={version}")
    answer = answered(version, "plugin_schedulers.py", version)
    for mode, found in answer["modes"].items():
        assert found["errors"] == []
        assert found["hits"]
        assert found["resumed"]
        assert found["scheduler"] == "cacheimpl.vllm." + mode.partition(",")[0]
        assert found["manager"].startswith("cacheimpl.")
        assert found["same"] == 2 or mode.endswith("None")
    for name in ("NORMATIVE", ERAS[version]):
        assert any(f"rules {name}, and cacheimpl.vllm.encoder." in line for line in answer["log"])
