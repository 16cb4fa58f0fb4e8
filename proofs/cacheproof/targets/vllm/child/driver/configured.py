"""Objects of the release's own configuration classes, with what the driver gives and the release's defaults.

An object is made without its constructor, which loads a model and asks the accelerator. A property is the release's
own. If it asks for a loaded model, the answer is that of a plain text model: no such feature.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .adapters import Version, values
from .reading import FACTORIES, FOLDER, Reader
from .stand_ins import StandInUsedError, installed

WITHOUT: dict[str, Any] = {"bool": False, "int": 0, "float": 0.0, "str": ""}
"""The answers to what only a loaded model could say, by the property's type."""


class UnsetError(AttributeError):
    """The release reads an attribute of a configuration object that neither the driver nor the class gives."""


class Configured:
    """Makes configuration objects of one release."""

    def __init__(self, source: Path, version: Version = ()) -> None:
        self.reader = Reader(source)
        self._version = version
        self.assumed: set[str] = set()
        """Properties that ask for a loaded model, and what was answered."""

    def __call__(self, name: str, module: str = FOLDER, /, **given: Any) -> Any:
        """An object of the class of this name; only what is given if the release has no such class."""
        kind, given = self._kind(name, module), {**values(name, self._version), **given}
        fixed = {key for key in given if hasattr(getattr(kind, key, None), "__set__")}
        if fixed:
            kind = type(name, (kind,), {key: given[key] for key in fixed})
        made = object.__new__(kind)
        vars(made).update({key: value for key, value in given.items() if key not in fixed})
        return made

    @functools.cache  # noqa: B019  # one object for each process
    def _kind(self, name: str, module: str) -> Any:
        """The class with answers for what is not there."""
        released = self.reader.released(name, module) or object
        body: dict[str, Any] = {"__getattr__": _missing, "__module__": module, "__hash__": object.__hash__}
        for parent in reversed(released.__mro__[:-1]):
            for key, value in vars(parent).items():
                if isinstance(value, property | functools.cached_property):
                    body[key] = self._guarded(name, key, value)
        return type(name, (released,), body)

    def _guarded(self, owner: str, name: str, declared: Any) -> property:
        """The property, which answers as for a text model if it asks for more than a configuration has."""
        computes: Callable[[Any], Any] = declared.func if hasattr(declared, "func") else declared.fget

        def answer(made: Any) -> Any:
            try:
                return computes(made)
            except (StandInUsedError, AttributeError, ImportError) as error:
                annotated = computes.__annotations__.get("return", "")
                kind = annotated if isinstance(annotated, str) else getattr(annotated, "__name__", str(annotated))
                optional = "None" in str(annotated)
                if kind not in WITHOUT and not optional:
                    raise UnsetError(f"{owner}.{name} asks for a loaded model", name=name, obj=made) from error
                self.assumed.add(f"{owner}.{name} = {None if optional else WITHOUT[kind]!r}")
                return None if optional else WITHOUT[kind]

        return property(answer)


def _missing(made: Any, name: str) -> Any:
    """A default that is made for each object; there is no other one."""
    for parent in type(made).__mro__:
        factory = vars(parent).get(FACTORIES, {}).get(name)
        if factory is not None:
            vars(made)[name] = factory()
            return vars(made)[name]
    raise UnsetError(f"{type(made).__name__} has no value for {name}", name=name, obj=made)


@functools.cache
def released() -> Configured:
    """Makes the objects of the release that is installed in this process."""
    finder = installed()
    return Configured(finder.source, finder.version)
