"""The text of a target means one thing, or one clear line says why not."""

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cacheproof.errors import InputError, MissingExtraError
from cacheproof.registry import AnyComponent, component_named, components, scope_file
from cacheproof.scope import scopes_of
from cacheproof.targets.child import ChildTarget
from cacheproof.targets.factory import open_target
from cacheproof.targets.process import InProcessTarget
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.targets.target import Target, TargetError
from cachespec.kernel import DONE, FAILED, Observation, Operation, Outcome
from cachespec.lru import Config, Touch

LRU = component_named("lru")
SCOPED = [component for component in components().values() if scope_file(component).is_file()]


def opened(text: str) -> Target:
    return open_target(text, LRU, LRU.normative)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "unknown target ''"),
        ("nonsense", "unknown target 'nonsense': a target is one of spec:VARIANT"),
        ("spec", "no variant ''"),
        ("spec:M99", "lru has no variant 'M99'"),
        ("python:", "is not python:MODULE:FACTORY"),
        ("python:json", "is not python:MODULE:FACTORY"),
        ("python:no_such_module:make", "cannot import 'no_such_module'"),
        ("python:json:no_such_name", "has no callable 'no_such_name'"),
        ("python:json:__name__", "has no callable '__name__'"),
    ],
)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        opened(text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_sorts_of_target() -> None:
    assert isinstance(opened("spec:normative"), SpecificationTarget)
    assert isinstance(opened("exec:true"), ChildTarget)


def test_torch_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))
    with pytest.raises(MissingExtraError, match=r"cacheproof\[torch\]"):
        opened("torch")


@pytest.mark.parametrize("component", SCOPED, ids=lambda component: component.name)
def test_the_specification_as_a_target(component: AnyComponent) -> None:
    """Every variant answers as its own transitions do, and begins again at a reset."""
    for scope in scopes_of(component):
        for tag in scope.variants:
            variant = component.variants[tag]
            target = open_target(f"spec:{tag}", component, component.normative)
            target.reset(scope.config)
            state = variant.start(scope.config)
            first = target.observe()
            assert first == component.observe(scope.config, variant.view(scope.config, state))
            for operation in list(variant.alphabet(scope.config, state))[:5]:
                state, outcome = variant.call(scope.config, state, operation)
                assert target.apply(operation) == outcome
                assert target.observe() == component.observe(scope.config, variant.view(scope.config, state))
            target.reset(scope.config)
            assert target.observe() == first


class Odd:
    """An implementation in this process, as odd as a test wants it."""

    def __init__(self, answer: Any = DONE, shown: Any = 0) -> None:
        self.answer, self.shown = answer, shown

    def reset(self, config: Any) -> None:
        """Nothing to do."""

    def apply(self, operation: Operation) -> Outcome:
        if isinstance(self.answer, Exception):
            raise self.answer
        outcome: Outcome = self.answer
        return outcome

    def observe(self) -> Mapping[str, Observation]:
        return {"used": self.shown}

    def close(self) -> None:
        """Nothing is held."""


def test_an_assertion_is_an_outcome_and_other_errors_are_not() -> None:
    assert InProcessTarget(lambda name: Odd(AssertionError("no")), "lru").apply(Touch(0)) == FAILED
    with pytest.raises(TargetError, match="asked to apply touch: AttributeError; no such thing"):
        InProcessTarget(lambda name: Odd(AttributeError("no such thing")), "lru").apply(Touch(0))


@pytest.mark.parametrize("answer", [None, "done", 3])
def test_an_answer_must_be_an_outcome(answer: Any) -> None:
    with pytest.raises(TargetError, match="is not an Outcome"):
        InProcessTarget(lambda name: Odd(answer), "lru").apply(Touch(0))


@pytest.mark.parametrize("shown", [None, "3", 0.5, [1], (0.5,), True])
def test_observables_are_integers(shown: Any) -> None:
    with pytest.raises(TargetError, match="used must be an integer or a tuple of integers"):
        InProcessTarget(lambda name: Odd(shown=shown), "lru").observe()


def test_a_factory_in_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_cache.py").write_text(
        "from cacheproof.registry import component_named\n"
        "from cacheproof.targets.specification import SpecificationTarget\n"
        "def make(name):\n"
        "    component = component_named(name)\n"
        "    return SpecificationTarget(component, component.normative)\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    target = opened("python:their_cache:make")
    target.reset(Config(capacity=1, sizes=(1,)))
    assert target.observe()["used"] == 0
    sys.modules.pop("their_cache")
