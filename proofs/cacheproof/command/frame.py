"""The frame around the verbs: finds them by scanning the package, and gives the one that was asked for its arguments.

Only the module of that verb is imported; the others are known by their docstrings, so that `--help` is quick and works
without any extra.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer
from typer.main import get_command

from cacheproof.command.failures import guarded
from cacheproof.foundation.console import Report, ignore_standard_output, run
from cacheproof.foundation.discover import module_names
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.foundation.interruption import Interruption, signals_raised

SHARED = ("failures", "frame", "options")
"""Modules of this package that are not verbs."""

FUNCTION = "command"

PANELS = (
    "Check and prove",
    "Your implementation",
    "Released engines",
    "Records and replay",
    "Maintaining the project",
)
"""The groups of verbs in `cacheproof --help`. Each verb names its group in `PANEL`; other verbs come last."""
OTHER = "Other verbs"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    open_closed_streams()
    with signals_raised() as interruption:
        status = guarded(lambda: dispatch(given, interruption), interruption, as_json="--json" in given)
    forget_handled_interruption()
    sys.exit(int(status))


def forget_handled_interruption() -> None:
    """Python ends a module by SIGINT, whatever its status, if Ctrl-C left any evaluated text, even if it was handled.

    Named tuples and data classes evaluate text. The next evaluation that ends well clears the mark.
    """
    eval("None")  # noqa: S307  # a constant


def open_closed_streams() -> None:
    """A parent may have closed standard output or standard error (`>&-`): what is written there goes nowhere."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # open as long as the process
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # likewise


def dispatch(given: list[str], interruption: Interruption | None = None) -> ExitStatus:
    """Run the verb that the arguments name; without one, show what there is and call it wrong usage."""
    ended: list[ExitStatus] = []
    application = get_command(_application(given, ended.append, interruption))
    try:
        result = application.main(args=given or ["--help"], prog_name="cacheproof", standalone_mode=False)
    except SystemExit:  # the parser's own way when the reader of its help has gone
        ignore_standard_output()
        return ExitStatus.AS_EXPECTED
    if not given:
        return ExitStatus.WRONG_INPUT
    return ended[-1] if ended else _of_the_parser(result)


def _of_the_parser(result: int | None) -> ExitStatus:
    """The parser ends by itself after `--help` and `--version`, and at Ctrl-C, of which it says nothing."""
    if result:
        raise KeyboardInterrupt
    return ExitStatus.AS_EXPECTED


def verbs() -> dict[str, str]:
    """The name of each verb as it is typed, and its module."""
    names = [name for name in module_names(__package__) if name not in SHARED]
    return {name.replace("_", "-"): f"{__package__}.{name}" for name in names}


class Described(NamedTuple):
    """What `--help` says of a verb."""

    summary: str
    """The docstring of its function, one line for each paragraph; empty without one."""
    panel: str
    """Its group; empty if the module names none."""


def described(module: str) -> Described:
    """The summary and the group of a verb, read from the source. The module is not imported."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return Described("", "")
    text, panel = "", ""
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name="command"):
                text = ast.get_docstring(node) or ""
            case ast.Assign(targets=[ast.Name(id="PANEL")], value=ast.Constant(value=str() as panel)):
                pass
    return Described(unwrapped(text), panel)


def unwrapped(text: str) -> str:
    """Each paragraph on one line: the terminal wraps it."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _asked_for(given: Sequence[str]) -> str:
    return next((argument for argument in given if not argument.startswith("-")), "")


def _application(
    given: Sequence[str], end: Callable[[ExitStatus], None], interruption: Interruption | None
) -> typer.Typer:
    """The verb that the call begins with; or else all verbs, of which those not asked for only say what they are."""
    asked_for = _asked_for(given)
    names = (asked_for,) if given[:1] == [asked_for] and asked_for in verbs() else tuple(verbs())
    application = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    application.callback(help=unwrapped(inspect.getdoc(_callback) or ""))(_callback)
    for name, (summary, panel) in _in_panels(names).items():
        verb = verbs()[name]
        function = _entry(importlib.import_module(verb), end, interruption) if name == asked_for else _placeholder
        application.command(name, help=summary, rich_help_panel=panel)(function)
    return application


def _in_panels(names: Iterable[str]) -> dict[str, Described]:
    """These verbs, group by group."""
    every = {name: described(verbs()[name]) for name in names}
    every = {name: verb._replace(panel=verb.panel or OTHER) for name, verb in every.items()}
    return {name: verb for panel in (*PANELS, OTHER) for name, verb in every.items() if verb.panel == panel}


def _placeholder() -> None:
    """Stands for a verb that was not asked for."""


def _show_version(wanted: bool) -> None:
    if wanted:
        from cachespec import __version__  # noqa: PLC0415  # only where it is asked for

        sys.stdout.write(f"cacheproof {__version__}\n")
        raise typer.Exit


def _callback(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """An executable specification of the cache control plane of LLM serving engines, and its checkers.

    Exit status: 0 as expected, 1 a check failed, 2 wrong call or input, 3 no answer (a limit, or an interruption).
    """


def _entry(
    module: ModuleType, end: Callable[[ExitStatus], None], interruption: Interruption | None
) -> Callable[..., None]:
    """The verb's function as typer is to see it: with `--json` where it returns a report."""
    function = getattr(module, FUNCTION, None)
    if not callable(function):
        raise InputError(f"{module.__name__} has no function '{FUNCTION}'")
    signature = inspect.signature(function, eval_str=True)
    reports = get_type_hints(function).get("return") is Report

    def entry(*arguments: Any, **named: Any) -> None:
        as_json = bool(named.pop("as_json", False)) if reports else False
        call = partial(function, *arguments, **named)
        end(guarded(lambda: run(call, as_json=as_json), interruption, as_json=as_json))

    parameters = [*signature.parameters.values(), *([_json_option()] if reports else [])]
    shown = signature.replace(parameters=parameters, return_annotation=None)
    entry.__signature__ = shown  # type: ignore[attr-defined]  # what inspect reads, and typer through it
    entry.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return entry


def _json_option() -> inspect.Parameter:
    annotation = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
    return inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
