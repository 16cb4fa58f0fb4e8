"""A target in Python: a class with a method for each operation, and the tests of it."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from cacheproof.model.registry import AnyComponent
from cacheproof.model.scope import scopes_of
from cacheproof.skeleton.calls import WIDTH, Call, bracketed, called, calls_of, docstring
from cacheproof.skeleton.template import filled


def target(component: AnyComponent) -> str:
    """The module of the target."""
    calls = list(calls_of(component))
    config = component.config
    return filled(
        "in_python.py.template",
        component=component.name,
        heading=heading(component),
        command=f"    cacheproof fuzz {component.name} --target python:{called(component)}_target:Target",
        imports="\n".join(_imports(component, calls)),
        config=config.__name__,
        methods="\n\n".join(_method(call) for call in calls),
        observed=observed(component),
    )


def tests(component: AnyComponent) -> str:
    """The module of its tests."""
    return filled("tests.py.template", name=called(component), component=component.name)


def _imports(component: AnyComponent, calls: list[Call]) -> Iterator[str]:
    """The classes of the operations and of the configuration, from the modules where they are."""
    wanted: dict[str, set[str]] = {}
    for kind in (component.config, *(call.kind for call in calls)):
        wanted.setdefault(kind.__module__, set()).add(kind.__name__)
    for module, names in sorted(wanted.items()):
        line = f"from {module} import {', '.join(sorted(names))}"
        several = ",\n    ".join(sorted(names))
        yield line if len(line) <= WIDTH else f"from {module} import (\n    {several},\n)"


def heading(component: AnyComponent) -> str:
    """The first lines of a target's docstring."""
    return "\n".join(
        wrap(f"Which call of yours each operation of `{component.name}` is: {component.summary}.", WIDTH - 3)
    )


def observed(component: AnyComponent) -> str:
    """The docstring of `observe`."""
    return "\n".join(
        docstring(
            ["What is compared after every call. Leave out what you cannot show.", *_shown(component)], "        "
        )
    )


def _shown(component: AnyComponent) -> Iterator[str]:
    """A paragraph for each observable, with what it holds if that is declared."""
    if not component.observables:
        yield ", ".join(observables(component))
    for name, text in component.observables.items():
        yield f"{name}: {text}."


def observables(component: AnyComponent) -> tuple[str, ...]:
    """The names that the component gives to what is shown, in its first configuration."""
    config, variant = scopes_of(component)[0].config, component.normative
    return tuple(component.observe(config, variant.view(config, variant.start(config))))


def _method(call: Call) -> str:
    names = [name for name, _ in call.fields]
    operation = bracketed(call.kind.__name__, names, "", "")
    lines = [
        *bracketed(
            f"def {call.name}", ["self", *(f"{name}: {hint}" for name, hint in call.fields)], " -> Answer:", "    "
        ),
        *call.docstring("        "),
    ]
    one = f"        return self.yours.apply({operation[0]})"
    if len(operation) == 1 and len(one) <= WIDTH:
        return "\n".join([*lines, one])
    inside = "\n".join(bracketed(call.kind.__name__, names, "", "            "))
    return "\n".join([*lines, "        return self.yours.apply(", inside, "        )"])
