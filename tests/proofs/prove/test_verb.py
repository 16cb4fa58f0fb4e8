"""`cacheproof prove` as a user calls it: rows, exit statuses, what is kept, and what is said of wrong input."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.planting import Change, planted
from tests.proofs.prove.planted import reachable

from cacheproof.command.prove import Method, command
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.model.store import HOME_VARIABLE, load, load_all
from cacheproof.prove import session
from cacheproof.prove.finding import GOOD, Finding, Verdict
from cachespec.lru import transitions


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    return tmp_path


def test_the_proofs_of_a_component_are_listed_and_kept() -> None:
    arguments = ["prove", "lru", "--method", "smt", "--json"]
    ended = subprocess.run(
        [sys.executable, "-m", "cacheproof", *arguments], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["ok"]
    rows = {row["name"]: row for row in report["obligations"]}
    assert {"LRU-1/put", "LRU-2/initial", "LRU-6/evict", "LRU-7/evict"} <= set(rows)
    assert {row["verdict"] for row in rows.values()} == {"proved"}
    assert {row["bound"] for row in rows.values()} == {"all sizes"}
    assert all(row["agreed"] <= row["checks"] for row in rows.values())
    kept = load("prove", "lru-smt")
    assert kept["component"] == "lru"
    assert [row["name"] for row in kept["obligations"]] == list(rows)


def test_a_refuted_claim_ends_with_1_and_a_counterexample() -> None:
    reachable("lru")
    bug = Change(transitions.get, "$cache.total + 1", "$cache.total")
    with planted(bug):
        report = command(["lru"], method=Method.SMT, second_opinion=False, jobs=1)
    assert report.exit_status is ExitStatus.FELL_SHORT
    verdicts = {row["name"]: row["verdict"] for row in report.data["obligations"]}
    assert verdicts["LRU-4/get"] == "refuted"
    shown = [part for part in report.rendered if isinstance(part, str)]
    assert any(part.startswith("lru LRU-4/get: refuted\n    config: Config(") for part in shown)
    good = sum(verdict == "proved" for verdict in verdicts.values())
    assert good < len(verdicts)
    assert shown[-1].startswith(f"{good} of {len(verdicts)} obligations as required")


def test_what_has_no_second_opinion_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding("lru", "LRU-1/put", "", "smt", Verdict.PROVED, "all sizes", 0.1, "", 3, 1)
    monkeypatch.setattr(session, "run", lambda what, *, ask_second, jobs, begin: iter([finding]))
    report = command(["lru"], method=Method.SMT)
    assert report.exit_status is ExitStatus.AS_EXPECTED
    assert "lru LRU-1/put: no second opinion on 2 of 3 checks" in report.rendered


def test_an_interruption_shows_what_is_known_and_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(what: Any, *, ask_second: bool, jobs: int, begin: Callable[[str], object]) -> Iterator[Finding]:
        yield Finding("lru", "LRU-1/put", "", "smt", Verdict.PROVED, "all sizes", 0.1)
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "run", interrupted)
    report = command(["lru"])
    assert report.exit_status is ExitStatus.INCONCLUSIVE
    assert [row["name"] for row in report.data["obligations"]] == ["LRU-1/put"]
    assert list(load_all("prove")) == []


def test_what_was_given_up_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding("lru", "equal/put", "", "implementation", Verdict.GAVE_UP, "3 keys", 30.0)
    monkeypatch.setattr(session, "run", lambda what, *, ask_second, jobs, begin: iter([finding]))
    assert command(["lru"], implementation=True).exit_status is ExitStatus.INCONCLUSIVE


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict not in {*GOOD, Verdict.GAVE_UP}])
def test_any_other_verdict_ends_with_1(verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding("lru", "LRU-1/put", "", "smt", verdict, "all sizes", 0.1)
    monkeypatch.setattr(session, "run", lambda what, *, ask_second, jobs, begin: iter([finding]))
    assert command(["lru"]).exit_status is ExitStatus.FELL_SHORT


def test_nothing_proved_is_not_green(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "run", lambda what, *, ask_second, jobs, begin: iter([]))
    assert command(["lru"]).exit_status is ExitStatus.FELL_SHORT


def test_an_unknown_component_is_named() -> None:
    with pytest.raises(InputError, match=r"'lur': there are .*lru"):
        command(["lur"])
    with pytest.raises(InputError, match="by smt of 'containers'"):
        command(["containers"], method=Method.SMT)


def test_without_the_extra_there_is_one_clear_line() -> None:
    program = (
        "import sys; sys.modules['cvc5'] = None; from cacheproof.command import main; sys.argv[1:] = ['prove']; main()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert "CHECKOUT_OR_WHEEL[prove]" in ended.stderr


def test_every_component_with_obligations_is_a_component() -> None:
    known = set(session.chosen([], None).obligations)
    assert {"lru", "encoder_cache", "mirror"} <= known


def test_progress_names_the_component_and_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "prove_at", lambda proof, place, reachable, *, ask_second: iter([]))
    monkeypatch.setattr(session, "confirm", lambda name, module: iter([]))
    chosen, shown = session.chosen(["lru"], None), list[str]()
    assert list(session.run(chosen, ask_second=False, begin=shown.append)) == []
    proofs = chosen.obligations["lru"]
    places = [(number, place) for number, proof in enumerate(proofs, 1) for place in proof.places()]
    lines = [f"lru: {place}, proof {number} of {len(proofs)}" for number, place in places]
    assert shown == [*lines, "lru: contracts"]


def test_processes_find_the_same_in_the_same_order() -> None:
    """The obligations of `lru` take three seconds; the seconds of each differ."""
    chosen, shown = session.chosen(["lru"], "smt"), list[str]()
    alone = list(session.run(chosen, ask_second=False))
    shared = list(session.run(chosen, ask_second=False, jobs=2, begin=shown.append))
    assert [replace(one, seconds=0.0) for one in shared] == [replace(one, seconds=0.0) for one in alone]
    assert len(alone) > 20
    assert set(shown) <= {str(part) for part in session.parts_of(chosen)} | {
        f"lru {one.name}: {one.verdict.value}" for one in alone
    }
    assert len(shown) > len(alone), "a line for each obligation, and for each part that begins"
