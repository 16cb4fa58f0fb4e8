"""One variant as a library that follows logs and answers calls: steps over containers for large states.

Of the explorer's library it has the transitions and the view. Beside them it reads lines, and refuses operations with
names or numbers that the configuration does not have (`unknown`).
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.search.native.build import THOROUGH, kept_at, ready
from cacheproof.search.native.compiler import Compiler
from cacheproof.search.native.library import INT as LONG
from cacheproof.search.native.library import NUMBER, POINTER, declare, library_name, packed
from cacheproof.search.native.observed import Observable, function_of, observables
from cacheproof.search.native.shapes import codec, members_of
from cacheproof.search.native.text import unit_text
from cacheproof.search.native.types import ANY_OPERATION, INT, UNIT, Type, is_form, opt, record_of, seq
from cacheproof.search.native.unit import FOLLOWING_HEADERS, CompileError
from cacheproof.search.shape import Form, Shape, shape_of
from cachespec.kernel import REROOTING, Code, Observation, Operation, Outcome

NO_NAME = "\\x01"
"""The name of an operation that no line has: none has a control character."""
CODES = tuple(Code)
OPTIMISED = THOROUGH
"""A log that is worth a compilation is long."""
DEEP_SYNTAX = 20_000
"""Calls within one another while the specification is translated."""


class FollowingGlue:
    """The text of the unit, and what Python has to know to use it. Raises CompileError."""

    def __init__(self, component: AnyComponent, variant: AnyVariant) -> None:
        self.component, self.variant = component, variant
        self.compiler = Compiler()
        self.unit = self.compiler.unit
        self.unit.bounded = True
        for owner in component.operations:
            self.unit.tag_of(owner)
        self.config, self.state = record_of(component.config), record_of(variant.state)
        self.observables: list[Observable] = []
        self.text = self._text()
        self.operations: list[type[Operation]] = list(self.unit.operations)

    def _text(self) -> str:
        compiler, unit, config, state = self.compiler, self.unit, self.config, self.state
        step, moved = compiler.dispatch(self.variant, config, state)
        view = compiler.function(self.variant.view, [config, state])
        following = compiler.function(self.variant.continuation, [config, state], opt(ANY_OPERATION))
        unknown = compiler.function(self.component.unknown, [config, ANY_OPERATION])
        self.observables = observables(compiler, self.component.observe, config, view.type)
        body = unit_text(compiler)  # all functions are there
        cpp, c, s = unit.cpp, unit.cpp(config), unit.cpp(state)
        owners = list(unit.operations)
        aliases = {"ConfigT": config, "StateT": state, "ViewT": view.type, "MovedT": moved}
        shown = " ".join(f"case {number}: return {each.text};" for number, each in enumerate(self.observables))
        is_unknown = f"({unknown.text}).has" if is_form(unknown.type, "Opt") else "false"
        if unknown.type != UNIT and not is_form(unknown.type, "Opt"):
            raise CompileError(f"{self.component.name}: `unknown` must give a text or None, not {unknown.type}")
        return "\n".join(
            [
                f"// {self.component.name} ({self.variant.tag}), made from the specification to follow logs",
                "#define CP_FOLLOWING",
                '#include "lines.hpp"',
                "namespace cp {",
                body,
                *(f"using {name} = {cpp(kind)};" for name, kind in aliases.items()),
                *codec(unit, [config, state, *(record_of(owner) for owner in owners)]),
                f"static ViewT view_of(const {c}& a0, const {s}& a1) {{ return {view.text}; }}",
                f"static Opt<Op> continuation_of(const {c}& a0, const {s}& a1) {{ return {following.text}; }}",
                f"static MovedT step_of(const {c}& a0, const {s}& a1, const Op& a2) {{ return {step}(a0, a1, a2); }}",
                f"static bool is_unknown(const {c}& a0, const Op& a1) {{ return {is_unknown}; }}",
                f"static Value observed(int function, Int place, const {c}& a0, const ViewT& a1) {{",
                f'switch (function) {{ {shown} }} fail("no such observable"); }}',
                *self._operations(owners),
                "}",
                '#include "follower.hpp"',
                "",
            ]
        )

    def _operations(self, owners: list[type[Operation]]) -> Iterator[str]:
        """The tables by which lines are read, and how operations are made of what was read."""
        rows, read = [], []
        for tag, owner in enumerate(owners):
            kind = record_of(owner)
            name = owner.wire_name() if readable(owner) and owner in self.component.operations else NO_NAME
            operands = "".join(f'{{"{field}", {_bool(each == seq(INT))}}}, ' for field, each in kind.fields)
            yield f"static const Operand OPERANDS_{tag}[] = {{ {operands}{{}} }};"
            rows.append(f'{{"{name}", OPERANDS_{tag}, {len(kind.fields)}}}')
            struct = self.unit.cpp(kind)
            if readable(owner):
                parts = (
                    f"o[{place}].{'numbers' if each == seq(INT) else 'number'}"
                    for place, (_, each) in enumerate(members_of(kind))
                )
                read.append(f"case {tag}: return op_of_{tag}({struct}{{{', '.join(parts)}}});")
        codes = ", ".join(f'"{code.value}"' for code in CODES)
        yield f"constexpr Int TAGS = {len(owners)}, CODES = {len(CODES)}, DIVERGED_CODE = {CODES.index(Code.DIVERGED)};"
        yield f"static const Kind KINDS[] = {{ {', '.join(rows)} }};"
        yield f"static const std::string_view CODE_NAMES[] = {{ {codes} }};"
        yield (
            f"static Op op_from(Int tag, const Value* o) {{ switch (tag) {{ {' '.join(read)} }}"
            ' fail("an operation that no line has"); }'
        )
        most = max(len(record_of(owner).fields) for owner in owners)
        yield f"static_assert({most} <= MOST_OPERANDS);"


def readable(owner: type[Operation]) -> bool:
    """Whether all operands are integers or arrays of integers."""
    return all(kind in (INT, seq(INT)) for _, kind in record_of(owner).fields)


def _bool(value: bool) -> str:  # noqa: FBT001  # what is written
    return "true" if value else "false"


class FollowingLibrary(NamedTuple):
    """A library, and the names and types that Python needs to use it."""

    library: ctypes.CDLL
    config: Type
    state: Type
    shape: Shape
    operations: tuple[type[Operation], ...]
    observables: list[Observable]


_TRANSLATED: dict[tuple[str, int], tuple[AnyVariant, FollowingGlue]] = {}
_LOADED: dict[tuple[str, int], FollowingLibrary] = {}


@contextmanager
def _deep() -> Iterator[None]:
    """Translation calls itself deeply. Elsewhere the usual limit is kept: JSON of any depth is read there."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEEP_SYNTAX))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def translated(component: AnyComponent, variant: AnyVariant) -> FollowingGlue:
    """The variant as C++. Raises CompileError where the compiler lacks a construct."""
    key = component.name, id(variant)
    if key not in _TRANSLATED:
        with _deep():
            _TRANSLATED[key] = variant, FollowingGlue(component, variant)
    return _TRANSLATED[key][1]


