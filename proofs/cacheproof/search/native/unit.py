"""One translation unit: the structs and functions that compiled code needs, each made once, when it is first needed."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cacheproof.foundation.errors import InputError
from cacheproof.search.native.types import (
    ANY_OPERATION,
    BOTTOM,
    TAG,
    AnyOperation,
    Closure,
    Const,
    EnumType,
    Holder,
    NoJoinError,
    Pairs,
    Record,
    Scalar,
    Tag,
    Tup,
    Type,
    has_value,
    join,
    record_of,
)
from cachespec.kernel import Operation


class CompileError(InputError):
    """A construct that the compiler does not know. The text names file, line and construct."""


@dataclass
class Struct:
    """A C++ struct: its name, a comment, and the types of its members by name."""

    name: str
    about: str
    members: tuple[tuple[str, Type], ...]


@dataclass
class Instance:
    """A function for arguments of certain types."""

    name: str
    about: str
    parameters: tuple[tuple[str, Type], ...] = ()
    result: Type = BOTTOM
    body: str = ""
    under_way: bool = True
    asked_early: bool = False
    """Whether its result was asked for while it was being made."""
    source: Any = None
    """The `Source`, for people; None of what has none."""
    persistent: bool = False
    """Whether its results are kept for as long as the library is used (`functools.cache`)."""
    forms: dict[int, str] = field(default_factory=dict)
    """The C++ names of its other forms, by their numbers."""


class Making(NamedTuple):
    """A function makes a record, or copies one with other fields."""

    owner: type
    """The class of the record."""
    module: str
    function: str


class Entry(NamedTuple):
    """A function calls another one."""

    module: str
    """Of the caller, as `function`."""
    function: str
    called: tuple[str, str]
    """The module and the name of the function that is called."""
    result: Type


@dataclass
class Unit:
    """Everything that one translation unit holds, in an order in which C++ accepts it."""

    structs: dict[Type, Struct] = field(default_factory=dict)
    instances: dict[tuple[Any, ...], Instance] = field(default_factory=dict)
    operations: dict[type[Operation], int] = field(default_factory=dict)
    """Each class of operations, and its tag."""
    accessors: dict[str, Type] = field(default_factory=dict)
    """Fields that are read of operations of any class."""
    texts: dict[str, int] = field(default_factory=lambda: {"": 0})
    kept: list[Any] = field(default_factory=list)
    """Python objects that must not go away, because they are known by their identity."""
    names: dict[str, int] = field(default_factory=dict)
    makings: set[Making] = field(default_factory=set)
    """Where records are made."""
    entries: set[Entry] = field(default_factory=set)
    """Which function calls which."""
    has_forms: bool = False
    """Whether functions have several forms, chosen at run time. The turns of loops are counted: a form may not end."""
    bounded: bool = False
    """Whether calls come from outside, with any numbers: the turns of all loops are counted, and the depth of calls."""

    def fresh(self, wanted: str) -> str:
        """A C++ name that nothing else has."""
        plain = "".join(letter if letter.isalnum() else "_" for letter in wanted)
        if plain in words_of_headers():
            plain += "_"
        count = self.names.get(plain, 0)
        self.names[plain] = count + 1
        return plain if not count else f"{plain}_{count}"

    def kept_number(self, instance: Instance) -> int:
        """The number of a function that keeps its results, among those of the unit."""
        return [each for each in self.instances.values() if each.persistent].index(instance)

    def text_of(self, text: str) -> int:
        """The number of a text; that of the empty one is 0."""
        return self.texts.setdefault(text, len(self.texts))

    def local(self) -> str:
        """A name for a value that is needed several times in one expression."""
        return self.fresh("each")

    def tag_of(self, owner: type[Operation]) -> int:
        """The tag of a class of operations."""
        if owner not in self.operations:
            self.operations[owner] = len(self.operations)
            self.cpp(record_of(owner))
        return self.operations[owner]

    def tags_below(self, owner: type[Operation]) -> list[int]:
        """The tags of the class and of the classes that inherit from it."""
        return [tag for each, tag in self.operations.items() if issubclass(each, owner)]

    def has_operation_field(self, name: str) -> bool:
        """Whether any operation has a field of this name."""
        return any(record_of(owner).field(name) is not None for owner in self.operations)

    def operation_field(self, name: str) -> Type:
        """The type of a field of operations of any class that has it."""
        kind: Type = BOTTOM
        for owner in self.operations:
            own = record_of(owner).field(name)
            if own is not None:
                kind = join(kind, own)
        if kind == BOTTOM:
            raise NoJoinError(f"no operation has a field {name}")
        self.accessors[name] = kind
        return kind

    def cpp(self, kind: Type) -> str:
        """The name of the type in C++."""
        if isinstance(kind, Scalar):
            return kind.cpp
        if isinstance(kind, EnumType):
            return "Int"
        if isinstance(kind, Holder):
            return f"{kind.form}<{self.cpp(kind.element)}>"
        if isinstance(kind, Pairs):
            return f"{kind.form}<{self.cpp(kind.key)}, {self.cpp(kind.value)}>"
        if isinstance(kind, AnyOperation):
            return "Op"
        if isinstance(kind, Tag):
            return "Int"
        if isinstance(kind, (Tup, Record, Closure)):
            return self._struct(kind).name
        raise CompileError(f"there is no value at run time of {kind}")

    def _struct(self, kind: Tup | Record | Closure) -> Struct:
        found = self.structs.get(kind)
        if found is not None:
            return found
        if isinstance(kind, Tup):
            members = tuple((f"f{place}", part) for place, part in enumerate(kind.parts))
            wanted, about = "Tuple", "a tuple"
        elif isinstance(kind, Record):
            members = kind.fields
            wanted, about = kind.owner.__name__, f"{kind.owner.__module__}.{kind.owner.__qualname__}"
        else:
            members = tuple((f"c_{n}", k) for n, k in zip(kind.names, kind.kinds, strict=True))
            wanted, about = "Captured", "what a function has taken with it"
        members = tuple((member_name(name), each) for name, each in members if has_value(each))
        for _, each in members:
            self.cpp(each)
        if kind in self.structs:
            return self.structs[kind]
        made = Struct(self.fresh(wanted), about, members)
        self.structs[kind] = made
        return made


FOLLOWING_HEADERS = ("memory.hpp", "blake.hpp", "runtime.hpp", "versions.hpp", "bytes.hpp", "lines.hpp", "follower.hpp")
"""Those of libraries that follow logs."""
HEADERS = (
    "memory.hpp",
    "blake.hpp",
    "runtime.hpp",
    "bytes.hpp",
    "names.hpp",
    "packing.hpp",
    "states.hpp",
    "owners.hpp",
    "threads.hpp",
    "explorer.hpp",
    "interface.hpp",
    "levels.hpp",
    "lassos.hpp",
    "forms.hpp",
    "pairs.hpp",
)


@cache
def words_of_headers() -> frozenset[str]:
    """Every word of the headers, and those of C++: nothing that is compiled may have such a name."""
    folder = Path(__file__).parent
    return KEYWORDS | {
        word
        for name in {*HEADERS, *FOLLOWING_HEADERS}
        for word in re.findall(r"\w+", (folder / name).read_text("utf-8"))
    }


KEYWORDS = frozenset(
    [
        "new",
        "delete",
        "class",
        "public",
        "private",
        "protected",
        "this",
        "operator",
        "template",
        "register",
        "auto",
        "default",
        "switch",
        "case",
        "union",
        "struct",
        "int",
        "bool",
        "long",
        "short",
        "char",
        "signed",
        "unsigned",
        "float",
        "double",
        "const",
        "static",
        "void",
        "volatile",
        "namespace",
        "using",
        "typename",
        "friend",
        "inline",
        "virtual",
        "explicit",
        "export",
        "extern",
        "goto",
        "enum",
        "sizeof",
        "throw",
        "try",
        "catch",
        "do",
        "mutable",
        "typedef",
        "and",
        "or",
        "not",
        "xor",
        "bitand",
        "bitor",
        "compl",
        "true",
        "false",
        "concept",
        "requires",
    ]
)


def member_name(name: str) -> str:
    """A field's name as a member of a struct."""
    return f"{name}_" if name in KEYWORDS else name


def literal_of_enum(member: enum.Enum) -> int:
    """The place of a member in its enumeration."""
    return list(type(member)).index(member)


def where(node: ast.AST, filename: str) -> str:
    """File and line of a construct."""
    return f"{filename}:{getattr(node, 'lineno', '?')}"


__all__ = [
    "ANY_OPERATION",
    "TAG",
    "CompileError",
    "Const",
    "Instance",
    "Struct",
    "Unit",
    "literal_of_enum",
    "member_name",
    "where",
]


def several(texts: Iterable[str]) -> str:
    """Arguments, with commas."""
    return ", ".join(texts)
