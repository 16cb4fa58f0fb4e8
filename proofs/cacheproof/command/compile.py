"""`cacheproof compile`: the specification as C++, to be read or to be ready."""

from __future__ import annotations

import time
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer
from rich.table import Table

from cacheproof.foundation.console import Report, progress
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named, components, variant_named
from cacheproof.search.cuda.build import Usage, usage
from cacheproof.search.cuda.text import for_device
from cacheproof.search.native import train
from cacheproof.search.native.build import WAYS, ready
from cacheproof.search.native.library import library_name, translated
from cacheproof.search.native.reading import Shown, functions_named

PANEL = "Check and prove"


class Optimise(StrEnum):
    """How the C++ compiler optimises."""

    QUICK = "quick"
    THOROUGH = "thorough"
    TRAINED = "trained"


WAYS_BY_NAME = dict(zip(Optimise, WAYS, strict=True))


def command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="COMPONENT", help="Components to compile.", show_default="all")
    ] = None,
    *,
    variant: Annotated[
        str | None, typer.Option(help="Compile only this variant, given by tag or title.", show_default="all")
    ] = None,
    show: Annotated[
        str | None,
        typer.Option(metavar="FUNCTION", help="Print this function in Python and in C++.", show_default="compile all"),
    ] = None,
    optimise: Annotated[
        Optimise,
        typer.Option(
            help="How the C++ compiler optimises. 'thorough' takes longer to compile. 'trained' compiles twice, and "
            "explores the beginnings of the default scopes in between; it needs gcc.",
        ),
    ] = Optimise.QUICK,
    cuda: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ARCHITECTURE",
            help="Compile with nvcc for this architecture, such as sm_90, and show what the kernels use. It needs no "
            "device. May be repeated.",
            show_default="for this machine's processor",
        ),
    ] = None,
) -> Report:
    """Compile the specification for `check --engine native`, or show what a function becomes.

    A library is kept in the user's cache folder and made anew when the specification, the compiler or the project
    changes. A construct that cannot be translated is an error with its file and line.
    """
    chosen = [component_named(name) for name in dict.fromkeys(names)] if names else list(components().values())
    units = [
        (component, each)
        for component in chosen
        for each in (component.variants.values() if variant is None else [variant_named(component, variant)])
    ]
    if show is not None:
        return _shown(units, show)
    if cuda:
        return _used(units, list(dict.fromkeys(cuda)))
    rows = []
    with progress() as tell:
        for component, each in units:
            tell(f"{component.name} {each.tag}")
            rows.append(_ready(component, each, optimise))
    lines = [f"{row['component']} {row['variant']}: {row['lines']:,} lines, {row['seconds']:.1f} s" for row in rows]
    return Report({"units": rows}, ["\n".join(lines)])


def _ready(component: AnyComponent, variant: AnyVariant, optimise: Optimise) -> dict[str, object]:
    """One library, and how long it took; nearly nothing if it was there."""
    begun = time.perf_counter()
    glue = translated(component, variant)
    exercise = partial(train, component, variant)
    path = ready(glue.text, library_name(component, variant), optimised=WAYS_BY_NAME[optimise], train=exercise)
    return {
        "component": component.name,
        "variant": variant.tag,
        "lines": glue.text.count("\n"),
        "library": str(path),
        "seconds": time.perf_counter() - begun,
    }


def _used(units: list[tuple[AnyComponent, AnyVariant]], architectures: list[str]) -> Report:
    """What the kernels of each variant use."""
    rows: list[dict[str, object]] = []
    with progress() as tell:
        for component, variant in units:
            for architecture in architectures:
                tell(f"{component.name} {variant.tag}, {architecture}")
                found = usage(for_device(translated(component, variant).text), architecture)
                rows += [{"component": component.name, "variant": variant.tag, **one._asdict()} for one in found]
    table = Table("component", "variant", *(name.replace("_", " ") for name in Usage._fields))
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()))
    return Report({"kernels": rows}, [table])


def _shown(units: list[tuple[AnyComponent, AnyVariant]], name: str) -> Report:
    """A function of the first variant that has it, once for the types that it is compiled for."""
    for component, variant in units:
        found = functions_named(translated(component, variant), name)
        if found:
            head = f"{component.name} ({variant.tag})"
            return Report(
                {"component": component.name, "variant": variant.tag, "functions": found},
                ["\n\n".join([head, *map(_side_by_side, found)])],
            )
    raise InputError(f"no function '{name}' is compiled for these variants: see the specification of the component")


def _side_by_side(shown: Shown) -> str:
    return f"{shown.place}\n\n{shown.python}\n\n{shown.cpp}"