def _name(component: AnyComponent, variant: AnyVariant) -> str:
    return f"{library_name(component, variant)}-following"


def is_there(component: AnyComponent, variant: AnyVariant) -> bool:
    """Whether the library was compiled before. Raises CompileError."""
    glue = translated(component, variant)
    kept = kept_at(glue.text, _name(component, variant), optimised=OPTIMISED, headers=FOLLOWING_HEADERS)
    return kept is not None and kept.exists()


def following_library(component: AnyComponent, variant: AnyVariant) -> FollowingLibrary:
    """The variant as a library, compiled if it is not there. Raises CompileError and InputError."""
    key = component.name, id(variant)
    if key not in _LOADED:
        glue = translated(component, variant)
        file = ready(glue.text, _name(component, variant), optimised=OPTIMISED, headers=FOLLOWING_HEADERS)
        library = ctypes.PyDLL(str(file))  # with the interpreter's lock: a library has one memory for all its callers
        _declare(library)
        _LOADED[key] = FollowingLibrary(
            library, glue.config, glue.state, shape_of(variant.state), tuple(glue.operations), glue.observables
        )
    return _LOADED[key]


def _declare(library: ctypes.CDLL) -> None:
    text, integers, small, follower = ctypes.c_char_p, ctypes.POINTER(LONG), ctypes.c_int, POINTER
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "cf_new": (follower, []),
        "cf_free": (None, [follower]),
        "cf_error": (text, [follower]),
        "cf_configure": (small, [follower, text]),
        "cf_limit": (small, [follower, LONG, integers, LONG]),
        "cf_observable": (small, [follower, text, small, LONG]),
        "cf_known": (small, [follower, small, small, integers, LONG]),
        "cf_forget_known": (None, [follower]),
        "cf_enter": (small, [follower, text]),
        "cf_follow": (NUMBER, [follower, text, NUMBER]),
        "cf_lines": (NUMBER, [follower]),
        "cf_refused": (small, [follower]),
        "cf_call": (small, [follower, POINTER, LONG]),
        "cf_answer": (integers, [follower]),
        "cf_answer_size": (LONG, [follower]),
        "cf_state": (text, [follower]),
        "cf_seen": (ctypes.POINTER(ctypes.c_uint8), [follower]),
        "cf_known_several": (small, [follower, LONG]),
        "cf_known_number": (LONG, [follower, LONG]),
        "cf_known_numbers": (integers, [follower, LONG]),
        "cf_known_size": (LONG, [follower, LONG]),
        "cf_bytes": (NUMBER, [follower]),
    }
    declare(library, signatures)


