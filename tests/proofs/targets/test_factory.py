"""The text of a target means one thing, or one clear line says why not."""

import importlib.util
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cacheproof.foundation.errors import InputError, MissingExtraError
from cacheproof.implementation import Factory
from cacheproof.model.registry import AnyComponent, component_named, components, scope_file
from cacheproof.model.scope import scopes_of
from cacheproof.model.target import Target, TargetError
from cacheproof.targets.child import ChildTarget
from cacheproof.targets.factory import open_target
from cacheproof.targets.process import InProcessTarget
from cacheproof.targets.specification import SpecificationTarget
from cachespec.kernel import DONE, FAILED, HIT, MISS, Code, Observation, Operation, Outcome
from cachespec.lru import Config, Contains, Pin, Put, Touch

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
    with pytest.raises(MissingExtraError, match=r"CHECKOUT_OR_WHEEL\[torch\]"):
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

    def apply(self, operation: Operation) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def observe(self) -> Mapping[str, Any]:
        return {"used": self.shown}


def odd(answer: Any = DONE, shown: Any = 0) -> InProcessTarget:
    return begun(lambda config: Odd(answer, shown))


def begun(factory: Factory) -> InProcessTarget:
    target = InProcessTarget(factory, LRU)
    target.reset(Config(capacity=1, sizes=(1,)))
    return target


def test_an_assertion_is_an_outcome_and_other_errors_are_not() -> None:
    assert odd(AssertionError("no")).apply(Touch(0)) == FAILED
    here = r"asked to apply touch: AttributeError; no such thing \(test_factory.py, line \d+\)"
    with pytest.raises(TargetError, match=here):
        odd(AttributeError("no such thing")).apply(Touch(0))


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (None, DONE),
        ("done", DONE),
        (Code.HIT, HIT),
        (True, HIT),
        (False, MISS),
        (("done", [1, 2]), Outcome(Code.DONE, (1, 2))),
        ((Code.RETRY, range(2)), Outcome(Code.RETRY, (0, 1))),
        (Outcome(Code.STALE, (3,)), Outcome(Code.STALE, (3,))),
    ],
)
def test_what_an_answer_means(answer: Any, outcome: Outcome) -> None:
    assert odd(answer).apply(Touch(0)) == outcome


@pytest.mark.parametrize("answer", [3, "splendid", ("done", 3), ("done", {1}), ("done", [0.5]), ("done", [1], 2), [1]])
def test_an_answer_must_mean_something(answer: Any) -> None:
    with pytest.raises(TargetError, match="is not an answer; return a code such as 'done'"):
        odd(answer).apply(Touch(0))


@pytest.mark.parametrize("shown", [None, "3", 0.5, {1}, {1: 2}, (0.5,), [True], True])
def test_observables_are_integers(shown: Any) -> None:
    with pytest.raises(TargetError, match="used must be an integer or integers in their order"):
        odd(shown=shown).observe()


@pytest.mark.parametrize(("shown", "value"), [(3, 3), ([1, 2], (1, 2)), (deque([2, 1]), (2, 1)), ({2: 0}.keys(), (2,))])
def test_observables_may_be_in_any_sequence(shown: Any, value: Observation) -> None:
    assert odd(shown=shown).observe() == {"used": value}


def test_observations_have_names() -> None:
    class Nameless(Odd):
        def observe(self) -> Any:
            return [1]

    with pytest.raises(TargetError, match="where names and values were expected"):
        begun(lambda config: Nameless()).observe()


class Methods:
    """One method for each operation, but for most of them; `order` is a property, `used` a method."""

    made = 0

    def __init__(self, config: Config) -> None:
        type(self).made += 1
        self.kept: dict[int, int] = {}
        self.closed = False

    def put(self, key: int, size: int) -> None:
        self.kept[key] = size

    def contains(self, key: int) -> bool:
        return key in self.kept

    @property
    def order(self) -> Iterable[int]:
        return self.kept.keys()

    def used(self) -> int:
        return sum(self.kept.values())

    def close(self) -> None:
        self.closed = True


def test_methods_are_called_with_the_fields_in_their_order() -> None:
    made: list[Methods] = []

    def factory(config: Config) -> Methods:
        made.append(Methods(config))
        return made[-1]

    target = begun(factory)
    assert target.apply(Put(7, 3)) == DONE
    assert target.apply(Contains(7)) == HIT
    assert target.apply(Contains(8)) == MISS
    assert target.observe() == {"order": (7,), "used": 3}
    target.reset(Config(capacity=1, sizes=(1,)))
    assert target.observe() == {"order": (), "used": 0}
    target.close()
    assert [one.closed for one in made] == [True, True]


def test_a_method_that_is_not_there_is_named() -> None:
    with pytest.raises(TargetError, match=r"\(Methods\) has no method 'pin': write it, or .* \(--without pin\)"):
        begun(Methods).apply(Pin(0))


def test_a_class_declares_the_operations_that_it_has() -> None:
    missing = InProcessTarget(Methods, LRU).declaration().missing(LRU)
    assert missing == {"lookup", "get", "evict", "touch", "pop", "pin", "clear", "stat"}
    assert InProcessTarget(partial(Methods), LRU).declaration().missing(LRU) == frozenset()
    assert InProcessTarget(Odd, LRU).declaration().missing(LRU) == frozenset()


def test_a_class_may_say_more_of_itself() -> None:
    class Telling(Methods):
        implementation = "telling 1.0"
        features = ("lru/operation/put", "lru/operation/touch")
        deviations = ("C-MIR-10",)

    said = InProcessTarget(Telling, LRU).declaration()
    assert (said.implementation, said.deviations) == ("telling 1.0", ("C-MIR-10",))
    assert "touch" not in said.missing(LRU)
    assert "contains" in said.missing(LRU)


def test_an_object_that_has_nothing_is_refused() -> None:
    with pytest.raises(TargetError, match="has neither apply\\(operation\\) nor a method named as an operation of lru"):
        begun(lambda config: object())


@pytest.mark.parametrize("error", [AssertionError("no"), ValueError("no")])
def test_a_factory_that_fails_is_an_error_of_the_driver(error: Exception) -> None:
    def factory(config: Config) -> Any:
        raise error

    with pytest.raises(TargetError, match=f"asked to be made: {type(error).__name__}; no"):
        begun(factory)


def test_what_can_begin_again_is_made_once() -> None:
    begun_with: list[Any] = []

    class Resetting(Odd):
        def reset(self, config: Any) -> None:
            begun_with.append(config)

    made: list[Resetting] = []

    def factory(config: Any) -> Resetting:
        made.append(Resetting())
        return made[-1]

    target = begun(factory)
    target.reset(Config(capacity=2, sizes=(1,)))
    assert len(made) == 1
    assert [config.capacity for config in begun_with] == [1, 2]


def test_a_factory_in_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_cache.py").write_text(
        "from cacheproof.model.registry import component_named\n"
        "from cacheproof.targets.specification import SpecificationTarget\n"
        "def make(config):\n"
        "    component = component_named('lru')\n"
        "    return SpecificationTarget(component, component.normative)\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    target = opened("python:their_cache:make")
    target.reset(Config(capacity=1, sizes=(1,)))
    assert target.observe()["used"] == 0
    sys.modules.pop("their_cache")
