"""`cacheproof fuzz` and `show` as a user has them: what is printed, what is kept, which status they end with."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Run, ran

from cacheproof.foundation.errors import ExitStatus
from cacheproof.model.registry import PATH_VARIABLE

EXAMPLE = Path(__file__).parents[2] / "examples" / "lru_child.py"
CHILD = f"exec:{sys.executable} {EXAMPLE}"

TOY = '''
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cachespec.kernel import DONE, NORMATIVE, Component, Observation, Operation, Safety, Variant, variants


class Config(NamedTuple):
    limit: int


@dataclass(frozen=True, slots=True)
class Add(Operation):
    """One more."""


class Counter(NamedTuple):
    value: int


def add(config, counter, op):
    return Counter(min(counter.value + 1, config.limit)), DONE


def add_without_end(config, counter, op):
    return Counter(counter.value + 1), DONE


NORMAL = Variant(
    tag=NORMATIVE,
    title="normative",
    state=Counter,
    initial=lambda config, containers: Counter(0),
    transitions={Add: add},
    view=lambda config, counter: counter,
    alphabet=lambda config, counter: (Add(),),
)
COMPONENT = Component(
    name="counter",
    summary="counts up to a limit",
    config=Config,
    malformed=lambda config: None if config.limit > 0 else "limit must be positive",
    operations=(Add,),
    variants=variants(NORMAL, NORMAL.era("C0", "counter-0", {Add: add_without_end}, {Add: "it never stops"})),
    observe=lambda config, counter: {"value": counter.value},
    interchangeable=lambda config: {},
    safety=(
        Safety("CNT-1", "the limit is kept", lambda c, v: v.value <= c.limit, lambda c, v: v.value == c.limit),
    ),
)
'''

TOY_SCOPES = """
[[scope]]
name = "small"
about = "up to three"
variants = ["normative"]
config = { limit = 3 }
"""


@pytest.fixture
def cacheproof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line, with a folder of its own for what it keeps."""
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path / "home"))

    return partial(ran, capsys)


def test_a_difference_is_shown_and_written_as_diagram_and_test(cacheproof: Run, tmp_path: Path) -> None:
    ended = cacheproof("fuzz", "lru", "--target", CHILD, "--seed", "3", "--write", str(tmp_path / "found"))
    assert ended.status == ExitStatus.FELL_SHORT
    assert "seed 3" in ended.err
    assert "a difference after 3 calls" in ended.out
    assert "breaks LRU-7/recency" in ended.out
    assert "sequenceDiagram" in next((tmp_path / "found").glob("*.mmd")).read_text(encoding="utf-8")
    assert "def test_lru_normative_exec" in next((tmp_path / "found").glob("*.py")).read_text(encoding="utf-8")
    assert len(list((tmp_path / "found").iterdir())) == 6
    kept = ended.out.splitlines()[-1].split()
    assert kept[:3] == ["kept:", "cacheproof", "show"]
    assert cacheproof(*kept[2:4]).status == ExitStatus.AS_EXPECTED


def test_its_json(cacheproof: Run) -> None:
    ended = cacheproof("fuzz", "lru", "--target", CHILD, "--seed", "3", "--json")
    data = ended.json
    assert (ended.status, data["ok"], data["seed"]) == (ExitStatus.FELL_SHORT, False, 3)
    assert [step["operation"]["op"] for step in data["difference"]["trace"]["steps"]] == ["put", "put", "put"]
    assert data["steps"] > 0
    assert data["examples"] > 0


def test_agreement_says_what_was_seen_and_no_more(cacheproof: Run) -> None:
    ended = cacheproof("fuzz", "lru", "--target", f"{CHILD} --correct", "--steps", "300", "--seed", "1")
    assert ended.status == ExitStatus.AS_EXPECTED
    assert "fuzzed 300 steps in" in ended.out
    assert "order, sizes, used" in ended.out
    assert "proved" not in ended.out


def test_the_plain_driver_without_the_extra(cacheproof: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "cacheproof.lockstep.machine", raising=False)
    ended = cacheproof("fuzz", "lru", "--target", "spec:normative")
    assert ended.status == ExitStatus.WRONG_INPUT
    assert "pip install 'CHECKOUT_OR_WHEEL[fuzz]'" in ended.err
    assert cacheproof("fuzz", "lru", "--target", "spec:normative", "--driver", "lockstep").status == 0


@pytest.mark.parametrize("driver", ["hypothesis", "lockstep"])
def test_the_same_seed_says_the_same(cacheproof: Run, driver: str) -> None:
    def told() -> dict[str, Any]:
        ended = cacheproof("fuzz", "lru", "--target", "spec:M2", "--seed", "8", "--driver", driver, "--json")
        return {key: value for key, value in ended.json.items() if key != "seconds"}

    first = told()
    assert first["difference"] is not None
    assert first == told()


