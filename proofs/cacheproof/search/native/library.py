"""A compiled variant: its library, and how values go in and come out."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.search.native.build import QUICK, WAYS, ready
from cacheproof.search.native.glue import Glue
from cacheproof.search.native.types import BOOL, EnumType, Holder, Pairs, Record, Tup, Type, field_names, is_form
from cacheproof.search.native.unit import CompileError, literal_of_enum
from cachespec.kernel import Operation

POINTER, INT, NUMBER = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64
NO_NEAR_ROOM, FAR_CONTEXT = "static TLS block", "-DCP_FAR_CONTEXT"
"""What the loader says where many libraries have used up the memory that each thread has near, and the way out."""


class Compiled(NamedTuple):
    """A library, and the names and types that Python needs to use it."""

    library: ctypes.CDLL
    name: str
    """Says what it was made of."""
    config: Type
    state: Type
    operations: tuple[type[Operation], ...]
    sorts: tuple[str, ...]
    safety: tuple[str, ...]
    steps: tuple[str, ...]
    progress: tuple[str, ...]


_TRANSLATED: dict[tuple[str, int], tuple[AnyVariant, Glue]] = {}
_LOADED: dict[tuple[str, int], tuple[str, Compiled]] = {}
"""By variant its library, and how it was to be optimised."""


def translated(component: AnyComponent, variant: AnyVariant) -> Glue:
    """The variant as C++. Raises CompileError where the compiler lacks a construct."""
    key = component.name, id(variant)
    if key not in _TRANSLATED:
        _TRANSLATED[key] = variant, Glue(component, variant)
    return _TRANSLATED[key][1]


def library_name(component: AnyComponent, variant: AnyVariant) -> str:
    """The beginning of the name of a library's file."""
    return f"{component.name}-{variant.tag}"


def compiled(
    component: AnyComponent,
    variant: AnyVariant,
    optimised: str = QUICK,
    train: Callable[[Path], None] | None = None,
) -> Compiled:
    """The variant as a library, `optimised` in this one of the ways of `build`, or better.

    `train` is as in `ready`. Raises CompileError where the compiler lacks a construct, and InputError.
    """
    key = component.name, id(variant)
    way, made = _LOADED.get(key, ("", None))
    if made is None or WAYS.index(way) < WAYS.index(optimised):
        glue = translated(component, variant)
        wanted = partial(ready, glue.text, library_name(component, variant), optimised=optimised, train=train)
        try:
            made = loaded(wanted(), glue)
        except OSError as error:
            if NO_NEAR_ROOM not in str(error):
                raise
            made = loaded(wanted(more=(FAR_CONTEXT,)), glue)
        _LOADED[key] = optimised, made
    return made


def loaded(file: Path, glue: Glue) -> Compiled:
    """The library of a unit."""
    library = ctypes.CDLL(str(file))
    _declare(library)
    way = next((way for way in WAYS if file.stem.endswith(way)), "")
    return Compiled(
        library,
        file.stem.removesuffix(way),
        glue.config,
        glue.state,
        tuple(glue.operations),
        tuple(glue.sorts),
        tuple(rule.name for rule in glue.safety),
        tuple(rule.name for rule in glue.steps),
        tuple(rule.name for rule in glue.progress),
    )


def declare(library: ctypes.CDLL, signatures: Mapping[str, tuple[Any, list[Any]]]) -> None:
    """The result and the arguments of the library's functions."""
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


def _declare(library: ctypes.CDLL) -> None:
    """The types of the library's functions."""
    text, integers, numbers = ctypes.c_char_p, ctypes.POINTER(INT), ctypes.POINTER(NUMBER)
    search, small = POINTER, ctypes.c_int
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "cp_new": (search, [text, small, small, small]),
        "cp_free": (None, [search]),
        "cp_exchange": (None, [search, small, integers, INT, integers, INT]),
        "cp_begin": (small, [search, text]),
        "cp_expand": (small, [search, NUMBER, ctypes.c_double]),
        "cp_settle": (small, [search]),
        "cp_share": (None, [search, NUMBER, NUMBER]),
        "cp_outgoing": (POINTER, [search, NUMBER]),
        "cp_outgoing_size": (NUMBER, [search, NUMBER]),
        "cp_absorb": (small, [search, text, NUMBER]),
        "cp_order": (small, [search]),
        "cp_number": (None, [search, numbers, NUMBER]),
        "cp_numbers": (numbers, [search]),
        "cp_place": (NUMBER, [search, NUMBER]),
        "cp_write_level": (small, [search, text, NUMBER, NUMBER]),
        "cp_read_level": (small, [search, text]),
        "cp_know": (None, [search, small, small]),
        "cp_error": (text, [search]),
        "cp_count": (NUMBER, [search, small]),
        "cp_found_by": (integers, [search]),
        "cp_pending": (numbers, [search]),
        "cp_broken": (integers, [search, small]),
        "cp_seen": (POINTER, [search, small]),
        "cp_coverage": (integers, [search]),
        "cp_owed": (numbers, [search, small]),
        "cp_lasts": (small, [search, NUMBER]),
        "cp_owed_moves": (ctypes.POINTER(ctypes.c_uint16), [search]),
        "cp_operation": (text, [search, NUMBER]),
        "cp_state": (text, [search, NUMBER]),
    }
    declare(library, signatures)


def packed(value: Any, kind: Type) -> bytes:
    """A value as the bytes that compiled code reads."""
    out = bytearray()
    _pack(value, kind, out)
    return bytes(out)


def _pack(value: Any, kind: Type, out: bytearray) -> None:
    if isinstance(kind, Holder) and kind.form == "Opt":
        out.append(value is not None)
        if value is not None:
            _pack(value, kind.element, out)
    elif isinstance(kind, (Record, Tup)):
        parts = [part for _, part in kind.fields] if isinstance(kind, Record) else list(kind.parts)
        items = [getattr(value, name) for name in field_names(kind.owner)] if isinstance(kind, Record) else value
        for item, part in zip(items, parts, strict=True):
            _pack(item, part, out)
    elif isinstance(kind, (Holder, Pairs)):
        contents = value.items() if is_form(kind, "Map", "Queue", "Dict") else value
        _pack_several(list(contents), kind, out)
    elif kind == BOOL:
        out.append(bool(value))
    elif isinstance(kind, EnumType):
        _number(literal_of_enum(value), out)
    else:
        _number(value, out)


def _pack_several(items: list[Any], kind: Holder | Pairs, out: bytearray) -> None:
    _number(len(items), out)
    for item in items:
        if isinstance(kind, Pairs):
            _pack(item[0], kind.key, out)
            _pack(item[1], kind.value, out)
        elif kind.form == "Queue":
            _pack(item[0], kind.element, out)
            _number(item[1], out)
        else:
            _pack(item, kind.element, out)


def _number(value: int, out: bytearray) -> None:
    """Zigzag, seven bits a byte."""
    if not -(1 << 63) <= value < 1 << 63:
        raise CompileError(f"{value} does not fit into 64 bits")
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    while rest >= 128:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
