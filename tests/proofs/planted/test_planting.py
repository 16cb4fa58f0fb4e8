"""How a bug comes into a release: a subclass everywhere the class is named, or another function."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from cacheproof.releases.planted.child.bugs.declaring import Bug, Place
from cacheproof.releases.planted.child.bugs.planting import bug_named, plant, plant_in_place, with_bug


class Counter:
    """A class of a made-up release."""

    limit = 3

    def __init__(self, start: int = 0) -> None:
        self.value = start

    def add(self, more: int) -> int:
        self.value += more
        return self.value

    @classmethod
    def named(cls, name: str) -> str:
        return f"{cls.__name__} {name}"

    @property
    def doubled(self) -> int:
        return 2 * self.value

    @staticmethod
    def nothing() -> None:
        """Not to be replaced."""


def twice(number: int) -> int:
    return 2 * number


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module with a class, one that is made from it, and a function; another module has them by other names."""

    class Counted(Counter):
        """To be replaced, so that the next test has it anew."""

    class Derived(Counted):
        def add(self, more: int) -> int:
            return 100 + super().add(more)

    module, other = ModuleType("vllm.made_up"), ModuleType("vllm.made_up.user")
    vars(module).update({"Counted": Counted, "Derived": Derived, "twice": twice})
    vars(other).update({"Mine": Counted, "double": twice})
    for one in (module, other):
        monkeypatch.setitem(sys.modules, one.__name__, one)
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    return module


PLACE = Place("vllm.made_up.older:Counted", "vllm.made_up:Counted")


def bug(method: str, place: Place = PLACE) -> Bug:
    @place.broken(method)
    def one_more(released: Any, *given: Any, **named: Any) -> Any:
        """One more
        than it should be."""
        answer = released(*given[bool(place.names[0].partition(":")[2]) :], **named)
        return f"{answer} more" if isinstance(answer, str) else answer + 1

    return one_more


def test_a_subclass_takes_the_place_of_the_class(release: Any) -> None:
    released = release.Counted
    plant(bug("add"))
    assert release.Counted is not released
    assert issubclass(release.Counted, released)
    assert sys.modules["vllm.made_up.user"].Mine is release.Counted
    assert release.Counted(5).add(2) == 8
    assert release.Counted.__name__ == "Counted"
    assert released(5).add(2) == 7, "the released class is what it was"


def test_classes_that_are_made_from_it_are_broken_too(release: Any) -> None:
    plant(bug("add"))
    assert release.Derived(5).add(2) == 108


def test_methods_of_the_class_and_properties(release: Any) -> None:
    plant(bug("named"))
    assert release.Counted.named("x") == "Counted x more"
    plant(bug("doubled"))
    assert release.Counted(4).doubled == 9
    assert release.Derived(4).doubled == 9


def test_a_function(release: Any) -> None:
    plant(bug("twice", Place("vllm.made_up")))
    assert release.twice(4) == 9
    assert sys.modules["vllm.made_up.user"].double(4) == 9


def test_what_cannot_be_replaced_is_an_error(release: Any) -> None:
    with pytest.raises(TypeError, match=r"Counted\.nothing is a staticmethod"):
        plant(bug("nothing"))
    with pytest.raises(AttributeError, match="absent"):
        plant(bug("absent"))
    with pytest.raises(ModuleNotFoundError, match=r"none of vllm\.made_up\.older:Counted"):
        plant(bug("add", Place("vllm.made_up.older:Counted", "vllm.made_up:Other")))


def test_it_is_planted_once_and_before_the_driver_is_made(release: Any) -> None:
    def driver(start: int) -> Any:
        return release.Counted(start)

    made = with_bug(driver, bug("add"))
    assert made(5).add(2) == 8
    assert made(5).add(2) == 8


def test_a_bug_by_its_name() -> None:
    found = bug_named("lru/touch-does-nothing")
    assert (found.name, found.where) == ("touch-does-nothing", "LRUCache.touch")
    assert found.says == "A touch does not change the order."


def test_which_releases_have_it() -> None:
    @PLACE.broken("add", since="0.11.0", until="0.20.2")
    def planted(released: Any) -> None:
        """Something."""

    assert [planted.is_in(version) for version in ("0.7.3", "0.11.0", "0.12.0", "0.20.2", "0.33.0")] == [
        False,
        True,
        True,
        True,
        False,
    ]


def test_in_place_the_objects_that_are_there_have_the_bug(release: ModuleType) -> None:
    """Also those of derived classes, and a function in every module that names it."""

    def broken(released: Any, counter: Any, more: int) -> int:
        """It adds one more."""
        return int(released(more + 1))

    def wrong(released: Any, number: int) -> int:
        """It adds one."""
        return int(released(number)) + 1

    counted, derived = release.Counted(), release.Derived()
    plant_in_place(Place("vllm.made_up:Counted").broken("add")(broken))
    assert (counted.add(1), derived.add(1)) == (2, 102)
    plant_in_place(Place("vllm.made_up").broken("twice")(wrong))
    assert release.twice(2) == sys.modules["vllm.made_up.user"].double(2) == 5
