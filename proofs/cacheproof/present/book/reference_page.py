"""The reference: configuration, observables, operations and outcomes of each component, from its declarations."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import AnyComponent, component_named, components, scope_file
from cacheproof.model.wire import config_to_message
from cacheproof.present.book.answers import Answers, Example, answers_of
from cacheproof.present.book.declarations import alias_docs, attribute_docs, paragraphs
from cacheproof.present.book.tables import markdown_table
from cachespec.kernel import Code, Kind, Operation
from cachespec.kernel.names import Name, Rank, note_of, unwrap

CODES, COMPONENTS, MESSAGES = "codes", "components", "messages"
MOST_SHOWN = 3
"""Calls of an example that are shown before the last one; of more only the number is."""
FOLDER = "reference"

KINDS = {
    Kind.CALL: "a call",
    Kind.INTERNAL: "a step that the system owes: it happens in the end",
    Kind.FAULT: "a fault of the environment",
}

TEMPLATE = """\
# {name}

Operations and codes of `{name}`: {summary}. [How to read this page](index.md).

<!-- reference: {name} -->
"""


def reference_part(words: Sequence[str]) -> str:
    """`codes`: every outcome code; `components`: every component; `messages`: their messages; or one by its name."""
    if len(words) != 1:
        raise InputError(f"say which component, '{CODES}', '{COMPONENTS}' or '{MESSAGES}'")
    if words[0] == CODES:
        docs = attribute_docs(Code)
        return markdown_table(("code", "meaning"), [(f"`{code.value}`", docs[code.name]) for code in Code])
    if words[0] == COMPONENTS:
        rows = [(f"[`{component.name}`]({component.name}.md)", component.summary) for component in referred()]
        return markdown_table(("component", "what it is"), rows)
    if words[0] == MESSAGES:
        return "\n\n".join(part for component in referred() for part in _messages(component))
    return "\n\n".join(_component(component_named(words[0])))


def _messages(component: AnyComponent) -> Iterator[str]:
    """What a child reads and answers for the component, as names: the reference says what they mean."""
    config: Any = component.config
    usual = config._field_defaults
    needed = ", ".join(f"`{name}`" for name in config._fields if name not in usual)
    optional = ", ".join(f"`{name}`" for name in config._fields if name in usual)
    yield f"### `{component.name}`"
    yield f"[What they mean](../{FOLDER}/{component.name}.md). Fields of `init`: {needed or 'none'}."
    if optional:
        yield f"Fields of `init` with a default: {optional}."
    yield f"Observables: {', '.join(f'`{name}`' for name in component.observables)}."
    answers = answers_of(component)
    rows = [
        (f"`{kind.wire_name()}`", _listed(field.name for field in fields(kind)), _listed(answers[kind.wire_name()]))
        for kind in component.operations
        if answers.get(kind.wire_name())
    ]
    yield markdown_table(("`op`", "fields", "codes"), rows)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def referred() -> list[AnyComponent]:
    """The components that have a page: those with scopes."""
    return [component for component in components().values() if scope_file(component).is_file()]


def new_pages(docs: Path) -> dict[Path, str]:
    """The pages of components that have none yet, before they are filled."""
    pages = {
        docs / FOLDER / f"{one.name}.md": TEMPLATE.format(name=one.name, summary=one.summary) for one in referred()
    }
    return {path: text for path, text in pages.items() if not path.exists()}


def _component(component: AnyComponent) -> Iterator[str]:
    answers = answers_of(component)
    yield "## Configuration"
    yield from paragraphs(component.config)
    yield markdown_table(("field", "type", "meaning", "default"), settings(component))
    yield "## Observables"
    yield "After every call an implementation shows these, or as many of them as it can."
    yield markdown_table(
        ("observable", "what it holds"), [(f"`{n}`", text) for n, text in component.observables.items()]
    )
    yield "## Operations"
    for kind in component.operations:
        yield from _operation(component, kind, answers)


def settings(component: AnyComponent) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, meaning and default of each field of the configuration."""
    config: Any = component.config
    usual = config_to_message(config(**{name: config._field_defaults.get(name, 0) for name in config._fields}))
    docs = {**_documented_elsewhere(component), **attribute_docs(config)}
    hints = get_type_hints(config, include_extras=True)
    for name in config._fields:
        default = f"`{usual[name]}`" if name in config._field_defaults else "required"
        yield f"`{name}`", sort_of(hints[name]), docs.get(name, ""), default


