"""Plug-in modules: each module of a package provides one value under a fixed name, and is imported when it is needed.

This is the only scan for our own plug-ins. Two loaders are apart: children of released packages import nothing of ours,
and `model.registry` also loads components from single files outside any package.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

T = TypeVar("T")


def module_names(package: str) -> list[str]:
    """The modules and packages directly in a package, sorted; nothing below the top package is imported for that."""
    return list(_names_in(tuple((folder, _changed(folder)) for folder in _folders(package))))


@cache
def _names_in(folders: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """Of folders that have not changed since. A folder says when it changed in much less time than it is listed."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules([folder for folder, _ in folders])))


def _changed(folder: str) -> int:
    """When a module came or went, in nanoseconds; 0 for what is no folder, such as an archive."""
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return 0


def modules_in(package: str) -> dict[str, ModuleType]:
    """The same, imported, by their names in the package."""
    return {name: importlib.import_module(f"{package}.{name}") for name in module_names(package)}


def discover(
    package: str,
    attribute: str,
    kind: type[T],
    *,
    optional: bool = False,
    among: Callable[[], Collection[str]] | None = None,
) -> Mapping[str, T]:
    """The value that each module of the package has under this name, by the name of the module.

    The mapping imports a module when its value is asked for. With `optional`, it passes over modules without the
    value, and imports all modules to know them. `among` limits the names of the plug-ins.

    Raises, when a value is asked for:
        KeyError: there is no such plug-in.
        TypeError: the module lacks the value, or has a value of another type.
    """
    return _Discovered(package, attribute, kind, optional=optional, among=among)


class _Discovered(Mapping[str, T], Generic[T]):
    def __init__(
        self,
        package: str,
        attribute: str,
        kind: type[T],
        *,
        optional: bool,
        among: Callable[[], Collection[str]] | None,
    ) -> None:
        self._package, self._attribute, self._kind = package, attribute, kind
        self._optional, self._among = optional, among

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise KeyError(name)
        value: object = getattr(self._module(name), self._attribute, None)
        if not isinstance(value, self._kind):
            raise TypeError(f"{self._package}.{name} must have {self._attribute} of type {self._kind.__name__}")
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._names() and self._provides(str(name))

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in self._names() if self._provides(name)])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _names(self) -> list[str]:
        allowed = None if self._among is None else self._among()
        return [name for name in module_names(self._package) if allowed is None or name in allowed]

    def _provides(self, name: str) -> bool:
        return not self._optional or hasattr(self._module(name), self._attribute)

    def _module(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self._package}.{name}")


def _folders(package: str) -> list[str]:
    """The folders of a package, from the nearest package around it that is imported already."""
    parent, _, name = package.rpartition(".")
    if package in sys.modules or not parent:
        return list(importlib.import_module(package).__path__)
    return [str(Path(folder) / name) for folder in _folders(parent)]
