"""Which package imports which: specification, implementation and checkers each have a list."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import cacheproof
from cacheproof.present.book.import_graph import module_name, names_imported

ROOT = Path(__file__).parents[2]

EXTRAS = (
    *("torch", "triton", "numpy", "hypothesis", "z3", "cvc5", "crosshair", "icontract", "tomlkit", "zmq", "pytest"),
    *("ray", "redis"),
    "cacheimpl",
)


@dataclass(frozen=True)
class Rule:
    """What the modules under one folder may import, beside the standard library; `apart` has a rule of its own."""

    folder: str
    may: tuple[str, ...]
    apart: tuple[str, ...] = ()


OVER_THE_NETWORK = "impl/cacheimpl/mirror/example"
"""Processes that talk over ZeroMQ; nothing of the package itself imports them."""

PLUGIN = "impl/cacheimpl/vllm"
"""Runs inside an engine, and imports it in functions."""

RELEASED = "proofs/cacheproof/targets/vllm/child"
"""Runs in the environment of a released package, where nothing of ours is installed."""

RELEASED_OTHERS = (
    "proofs/cacheproof/targets/prefixes/child",
    "proofs/cacheproof/targets/sglang/child",
    "proofs/cacheproof/targets/transformers/child",
)
"""Likewise, with what drives vLLM there."""

MEASURED = "proofs/cacheproof/bench/released/child"
"""Runs there too, and measures; it uses what drives the package."""

PLANTED = "proofs/cacheproof/releases/planted/child"
"""Runs there too, with a bug in it; it uses what drives the package."""

RECORDER = "proofs/cacheproof/logs/record/child"
"""Runs inside an engine that records itself, where nothing of ours is installed either."""

RECORDED = "cacheproof_recorder"
"""The module of it that an engine loads; a trial of a whole engine, which plants bugs too, does so by itself."""

WHOLE = "proofs/cacheproof/releases/engine/child"
"""Runs in the environment of a whole engine."""

RULES = (
    Rule("spec/cachespec", ("cachespec",)),
    Rule("impl/cacheimpl", ("cacheimpl", "msgspec", "torch", "triton"), apart=(OVER_THE_NETWORK, PLUGIN)),
    Rule(OVER_THE_NETWORK, ("cacheimpl", "msgspec", "zmq")),
    Rule(
        "proofs/cacheproof",
        ("cacheproof", "cachespec", "rich", "typer", "msgspec", *EXTRAS),
        apart=(RELEASED, MEASURED, PLANTED, RECORDER, WHOLE, *RELEASED_OTHERS),
    ),
    Rule(RELEASED, ("driver", "vllm", "torch")),
    Rule(MEASURED, ("driver", "in_place", "vllm", "works")),
    Rule(RELEASED_OTHERS[0], ("declared", "driver")),
    Rule(RELEASED_OTHERS[1], ("cores", "driver", "radix", "requests_in_pages", "sglang", "torch")),
    Rule(RELEASED_OTHERS[2], ("driver", "paged", "requests_in_pages", "serving", "torch", "transformers")),
    Rule(RECORDER, ("vllm",)),
    Rule(WHOLE, ("PIL", "bugs", RECORDED, "numpy", "safetensors", "tokenizers", "torch", "transformers", "vllm")),
    Rule(PLANTED, ("bugs", "driver", "vllm")),
)

KNOWS_THE_IMPLEMENTATION = (
    "cacheproof.tensor_models",
    "cacheproof.targets.tensor",
    "cacheproof.search.tensor",
    "cacheproof.bench.tensor",
    "cacheproof.device.tensor",
    "cacheproof.prove.implementation",
)
"""The only places where the checkers meet our own implementation."""

NEEDS_AN_EXTRA = (*KNOWS_THE_IMPLEMENTATION, "cacheproof.prove", "cacheproof.lockstep", "cacheproof.pytest_plugin")
"""Where an extra may be imported at the top of a module; whoever imports these does so in a function."""


def violations(rule: Rule, module: str, tree: ast.AST) -> list[str]:
    """What the module imports and may not."""
    found = []
    for line, name in names_imported(tree):
        top = name.partition(".")[0]
        allowed = top in sys.stdlib_module_names or top in rule.may
        if allowed and top == "cacheimpl" and rule.folder.startswith("proofs"):
            allowed = within(module, KNOWS_THE_IMPLEMENTATION)
        if not allowed:
            found.append(f"{module}:{line} imports {name}")
    return found


def within(module: str, packages: tuple[str, ...]) -> bool:
    """Whether the module is one of those, or inside one of them."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def modules(rule: Rule) -> list[tuple[str, ast.Module]]:
    """Every module under the rule's folder, by its import name."""
    base = ROOT / Path(rule.folder).parts[0]
    apart = {ROOT / folder for folder in rule.apart}
    paths = sorted(path for path in (ROOT / rule.folder).rglob("*.py") if not apart & set(path.parents))
    assert paths, f"nothing under {rule.folder}"
    return [(module_name(base, path), ast.parse(path.read_text())) for path in paths]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.folder)
