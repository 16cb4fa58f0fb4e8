"""Plants a bug: a subclass with one method replaced takes the place of the released class, wherever that is named."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .declaring import Bug
from .patterns import replaced


def bug_named(name: str) -> Bug:
    """The bug that `COMPONENT/NAME` means."""
    component, _, own = name.partition("/")
    bug: Bug = getattr(importlib.import_module(f"{__package__}.{component}"), own.replace("-", "_"))
    return bug


def with_bug(driver_of: Callable[..., Any], bug: Bug) -> Callable[..., Any]:
    """Makes a driver as before, once the bug is in the release: before the driver takes its classes from there."""

    @functools.cache
    def planted() -> None:
        plant(bug)

    def made(*arguments: Any) -> Any:
        planted()
        return driver_of(*arguments)

    return made


def plant(bug: Bug) -> None:
    """Replaces the class, or the function, in every module of the release that names it, and as a base of others."""
    module, name = _found(bug.place.names)
    package = module.__name__.partition(".")[0]
    released: Any = vars(module)[name or bug.method]
    changed: Any = subclass(released, bug) if name else _function(released, bug)
    for one in [one for one in released.__subclasses__() if one is not changed] if name else []:
        one.__bases__ = tuple(changed if base is released else base for base in one.__bases__)
    for named in [one for name, one in sys.modules.items() if name.partition(".")[0] == package]:
        for own in [own for own, value in vars(named).items() if value is released]:
            setattr(named, own, changed)


def plant_in_place(bug: Bug) -> None:
    """Changes the class itself, so that objects that are there have the bug; a function as `plant` does."""
    module, name = _found(bug.place.names)
    if not name:
        plant(bug)
        return
    released: Any = vars(module)[name]
    parts = [bug, *([replace(bug, method=bug.also[0], changes=bug.also[1])] if bug.also is not None else [])]
    for part in parts:
        owner = next(one for one in released.__mro__ if part.method in vars(one))
        setattr(owner, part.method, changed_method(vars(owner)[part.method], part, owner.__name__))


def subclass(released: type, bug: Bug) -> type:
    """The released class with one method that does something wrong."""
    raw = inspect.getattr_static(released, bug.method)
    body = {"__module__": released.__module__, "__qualname__": released.__qualname__, "__doc__": released.__doc__}
    changed = changed_method(raw, bug, released.__name__)
    further = {}
    if bug.also is not None:
        method, changes = bug.also
        further[method] = recompiled(
            inspect.getattr_static(released, method), replace(bug, method=method, changes=changes)
        )
    return type(released)(released.__name__, (released,), {**body, bug.method: changed, **further})


def changed_method(raw: Any, bug: Bug, owner: str) -> Any:
    """What takes the place of a method, class method or property of the class with this name."""
    if isinstance(raw, classmethod):
        return classmethod(_method(raw.__func__, bug))
    if isinstance(raw, property):
        return property(_method(raw.fget, bug))
    if inspect.isfunction(raw):
        return _method(raw, bug)
    raise TypeError(f"{owner}.{bug.method} is a {type(raw).__name__}, and cannot be replaced")


def _method(raw: Any, bug: Bug) -> Any:
    if bug.changes:
        return recompiled(raw, bug)

    @functools.wraps(raw)
    def method(owner: Any, *given: Any, **named: Any) -> Any:
        return bug.broken(functools.partial(raw, owner), owner, *given, **named)

    return method


def _function(released: Any, bug: Bug) -> Any:
    if bug.changes:
        return recompiled(released, bug)

    @functools.wraps(released)
    def function(*given: Any, **named: Any) -> Any:
        return bug.broken(released, *given, **named)

    return function


def recompiled(raw: Any, bug: Bug) -> Any:
    """The function with the changed parts, with its own names from around it; `super()` means the same class.

    Raises `PatternError` if a part is not there, or is there more than once.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(raw))).body[0]
    assert isinstance(tree, ast.FunctionDef), f"{bug.method} is not written as a function"
    for right, wrong in bug.changes:
        tree = replaced(tree, right, wrong)
    tree.decorator_list, tree.returns = [], None
    around = dict(zip(raw.__code__.co_freevars, [cell.cell_contents for cell in raw.__closure__ or ()], strict=True))
    made = ast.parse(f"def made_by_planting({', '.join(around)}):\n    return {tree.name}").body[0]
    assert isinstance(made, ast.FunctionDef)
    made.body.insert(0, tree)
    code = compile(ast.fix_missing_locations(ast.Module([made], [])), inspect.getfile(raw), "exec")
    exec(code, raw.__globals__)  # noqa: S102  # the release's own code; it sees what is put into its module later
    changed = raw.__globals__.pop(made.name)(*around.values())
    return functools.wraps(raw)(changed)


def _found(names: tuple[str, ...]) -> tuple[Any, str]:
    """The newest of these places that the release has: the module, and the name of the class."""
    for one in names:
        module_name, _, name = one.partition(":")
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not module_name.startswith(error.name):
                raise
            continue
        if not name or name in vars(module):
            return module, name
    raise ModuleNotFoundError(f"the release has none of {', '.join(names)}")
