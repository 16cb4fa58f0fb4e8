"""JSON Schemas (draft 2020-12) of the line protocol and of vectors, generated from the declarations of components.

A schema describes the form of a message. It leaves out facts that depend on the configuration: the names, the longest
line, and the distinctness of keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, get_args, get_origin, get_type_hints

from cacheproof.model.declaration import CLAIMS, NUMBER
from cacheproof.model.features import FORM, REFUSALS
from cacheproof.model.protocol import LARGEST_INTEGER, VERSION, Fault
from cacheproof.model.registry import AnyComponent, scope_file
from cacheproof.model.scope import scopes_of
from cacheproof.vectors import vector
from cacheproof.vectors.files import ORIGINS
from cachespec.kernel import Code, Operation

Schema = dict[str, Any]


def _plain(pattern: re.Pattern[str]) -> str:
    """The pattern without the names of its groups, which only Python has in this form."""
    return re.sub(r"\(\?P<\w+>", "(", pattern.pattern)


DRAFT = "https://json-schema.org/draft/2020-12/schema"
INTEGER: Schema = {"type": "integer", "minimum": -LARGEST_INTEGER, "maximum": LARGEST_INTEGER}
NATURAL: Schema = {**INTEGER, "minimum": 0}
TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT}
INTEGERS: Schema = {"type": "array", "items": INTEGER}
DOTTED: Schema = {"type": "string", "pattern": r"^[0-9]{1,9}\.[0-9]{1,9}$"}
FEATURES: Schema = {"type": "array", "items": {"type": "string", "pattern": f"^({REFUSALS}|{_plain(FORM)})$"}}
NUMBERED: Schema = {"type": "string", "pattern": f"^{_plain(NUMBER)}$"}
LONG: Schema = {"type": "string", "pattern": f"^{vector.DIGEST}[0-9a-f]{{{vector.DIGITS}}}$"}
OUTCOME: Schema = {
    "type": "object",
    "properties": {"code": {"enum": [code.value for code in Code]}, "values": INTEGERS},
    "required": ["code"],
    "additionalProperties": False,
}


def protocol_schema(components: Iterable[AnyComponent]) -> Schema:
    """Requests and answers of the line protocol, for these components; observables of one's own are not in it."""
    chosen = list(components)
    hello = {"protocol": DOTTED, "spec": TEXT, "component": TEXT, "longest_line": NATURAL, "deepest": NATURAL}
    lists = {
        "components": TEXTS,
        "features": FEATURES,
        "deviations": {"type": "array", "items": NUMBERED},
        "own": TEXTS,
        "claims": {"type": "array", "items": {"enum": list(CLAIMS)}},
    }
    requests = {
        "hello": _named("do", "hello", hello, ["protocol"], closed=False),
        **{f"init_{one.name}": _init(one) for one in chosen},
        **{
            f"apply_{one.name}_{kind.wire_name()}": _call(kind, {"do": {"const": "apply"}})
            for one, kind in _calls(chosen)
        },
        **{name: _named("do", name, {}, []) for name in ("observe", "reset", "bye")},
    }
    said = {**hello, **lists, "implementation": TEXT}
    error = {"error": TEXT, "text": TEXT}
    answers = {
        "hello": _named("answer", "hello", said, ["protocol"], closed=False),
        **{f"state_{one.name}": _answer(one, "state", {}) for one in chosen},
        **{f"outcome_{one.name}": _answer(one, "outcome", OUTCOME["properties"]) for one in chosen},
        "error": _named("answer", "error", error, ["error"]),
        "bye": _named("answer", "bye", {}, []),
    }
    return {
        **_head("protocol", VERSION, chosen),
        "anyOf": [{"$ref": "#/$defs/request"}, {"$ref": "#/$defs/answer"}],
        "$defs": {
            "request": {"anyOf": list(requests.values())},
            "answer": {"anyOf": list(answers.values())},
        },
    }


def vectors_schema(components: Iterable[AnyComponent]) -> Schema:
    """The lines of files of vectors of these components: a header, or a case."""
    chosen = list(components)
    return {
        **_head("vectors", vector.VERSION, chosen),
        "anyOf": [{"$ref": "#/$defs/header"}, {"$ref": "#/$defs/case"}],
        "$defs": {
            "header": {"anyOf": [_header(one) for one in chosen]},
            "case": {"anyOf": [_case(one) for one in chosen]},
        },
    }


def _head(what: str, version: str, components: list[AnyComponent]) -> Schema:
    of = f":{components[0].name}" if len(components) == 1 else ""
    title = f"cacheproof {what} {version}: {', '.join(one.name for one in components)}"
    return {"$schema": DRAFT, "$id": f"urn:cacheproof:{what}:{version}{of}", "title": title}


def _calls(components: Iterable[AnyComponent]) -> list[tuple[AnyComponent, type[Operation]]]:
    return [(component, kind) for component in components for kind in component.operations]


