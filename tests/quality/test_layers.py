"""The checkers are layers: each imports lower layers only, no modules and no packages import each other."""

from __future__ import annotations

from pathlib import Path

import pytest

import cacheproof
from cacheproof.present.book.import_graph import Graph, all_circles, import_graph
from cacheproof.present.book.layers import LAYERS, layer_of, upward_imports

PACKAGE = Path(cacheproof.__file__).parent
CHILDREN = tuple(sorted(PACKAGE.rglob("child")))
"""Run in the environments of released packages, each as a program of its own with other names of modules."""


@pytest.fixture(scope="module")
def graph() -> Graph:
    return import_graph(PACKAGE)


def test_the_children_of_releases_stand_apart() -> None:
    assert len(CHILDREN) > 3


def test_every_layer_is_there(graph: Graph) -> None:
    assert {layer_of(module) for module in graph} == {*LAYERS, None}


def test_imports_go_downwards_only(graph: Graph) -> None:
    assert upward_imports(graph) == []


def test_no_modules_and_no_packages_import_each_other(graph: Graph) -> None:
    assert all_circles(graph) == []


def with_import(graph: Graph, module: str, imported: str) -> Graph:
    return {**graph, module: graph[module] | {imported}}


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("cacheproof.model.wire", "cacheproof.lockstep.pair"),
        ("cacheproof.targets.factory", "cacheproof.command.fuzz"),
        ("cacheproof.releases.conformance", "cacheproof.present.book.pages"),
        ("cacheproof.foundation.errors", "cacheproof"),
    ],
)
def test_a_planted_upward_import_is_found(graph: Graph, module: str, imported: str) -> None:
    assert upward_imports(with_import(graph, module, imported)) == [f"{module} imports {imported}"]


def test_a_layer_that_is_not_listed_is_found(graph: Graph) -> None:
    planted = {**graph, "cacheproof.unlisted.module": frozenset({"cacheproof.model.wire"})}
    assert upward_imports(planted) == ["LAYERS does not name unlisted"]


def test_a_planted_circle_is_found(graph: Graph) -> None:
    modules = with_import(graph, "cacheproof.model.wire", "cacheproof.model.trace")
    assert all_circles(modules) == []
    circle = with_import(graph, "cacheproof.model.registry", "cacheproof.model.wire")
    assert any({"cacheproof.model.registry", "cacheproof.model.wire"} <= set(found) for found in all_circles(circle))
    packages = with_import(graph, "cacheproof.search.result", "cacheproof.search.tensor.keys")
    assert any("cacheproof.search.tensor" in found for found in all_circles(packages))
