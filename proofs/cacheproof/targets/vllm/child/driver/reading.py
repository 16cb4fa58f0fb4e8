"""Classes of the release, read from their files without importing what these import.

The module of a configuration class imports half the engine. Here a statement is executed when a name that it
binds is looked up. An import gives the module itself if that is of the standard library or installed, another file of
configuration classes, or a stand-in. A statement that fails leaves stand-ins under its names. Fields and defaults,
methods and properties are the release's own; checks of pydantic are not run.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import dataclasses
import importlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from .stand_ins import StandInType, answer_of, stand_in

FOLDER = "vllm.config"
REAL = ("vllm.envs", "vllm.logger", "vllm.version")
"""Modules of the package that are imported as they are."""
READ = (
    "vllm/config/*.py",
    "vllm/config.py",
    "vllm/sampling_params.py",
    "vllm/v1/structured_output/__init__.py",
    *(f"{name.replace('.', '/')}.py" for name in REAL),
)
"""The files that are kept of a release because they may be read."""
DECORATORS = ("config", "dataclass")
UNEVALUATED = __future__.annotations.compiler_flag
"""Annotations stay texts, so what they name is not needed."""
FACTORIES = "_factories_of_defaults"

Kind = TypeVar("Kind", bound=type)


class Default:
    """In the place of a field of pydantic."""

    def __init__(self, default: Any = dataclasses.MISSING, *, default_factory: Any = None, **_: Any) -> None:
        self.default = dataclasses.MISSING if default is ... else default
        self.default_factory = default_factory


def unchanged(*_: Any, **named: Any) -> Callable[[Any], Any]:
    """In the place of a decorator of pydantic that takes arguments: the function stays as it is."""
    return lambda function: function


PYDANTIC = {
    "ConfigDict": dict,
    "Field": Default,
    "PydanticField": Default,
    "field_validator": unchanged,
    "model_validator": unchanged,
    "field_serializer": unchanged,
    "model_serializer": unchanged,
}
"""What is used of pydantic while classes are made."""


def with_plain_defaults(kind: Kind) -> Kind:
    """The class with the defaults of its fields as attributes; `FACTORIES` has those that are made for each object."""
    factories: dict[str, Callable[[], Any]] = {}
    for name, value in list(vars(kind).items()):
        if not hasattr(value, "default_factory"):
            continue
        default, factory = value.default, value.default_factory
        delattr(kind, name)
        if callable(factory) and not isinstance(factory, StandInType):
            factories[name] = factory
        elif not isinstance(default, type(dataclasses.MISSING)) and type(default).__name__ != "NoDefault":
            setattr(kind, name, default)
    setattr(kind, FACTORIES, factories)
    return kind


class Module(dict[str, Any]):
    """The names of a file, each made when it is first looked up, by the statement that binds it."""

    def __init__(self, name: str, file: Path, imported: Callable[[str, str], Any]) -> None:
        super().__init__(__name__=name, __file__=str(file), __builtins__=builtins)
        self.file = file
        self._imported = imported
        statements = ast.parse(file.read_text(encoding="utf-8")).body
        self._statements = {bound: statement for statement in statements for bound in names_of(statement)}

    def __missing__(self, name: str) -> Any:
        if name not in self._statements:
            raise KeyError(name)
        self[name] = stand_in(f"{self['__name__']}.{name}")  # in a circle of statements it stays that
        statement = self._statements[name]
        if isinstance(statement, ast.Import | ast.ImportFrom):
            self[name] = self._imported(*self._origin(statement, name))
        else:
            self._execute(statement)
        if isinstance(statement, ast.ClassDef) and type(self[name]) is type:
            with_plain_defaults(self[name])
        return self[name]

    def get_or_none(self, name: str) -> Any:
        """What is under this name, as the module's own code sees it."""
        try:
            return self[name]
        except KeyError:
            return None

    def _execute(self, statement: ast.stmt) -> None:
        for name in names_needed(statement):
            self.get_or_none(name)  # the body of a class does not ask for what is missing
        for form in forms(statement):
            code = compile(ast.Module([form], []), str(self.file), "exec", UNEVALUATED, dont_inherit=True)
            try:
                exec(code, self)  # noqa: S102  # the release's own code, as an import would execute it
            except Exception:  # noqa: BLE001, S112  # whatever keeps it from being executed, another form is tried
                continue
            return

    def _origin(self, statement: ast.Import | ast.ImportFrom, bound: str) -> tuple[str, str]:
        """The module and the name in it that an import binds to a name; no name for a module."""
        names = {alias.asname or alias.name.partition(".")[0]: alias.name for alias in statement.names}
        if isinstance(statement, ast.Import):
            return (names[bound] if any(alias.asname == bound for alias in statement.names) else bound), ""
        parts = self["__name__"].split(".")[: -statement.level] if statement.level else []
        return ".".join([*parts, *([statement.module] if statement.module else [])]), names[bound]