def test_each_package_imports_only_what_it_may(rule: Rule) -> None:
    assert [found for module, tree in modules(rule) for found in violations(rule, module, tree)] == []


@pytest.mark.parametrize(
    ("rule", "module", "source"),
    [
        (RULES[0], "cachespec.planted", "import msgspec"),
        (RULES[0], "cachespec.planted", "def f():\n    from cacheproof import wire"),
        (RULES[1], "cacheimpl.planted", "from cachespec.kernel import Code"),
        (RULES[1], "cacheimpl.planted", "import numpy as np"),
        (RULES[1], "cacheimpl.planted", "import zmq"),
        (RULES[2], "cacheimpl.mirror.example.planted", "from cacheproof.model.wire import Message"),
        (RULES[3], "cacheproof.replay.planted", "from cacheimpl import EncoderCacheManager"),
        (RULES[3], "cacheproof.targets.factory", "importlib.import_module('cacheimpl.lru')"),
        (RULES[3], "cacheproof.releases.planted", "import requests"),
        (RULES[4], "cacheproof.targets.vllm.child.planted", "from cachespec.kernel import Code"),
        (RULES[5], "cacheproof.bench.released.child.planted", "from cacheproof.bench.measure import Work"),
        (RULES[6], "cacheproof.logs.record.child.planted", "import msgspec"),
    ],
)
def test_a_planted_import_is_found(rule: Rule, module: str, source: str) -> None:
    assert len(violations(rule, module, ast.parse(source))) == 1


def test_the_allowed_places_may_import_the_implementation() -> None:
    for module in KNOWS_THE_IMPLEMENTATION:
        assert violations(RULES[3], module, ast.parse("from cacheimpl import lru")) == []


WITHOUT_EXTRAS = """
import importlib, json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in json.loads(sys.argv[1]):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
failed = []
for module in json.loads(sys.argv[2]):
    try:
        importlib.import_module(module)
    except ImportError as error:
        failed.append(f"{module}: {error}")
print(json.dumps(failed))
"""


def failing_without_extras(names: list[str], blocked: tuple[str, ...] = EXTRAS) -> list[str]:
    """Which of the modules cannot be imported where no extra is installed."""
    call = [sys.executable, "-c", WITHOUT_EXTRAS, json.dumps(blocked), json.dumps(names)]
    result = subprocess.run(call, check=True, capture_output=True, text=True)
    found: list[str] = json.loads(result.stdout)
    return found


def test_everything_else_is_importable_without_extras() -> None:
    names = [
        name for name, _ in modules(RULES[3]) if not within(name, NEEDS_AN_EXTRA) and name != "cacheproof.__main__"
    ]
    assert "cacheproof.foundation.console" in names
    assert failing_without_extras(names) == []


def test_the_check_of_imports_without_extras_can_fail() -> None:
    assert importlib.import_module("hypothesis") is not None
    assert failing_without_extras(["hypothesis", "json"]) == ["hypothesis: No module named 'hypothesis'"]
    assert failing_without_extras(["cacheproof.model.wire"], ("msgspec", "cachespec")) != []


def test_the_tests_run_on_this_tree() -> None:
    assert Path(cacheproof.__file__).parent == ROOT / "proofs" / "cacheproof"
