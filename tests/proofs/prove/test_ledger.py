"""The gate of bounded contracts fails on everything on which CrossHair alone would be content."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from crosshair.core_and_libs import MessageType

from cacheproof.foundation.discover import modules_in
from cacheproof.prove.confirmation import verdict_of
from cacheproof.prove.finding import Finding, Verdict
from cacheproof.prove.ledger import HARD_LIMIT_SECONDS, confirm, functions_with_contracts
from cacheproof.prove.session import CONTRACTS

SOON = 5.0
"""Seconds after which the function that hangs is ended."""

LEDGERS = Path(__file__).parent / "ledgers"


@pytest.fixture
def findings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Finding]:
    """What the gate says of the ledger that the test names, by function."""
    name = request.param
    spec = importlib.util.spec_from_file_location(name, LEDGERS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    limit = SOON if name == "hanging_ledger" else HARD_LIMIT_SECONDS
    return {finding.name: finding for finding in confirm("toy", module, limit_seconds=limit)}


def given(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("findings", [name], indirect=True)


def verdicts(findings: dict[str, Finding]) -> dict[str, Verdict]:
    return {name: finding.verdict for name, finding in findings.items()}


@given("sound_ledger")
def test_what_holds_is_confirmed(findings: dict[str, Finding]) -> None:
    assert verdicts(findings) == {"one_more": Verdict.CONFIRMED}
    assert findings["one_more"].good
    assert findings["one_more"].bound == "every integer"
    assert findings["one_more"].statement == "The next number."


@given("mutant_ledger")
def test_a_bug_of_the_specification_is_refuted(findings: dict[str, Finding]) -> None:
    assert verdicts(findings) == {"touch_keeps_the_order": Verdict.REFUTED}
    assert "touch_keeps_the_order" in findings["touch_keeps_the_order"].detail


@given("unsatisfiable_ledger")
def test_a_precondition_that_nothing_satisfies_fails(findings: dict[str, Finding]) -> None:
    assert verdicts(findings) == {"one_more": Verdict.UNSOUND}


@given("unlisted_ledger")
def test_a_contract_that_is_not_listed_fails(findings: dict[str, Finding]) -> None:
    assert verdicts(findings) == {"one_more": Verdict.CONFIRMED, "two_more": Verdict.UNLISTED}


@given("missing_ledger")
def test_a_listed_function_without_a_contract_fails(findings: dict[str, Finding]) -> None:
    assert verdicts(findings) == {"one_more": Verdict.CONFIRMED, "two_more": Verdict.UNLISTED}


@given("no_postcondition_ledger")
def test_a_contract_that_cannot_fail_fails(findings: dict[str, Finding]) -> None:
    assert verdicts(findings) == {"one_more": Verdict.UNSOUND, "two_more": Verdict.UNSOUND}


@given("empty_ledger")
def test_an_empty_ledger_fails(findings: dict[str, Finding]) -> None:
    assert verdicts(findings) == {"ledger": Verdict.VACUOUS}
    assert not findings["ledger"].good


@given("hanging_ledger")
def test_a_function_that_hangs_is_ended(findings: dict[str, Finding]) -> None:
    assert verdicts(findings) == {"one_more": Verdict.HANGS}


@given("crashing_ledger")
def test_a_process_that_dies_is_reported(findings: dict[str, Finding]) -> None:
    assert verdicts(findings) == {"one_more": Verdict.CRASHED}
    assert "7" in findings["one_more"].detail


def test_what_is_not_confirmed_in_time_is_not_good() -> None:
    assert verdict_of(MessageType.CANNOT_CONFIRM) is Verdict.NOT_CONFIRMED
    assert [state for state in MessageType if verdict_of(state) is Verdict.CONFIRMED] == [MessageType.CONFIRMED]
    finding = Finding("toy", "one_more", "", "crosshair", Verdict.NOT_CONFIRMED, "", 0.0)
    assert not finding.good


@pytest.mark.parametrize("module", modules_in(CONTRACTS).values(), ids=modules_in(CONTRACTS))
def test_every_shipped_ledger_names_its_contracts(module: ModuleType) -> None:
    assert list(module.LEDGER) == functions_with_contracts(module)
    assert all(module.LEDGER.values())