class Reader:
    """Reads the classes of one release."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._modules: dict[str, Module] = {}

    @property
    def files(self) -> list[Path]:
        """What was read."""
        return [module.file for module in self._modules.values()]

    def released(self, name: str, module: str = FOLDER) -> type | None:
        """The class of this name, in a module or in any one of a package; None if there is none."""
        path = self._source.joinpath(*module.split("."))
        plain = path.with_suffix(".py")
        for file in [plain] if plain.is_file() else sorted(path.glob("*.py")):
            if f"class {name}" in file.read_text(encoding="utf-8"):
                found = self._module(file).get_or_none(name)
                if isinstance(found, type) and not isinstance(found, StandInType):
                    return found
        return None

    def _module(self, file: Path) -> Module:
        parts = file.relative_to(self._source).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name not in self._modules:
            self._modules[name] = Module(name, file, self._imported)
        return self._modules[name]

    def _imported(self, module: str, name: str) -> Any:
        """A name of a module; with no name, the module."""
        full = f"{module}.{name}" if name else module
        if module.partition(".")[0] in ("pydantic", "pydantic_core"):
            return PYDANTIC.get(name) or stand_in(full)
        if module == FOLDER:
            return self.released(name) or stand_in(full)
        if module.startswith(f"{FOLDER}."):
            file = self._source.joinpath(*module.split(".")).with_suffix(".py")
            there = self._module(file).get_or_none(name) if file.is_file() and name not in DECORATORS else None
            return stand_in(full) if there is None else there
        if module.partition(".")[0] != "vllm" or module in REAL or full in REAL:
            try:
                imported = importlib.import_module(full if full in REAL else module)
                return imported if full in REAL or not name else getattr(imported, name)
            except (ImportError, AttributeError):
                return stand_in(full)
        return answer_of(full) or stand_in(full)


def configuration_files(source: Path) -> list[Path]:
    """The files that a reader may read in a release."""
    return [file for pattern in READ for file in sorted(source.glob(pattern))]


def forms(statement: ast.stmt) -> Sequence[ast.stmt]:
    """The statement as it is tried. A class of fields is executed without its decorators, and if need be its bases.

    An object of a structure of msgspec cannot be made without its constructor, so these have no bases.
    """
    if not isinstance(statement, ast.ClassDef):
        return [statement]
    plain = ast.ClassDef(**{**vars(statement), "decorator_list": []})
    bare = ast.ClassDef(**{**vars(plain), "bases": [], "keywords": []})
    return [bare] if any(ast.unparse(base).endswith("Struct") for base in statement.bases) else [plain, bare]


def names_of(statement: ast.stmt) -> list[str]:
    """What a statement binds."""
    names = []
    for node in ast.walk(statement):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names.append(node.name)
            case ast.Import() | ast.ImportFrom():
                names += [alias.asname or alias.name.partition(".")[0] for alias in node.names]
            case ast.Name(ctx=ast.Store()):
                names.append(node.id)
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            break
    return names


def names_needed(node: ast.AST) -> Iterator[str]:
    """What is looked up when a statement is executed: not what its functions look up when they are called."""
    if isinstance(node, ast.Name):
        yield node.id
    later = ["annotation", "returns", "ctx"]
    later += ["body"] if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) else []
    for field, value in ast.iter_fields(node):
        children = value if isinstance(value, list) else [value]
        if field not in later:
            yield from (name for child in children if isinstance(child, ast.AST) for name in names_needed(child))
