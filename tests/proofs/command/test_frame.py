"""How any verb behaves: what goes to which stream, and which status the process ends with."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table
from tests.command_line import Ended, Run, ran
from typer.main import get_command

from cacheproof import command
from cacheproof.command import frame
from cacheproof.command.frame import OTHER, PANELS, described, unwrapped, verbs
from cacheproof.foundation import console
from cacheproof.foundation.console import Fitting, Progress, Report, write_object, write_part
from cacheproof.foundation.errors import ExitStatus
from cacheproof.targets.families import families

HEADER = """
from cacheproof.foundation.console import Report, announce, interruptible, progress
from cacheproof.foundation.errors import ExitStatus, InconclusiveError, InputError, MissingExtraError
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Adds a verb `toy` with the given body to the command line, and runs it."""
    monkeypatch.setattr(command, "__path__", [*command.__path__, str(tmp_path)])

    def run(body: str, *arguments: str, returns: str = "Report", parameters: str = "", before: str = "") -> Ended:
        function = f'def command({parameters}) -> {returns}:\n    """Does what the test says."""\n'
        (tmp_path / "toy.py").write_text(HEADER + before + function + textwrap.indent(textwrap.dedent(body), "    "))
        sys.modules.pop("cacheproof.command.toy", None)
        return ran(capsys, "toy", *arguments)

    return run


def one_line(text: str) -> bool:
    return text.endswith("\n") and text.count("\n") == 1


def test_a_report_is_rendered_or_one_json_object(toy: Run) -> None:
    body = "return Report({'found': 3}, ['three', 'were found'])"
    assert toy(body) == Ended(0, "three\nwere found\n", "")
    ended = toy(body, "--json")
    assert json.loads(ended.out) == {"ok": True, "found": 3}
    assert (ended.status, ended.err) == (0, "")


def test_a_report_that_fell_short_ends_with_1(toy: Run) -> None:
    ended = toy("return Report({}, ['no'], ExitStatus.FELL_SHORT)", "--json")
    assert (ended.status, json.loads(ended.out)) == (1, {"ok": False})


def test_a_verb_that_speaks_a_protocol_has_no_json_option(toy: Run) -> None:
    assert toy("return ExitStatus.INCONCLUSIVE", returns="ExitStatus").status == 3
    ended = toy("return ExitStatus.AS_EXPECTED", "--json", returns="ExitStatus")
    assert (ended.status, "--json" in ended.err) == (2, True)


def test_progress_and_seed_go_to_standard_error(toy: Run) -> None:
    body = """
        announce("seed 7")
        with progress() as show:
            for done in range(1000):
                show(f"{done} states")
        return Report({"states": 1000}, ["1000 states"])
    """
    ended = toy(body, "--json")
    assert json.loads(ended.out) == {"ok": True, "states": 1000}
    assert ended.err == "seed 7\n", "short work writes no progress where there is no terminal"


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        ("InputError('line 3: no')", 2, "cacheproof: line 3: no"),
        ("InputError('over\\n  two lines')", 2, "cacheproof: over two lines"),
        ("MissingExtraError('prove', 'proving')", 2, "pip install 'CHECKOUT_OR_WHEEL[prove]'"),
        ("ModuleNotFoundError('no', name='hypothesis.stateful')", 2, "pip install 'CHECKOUT_OR_WHEEL[fuzz]'"),
        ("FileNotFoundError(2, 'No such file or directory', 'there.txt')", 2, "there.txt: No such file"),
        ("InconclusiveError('the child ended')", 3, "cacheproof: the child ended"),
        ("MemoryError()", 3, "out of memory"),
        ("KeyboardInterrupt()", 3, "interrupted"),
    ],
)
def test_what_went_wrong_is_one_line(toy: Run, raised: str, status: int, said: str) -> None:
    ended = toy(f"raise {raised}")
    assert (ended.status, ended.out) == (status, "")
    assert said in ended.err
    assert one_line(ended.err)
    as_json = toy(f"raise {raised}", "--json")
    assert json.loads(as_json.out)["ok"] is False
    assert said in "cacheproof: " + json.loads(as_json.out)["error"]


def test_a_bug_shows_its_traceback_and_says_that_it_is_one(toy: Run) -> None:
    ended = toy("return Report({}, [1 / 0])")
    assert ended.status == 3
    assert "Traceback" in ended.err
    assert "bug in cacheproof" in ended.err.splitlines()[-1]


def test_ctrl_c_while_the_command_line_is_read_is_said(toy: Run) -> None:
    interrupted = "depth: Annotated[int, typer.Option(parser=interrupt)] = 3"
    before = "import typer\nfrom typing import Annotated\ndef interrupt(text):\n    raise KeyboardInterrupt\n"
    ended = toy("return Report({}, [depth])", "--depth", "4", parameters=interrupted, before=before)
    assert (ended.status, ended.out, ended.err) == (3, "", "cacheproof: interrupted: nothing is known yet\n")


def test_ctrl_c_that_a_library_makes_another_error_of_is_said(toy: Run) -> None:
    """As numpy does where its C code is imported."""
    body = """
        import signal
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            pass
        raise RuntimeError("failed to import")
    """
    ended = toy(body)
    assert (ended.status, ended.out, ended.err) == (3, "", "cacheproof: interrupted: nothing is known yet\n")


def test_ctrl_c_within_evaluated_text_does_not_change_the_status(tmp_path: Path) -> None:
    """Python ends `-m` by the signal if Ctrl-C left any evaluated text, though it was handled."""
    (tmp_path / "program.py").write_text(
        "from cacheproof.command import frame\n"
        "from cacheproof.foundation.errors import ExitStatus\n"
        "def dispatch(given, interruption):\n"
        "    try:\n"
        "        exec('raise KeyboardInterrupt')\n"
        "    except KeyboardInterrupt:\n"
        "        return ExitStatus.INCONCLUSIVE\n"
        "frame.dispatch = dispatch\n"
        "frame.main([])\n"
    )
    ended = subprocess.run([sys.executable, "-m", "program"], cwd=tmp_path, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (3, b"")


def test_interrupted_work_reports_what_is_known(toy: Run) -> None:
    body = """
        done = []
        with interruptible() as stop:
            for item in range(5):
                if item == 2:
                    raise KeyboardInterrupt
                done.append(item)
        return Report({"done": done}, [f"done: {done}"], interrupted=stop.happened)
    """
    ended = toy(body, "--json")
    assert (ended.status, json.loads(ended.out)) == (3, {"ok": False, "done": [0, 1], "interrupted": True})
    assert "done: [0, 1]\ninterrupted" in toy(body).out


@pytest.mark.parametrize(
    "arguments", [("chek",), ("toy", "--depth", "x"), ("toy", "extra"), ("toy", "--jsn"), ("--no",)]
)
def test_wrong_usage_is_one_line_and_ends_with_2(
    toy: Run, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert toy("return Report({}, [depth])", "--depth", "4", parameters="depth: int = 3").out == "4\n"
    ended = ran(capsys, *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert one_line(ended.err)
    assert "Traceback" not in ended.err


def test_help_names_every_verb_without_importing_it(toy: Run, capsys: pytest.CaptureFixture[str]) -> None:
    toy("return Report({})")
    sys.modules.pop("cacheproof.command.toy")
    ended = ran(capsys, "--help")
    assert ended.status == 0
    assert all(name in ended.out for name in verbs())
    assert "Does what the test says." in ended.out
    assert "cacheproof.command.toy" not in sys.modules
    assert ran(capsys).status == 2, "no verb at all is wrong usage, with the same help"


def test_every_verb_has_a_summary_and_a_function(capsys: pytest.CaptureFixture[str]) -> None:
    for name, module in verbs().items():
        assert described(module).summary, f"{name} says nothing about itself"
        assert ran(capsys, name, "--help").status == 0


def test_every_verb_is_in_a_group(toy: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert {described(module).panel for module in verbs().values()} == set(PANELS)
    toy("return Report({})")
    shown = ran(capsys, "--help").out
    assert [shown.index(f"─ {panel} ─") for panel in (*PANELS, OTHER)] == sorted(
        shown.index(f"─ {panel} ─") for panel in (*PANELS, OTHER)
    )
    assert shown.index("─ Check and prove ─") < shown.index("│ check ") < shown.index("─ Your implementation ─")
    assert shown.index(f"─ {OTHER} ─") < shown.index("│ toy ")


def test_a_group_is_known_without_importing(toy: Run) -> None:
    toy("return Report({})", before="PANEL = 'Released engines'\n")
    sys.modules.pop("cacheproof.command.toy")
    assert described("cacheproof.command.toy") == ("Does what the test says.", "Released engines")
    assert "cacheproof.command.toy" not in sys.modules


def test_the_terminal_alone_wraps_a_summary(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        unwrapped("One line,\nand another.\n\nA second\nparagraph.") == "One line, and another.\n\nA second paragraph."
    )
    for module in verbs().values():
        assert all("\n" not in part for part in described(module).summary.split("\n\n")), module
    monkeypatch.setenv("COLUMNS", "160")
    assert " Exit status: 0 as expected, 1 a check failed, 2 wrong call or input, 3 no answer (a limit, or an" in (
        line := next(line for line in ran(capsys, "--help").out.splitlines() if "Exit status" in line)
    )
    assert "interruption)." in line, "two lines of the source, and one of a wide terminal"


def parameters(name: str) -> list[Any]:
    return list(get_command(frame._application([name], lambda _: None, None)).commands[name].params)  # type: ignore[attr-defined]  # a group


@pytest.mark.parametrize("name", [*verbs()])
def test_every_option_names_its_default(name: str) -> None:
    for parameter in parameters(name):
        flag = getattr(parameter, "is_flag", False) and parameter.default is False  # a flag is off by default
        shown = isinstance(parameter.show_default, str) or parameter.default not in (None, "", ())
        optional = "Not for " in (parameter.help or "")
        assert flag or shown or parameter.required or optional, f"{name}: {parameter.name}"


def test_a_list_of_targets_names_every_package() -> None:
    lists = [
        parameter.help for name in verbs() for parameter in parameters(name) if "exec:COMMAND" in (parameter.help or "")
    ]
    assert len(lists) >= 4
    assert all(f"{family.package}==" in text for text in lists for family in families())
    of_releases = {(name, kind.help) for name in ("conform", "target") for kind in parameters(name)}
    naming = [text for _, text in of_releases if "vllm==" in (text or "")]
    assert len(naming) == 2
    assert all(f"{family.package}==" in text for text in naming for family in families())


def run_module(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "cacheproof", *arguments]
    return subprocess.run(call, capture_output=True, text=True, check=False, **options)


def test_python_m_is_the_command_line() -> None:
    ended = run_module("list", "--json")
    assert ended.returncode == 0
    assert json.loads(ended.stdout)["ok"] is True
    assert run_module("--version").stdout.startswith("cacheproof ")


@pytest.mark.parametrize("arguments", [("list",), ("list", "--json"), ("--help",), ("list", "--help")])
def test_a_reader_that_leaves_is_no_error(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    call = [sys.executable, "-m", "cacheproof", *arguments]
    ended = subprocess.run(call, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_progress_is_written_over_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    line = Progress(terminal=True, written=-1.0)
    line("12 states")
    line("13 states")
    line.clear()
    line.clear()
    assert capsys.readouterr().err == "\r\x1b[2K12 states\r\x1b[2K"


def test_progress_comes_line_by_line_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    line = Progress(terminal=False, written=-2 * console.SECONDS_BETWEEN_LINES)
    line("12 states")
    line("13 states")
    line.clear()
    assert capsys.readouterr().err == "12 states\n"


def test_a_table_shows_brackets_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("call", "what it does")
    table.add_row("cache[key]", "reads [bold] and " + "much " * 25)
    write_part(table)
    assert "cache[key]" in (out := capsys.readouterr().out)
    assert "[bold]" in out
    assert max(map(len, out.splitlines())) > 100, "a table in a pipe is not squeezed into eighty columns"


def test_what_json_cannot_hold_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write_object({"path": Path("a"), "status": ExitStatus.FELL_SHORT})
    assert json.loads(capsys.readouterr().out) == {"path": "a", "status": 1}
    with pytest.raises(TypeError, match="not something that a report holds"):
        write_object({"report": lambda: Report({})})


@pytest.mark.parametrize(("columns", "shown"), [(79, "narrow"), (80, "wide")])
def test_a_table_that_fits(columns: int, shown: str) -> None:
    console = Console(file=io.StringIO(), width=columns)
    console.print(Fitting("wide", "narrow", 80))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == f"{shown}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_output_that_cannot_be_written_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "cacheproof", "list", "lru", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr.count("\n")) == (3, 1), ended.stderr
    assert "the output cannot be written" in ended.stderr
