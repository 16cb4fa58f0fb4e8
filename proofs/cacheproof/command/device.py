"""`cacheproof device`: all checks and figures of a device, in one call."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from cacheproof.device.listing import Asked, Check, checks_named, figure_named
from cacheproof.device.records import KERNEL_COLUMNS, kernel_rows, rounded
from cacheproof.device.running import PASSED, CheckResult, Outcome, performed, performed_apart, resumed, run, write
from cacheproof.foundation.console import Report, Show, announce, interruptible, progress
from cacheproof.foundation.errors import InputError, MissingExtraError

PANEL = "Maintaining the project"

OUTPUT = Path("device_result.json")


def command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="CHECK", help="Checks to run.", show_default="all")
    ] = None,
    *,
    device: Annotated[
        str | None,
        typer.Option(help="The device: cpu, cuda or cuda:NUMBER.", show_default="cuda if there is one, otherwise cpu"),
    ] = None,
    output: Annotated[Path, typer.Option(help="File for the results. It is updated after each check.")] = OUTPUT,
    small: Annotated[bool, typer.Option("--small", help="Run at a fraction of the size, without goals.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the results in --output.")] = False,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the random loads.", show_default="a new one, which is printed")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=1, help="Start no check after this many seconds.", show_default="no limit")
    ] = None,
    each: Annotated[
        float, typer.Option(min=1, help="Time limit for each check that has its own process, in seconds.")
    ] = 300,
    apart: Annotated[
        bool | None,
        typer.Option(
            "--apart/--together",
            help="Run each check in its own process, or all in one. An error on a CUDA device ends its process.",
            show_default="apart on cuda, together on cpu",
        ),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the checks and run none.")] = False,
    compiled: Annotated[
        bool,
        typer.Option(
            "--compile",
            help="Compile the Triton kernels for sm_80 and sm_90, which needs no device, and run no check. Shows what "
            "they use.",
        ),
    ] = False,
) -> Report:
    """Check and measure our implementation on one device.

    The results file also describes the machine.
    """
    chosen = checks_named(names)
    if listing:
        return Report({"checks": [_listed(check) for check in chosen]}, [_listing(chosen)])
    if compiled:
        return _compiled(names, small=small)
    where = _device(device)
    drawn = random.randrange(1 << 31) if seed is None else seed  # noqa: S311  # not a secret
    asked = Asked(where, small, drawn)
    result = CheckResult(asked, _machine(where))
    if resume:
        resumed(result, output)
    announce(f"device {where} ({result.machine['device']}), seed {asked.seed}, result in {output}")
    isolated = asked.on_cuda if apart is None else apart

    def perform(check: Check, asked: Asked, show: Show) -> Outcome:
        return performed_apart(check, asked, announce, each) if isolated else performed(check, asked, show)

    with progress() as show, interruptible() as stop:
        write(result, output)
        run(chosen, result, show, perform=perform, output=output, seconds=seconds)
    data = {**result.data(), "output": output}
    shown = [_table(result), *_details(result), *_figures(result), *_left_out(result), _machine_line(result)]
    return Report(data, shown, result.status, interrupted=result.interrupted or stop.happened)


def _device(given: str | None) -> str:
    """One that torch can use."""
    try:
        import torch  # noqa: PLC0415  # an extra

        from cacheproof.tensor_models import checked_device  # noqa: PLC0415  # torch is an extra
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise MissingExtraError("torch", "cacheproof device") from None
        raise
    found = ("cuda" if torch.cuda.is_available() else "cpu") if given is None else given
    if found.partition(":")[0] not in ("cpu", "cuda"):
        raise InputError(f"--device is cpu, cuda or cuda:NUMBER, not '{found}'")
    return checked_device(found)


def _machine(device: str) -> dict[str, Any]:
    from cacheproof.device.tensor.machine import machine  # noqa: PLC0415  # torch is an extra

    return machine(device)


def _compiled(names: list[str] | None, *, small: bool) -> Report:
    """What the kernels use, without a device."""
    if names:
        raise InputError(f"--compile runs no check: leave out {', '.join(names)}")
    try:
        from cacheproof.device.tensor.compiling import report  # noqa: PLC0415  # torch and triton are extras
    except ModuleNotFoundError as error:
        if error.name in ("torch", "triton"):
            raise MissingExtraError(error.name, "cacheproof device --compile") from None
        raise
    with progress() as show:
        data = report(show, small=small)
    table = Table(*KERNEL_COLUMNS, title="kernels, compiled", title_justify="left")
    for row in kernel_rows(data):
        table.add_row(*row)
    return Report(data, [table, f"triton {data['triton']}"])


# Shown --------------------------------------------------------------------------------------------------------------


def _listed(check: Check) -> dict[str, str]:
    return {"name": check.name, "about": check.about, "without_a_device": check.without_a_device}


def _listing(checks: Sequence[Check]) -> Table:
    table = Table("check", "what is seen")
    for check in checks:
        table.add_row(check.name, check.about)
    return table


def _table(result: CheckResult) -> Table:
    table = Table("check", "", "seconds", "what was done")
    for outcome in result.outcomes.values():
        done = ", ".join(f"{count:,} {what}" for what, count in outcome.counts.items())
        table.add_row(
            outcome.name, outcome.status.upper() if outcome.status != PASSED else PASSED, f"{outcome.seconds:.1f}", done
        )
    return table


def _details(result: CheckResult) -> list[str]:
    return [f"{one.name}: {one.detail}" for one in result.outcomes.values() if one.detail]


def _figures(result: CheckResult) -> list[Any]:
    """Only what has a spread; what an example says is its own line."""
    table = Table("figure", "size", "median", "least to most", "goal")
    for figure in result.figures():
        if "median" not in figure:
            continue
        unit = figure["unit"]
        spread = f"{rounded(figure['least'])} to {rounded(figure['most'])}"
        table.add_row(figure["name"], figure["size"], f"{rounded(figure['median'])} {unit}", spread, _goal(figure))
    said = [f"{one['name']}: {one['says']}" for one in result.figures() if "says" in one]
    return [*([table] if table.row_count else []), *said]


def _goal(figure: dict[str, Any]) -> str:
    if figure["goal"] is None:
        return ""
    bound = "at most" if figure_named(figure["name"]).goal_is_most else "at least"
    judged = {True: "met", False: "MISSED", None: "not asked of this machine"}[figure["met"]]
    return f"{bound} {rounded(figure['goal'])} {figure['unit']}: {judged}"


def _left_out(result: CheckResult) -> list[str]:
    return [f"not run: {one['what']}: {one['reason']}" for one in result.left_out()]


def _machine_line(result: CheckResult) -> str:
    machine = result.machine
    host = machine["host"]
    driver = f", driver {machine['driver']}, CUDA {machine['cuda']}" if "cuda" in machine else ""
    return f"{machine['device']}{driver}, torch {machine['torch']}; {host['processor']}, {host['cores']} cores"
