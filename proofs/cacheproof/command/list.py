"""`cacheproof list`: what there is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.table import Table

from cacheproof.catalogue.meaning import kind_of
from cacheproof.foundation.console import Report
from cacheproof.lockstep.macros.macro import VOCABULARIES
from cacheproof.model.mixture import rules_as_message
from cacheproof.model.registry import AnyComponent, component_named, components, scope_file
from cacheproof.model.scope import scopes_of
from cacheproof.targets.factory import FORMS
from cacheproof.targets.implemented import form_of

PANEL = "Check and prove"


def command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="COMPONENT", help="Components to list.", show_default="all")
    ] = None,
    rules: Annotated[
        bool,
        typer.Option("--rules", help="List the rules in which implementations differ, instead of everything else."),
    ] = False,
) -> Report:
    """List components with their variants, scopes and properties, and the forms of targets.

    With --rules, list the design choices. A variant with rules is written VARIANT+RULE+RULE.
    """
    chosen = [component_named(name) for name in names] if names else list(components().values())
    if rules:
        every = [{"name": one.name, "rules": rules_as_message(one)} for one in chosen]
        return Report({"components": every}, [part for one in every for part in _rules(one)])
    entries = [entry(component) for component in chosen]
    tables = [table for found in entries for table in rendered(found)]
    return Report({"components": entries, "targets": FORMS.split(", ")}, [*tables, f"targets: {FORMS}"])


def entry(component: AnyComponent) -> dict[str, Any]:
    """One component, as JSON has it."""
    scopes = scopes_of(component) if scope_file(component).is_file() else ()
    return {
        "name": component.name,
        "summary": component.summary,
        "operations": [operation.wire_name() for operation in component.operations],
        "torch": form.value if (form := form_of(component.name)) is not None else None,
        "macros": [kind.__name__ for kind in VOCABULARIES[component.name].weights]
        if component.name in VOCABULARIES
        else [],
        "variants": [{"tag": variant.tag, "title": variant.title} for variant in component.variants.values()],
        "scopes": [
            {"name": scope.name, "set": scope.set, "variants": scope.variants, "about": scope.about} for scope in scopes
        ],
        "properties": [
            {"name": rule.name, "kind": kind_of(rule), "statement": rule.statement} for rule in component.properties()
        ],
    }


def rendered(found: dict[str, Any]) -> Iterable[Any]:
    """The same as a person reads it."""
    yield f"{found['name']}: {found['summary']}"
    yield f"  operations: {', '.join(found['operations'])}"
    yield f"  torch:      {found['torch'] or 'nothing of ours implements this by itself'}"
    if found["macros"]:
        yield f"  macros:     {', '.join(found['macros'])}"
    yield f"  variants:   {', '.join(_with_title(**variant) for variant in found['variants'])}"
    if found["scopes"]:
        yield _table(("scope", "set", "variants", "what it is about"), [_scope(scope) for scope in found["scopes"]])
    properties = [(rule["name"], rule["kind"], rule["statement"]) for rule in found["properties"]]
    yield _table(("property", "kind", "statement"), properties)
    yield ""


def _rules(found: dict[str, Any]) -> Iterable[Any]:
    first = found["rules"][0]
    example = f"{first['variants'][0]}+{first['name']}"
    yield f"{found['name']}: a mixture is written VARIANT+RULE+RULE, as in --variant {example}"
    yield _table(
        ("rule", "mixed into", "gives up", "what it changes"),
        [
            (rule["name"], _into(rule["variants"]), ", ".join(rule["gives_up"]), rule["statement"])
            for rule in found["rules"]
        ],
    )
    yield ""


def _into(tags: list[str]) -> str:
    """The variants that a rule can be mixed into; the first is named where there are many."""
    return ", ".join(tags) if len(tags) <= 3 else f"{tags[0]} and {len(tags) - 1} more"


def _with_title(tag: str, title: str) -> str:
    return tag if tag == title else f"{title} ({tag})"


def _scope(scope: dict[str, Any]) -> tuple[str, ...]:
    return scope["name"], scope["set"], ", ".join(scope["variants"]), scope["about"]


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    table = Table(*heads, box=None, pad_edge=False, padding=(0, 2, 0, 0), title_justify="left", header_style="bold")
    for row in rows:
        table.add_row(*row)
    return table
