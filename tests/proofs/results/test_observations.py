"""What scripts make of what they see: lines that are run here with made-up objects, those that are right and others."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cacheproof.releases.results.record import Violation, load
from cacheproof.releases.results.scripts.case import Case
from cacheproof.releases.results.scripts.writer import Observation, writer_of

RECORDS = Path(__file__).parents[3] / "docs/results/records"


def recorded(target: str, **wanted: object) -> Violation:
    """The first of a record with these fields."""
    violations = load(RECORDS / f"{target.replace('==', '-')}.json").violations
    return next(one for one in violations if all(getattr(one, name) == value for name, value in wanted.items()))


def observation(violation: Violation) -> Observation:
    writer = writer_of(violation.component)
    assert writer is not None
    made = writer.observations[violation.property](Case.of(violation))
    assert made is not None
    return made


def seen(lines: Sequence[str], names: Mapping[str, Any]) -> bool:
    namespace: dict[str, Any] = dict(names)
    exec("def look():\n" + textwrap.indent("\n".join(lines), "    "), namespace)
    violated, what = namespace["look"]()
    assert isinstance(what, str)
    return bool(violated)


@pytest.mark.parametrize(
    ("readers", "acknowledged", "violated"), [(1, 1, False), (1, 2, True), (2, 2, False), (2, 3, True), (2, 0, False)]
)
def test_each_reader_acknowledges_once(readers: int, acknowledged: int, violated: bool) -> None:
    names = {
        "readers": [None] * readers,
        "writer": None,
        "shown": lambda writer: {"issued by id": {0: 1}},
        "acknowledged": lambda writer: {0: acknowledged},
    }
    lines = observation(recorded("vllm==0.33.0", property="SHM-3")).after
    assert seen(lines, names) == violated


@pytest.mark.parametrize(
    ("acknowledged", "waiting", "violated"), [(2, False, False), (0, False, True), (3, False, True), (0, True, False)]
)
def test_what_is_quiet_is_acknowledged_by_all(acknowledged: int, waiting: bool, violated: bool) -> None:
    handle = ("A", 0, 0, None)
    names = {
        "readers": [None, None],
        "writer": None,
        "INBOXES": [[(handle, False)] if waiting else [], []],
        "shown": lambda writer: {"issued by id": {0: 1}},
        "acknowledged": lambda writer: {0: acknowledged},
    }
    lines = observation(recorded("vllm==0.33.0", property="SHM-3/settled", catalogue=["C-SHM-4"])).after
    assert seen(lines, names) == violated


def engine(*, waiting: Sequence[int]) -> SimpleNamespace:
    return SimpleNamespace(shown=lambda: {"waiting": list(waiting), "running": []})


@pytest.mark.parametrize(
    ("planned", "waiting", "violated"), [("nothing", [1], True), ("nothing", [], False), ("tokens", [1], False)]
)
def test_who_waits_is_served(planned: str, waiting: list[int], violated: bool) -> None:
    names = {"engine": engine(waiting=waiting), "run_on": lambda engine, rounds: [planned] * rounds}
    lines = observation(recorded("vllm==0.33.0", property="SCH-8", catalogue=["C-SCH-9"])).after
    assert seen(lines, names) == violated


@pytest.mark.parametrize(("answer", "violated"), [("AssertionError", True), ("finished []", False)])
@pytest.mark.parametrize("broken", ["SCH-2/taken", "SCH-10"])
def test_an_engine_that_ended_serves_nobody(broken: str, answer: str, violated: bool) -> None:
    names = {"engine": engine(waiting=[]), "ANSWERS": ["nothing", answer]}
    lines = observation(recorded("vllm==0.11.0", property=broken)).after
    assert seen(lines, names) == violated
