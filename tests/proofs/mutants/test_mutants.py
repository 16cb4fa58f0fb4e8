"""Mutants of a toy: which there are, what becomes of each, and what the ledger and the verb say of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cacheproof.command import mutants as verb
from cacheproof.command.frame import main
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import PATH_VARIABLE, component_named, components, scope_file
from cacheproof.model.store import HOME_VARIABLE
from cacheproof.mutants import campaign, judge, ledger, watch
from cacheproof.mutants.generate import Mutant, mutants_of
from cacheproof.mutants.judge import Fate, Limits, MutantResult, judged
from cacheproof.mutants.plant import planted
from cachespec.kernel import HIT, MISS

TOY = Path(__file__).parent / "toy"
QUICK = Limits(seconds=20.0)


@pytest.fixture
def lamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The toy as a component, and an empty store."""
    folder = tmp_path / "toy"
    shutil.copytree(TOY, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv(PATH_VARIABLE, str(folder))
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setattr(watch, "TICK", 0.05)
    return component_named("lamp")


def named(component: Any, where: str, change: str) -> Mutant:
    """The mutant of this function with this change."""
    found = [one for one in mutants_of(component) if f"/{where}/" in one.name and one.change == change]
    assert len(found) == 1, [one.name for one in mutants_of(component)]
    return found[0]


@pytest.mark.parametrize(
    ("where", "change", "fate", "by"),
    [
        ("press", "lamp.presses >= config.most => lamp.presses > config.most", Fate.PROPERTY, "LMP-1"),
        ("press", "without if lamp.presses >= config.most:", Fate.PROPERTY, "LMP-1"),
        ("press", "lamp.presses + 1 => lamp.presses - 1", Fate.PROPERTY, "LMP-1"),
        ("press", "lamp.presses >= config.most => lamp.presses < config.most", Fate.WITNESS, "LMP-1"),
        ("press", "without presses=lamp.presses + 1", Fate.WITNESS, "LMP-1"),
        ("press", "DONE => REFUSED", Fate.SURVIVED, ""),
        ("press", "drained(lamp) => lamp", Fate.EQUIVALENT, ""),
        ("drained", "left - 1 => left + 1", Fate.DIVERGED, "a call does not return"),
        ("drained", "without while left > 0:", Fate.EQUIVALENT, ""),
        ("ask", "HIT => MISS", Fate.SURVIVED, ""),
        ("asking.by_default", "default + 1 => default - 1", Fate.EQUIVALENT, ""),
        ("asking.by_default", "without note=default + 1", Fate.EQUIVALENT, ""),
    ],
)
def test_what_becomes_of_a_mutant(lamp: Any, where: str, change: str, fate: Fate, by: str) -> None:
    result = judged(named(lamp, where, change), QUICK)
    assert (result.fate, result.by) == (fate, by)


def test_what_raises_is_told_apart(lamp: Any) -> None:
    mutant = named(lamp, "drained", "left - 1 => left + 1")
    broken = Mutant(mutant.name, mutant.component, "", "def drained(lamp):\n    return lamp.nothing", mutant.function)
    result = judged(broken, QUICK)
    assert result.fate is Fate.RAISED
    assert "AttributeError" in result.by


def test_limits_are_no_verdict(lamp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "STATES_AT_LEAST", 500)
    mutant = named(lamp, "press", "drained(lamp) => lamp")
    endless = "def press(config, lamp, op):\n    return lamp._replace(note=lamp.note + 1), DONE"
    result = judged(Mutant(mutant.name, mutant.component, "", endless, mutant.function), QUICK)
    assert result.fate is Fate.OPEN
    assert "states" in result.by


def test_the_function_is_afterwards_what_it_was(lamp: Any) -> None:
    mutant = named(lamp, "ask", "HIT => MISS")
    pressed = lamp.normative.state(1)
    ask = mutant.function
    with planted(mutant):
        assert ask(None, pressed, None)[1] == MISS
    assert ask(None, pressed, None)[1] == HIT
    with pytest.raises(ZeroDivisionError), planted(mutant):
        raise ZeroDivisionError
    assert ask(None, pressed, None)[1] == HIT


def test_names_do_not_depend_on_lines_or_on_other_functions(
    lamp: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    text = (TOY / "lamp.py").read_text(encoding="utf-8")
    changed = text.replace("def drained", "# a line more\n\n\ndef drained").replace(
        "    left = lamp", "\n    left = lamp"
    )
    assert changed != text
    (other / "lamp.py").write_text(changed, encoding="utf-8")
    before = {mutant.name: mutant.change for mutant in mutants_of(lamp)}
    monkeypatch.setenv(PATH_VARIABLE, str(other))
    assert {mutant.name: mutant.change for mutant in mutants_of(component_named("lamp"))} == before
    assert len(before) == len(list(mutants_of(lamp))) > 20


# The ledger ----------------------------------------------------------------------------------------------------------


def entry(mutant: Mutant, reason: str = "nobody reads it") -> str:
    return f'[[survivor]]\nname = "{mutant.name}"\nchange = "{mutant.change}"\nreason = "{reason}"\n'


def test_an_entry_that_does_not_fit_is_said_to_be_so(lamp: Any, tmp_path: Path) -> None:
    every = list(mutants_of(lamp))
    survivor, killed = every[0], every[1]
    path = tmp_path / "ledger.toml"
    gone = entry(every[2]).replace(every[2].name, "lamp/gone/update-000000")
    path.write_text(entry(survivor) + entry(killed) + gone, encoding="utf-8")
    results = [MutantResult(survivor.name, "", Fate.SURVIVED), MutantResult(killed.name, "", Fate.PROPERTY, "LMP-1")]
    said = list(ledger.wrong(ledger.read(path), every, results, ["lamp"]))
    assert len(said) == 2
    assert "is noticed: property LMP-1" in said[0]
    assert "there is no such mutant" in said[1]
    assert list(ledger.wrong(ledger.read(path), every, results, ["lru"])) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[survivor]]\nname = 'a'\n", "change"),
        ("[[survivor]]\nname = 'a'\nchange = ''\nreason = ' '\n", "no reason"),
        ("[[survivor]]\nname = 'a'\nchange = ''\nreason = 'x'\n" * 2, "twice"),
        ("[[", "ledger.toml"),
        ("other = 1", "other"),
    ],
)
def test_a_ledger_with_a_mistake_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "ledger.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        ledger.read(path)