def test_a_breakdown_is_inconclusive(cacheproof: Run) -> None:
    ended = cacheproof("fuzz", "lru", "--target", "exec:false", "--json")
    assert (ended.status, ended.json["ok"]) == (ExitStatus.INCONCLUSIVE, False)
    assert "exit status 1" in ended.json["breakdown"]["reason"]
    assert ended.json["difference"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing", "--target", "spec:M2"), "unknown component 'nothing'"),
        (("lru",), "Missing option '--target'"),
        (("lru", "--target", "nonsense"), "unknown target 'nonsense'"),
        (("lru", "--target", "exec:/no/such/program"), "cannot run '/no/such/program'"),
        (("lru", "--target", "spec:M2", "--variant", "M99"), "no variant 'M99'"),
        (("lru", "--target", "spec:M2", "--scope", "nowhere"), "no scope 'nowhere'"),
        (("lru", "--target", "spec:M2", "--config", "capacity"), "'capacity' is not KEY=VALUE"),
        (("lru", "--target", "spec:M2", "--config", "capacity=big"), "the value must be an integer or an array"),
        (("lru", "--target", "spec:M2", "--config", "capacity=0"), "capacity must be positive"),
        (("lru", "--target", "spec:M2", "--config", "colour=1"), "has no colour"),
        (("lru", "--target", "spec:M2", "--profile", "weekly"), "no profile 'weekly'"),
        (("lru", "--target", "spec:M2", "--driver", "tractor"), "no driver 'tractor'"),
        (("lru", "--target", "spec:M2", "--without", "fly"), "no operation 'fly'"),
        (("lru", "--target", "spec:M2", "--steps", "0"), "'--steps'"),
        (("lru", "--target", "spec:M2", "--seconds", "-1"), "'--seconds'"),
    ],
)
def test_wrong_input_is_one_clear_line(cacheproof: Run, arguments: tuple[str, ...], said: str) -> None:
    ended = cacheproof("fuzz", *arguments)
    assert ended.status == ExitStatus.WRONG_INPUT
    (line,) = [line for line in ended.err.splitlines() if not line.startswith("seed ")]
    assert said in line
    assert ended.out == ""


def test_show_what_was_kept(cacheproof: Run, tmp_path: Path) -> None:
    cacheproof("fuzz", "lru", "--target", "spec:M2", "--seed", "1")
    shown = cacheproof("show", "lru.normative.spec_M2", "--format", "mermaid")
    assert shown.status == ExitStatus.AS_EXPECTED
    assert shown.out.startswith("sequenceDiagram")
    path = tmp_path / "trace.json"
    written = cacheproof("show", "lru.normative", "--format", "json", "--output", str(path))
    assert written.status == ExitStatus.AS_EXPECTED
    assert "touch(key=0)" in cacheproof("show", str(path)).out
    assert cacheproof("show", str(path), "--json").json["finding"]["trace"] == json.loads(
        path.read_text(encoding="utf-8")
    )


def test_show_a_violation_by_catalogue_number_and_by_property(cacheproof: Run) -> None:
    assert cacheproof("check", "lru", "--variant", "M2", "--jobs", "1").status == ExitStatus.AS_EXPECTED
    by_number = cacheproof("show", "C-MIR-10")
    assert by_number.status == ExitStatus.AS_EXPECTED
    assert "C-MIR-10" in by_number.out
    assert "lru.M2." in by_number.err
    assert "LRU-6 does not hold" in cacheproof("show", "C-MIR-10", "--property", "LRU-6").out
    assert "loop for ever" in cacheproof("show", "LRU-6", "--format", "mermaid").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("C-NO-1",), "nothing is kept for 'C-NO-1'"),
        (("lru.normative.spec_M2", "--format", "pdf"), "unknown format 'pdf'"),
        (("lru.normative.spec_M2", "--output", "x"), "a table is not a file"),
        (("lru.normative.spec_M2", "--property", "LRU-1"), "has nothing for 'LRU-1'"),
        (("lru.normative.spec_M2", "--format", "svg", "--output", "/no/such/folder/x"), "cannot be written"),
    ],
)
def test_show_wrong_input(cacheproof: Run, arguments: tuple[str, ...], said: str) -> None:
    cacheproof("fuzz", "lru", "--target", "spec:M2", "--seed", "1")
    ended = cacheproof("show", *arguments)
    assert ended.status == ExitStatus.WRONG_INPUT
    assert said in ended.err.splitlines()[-1]
    assert ended.out == ""


@pytest.mark.parametrize(
    "text", ["", "rubbish", "[]", "{}", '{"format": "cacheproof-trace", "version": "9"}', "[" * 100_000]
)
def test_show_a_file_that_is_no_trace(cacheproof: Run, tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text, encoding="utf-8")
    ended = cacheproof("show", str(path))
    assert ended.status == ExitStatus.WRONG_INPUT
    assert len(ended.err.splitlines()) == 1
    assert str(path) in ended.err


def test_a_component_from_elsewhere(cacheproof: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file and its scopes are enough to be fuzzed, shown and served."""
    folder = tmp_path / "toys"
    folder.mkdir()
    (folder / "counter.py").write_text(TOY, encoding="utf-8")
    (folder / "counter.toml").write_text(TOY_SCOPES, encoding="utf-8")
    monkeypatch.setenv(PATH_VARIABLE, str(folder))
    ended = cacheproof("fuzz", "counter", "--target", "spec:C0", "--seed", "1")
    assert ended.status == ExitStatus.FELL_SHORT
    assert "a difference after 4 calls" in ended.out
    assert "value 3" in cacheproof("show", "counter.normative").out
    served = subprocess.run(
        [sys.executable, "-m", "cacheproof", "serve"],
        input='{"do": "init", "component": "counter", "limit": 1}\n{"do": "apply", "op": "add"}\n',
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert served.stdout.splitlines()[1] == '{"answer":"outcome","code":"done","value":1}'
