"""Which module of a package imports which, read from the source, and the circles among them.

An import inside a function counts like one at the top of a module, and so does an import for type checkers only: a
hidden circle is a circle.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

Graph = Mapping[str, frozenset[str]]
"""What each module imports, by full names; every imported module is a key too."""


def names_imported(tree: ast.AST, package: str = "") -> Iterator[tuple[int, str]]:
    """The line and full name of every import, imports by a constant name at run time included.

    `package` is the package that the module is in: relative imports are left out without it.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (base := _base(node, package)):
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and _imports_by_name(node.func) and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield node.lineno, first.value


def _base(node: ast.ImportFrom, package: str) -> str:
    """What the names are imported from; empty if it is not known."""
    if node.level == 0:
        return node.module or ""
    parents = package.split(".")[: len(package.split(".")) - node.level + 1] if package else []
    return ".".join([*parents, node.module] if parents and node.module else parents)


def _imports_by_name(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("import_module", "__import__")


def module_name(base: Path, file: Path) -> str:
    """The full name of the module in this file, imported with the folder `base` on the path."""
    return ".".join(file.relative_to(base).with_suffix("").parts).removesuffix(".__init__")


def import_graph(package: Path, apart: Iterable[Path] = ()) -> Graph:
    """What each module of the package in this folder imports of the same package.

    A module imports what its statements name: `a.b` for `from a.b import function`, `a.b.c` if `c` is a module. It is
    not taken to import the packages around that. Folders named in `apart` are left out with all that is in them.
    """
    left_out = set(apart)
    files = {
        module_name(package.parent, file): file
        for file in sorted(package.rglob("*.py"))
        if not left_out & set(file.parents)
    }
    assert files, f"no modules in {package}"
    return {name: frozenset(_imports(name, file, files)) for name, file in files.items()}


def _imports(module: str, file: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for _, name in names_imported(ast.parse(file.read_text()), package):
        imported = name if name in modules else name.rpartition(".")[0]
        if imported in modules and imported != module:
            yield imported


def merged(graph: Graph, group_of: Callable[[str], str | None]) -> Graph:
    """The graph of groups of modules. A module that belongs to no group (None) is left out with its imports."""
    imports: dict[str, set[str]] = {group: set() for name in graph if (group := group_of(name)) is not None}
    for name, others in graph.items():
        if (group := group_of(name)) is not None:
            imports[group] |= {other for each in others if (other := group_of(each)) not in (None, group)}
    return {group: frozenset(others) for group, others in imports.items()}


def members_of(package: str) -> Callable[[str], str | None]:
    """Which member of the package, a module or a package below it, a module belongs to."""

    def member(module: str) -> str | None:
        below = module.removeprefix(f"{package}.")
        return None if below == module else f"{package}.{below.partition('.')[0]}"

    return member


def circles(graph: Graph) -> list[list[str]]:
    """The strongly connected components of more than one module: each member imports each other, in some steps."""
    reached = {name: _reached(graph, name) for name in graph}
    knots = {tuple(sorted(other for other in reached[name] if name in reached[other])) for name in graph}
    return sorted(list(knot) for knot in knots if len(knot) > 1)


def _reached(graph: Graph, start: str) -> set[str]:
    """What the module imports in one step or more."""
    known, waiting = set[str](), list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in known:
            known.add(name)
            waiting.extend(graph[name])
    return known


def all_circles(graph: Graph) -> list[list[str]]:
    """The circles among modules, and those among the members of each package."""
    packages = sorted({name.rpartition(".")[0] for name in graph if "." in name})
    found = [
        *circles(graph),
        *(circle for package in packages for circle in circles(merged(graph, members_of(package)))),
    ]
    return [list(circle) for circle in dict.fromkeys(map(tuple, found))]