def test_the_ledger_that_comes_along_names_mutants_that_there_are() -> None:
    known = ledger.read()
    parts = {name.partition("/")[0] for name in known}
    every = [mutant for part in parts for mutant in mutants_of(component_named(part))]
    assert list(ledger.wrong(known, every, [], parts)) == []


# The verb ------------------------------------------------------------------------------------------------------------


def run(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    with pytest.raises(SystemExit) as ended:
        main(["mutants", "lamp", "--jobs", "1", "--json", *arguments])
    out = capsys.readouterr().out
    return int(ended.value.code or 0), json.loads(out) if out.strip() else {}


@pytest.fixture
def listed(lamp: Any, tmp_path: Path) -> Callable[[str], list[str]]:
    """Arguments that run one mutant that is killed and one that survives, with what the ledger has."""

    def arguments(text: str) -> list[str]:
        path = tmp_path / "ledger.toml"
        path.write_text(text, encoding="utf-8")
        return ["--survivors", str(path)]

    return arguments


def test_a_survivor_without_a_reason_falls_short(
    lamp: Any, listed: Callable[[str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    survivor = named(lamp, "ask", "HIT => MISS")
    status, data = run([*listed(""), "--only", survivor.name], capsys)
    assert (status, data["ok"]) == (1, False)
    assert survivor.name in data["complaints"][0]
    assert data["results"][0]["fate"] == "survived"


def test_too_many_survivors_fall_short_whatever_their_reasons(
    lamp: Any, listed: Callable[[str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    survivor = named(lamp, "ask", "HIT => MISS")
    status, data = run([*listed(entry(survivor)), "--only", survivor.name], capsys)
    assert (status, data["complaints"], data["ratio"]) == (1, [], 0.0)


def test_all_killed_is_as_expected(
    lamp: Any, listed: Callable[[str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    killed = named(lamp, "press", "without if lamp.presses >= config.most:")
    status, data = run([*listed(""), "--only", killed.name], capsys)
    assert (status, data["ok"], data["ratio"]) == (0, True, 1.0)
    assert data["components"][0]["property"] == 1
    status, data = run([*listed(entry(killed)), "--only", killed.name], capsys)
    assert (status, len(data["complaints"])) == (1, 1)


def test_what_an_earlier_run_found_is_not_run_again(
    lamp: Any, listed: Callable[[str], list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = named(lamp, "press", "without if lamp.presses >= config.most:")
    _, first = run([*listed(""), "--only", killed.name], capsys)
    monkeypatch.setattr(campaign, "judged", lambda mutant, limits, first: pytest.fail("run again"))
    _, second = run([*listed(""), "--only", killed.name], capsys)
    assert first == second
    monkeypatch.setattr(
        campaign, "judged", lambda mutant, limits, first: MutantResult(mutant.name, "", Fate.OPEN, "a limit")
    )
    status, data = run([*listed(""), "--only", killed.name, "--anew"], capsys)
    assert (status, data["results"][0]["fate"]) == (1, "open")


def test_an_interrupted_run_reports_what_it_knows(
    lamp: Any, listed: Callable[[str], list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def second_is_interrupted(mutant: Mutant, limits: Limits, first: tuple[str, ...]) -> MutantResult:
        done.append(mutant.name)
        if len(done) == 2:
            raise KeyboardInterrupt
        return MutantResult(mutant.name, mutant.change, Fate.PROPERTY, "LMP-1")

    monkeypatch.setattr(campaign, "judged", second_is_interrupted)
    status, data = run(listed(""), capsys)
    assert (status, data["interrupted"], len(data["results"])) == (3, True, 1)
    assert data["mutants"] > 20


def test_two_workers_find_the_same(
    lamp: Any, listed: Callable[[str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [*listed(""), "--sample", "4", "--seed", "3", "--anew"]
    _, alone = run(chosen, capsys)
    _, together = run([*chosen, "--jobs", "2"], capsys)
    for data in (alone, together):
        for result in data["results"]:
            result.pop("seconds")
    assert alone == together
    assert len(alone["results"]) == 4


def test_a_sample_of_the_mutants_of_one_function(
    lamp: Any, listed: Callable[[str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    _, data = run([*listed(""), "--only", "lamp/*press/*", "--sample", "3"], capsys)
    names = [result["name"] for result in data["results"]]
    assert len(names) == 3
    assert all("press/" in name for name in names)


def test_a_mutant_that_there_is_not(
    lamp: Any, listed: Callable[[str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    status, _ = run([*listed(""), "--only", "lamp/press/update-000000"], capsys)
    assert status == 2


def test_scopes_that_are_explored_first(
    lamp: Any, listed: Callable[[str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """What notices a mutant is the scope that was named; the others follow in their order."""
    scopes = scope_file(lamp)
    more = '[[scope]]\nname = "one"\nabout = "One press."\nvariants = ["normative"]\nconfig = { most = 1 }\n'
    scopes.write_text(f"{scopes.read_text()}\n{more}")
    killed = named(lamp, "press", "without if lamp.presses >= config.most:")
    for scope in ("one", "three"):
        _, data = run([*listed(""), "--only", killed.name, "--anew", "--first", f"{scope[:2]}*"], capsys)
        assert [(one["fate"], one["scope"]) for one in data["results"]] == [("property", scope)]
    status, _ = run([*listed(""), "--only", killed.name, "--first", "nine"], capsys)
    assert status == 2


def test_the_list_runs_nothing(lamp: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "perform", lambda *_, **__: pytest.fail("run"))
    status, data = run(["--list"], capsys)
    assert (status, len(data["mutants"])) == (0, len(list(mutants_of(lamp))))


def test_every_component_has_mutants() -> None:
    """Also where transitions are made of functions with some of their arguments given."""
    for name, component in components("").items():
        assert next(mutants_of(component), None) is not None, name