def _named(
    key: str, name: str, properties: Mapping[str, Schema], required: list[str], *, closed: bool = True
) -> Schema:
    """An object whose sort is said by one of its keys."""
    return {
        "type": "object",
        "properties": {key: {"const": name}, **properties},
        "required": [key, *required],
        **({"additionalProperties": False} if closed else {}),
    }


def _config(component: AnyComponent) -> tuple[dict[str, Schema], list[str]]:
    """The fields of a configuration, and those that have no default."""
    kind: Any = component.config
    hints = get_type_hints(kind)
    properties = {name: _shaped(hints[name]) for name in kind._fields}
    return properties, [name for name in kind._fields if name not in kind._field_defaults]


def _shaped(hint: Any) -> Schema:
    """An integer, or arrays as deep as the tuples that are declared."""
    if get_origin(hint) is not tuple:
        return INTEGER
    arguments = get_args(hint)
    if arguments[-1:] == (Ellipsis,):
        return {"type": "array", "items": _shaped(arguments[0])}
    parts = [_shaped(part) for part in arguments]
    return {"type": "array", "prefixItems": parts, "minItems": len(parts), "items": False}


def _init(component: AnyComponent) -> Schema:
    properties, required = _config(component)
    known = {"enum": [name for variant in component.variants.values() for name in (variant.tag, variant.title)]}
    mixture = {"type": "string", "pattern": f"^({'|'.join(map(re.escape, component.variants))})([+][^+]+)+$"}
    names: dict[str, Schema] = {"component": {"const": component.name}, "variant": {"anyOf": [known, mixture]}}
    return _named("do", "init", {**names, **properties}, ["component", *required])


def _call(kind: type[Operation], more: Mapping[str, Schema]) -> Schema:
    own: Any = kind
    hints = get_type_hints(own)
    several: Schema = {"type": "array", "items": NATURAL}
    given = {field.name: several if get_origin(hints[field.name]) is tuple else NATURAL for field in fields(own)}
    return {
        "type": "object",
        "properties": {**more, "op": {"const": kind.wire_name()}, **given},
        "required": [*more, "op", *given],
        "additionalProperties": False,
    }


def _observables(component: AnyComponent) -> dict[str, Schema]:
    """A pattern for each observable: those of parts have the number of the part behind them, however many there are."""
    found: dict[str, Schema] = {}
    for scope in scopes_of(component) if scope_file(component).is_file() else ():
        variant = component.variants[scope.variants[0]]
        view = variant.view(scope.config, variant.start(scope.config))
        for name, value in component.observe(scope.config, view).items():
            pattern = re.sub(r"_[0-9]+$", "_(0|[1-9][0-9]*)", name)
            found[f"^{pattern}$"] = INTEGERS if isinstance(value, tuple) else INTEGER
    return found or {"^[a-z][a-z0-9_]*$": {"anyOf": [INTEGER, INTEGERS]}}


def _answer(component: AnyComponent, sort: str, properties: Mapping[str, Schema]) -> Schema:
    required = ["code"] if "code" in properties else []
    named = _named("answer", sort, properties, required)
    return {**named, "patternProperties": _observables(component)}


def _shown(component: AnyComponent) -> Schema:
    """Observables in a file of vectors: long ones are there as digests."""
    patterns = {
        pattern: {"anyOf": [shape, LONG]} if "items" in shape else shape
        for pattern, shape in _observables(component).items()
    }
    return {"type": "object", "patternProperties": patterns, "additionalProperties": False}


def _header(component: AnyComponent) -> Schema:
    properties, required = _config(component)
    config = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    held = {
        "version": DOTTED,
        "spec": DOTTED,
        "component": {"const": component.name},
        "variant": {"enum": list(component.variants)},
        "origin": {"enum": list(ORIGINS)},
        "scope": TEXT,
        "about": TEXT,
        "config": config,
        "features": FEATURES,
        "initial": _shown(component),
        "cases": NATURAL,
    }
    others = {"type": "array", "items": _shown(component), "minItems": 1}
    deviations = {"type": "object", "propertyNames": NUMBERED, "additionalProperties": others}
    return _named("format", vector.FORMAT, {**held, "deviations": deviations}, list(held), closed=False)


def _case(component: AnyComponent) -> Schema:
    reply = {"outcome": OUTCOME, "changed": _shown(component)}
    other = {"type": "object", "properties": reply, "required": ["outcome"], "additionalProperties": False}
    others = {"type": "array", "items": other, "minItems": 1}
    call = {
        "type": "object",
        "properties": {
            "call": {"anyOf": [_call(kind, {}) for kind in component.operations]},
            **reply,
            "deviations": {"type": "object", "propertyNames": NUMBERED, "additionalProperties": others},
        },
        "required": ["call", "outcome"],
        "additionalProperties": False,
    }
    refused = {
        "type": "object",
        "properties": {"refused": {"type": "object"}, "error": {"enum": [fault.value for fault in Fault]}},
        "required": ["refused", "error"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {
            "case": {"type": "integer", "minimum": 1},
            "steps": {"type": "array", "items": {"anyOf": [call, refused]}, "minItems": 1},
        },
        "required": ["case", "steps"],
        "additionalProperties": False,
    }