def _documented_elsewhere(component: AnyComponent) -> Mapping[str, str]:
    """Fields of a configuration that its docstring says mean the same as another component's."""
    text = inspect.getdoc(component.config) or ""
    others = [other for other in components().values() if f"{other.name}'s configuration" in text]
    return {name: doc for other in others for name, doc in attribute_docs(other.config).items()}


def _operation(component: AnyComponent, kind: type[Operation], answers: Answers) -> Iterator[str]:
    name = kind.wire_name()
    speaker, hearer = kind.lane
    yield f"### `{name}`"
    yield from paragraphs(kind)
    yield f"`{kind.__name__}`, {KINDS[kind.kind]}; from {speaker} to {hearer}."
    rows = list(field_rows(kind))
    if rows:
        yield markdown_table(("field", "type", "meaning"), rows)
    examples = answers.get(name, {})
    if not examples:
        yield _without_answers(component, kind)
        return
    docs = {code.value: attribute_docs(Code)[code.name] for code in Code}
    shown = [(f"`{code}`", docs[code], worded(example), f"`{example.scope}`") for code, example in examples.items()]
    yield markdown_table(("may return", "meaning", "for example", "in scope"), shown)


def _without_answers(component: AnyComponent, kind: type[Operation]) -> str:
    if kind in component.normative.transitions:
        return "A turn of a loop inside another call: no implementation is asked for it."
    tags = ", ".join(f"`{tag}`" for tag, variant in component.variants.items() if kind in variant.transitions)
    return f"The normative variant does not have it: `unsupported`. These eras have it: {tags}."


def worded(example: Example) -> str:
    """The calls of an example and how the last one ends."""
    last = f"`{example.call}`: {example.outcome}"
    if len(example.before) > MOST_SHOWN:
        return f"{len(example.before)} calls, then {last}"
    return ", ".join([*(f"`{call}`" for call in example.before), last])


def field_rows(kind: type[Operation]) -> Iterator[tuple[str, str, str]]:
    """Name, type and meaning of each field: what stands below it, or below the name of its type."""
    docs, aliases = attribute_docs(kind), alias_docs(kind.__module__.rpartition(".")[0])
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        hint = hints[field.name]
        name = note_of(unwrap(hint)[1], Name)
        meaning = docs.get(field.name) or aliases.get(str(field.type)) or (f"Which {name.sort}." if name else "")
        yield f"`{field.name}`", sort_of(hint), meaning


def sort_of(hint: Any, plural: str = "") -> str:
    """What a field holds, in words: `integer`, `key name`, `list of key names`. `plural` is what is added to a noun."""
    inner, notes = unwrap(hint)
    name, rank = note_of(notes, Name), note_of(notes, Rank)
    if name is not None:
        return f"{name.sort} name{plural}"
    if rank is not None:
        return f"{rank.sort} rank{plural}"
    parts = get_args(inner)
    if get_origin(inner) is tuple and len(parts) == 2 and parts[1] is Ellipsis:
        return f"list{plural} of {sort_of(parts[0], 's')}"
    if get_origin(inner) is tuple:
        return f"list{plural} of {len(parts)}: {', '.join(map(sort_of, parts))}"
    if hasattr(inner, "_fields"):
        hints = get_type_hints(inner, include_extras=True)
        named = ", ".join(f"{part} ({sort_of(hints[part])})" for part in inner._fields)
        return f"list{plural} of {len(inner._fields)}: {named}"
    return f"integer{plural}"
