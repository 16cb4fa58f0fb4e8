"""No two modules and no two packages of the implementation import each other, and a circle that is planted is found."""

from __future__ import annotations

from pathlib import Path

import pytest

import cacheimpl
from cacheproof.present.book.import_graph import all_circles, import_graph

PACKAGE = Path(cacheimpl.__file__).parent


def test_the_implementation_has_no_circles() -> None:
    assert all_circles(import_graph(PACKAGE)) == []


def test_its_modules_are_read() -> None:
    graph = import_graph(PACKAGE)
    assert "cacheimpl.layout" in graph["cacheimpl.recency"] | graph["cacheimpl.lru.state"]
    assert len(graph) > 100


MODULES = {
    "toy/__init__.py": "from toy.above.first import start",
    "toy/above/__init__.py": "",
    "toy/above/first.py": "from toy.above import second\nimport toy.below.third\ndef start(): ...",
    "toy/above/second.py": "from toy.below.third import end",
    "toy/below/__init__.py": "",
    "toy/below/third.py": "import json\ndef end(): ...",
    "toy/below/fourth.py": "from toy.below.third import end",
}


def toy(folder: Path, **changed: str) -> Path:
    """A package without circles; each changed file, by the name of its module alone, gets one line more."""
    for name, text in MODULES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n{changed.get(file.stem, '')}\n")
    return folder / "toy"


def test_what_is_imported(tmp_path: Path) -> None:
    assert import_graph(toy(tmp_path)) == {
        "toy": {"toy.above.first"},
        "toy.above": frozenset(),
        "toy.above.first": {"toy.above.second", "toy.below.third"},
        "toy.above.second": {"toy.below.third"},
        "toy.below": frozenset(),
        "toy.below.third": frozenset(),
        "toy.below.fourth": {"toy.below.third"},
    }
    assert all_circles(import_graph(toy(tmp_path))) == []


MUTUAL = [["toy.above.first", "toy.above.second"]]
THREE = [["toy.above.first", "toy.above.second", "toy.below.third"], ["toy.above", "toy.below"]]


@pytest.mark.parametrize(
    ("changed", "circle"),
    [
        ({"second": "from toy.above.first import start"}, MUTUAL),
        ({"second": "def late():\n    from toy.above import first"}, MUTUAL),
        ({"second": "from . import first"}, MUTUAL),
        ({"second": "from .first import start"}, MUTUAL),
        ({"second": "import importlib\nimportlib.import_module('toy.above.first')"}, MUTUAL),
        ({"second": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import toy.above.first"}, MUTUAL),
        ({"second": "import toy"}, [["toy", "toy.above.first", "toy.above.second"]]),
        ({"third": "from ..above import first"}, THREE),
        ({"fourth": "import toy.above.second"}, [["toy.above", "toy.below"]]),
    ],
)
def test_a_planted_circle_is_found(tmp_path: Path, changed: dict[str, str], circle: list[list[str]]) -> None:
    found = all_circles(import_graph(toy(tmp_path, **changed)))
    assert sorted(found) == sorted(circle)


def test_what_stands_apart_is_left_out(tmp_path: Path) -> None:
    package = toy(tmp_path, fourth="import toy.above.second")
    assert all_circles(import_graph(package, apart=[package / "above"])) == []