class NativeFollower:
    """The state of one run, in compiled code. Its memory is freed with it.

    Raises InputError where a number does not fit into 64 bits.
    """

    def __init__(self, component: AnyComponent, variant: AnyVariant, config: Any) -> None:
        self.made = made = following_library(component, variant)
        self._library = made.library
        self._follower = made.library.cf_new()
        self._free = weakref.finalize(self, made.library.cf_free, self._follower)
        self._free.atexit = False
        self._checked(self._library.cf_configure(self._follower, packed(config, made.config)))
        self._tags = {owner: tag for tag, owner in enumerate(made.operations)}
        self._fields = {
            owner: [(name, kind == seq(INT)) for name, kind in record_of(owner).fields] for owner in made.operations
        }
        self._names: list[str] = []
        self._known: list[str] = []

    def _checked(self, failed: int) -> None:
        if failed:
            raise InputError(f"the compiled specification failed: {self._library.cf_error(self._follower).decode()}")

    # Lines ------------------------------------------------------------------------------------------------------------

    def limit(self, owner: type[Operation], most: list[int]) -> None:
        """The largest value of each operand of an operation; lines with an operation without limits are not taken."""
        self._checked(self._library.cf_limit(self._follower, self._tags[owner], _numbers(most), len(most)))

    def show(self, names: list[str]) -> None:
        """The observables of this configuration."""
        self._names = names
        for name in names:
            function, place = function_of(self.made.observables, name)
            self._checked(self._library.cf_observable(self._follower, name.encode(), function, place))

    def shows(self, name: str) -> bool:
        """Whether compiled code has this observable."""
        return function_of(self.made.observables, name)[0] >= 0

    def enter(self, state: Any, known: Mapping[str, Observation]) -> None:
        """Go on from a state, with what was logged last of the observables that are logged when they change."""
        self._checked(self._library.cf_enter(self._follower, packed(state, self.made.state)))
        self._library.cf_forget_known(self._follower)
        self._known = list(known)
        for name, value in known.items():
            several = isinstance(value, tuple)
            values = list(value) if isinstance(value, tuple) else [value]
            arguments = self._names.index(name), several, _numbers(values), len(values)
            self._checked(self._library.cf_known(self._follower, *arguments))

    def follow(self, lines: bytes) -> None:
        """Take lines, each with its newline, up to the first that is wrong or unusual: that one is `refused`.

        After a fifth of a second it stops behind the next line.
        """
        self._library.cf_follow(self._follower, lines, len(lines))

    @property
    def lines(self) -> int:
        """How many lines the last call of `follow` has taken."""
        return int(self._library.cf_lines(self._follower))

    @property
    def refused(self) -> bool:
        """Whether it ended at a line that it does not take."""
        return bool(self._library.cf_refused(self._follower))

    def state(self) -> Any:
        """The state after the lines that were taken, over containers for large states."""
        text = self._library.cf_state(self._follower)
        if text is None:
            raise MemoryError(self._library.cf_error(self._follower).decode())
        return _rerooting(msgspec.json.decode(text), self.made.shape)

    def known(self) -> dict[str, Observation]:
        """What was logged last of the observables that are logged when they change."""
        library, follower, found = self._library, self._follower, dict[str, Observation]()
        for place, name in enumerate(self._known):
            if library.cf_known_several(follower, place):
                values = library.cf_known_numbers(follower, place)
                found[name] = tuple(values[: library.cf_known_size(follower, place)])
            else:
                found[name] = int(library.cf_known_number(follower, place))
        return found

    @property
    def seen(self) -> set[tuple[type[Operation], Code]]:
        """The operations of the lines that were taken, each with a code."""
        flags = self._library.cf_seen(self._follower)
        every = ((owner, code) for owner in self.made.operations for code in CODES)
        return {pair for place, pair in enumerate(every) if flags[place]}

    @property
    def bytes(self) -> int:
        """The memory of the state, and of what steps have left behind."""
        return int(self._library.cf_bytes(self._follower))

    # Calls ------------------------------------------------------------------------------------------------------------

    def call(self, operation: Operation) -> Outcome:
        """One whole call, from the present state to the next one; its operands are integers and arrays of them.

        Raises InputError where compiled code fails; the state is as it was then.
        """
        owner = type(operation)
        flat = [self._tags[owner]]
        for name, several in self._fields[owner]:
            value = getattr(operation, name)
            flat += (len(value), *value) if several else (value,)
        try:
            words = array("q", flat)
        except OverflowError:
            raise InputError(f"{owner.wire_name()}: numbers have 64 bits") from None
        self._checked(self._library.cf_call(self._follower, words.buffer_info()[0], len(words)))
        code, *values = self._library.cf_answer(self._follower)[: self._library.cf_answer_size(self._follower)]
        return Outcome(CODES[code], tuple(values))


def _numbers(values: list[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(values))(*values)


def _rerooting(value: Any, shape: Shape) -> Any:
    """A value of compiled code, in JSON, as one of the specification over rerooting containers."""
    form, parts = shape.form, shape.parts
    if form in (Form.RECORD, Form.FIXED):
        items = [_rerooting(item, part) for item, part in zip(value, parts, strict=True)]
        return shape.make._make(items) if shape.make else tuple(items)
    if form is Form.MAP:
        made = REROOTING.map()
        for key, item in value:
            made = made.set(_rerooting(key, parts[0]), _rerooting(item, parts[1]))
        return made
    if form is Form.QUEUE:
        queue = REROOTING.queue()
        for key, weight in value:
            queue = queue.push(_rerooting(key, parts[0]), weight)
        return queue
    if form is Form.OPTIONAL:
        return None if value is None else _rerooting(value, parts[0])
    if form is Form.LEAF:
        return tuple([_rerooting(item, shape) for item in value]) if isinstance(value, list) else value
    return tuple([_rerooting(item, parts[0]) for item in value])
