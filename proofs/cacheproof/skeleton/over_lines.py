"""A target that speaks the line protocol: a script of the standard library, to be filled in or translated."""

from __future__ import annotations

from cacheproof.model.protocol import VERSION
from cacheproof.model.registry import AnyComponent
from cacheproof.skeleton.calls import Call, bracketed, called, calls_of
from cacheproof.skeleton.in_python import heading, observed
from cacheproof.skeleton.template import filled


def target(component: AnyComponent) -> str:
    """The script."""
    calls = list(calls_of(component))
    name = called(component)
    return filled(
        "over_lines.py.template",
        component=component.name,
        name=name,
        heading=heading(component),
        command=f'    cacheproof fuzz {component.name} --target "exec:python {name}_target.py"',
        version=VERSION,
        methods="\n\n".join(_method(call) for call in calls),
        names=_names(calls),
        observed=observed(component),
    )


def _names(calls: list[Call]) -> str:
    inside = "".join(f'\n    "{call.name}",' for call in calls)
    return f"[{inside}\n]"


def _method(call: Call) -> str:
    names = [name for name, _ in call.fields]
    given = [f'"{call.name}"', *(f"{name}={name}" for name in names)]
    lines = [
        *bracketed(f"def {call.name}", ["self", *names], ":", "    "),
        *call.docstring("        "),
        *bracketed("return self.yours.call", given, "", "        "),
    ]
    return "\n".join(lines)
