"""The operations of a component as a skeleton has them: derived from the declarations."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from textwrap import wrap
from typing import get_origin, get_type_hints

from cacheproof.model.registry import AnyComponent
from cacheproof.model.scope import scopes_of
from cacheproof.present.book.answers import kept
from cacheproof.present.book.declarations import attribute_docs, paragraphs
from cacheproof.present.book.reference_page import field_rows, worded
from cachespec.kernel import Code, Kind, Operation

WIDTH = 120


@dataclass(frozen=True, slots=True)
class Call:
    """One operation: its class, its name on the wire, the fields with their types, and what is known about it.

    `about` are paragraphs; `answers` are lines, one for each code with its meaning and a call that returns it.
    """

    kind: type[Operation]
    name: str
    fields: tuple[tuple[str, str], ...]
    about: tuple[str, ...]
    answers: tuple[str, ...]

    def docstring(self, indent: str) -> list[str]:
        """What it is and what it may return, as the docstring of a method."""
        return docstring(self.about, indent, ("May return:", *self.answers) if self.answers else ())


STEPS_TO_MEET = 200
EXAMPLE = " " * 16
"""The indentation of an example below the meaning of a code."""


def docstring(texts: Sequence[str], indent: str, answers: Sequence[str] = ()) -> list[str]:
    """The lines of a docstring of these paragraphs, as wide as they may be, and of these answers as they are."""
    safe = [text.replace("\\", "/").replace('"""', "'''") for text in texts]
    first, *others = [wrap(text, WIDTH - len(indent) - 7) for text in safe]
    if not others and len(first) == 1 and not answers:
        return [f'{indent}"""{first[0]}"""' if not first[0].endswith('"') else f'{indent}"""{first[0]}."""']
    lines = [*first, *(line for lines in others for line in ("", *lines)), *([""] if answers else []), *answers]
    return [f'{indent}"""{lines[0]}', *(f"{indent}{line}".rstrip() for line in lines[1:]), f'{indent}"""']


def bracketed(before: str, inside: list[str], after: str, indent: str) -> list[str]:
    """`before(inside, inside)after` on one line, or where that is too long with a line for each part."""
    line = f"{indent}{before}({', '.join(inside)}){after}"
    if len(line) <= WIDTH:
        return [line]
    return [f"{indent}{before}(", *(f"{indent}    {part}," for part in inside), f"{indent}){after}"]


def calls_of(component: AnyComponent) -> Iterator[Call]:
    """Every operation that can be asked of an implementation; the turns of a loop inside a call are its own affair."""
    for kind in component.operations:
        if _may_be_a_turn(kind) and not _is_offered(component, kind):
            continue
        hints = get_type_hints(kind)
        named = tuple(
            (field.name, "tuple[int, ...]" if get_origin(hints[field.name]) is tuple else "int")
            for field in fields(kind)
        )
        yield Call(kind, kind.wire_name(), named, tuple(_about(kind)), tuple(_answers(component, kind)))


def _about(kind: type[Operation]) -> Iterator[str]:
    """What the operation is, and what its fields hold."""
    yield from paragraphs(kind) or [kind.wire_name()]
    rows = [(name.strip("`"), meaning) for name, _, meaning in field_rows(kind)]
    meanings = [f"{name}: {meaning}" for name, meaning in rows if meaning and meaning != f"Which {name}."]
    if meanings:
        yield " ".join(meanings)


def _answers(component: AnyComponent, kind: type[Operation]) -> Iterator[str]:
    """Each code that the operation may return with its meaning, and a call that returns it below."""
    docs = {code.value: attribute_docs(Code)[code.name] for code in Code}
    for code, example in kept().get(component.name, {}).get(kind.wire_name(), {}).items():
        yield f"    {code:<11} {docs[code]}"
        yield from wrap(worded(example).replace("`", ""), WIDTH - 30, initial_indent=EXAMPLE, subsequent_indent=EXAMPLE)


def _may_be_a_turn(kind: type[Operation]) -> bool:
    """Whether somebody owes it to himself: the turn of a loop, perhaps, that is no call of its own."""
    return kind.kind is Kind.INTERNAL and kind.lane[0] == kind.lane[1]


def _is_offered(component: AnyComponent, kind: type[Operation]) -> bool:
    """Whether the operation can be called by itself, as far as a short walk in each scope comes."""
    variant = component.normative
    for scope in scopes_of(component):
        state, source = variant.start(scope.config), random.Random(1)  # noqa: S311  # not a secret
        for _ in range(STEPS_TO_MEET):
            offered = list(variant.alphabet(scope.config, state))
            if not offered:
                break
            if any(type(operation) is kind for operation in offered):
                return True
            state, _outcome = variant.call(scope.config, state, source.choice(offered))
    return False


def called(component: AnyComponent) -> str:
    """The component as the first part of a name."""
    return "".join(letter if letter.isalnum() else "_" for letter in component.name)
