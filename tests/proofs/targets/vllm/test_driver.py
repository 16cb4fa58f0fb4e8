"""The driver process: outcomes of a release are told from failures of the driver, and nothing listed is ever used."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cacheproof.model.registry import component_named
from cacheproof.model.scope import scopes_of
from cacheproof.model.target import TargetError
from cacheproof.targets.child import ChildTarget
from cacheproof.targets.vllm.release import START, Installed, Release
from cachespec.kernel import ABSENT, DIVERGED, DONE, FAILED, TOO_LARGE
from cachespec.lru import Config, Contains, Put, Touch

COMPONENT = component_named("lru")
CONFIG = Config(capacity=10, sizes=(1,) * 10)

Replaced = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def target(source: Path) -> Any:
    there = Installed(Release("9.9.9"), source, {})
    command = there.command(Path(sys.executable), source / "dependencies").replace(str(there.source), str(source))
    child = ChildTarget(command, COMPONENT, COMPONENT.normative, seconds=20.0)
    child.reset(CONFIG)
    yield child
    child.close()


def probe(source: Path, dependencies: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(START), str(source), "9.9.9", "--first", str(dependencies), "--probe"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_what_the_release_answers(target: ChildTarget) -> None:
    assert target.apply(Put(0, 4)) == DONE
    assert target.observe() == {"order": (0,), "sizes": (4,), "used": 4, "hits": 0, "total": 0}
    assert target.apply(Put(1, 11)) == TOO_LARGE
    assert target.apply(Touch(0)) == DONE
    assert target.apply(Touch(1)) == ABSENT


def test_a_release_says_which_operations_it_has(target: ChildTarget) -> None:
    assert target.declaration().missing(COMPONENT) == {"evict"}, "which is no call, and nothing else"


def test_a_component_that_cannot_be_driven_says_nothing_of_itself(source: Path) -> None:
    there, owner = Installed(Release("9.9.9"), source, {}), component_named("kv_blocks")
    command = there.command(Path(sys.executable), source / "dependencies").replace(str(there.source), str(source))
    child = ChildTarget(command, owner, owner.normative, seconds=20.0)
    assert child.declaration().features == frozenset()
    with pytest.raises(TargetError, match="the driver does not fit"):
        child.reset(scopes_of(owner)[0].config)
    child.close()


def test_an_assertion_of_the_release_is_an_outcome(target: ChildTarget) -> None:
    target.apply(Put(8, 1))
    assert target.apply(Touch(8)) == FAILED
    assert re.fullmatch(r"AssertionError at vllm/utils/cache\.py:\d+", target.remark), (
        "what the release raised, and where"
    )
    assert target.apply(Touch(8)) == FAILED, "the driver lives on"
    assert target.apply(Touch(0)) == ABSENT
    assert target.remark == "", "of the last call"


def test_a_call_that_never_returns_is_an_outcome_and_ends_the_episode(target: ChildTarget) -> None:
    target.apply(Put(7, 1))
    assert target.apply(Touch(7)) == DIVERGED
    assert target.observe() == {}
    with pytest.raises(TargetError, match="did not return"):
        target.apply(Touch(0))
    target.reset(CONFIG)
    assert target.apply(Put(0, 1)) == DONE


def test_an_error_that_only_a_wrong_driver_causes_is_no_outcome(target: ChildTarget) -> None:
    target.apply(Put(9, 1))
    with pytest.raises(TargetError, match=r"does not fit: no such attribute at .*cache\.py:\d+; test the other "):
        target.apply(Touch(9))


def test_what_is_stood_in_for_cannot_be_used_unnoticed(target: ChildTarget) -> None:
    with pytest.raises(TargetError, match=r"vllm\.platforms\.current_platform\.there was called"):
        target.apply(Contains(5))


def test_the_probe_tells_modules_and_stand_ins(source: Path) -> None:
    ended = probe(source, source / "dependencies")
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["files"] == [
        "dependencies/cachetools.py",
        "dependencies/msgspec.py",
        "dependencies/numpy.py",
        "dependencies/torch.py",
        "vllm/utils/__init__.py",
        "vllm/utils/cache.py",
        "vllm/v1/core/encoder_cache_manager.py",
        "vllm/v1/engine/__init__.py",
        "vllm/v1/engine/mm_input_cache.py",
    ], "the planted __init__ of vllm was not run, and what nobody imports is not named"
    assert told["stand_ins"] == [
        "transformers",
        "vllm",
        "vllm.config",
        "vllm.distributed",
        "vllm.distributed.device_communicators",
        "vllm.distributed.kv_events",
        "vllm.distributed.parallel_state",
        "vllm.multimodal",
        "vllm.multimodal.cache",
        "vllm.platforms",
        "vllm.sampling_params",
        "vllm.v1",
        "vllm.v1.core",
        "vllm.v1.structured_output",
    ]


def obstacles(source: Path, dependencies: Path) -> dict[str, str]:
    """Why each component cannot be driven."""
    ended = probe(source, dependencies)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, str] = json.loads(ended.stdout)["components"]
    return found


def test_what_can_be_driven_and_what_cannot(source: Path) -> None:
    """The made-up release has three components; of the others it says what is missing."""
    fits = "the driver does not fit: "
    storage = f"{fits}the release has no vllm.distributed.device_communicators.shm_object_storage"
    blocks = f"{fits}the release has no vllm.v1.core.kv_cache_utils"
    found = obstacles(source, source / "dependencies")
    details = {component: why.partition(" at ") for component, why in found.items()}
    assert details["ring"][2].startswith("ring.py:")
    assert details["ring"][2].endswith(
        "tell the driver in adapters.toml (docs/released_packages.md, 'A driver that does not fit')"
    )
    assert {component: why for component, (why, _, _) in details.items()} == {
        "lru": "",
        "encoder_cache": "",
        "mirror": "",
        "encoder_budget": "nothing in the release computes encoder budgets",
        "configuration": f"{fits}nothing in the release chooses between caches",
        "block_hash": blocks,
        "kv_blocks": blocks,
        "kv_events": blocks,
        "layer_groups": blocks,
        "partial_hits": blocks,
        "scheduler": f"{fits}nothing in the release schedules requests",
        "engine": f"{fits}nothing in the release schedules requests",
        "ring": storage,
        "object_store": storage,
    }


def test_what_is_neither_listed_nor_installed_is_stood_in_for(source: Path, made_up: Replaced) -> None:
    """It is listed, and calling it is still a failure. A guarded import finds what it would find without the driver."""
    guarded = "try:\n    import something_old\nexcept ImportError:\n    old = None\n"
    other = made_up(
        {
            "vllm/utils/cache.py": f"import something_new_and_heavy\n{guarded}assert old is None\nLRUCache = dict\n",
            "vllm/v1/core/encoder_cache_manager.py": "import something_else\nsomething_else.at_once()\n",
        }
    )
    told = json.loads(probe(other, source / "dependencies").stdout)
    assert told["components"]["lru"] == ""
    assert {"something_new_and_heavy", "something_else"} < set(told["stand_ins"])
    assert "something_else.at_once was called" in told["components"]["encoder_cache"]
    assert told["components"]["mirror"] == "", "one component that cannot be driven does not spoil the others"


def test_a_module_that_fails_at_import_and_is_not_driven_is_stood_in_for(source: Path, made_up: Replaced) -> None:
    """A driven one is not. Both files are kept, so the release fails in the same way without the others."""
    other = made_up(
        {
            "vllm/utils/cache.py": "from vllm.side import helper\nclass LRUCache: pass\n",
            "vllm/side.py": "raise OSError('no accelerator')\n",
            "vllm/v1/core/encoder_cache_manager.py": "from vllm.v1.core.pool import Pool\n",
            "vllm/v1/core/pool.py": "raise OSError('no pool')\n",
        }
    )
    told = json.loads(probe(other, source / "dependencies").stdout)
    assert told["components"]["lru"] == ""
    assert "vllm.side" in told["stand_ins"]
    assert told["components"]["encoder_cache"].startswith("the driver does not fit: no pool at vllm/v1/core/pool.py:1;")
    assert {"vllm/side.py", "vllm/v1/core/pool.py"} < set(told["files"])


def test_a_stand_in_that_is_called_at_import_fails(source: Path, made_up: Replaced) -> None:
    other = made_up({"vllm/utils/cache.py": "import transformers\nLRUCache = transformers.made()\n"})
    assert "transformers.made was called" in obstacles(other, source / "dependencies")["lru"]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"do": "apply", "op": "touch", "key": 1}, "init comes first"),
        ({"do": "init", "component": "no_such_component"}, "no driver for 'no_such_component'"),
        ({"do": "dance"}, "unknown request 'dance'"),
    ],
)
def test_messages_out_of_turn_are_refused(source: Path, message: dict[str, Any], said: str) -> None:
    command = [sys.executable, "-I", str(START), str(source), "9.9.9", "--first", str(source / "dependencies")]
    ended = subprocess.run(
        command, input=json.dumps(message) + "\n", capture_output=True, text=True, check=False, timeout=60
    )
    answer = json.loads(ended.stdout)
    assert (answer["answer"], said in answer["text"]) == ("error", True), answer


def test_an_operation_without_a_driver_is_unsupported_and_a_wrong_field_is_refused(source: Path) -> None:
    lines = [
        {"do": "init", "component": "lru", "capacity": 3},
        {"do": "apply", "op": "evict"},
        {"do": "apply", "op": "touch", "key": "0"},
    ]
    command = [sys.executable, "-I", str(START), str(source), "9.9.9", "--first", str(source / "dependencies")]
    asked = "".join(json.dumps(line) + "\n" for line in lines)
    ended = subprocess.run(command, input=asked, capture_output=True, text=True, check=False, timeout=60)
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [answer.get("text", answer.get("code")) for answer in answers] == [
        None,
        "unsupported",
        "key must be an integer, not '0'",
    ]
    assert {**answers[1], "answer": "state", "code": None} == {**answers[0], "code": None}
