"""The observables of a component as functions of their own: of `observe`, which gives them all, one value each.

`observe` gives integers beside arrays, and no type of compiled code holds both. So its syntax is taken apart. The forms
that are known: a dictionary that is written out, one that keeps some of its names, one that is filled in a loop with
names that end with a number, and the observables of another component. An observable of another form is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NamedTuple

from cacheproof.search.native.compiler import Compiler
from cacheproof.search.native.source import Source, source_of
from cacheproof.search.native.types import BOOL, INT, Holder, NoJoinError, Tup, Type, seq
from cacheproof.search.native.unit import CompileError
from cacheproof.search.native.values import Val, coerce, there

NUMBERED = re.compile(r"(.*?)([0-9]+)")


class Observable(NamedTuple):
    """An observable, or all those whose names differ in the number at their end."""

    name: str
    """Without that number."""
    numbered: bool
    text: str
    """C++: the value, of a configuration `a0` and a view `a1`; of a numbered one, that at `place`."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A function that gives one observable, and how its arguments come from those of `observe`."""

    name: str
    numbered: bool
    source: Source
    arguments: tuple[Val, Val]


def observables(compiler: Compiler, observe: Any, config: Type, view: Type) -> list[Observable]:
    """The observables that can be compiled, each with its function."""
    found = []
    for part in _parts(compiler, observe, (Val("a0", config), Val("a1", view))):
        try:
            value = _called(compiler, part.source, part.arguments)
            found.append(Observable(part.name, part.numbered, _as_value(compiler, value, numbered=part.numbered)))
        except (CompileError, NoJoinError):
            continue
    return found


def function_of(known: list[Observable], name: str) -> tuple[int, int]:
    """The number of the function that gives an observable, and the place in what it gives; both -1 without one."""
    for number, each in enumerate(known):
        if not each.numbered and each.name == name:
            return number, -1
    numbered = NUMBERED.fullmatch(name)
    for number, each in enumerate(known):
        if numbered is not None and each.numbered and each.name == numbered[1]:
            return number, int(numbered[2])
    return -1, -1


def _as_value(compiler: Compiler, value: Val, *, numbered: bool) -> str:
    """What a function gives as the `Value` that a line has."""
    if numbered:
        if not isinstance(value.type, Holder) or value.type.form != "Seq":
            raise CompileError("a numbered observable is one of a sequence")
        value = Val(f"{value.text}.at(place)", value.type.element)
    value = there(compiler.unit, value)
    if value.type in (INT, BOOL):
        return f"Value{{false, {coerce(compiler.unit, value, INT)}}}"
    if isinstance(value.type, (Holder, Tup)):
        return f"Value{{true, 0, {coerce(compiler.unit, value, seq(INT))}}}"
    raise CompileError(f"an observable is an integer or an array of integers, and not {value.type}")


def _called(compiler: Compiler, source: Source, arguments: tuple[Val, ...]) -> Val:
    assert isinstance(source.node, ast.FunctionDef)
    given = dict(zip((each.arg for each in source.node.args.args), arguments, strict=True))
    made = compiler.instance(source, {}, None, given, None, source.node, kept=False)
    return Val(f"{made.name}({', '.join(each.text for each in arguments)})", made.result)


def _parts(compiler: Compiler, observe: Any, arguments: tuple[Val, Val]) -> Iterator[_Part]:
    if not isinstance(observe, FunctionType):
        return
    source = source_of(observe)
    if not isinstance(source.node, ast.FunctionDef):
        return
    *before, last = source.node.body
    if not isinstance(last, ast.Return) or last.value is None:
        return
    value = last.value
    if isinstance(value, ast.DictComp) and isinstance(value.value, ast.Subscript):  # some names of a dictionary
        value = value.value.value
    if isinstance(value, ast.Name):
        yield from _gathered(compiler, source, before, value.id, arguments)
    else:
        yield from _of(compiler, source, before, value, arguments)


def _of(
    compiler: Compiler, source: Source, before: list[ast.stmt], value: ast.expr, arguments: tuple[Val, Val]
) -> Iterator[_Part]:
    """What an expression gives that is a dictionary, or what another component shows."""
    if isinstance(value, ast.IfExp):  # by the configuration: where it is not there, no line names it
        value = value.body
    if isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield _Part(key.value, False, _returning(source, before, item), arguments)
    elif isinstance(value, ast.Call) and len(value.args) == 2 and not value.keywords:
        other = _known(source, value.func)
        try:
            own = tuple(_called(compiler, _returning(source, before, each), arguments) for each in value.args)
            yield from _parts(compiler, other, (own[0], own[1]))
        except (CompileError, NoJoinError):
            return


def _gathered(
    compiler: Compiler, source: Source, before: list[ast.stmt], name: str, arguments: tuple[Val, Val]
) -> Iterator[_Part]:
    """What is put into a dictionary of this name, statement by statement."""
    plain: list[ast.stmt] = []
    for statement in before:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == name:
                yield from _of(compiler, source, list(plain), value, arguments)
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                yield from _of(compiler, source, list(plain), value, arguments)
            case ast.AugAssign(target=ast.Name(id=target), op=ast.BitOr(), value=value) if target == name:
                yield from _of(compiler, source, list(plain), value, arguments)
            case ast.For(body=body):
                for inner in body:
                    yield from _numbered(source, plain, statement, inner, arguments)
            case _:
                plain.append(statement)


def _numbered(
    source: Source, before: list[ast.stmt], loop: ast.For, inner: ast.stmt, arguments: tuple[Val, Val]
) -> Iterator[_Part]:
    """`shown[f"NAME{number}"] = VALUE` for each number of an enumeration."""
    match inner, loop.iter:
        case (
            ast.Assign(
                targets=[ast.Subscript(slice=ast.JoinedStr(values=[ast.Constant(value=str(prefix)), _]))], value=value
            ),
            ast.Call(func=ast.Name(id="enumerate"), args=[_], keywords=[]),
        ):
            every = ast.GeneratorExp(value, [ast.comprehension(loop.target, loop.iter, [], 0)])
            gathered = ast.Call(ast.Name("tuple", ast.Load()), [every], [])
            yield _Part(prefix, True, _returning(source, before, gathered), arguments)


def _returning(source: Source, before: list[ast.stmt], value: ast.expr) -> Source:
    """A function like another one that returns something else."""
    assert isinstance(source.node, ast.FunctionDef)
    returned = ast.copy_location(ast.Return(value), value if hasattr(value, "lineno") else source.node)
    node = ast.FunctionDef(
        source.node.name, source.node.args, [*before, returned], [], None, lineno=source.node.lineno, col_offset=0
    )
    return Source(ast.fix_missing_locations(node), source.filename, source.globals, source.qualname)


def _known(source: Source, name: ast.expr) -> Any:
    """A function by a dotted name; None if it is not one of the module."""
    if isinstance(name, ast.Name):
        return source.globals.get(name.id)
    return getattr(_known(source, name.value), name.attr, None) if isinstance(name, ast.Attribute) else None
