"""Which components there are: whatever module of the spec package has a `COMPONENT`.

More folders can be named in the environment variable `CACHEPROOF_PATH` (separated as in PATH): a file `toy.py` there
with a `COMPONENT`, and `toy.toml` beside it with its scopes, is a component like any other. Such a folder adds
components. It cannot replace a component of the package, nor the scopes of one.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from cacheproof.foundation.discover import discover
from cacheproof.foundation.errors import InputError, shortened
from cacheproof.model.mixture import mixture, parts
from cachespec.kernel import Component, Variant

PATH_VARIABLE = "CACHEPROOF_PATH"
FROM_PATH = "cachespec_from_path_"
"""How the names of modules begin that come from such a folder."""
SCOPES = Path(__file__).parents[1] / "scopes"

AnyComponent = Component[Any, Any, Any]
AnyVariant = Variant[Any, Any, Any]

UNDEFINED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a variant's functions may raise where they are not defined: in a configuration that the variant is not for, and
on a view whose parts do not belong together. A variant that was added may be about one setting.
"""


def components(extra: str | None = None) -> dict[str, AnyComponent]:
    """All components by name; `extra` defaults to the environment variable."""
    return _components(_extra() if extra is None else extra)


@cache
def _components(extra: str) -> dict[str, AnyComponent]:
    folders = [Path(part) for part in extra.split(os.pathsep) if part]
    known = _declared(discover("cachespec", "COMPONENT", Component, optional=True).values())
    for folder in folders:
        added = _declared(getattr(module, "COMPONENT", None) for module in _modules_in(folder))
        if taken := sorted(added.keys() & known.keys()):
            raise InputError(f"{folder} has a component '{taken[0]}', and there is one already: give it another name")
        for name in known:
            if (scopes := folder / f"{name}.toml").is_file():
                raise InputError(
                    f"{scopes} would replace the scopes of the component '{name}': rename the file, or move it away"
                )
        known |= added
    return known


def _declared(values: Iterable[object]) -> dict[str, AnyComponent]:
    """The components among these values, by name."""
    return {component.name: component for component in values if isinstance(component, Component)}


def is_added(component: AnyComponent) -> bool:
    """Whether the component came from a folder that `CACHEPROOF_PATH` names."""
    return component.name not in components("")


def fault_in_component(error: BaseException) -> InputError | None:
    """For an error that code of an added component raised: its file and line. None for an error of this package."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(FROM_PATH):
            code = frame.f_code
            text = shortened(f"{type(error).__name__}: {error}")
            return InputError(f"{code.co_filename}:{line}: {text} (in {code.co_qualname}): correct the component")
        if module.partition(".")[0] == "cacheproof":
            return None
    return None


def component_named(name: str) -> AnyComponent:
    """The component, or an error that names those there are."""
    known = components(_extra())
    if name not in known:
        raise InputError(f"unknown component {shortened(repr(name))}: there are {', '.join(sorted(known))}")
    return known[name]


def variant_named(component: AnyComponent, tag: str) -> AnyVariant:
    """The variant by tag or by title, or a mixture of rules by its tag; or an error that names those there are."""
    for variant in component.variants.values():
        if tag in (variant.tag, variant.title):
            return variant
    if mixed := parts(component, tag):
        base, names = mixed
        return mixture(component, variant_named(component, base), names)
    known = ", ".join(component.variants)
    raise InputError(f"{component.name} has no variant {shortened(repr(tag))}: there are {known}")


def scope_file(component: AnyComponent) -> Path:
    """Where the component's scopes are: beside its own file if it came from a folder, else with the package."""
    for part in _extra().split(os.pathsep):
        if part and (Path(part) / f"{component.name}.toml").is_file():
            return Path(part) / f"{component.name}.toml"
    return SCOPES / f"{component.name}.toml"


def _extra() -> str:
    return os.environ.get(PATH_VARIABLE, "")


def _modules_in(folder: Path) -> list[ModuleType]:
    if not folder.is_dir():
        raise InputError(f"{PATH_VARIABLE} names {folder}, which is not a folder")
    return [_load(path) for path in sorted(folder.glob("*.py"))]


def _load(path: Path) -> ModuleType:
    name = f"{FROM_PATH}{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{path} cannot be imported: {error}") from error
    return module
