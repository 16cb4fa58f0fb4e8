"""The JSON Schema of a component's logs, made of its declarations: the header, a line, the end record."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args, get_origin, get_type_hints

from cacheproof.logs.validate.header import FORMAT, MOST_UNLOGGED, PROMISES, VERSION
from cacheproof.model.declaration import CLAIMS
from cacheproof.model.protocol import LARGEST_INTEGER
from cacheproof.model.registry import AnyComponent
from cacheproof.model.scope import scopes_of
from cachespec.kernel import Code, Operation

DRAFT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer", "minimum": -LARGEST_INTEGER, "maximum": LARGEST_INTEGER}
OPERAND: Schema = {"type": ["integer", "null"], "minimum": 0, "maximum": LARGEST_INTEGER}
KNOWN_OR_NOT: Schema = {**INTEGER, "type": ["integer", "null"]}


def log_schema(component: AnyComponent) -> Schema:
    """What any line of a log of this component is; which names and blocks there are is in its header alone."""
    return {
        "$schema": DRAFT,
        "title": f"a line of a log of {component.name}: {FORMAT} {VERSION}",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in ("header", "line", "end")],
        "$defs": {
            "header": _header(component),
            "line": _line(component),
            "end": _end(),
            "operation": {
                "anyOf": [{"type": "null"}, *(_operation(kind) for kind in component.operations), _unknown()]
            },
            "outcome": _outcome(),
            "observations": _observations(component),
        },
    }


def _object(properties: Schema, required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _header(component: AnyComponent) -> Schema:
    names = [kind.wire_name() for kind in component.operations]
    unlogged = {
        "operations": {"type": "array", "items": {"enum": names}},
        "most": {"type": "integer", "minimum": 1, "maximum": MOST_UNLOGGED},
    }
    properties = {
        "format": {"const": FORMAT},
        "version": {"const": VERSION},
        "specification": TEXT,
        "source": TEXT,
        "component": {"const": component.name},
        "variant": {"enum": [word for each in component.variants.values() for word in {each.tag, each.title}]},
        "config": _config(component),
        "claims": {"type": "array", "items": {"enum": list(CLAIMS)}},
        "initial": {"$ref": "#/$defs/observations"},
        "updates": {"type": "array", "items": TEXT},
        "unlogged": _object(unlogged, ["operations"]),
        "end": {"type": "array", "items": {"enum": list(PROMISES)}},
    }
    return _object(properties, ["format", "version", "component", "config"])


def _config(component: AnyComponent) -> Schema:
    kind: Any = component.config
    hints = get_type_hints(kind)
    required = [name for name in kind._fields if name not in kind._field_defaults]
    return _object({name: _shape(hints[name]) for name in kind._fields}, required)


def _shape(hint: Any) -> Schema:
    """An integer, or arrays as deep as the tuples that are declared."""
    if get_origin(hint) is not tuple:
        return INTEGER
    parts = get_args(hint)
    if parts[-1:] == (Ellipsis,):
        return {"type": "array", "items": _shape(parts[0])}
    return {"type": "array", "prefixItems": [_shape(part) for part in parts], "items": False, "minItems": len(parts)}


def _line(component: AnyComponent) -> Schema:
    parts = {name: {"$ref": f"#/$defs/{name}"} for name in ("operation", "outcome", "observations")}
    return {**_object({**parts, "source": TEXT}, []), "dependentRequired": {"outcome": ["operation"]}}


def _operation(kind: type[Operation]) -> Schema:
    hints = get_type_hints(kind)
    operands = {field.name: _operand(hints[field.name]) for field in fields(kind)}
    return _object({"op": {"const": kind.wire_name()}, **operands}, ["op"])


def _operand(hint: Any) -> Schema:
    return {"type": ["array", "null"], "items": OPERAND} if get_origin(hint) is tuple else OPERAND


def _unknown() -> Schema:
    return _object({"op": {"type": "null"}}, [])


def _outcome() -> Schema:
    known = {
        "code": {"enum": [None, *(code.value for code in Code)]},
        "values": {"type": ["array", "null"], "items": KNOWN_OR_NOT},
    }
    return {"anyOf": [{"type": "null"}, _object(known, [])]}


def _observations(component: AnyComponent) -> Schema:
    """The names of observables may depend on the configuration: those of the scopes, and others alike."""
    shown: Schema = {"type": ["integer", "array", "null"], "items": KNOWN_OR_NOT}
    known = dict.fromkeys(_observables(component), shown)
    return {"type": ["object", "null"], "properties": known, "additionalProperties": shown}


def _observables(component: AnyComponent) -> list[str]:
    """Those of all scopes, in their initial states."""
    names: dict[str, None] = {}
    for scope in scopes_of(component):
        state = component.normative.start(scope.config)
        names |= dict.fromkeys(component.observe(scope.config, component.normative.view(scope.config, state)))
    return list(names)


def _end() -> Schema:
    digest = {"type": ["string", "null"]}
    count = {"type": ["integer", "null"], "minimum": 0}
    return _object({"end": {**_object({"lines": count, "sha256": digest}, []), "type": ["object", "null"]}}, ["end"])
