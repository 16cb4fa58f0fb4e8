"""Which files of a release the driver of a component reads: those that it names, and those that these import.

This is read from the texts, so nothing is imported. Imports inside functions are left out, and so are those that a
stand-in answers. The result says which components a change is likely to touch, and not which it cannot touch.
"""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from cacheproof.targets.vllm.child.driver.conversation import COMPONENTS
from cacheproof.targets.vllm.child.driver.stand_ins import PACKAGES, listed
from cacheproof.targets.vllm.release import START, Installed

DRIVERS = START.parent / "driver"
NOT_READ = ("stand_ins",)
"""Modules of the driver that name files without reading them."""
PACKAGE, INIT = "vllm", "/__init__.py"


def driven_files(there: Installed, component: str) -> frozenset[str]:
    """The files below `there.source` that the component's driver reads, such as `vllm/utils/cache.py`."""
    return _driven(there.source, frozenset(there.record["files"]), component)


def different_files(one: Installed, other: Installed) -> frozenset[str]:
    """The files that a driver of either reads, and that are not the same in both."""
    both = {*one.record["files"], *other.record["files"]}
    return frozenset(name for name in both if _content(one.source / name) != _content(other.source / name))


def file_of(there: Installed, module: str) -> str:
    """The file of a module that a driver reads; empty if there is none."""
    return _modules(there.record["files"]).get(module, "")


@cache
def _driven(source: Path, files: frozenset[str], component: str) -> frozenset[str]:
    modules = _modules(files)
    names = frozenset(_names(component))
    found = {file for name in names for file in files if fnmatch.fnmatchcase(file, name)}
    todo = [modules[name] for name in names if name in modules]
    while todo:
        file = todo.pop()
        if file not in found:
            found.add(file)
            todo += [modules[name] for name in _imported(source, file) if name in modules]
    return frozenset(found)


def _modules(files: Iterable[str]) -> dict[str, str]:
    """Files by the names of their modules."""
    return {file.removesuffix(INIT).removesuffix(".py").replace("/", "."): file for file in files}


def _names(component: str) -> Iterator[str]:
    """The modules and patterns of files that a component's driver names, in its module and those that this imports."""
    todo, known = [COMPONENTS[component][0].rpartition(".")[2]], set(NOT_READ)
    while todo:
        driver = todo.pop()
        if driver in known:
            continue
        known.add(driver)
        for node in ast.walk(_parsed(DRIVERS / f"{driver}.py")):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                todo += [node.module] if node.module else [one.name for one in node.names]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from [node.value] if node.value.startswith((f"{PACKAGE}.", f"{PACKAGE}/")) else []


@cache
def _imported(source: Path, file: str) -> tuple[str, ...]:
    """The modules that are imported when this one is, without stand-ins; a name in a module counts as one."""
    every = _named(_parsed(source / file), file.removesuffix(".py").split("/"))
    return tuple(name for name in every if listed(name) is None and name not in PACKAGES)


def _named(module: ast.Module, path: Sequence[str]) -> Iterator[str]:
    todo: list[ast.AST] = [module]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_for_types(node):
            continue
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = path[: -node.level] if node.level else ()
            name = ".".join([*around, *([node.module] if node.module else [])])
            yield from (name, *(f"{name}.{one.name}" for one in node.names))
        todo += ast.iter_child_nodes(node)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None
