"""What a release breaks, the worst first, each line with the commands that lead on."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from cacheproof.lockstep.violations import Hunt
from cacheproof.present.show.violations_table import LINES, as_table, folded, leading_on, ranked, rendered_searches
from cacheproof.releases.searching import EraSearch
from cacheproof.targets.vllm.eras import Era
from cacheproof.targets.vllm.release import Release

Message = dict[str, Any]


def broken(rule: str, **changes: Any) -> Message:
    """A finding, as `conform` says it."""
    plain: Message = {
        "component": "lru",
        "variant": "M2",
        "target": "vllm==0.20.2",
        "first": "",
        "property": rule,
        "reach": "class",
        "severity": "accounting",
        "length": 3,
        "operation": "touch",
        "ending": "",
        "faults": [],
        "catalogue": ["C-MIR-10"],
        "certainty": "cause",
        "issues": ["#28525"],
        "id": f"lru-M2-{rule}-C-MIR-10",
    }
    return {**plain, **changes}


def printed(found: list[Message]) -> str:
    console = Console(file=io.StringIO(), width=220)
    console.print(as_table(folded(found)))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_reach_comes_before_severity_and_severity_before_length() -> None:
    found = [
        broken("misuse", reach="misuse", severity="dies", length=1),
        broken("class-counts", severity="accounting", length=1),
        broken("class-hangs", severity="hangs", length=9),
        broken("engine-counts", reach="engine", severity="accounting", length=9),
        broken("class-hangs-soon", severity="hangs", length=2),
    ]
    assert [one["property"] for one in ranked(found)] == [
        "engine-counts",
        "class-hangs-soon",
        "class-hangs",
        "class-counts",
        "misuse",
    ]


def test_findings_of_a_line_follow_one_another_and_it_ranks_by_its_worst() -> None:
    found = [
        broken("b", severity="leak"),
        broken("a"),
        broken("b", reach="misuse", length=1),
        broken("a", reach="engine"),
    ]
    lines = folded(ranked(found))
    assert [[number for number, _ in line] for line in lines] == [[1, 2], [3, 4]]
    assert [line[0][1]["property"] for line in lines] == ["a", "b"]
    assert [one["reach"] for _, one in lines[1]] == ["class", "misuse"]


def test_each_line_has_its_cause_and_its_commands() -> None:
    assert "C-MIR-10 (#28525)" in printed([broken("LRU-5")])
    commands = "cacheproof reproduce lru-M2-LRU-5-C-MIR-10 vllm==0.20.2; cacheproof explain LRU-5"
    assert leading_on([(4, broken("LRU-5")), (5, broken("LRU-5", id="other"))]) == f"4: {commands}"


@pytest.mark.parametrize("certainty", ["new", "unattributed"])
def test_what_has_no_cause_is_said_beside_what_has(certainty: str) -> None:
    without = broken("LRU-5", catalogue=[], issues=[], certainty=certainty)
    assert f"C-MIR-10 (#28525); {certainty}" in printed([broken("LRU-5"), without])


@pytest.mark.parametrize("every", [False, True])
def test_twenty_lines_are_shown_and_the_others_on_demand(*, every: bool) -> None:
    found = ranked(broken(f"P-{number}") for number in range(LINES + 3))
    done = EraSearch(Era("lru", "M2", Release("0.20.2")), 1, Hunt(1))
    shown = list(rendered_searches([done], found, [], every=every))
    (table,) = (part for part in shown if isinstance(part, Table))
    assert table.row_count == LINES + 3 * every
    assert ("3 more lines: --all" in shown) is not every
    assert sum("cacheproof explain P-" in str(part) for part in shown) == table.row_count


def test_findings_beside_two_hints_are_one_line() -> None:
    beside = [broken("LRU-8", variant=variant, hint=True) for variant in ("M2", "M3")]
    assert len(folded(ranked(beside))) == 1
    assert len(folded(ranked(broken("LRU-8", variant=variant) for variant in ("M2", "M3")))) == 2
    assert "lru M2 (hint)" in printed(beside)
