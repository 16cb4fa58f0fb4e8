"""One finding in every format: complete, well formed, always the same, and read back where it can be."""

import json
import random
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cacheproof.foundation.errors import InputError
from cacheproof.model.finding import Answer, Breakdown, Difference, Finding
from cacheproof.model.finding_json import finding_from_message, finding_to_message
from cacheproof.model.registry import AnyComponent, component_named, components, scope_file
from cacheproof.model.scope import scopes_of
from cacheproof.model.trace import Trace, Violation, record
from cacheproof.model.trace_json import to_json, trace_from_message, trace_to_message
from cacheproof.model.wording import operation_text
from cacheproof.present.show.diagram import individual
from cacheproof.present.show.formats import FILES, FORMATS, shown_as, write_files
from cacheproof.present.show.itf import to_itf
from cacheproof.present.show.mermaid import to_mermaid
from cacheproof.present.show.svg import to_svg
from cachespec.kernel import Code, Kind, Outcome
from cachespec.lru import Config, Evict, Put, Touch

SCOPED = [component for component in components().values() if scope_file(component).is_file()]
LRU = component_named("lru")
SVG = "{http://www.w3.org/2000/svg}"
named = pytest.mark.parametrize("component", SCOPED, ids=lambda component: component.name)


def random_trace(component: AnyComponent, tag: str, seed: int = 0, length: int = 12) -> Trace:
    scope = next(scope for scope in scopes_of(component) if tag in scope.variants)
    variant, source = component.variants[tag], random.Random(seed)
    state, operations = variant.start(scope.config), []
    for _ in range(length):
        offered = [one for one in variant.alphabet(scope.config, state) if type(one) in variant.transitions]
        if not offered:
            break
        operations.append(source.choice(offered))
        state, _ = variant.call(scope.config, state, operations[-1])
    return record(component, variant, scope.config, operations, whole_calls=True)


def traces(component: AnyComponent) -> list[Trace]:
    tags = dict.fromkeys(tag for scope in scopes_of(component) for tag in scope.variants)
    return [random_trace(component, tag, seed) for tag in tags for seed in range(3)]


def violated(trace: Trace) -> Violation:
    return Violation("LRU-0", 'nothing is "<wrong>"; #1 & all', trace, "C-X-1")


def lasso() -> Violation:
    """The ghost that is evicted for ever."""
    era = LRU.variants["M2"]
    operations = [Put(0, 1), Touch(1), Touch(0), Put(2, 2), Evict(), Evict()]
    config = Config(capacity=2, sizes=(1, 1, 2))
    trace = record(LRU, era, config, operations, whole_calls=False, cycle=4)
    return Violation("LRU-6", "every call that evicts returns", trace, "C-MIR-10")


def findings() -> list[Finding]:
    trace = random_trace(LRU, "normative")
    answer = Answer(trace.steps[-1].outcome, trace.steps[-1].observations)
    other = Answer(Outcome(Code.HIT, (1, 2)), {"used": 7})
    empty = replace(trace, steps=())
    return [
        violated(trace),
        lasso(),
        Difference("exec:'a \"b\" <c>'", trace, answer, other),
        Difference("spec:M2", empty, Answer(None, empty.initial), Answer(None, {"used": 1})),
        Breakdown("exec:x", "it fell; over", trace),
    ]


def texts_of(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


@named
def test_json_is_read_back(component: AnyComponent) -> None:
    for trace in traces(component):
        assert trace_from_message(json.loads(to_json(trace))) == trace


@pytest.mark.parametrize("finding", findings(), ids=lambda finding: type(finding).__name__)
def test_findings_are_read_back(finding: Finding) -> None:
    assert finding_from_message(json.loads(json.dumps(finding_to_message(finding)))) == finding


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("format",), "other", "not a trace of format"),
        (("component",), "nothing", "unknown component"),
        (("variant",), "M99", "no variant 'M99'"),
        (("config",), [], "config must be an object"),
        (("config", "capacity"), "2", "capacity must be an integer"),
        (("steps",), None, "steps must be an array"),
        (("steps", 0), 3, "step 0 must be an object"),
        (("steps", 0, "operation"), {"op": "fly"}, "step 0: unknown operation 'fly'"),
        (("steps", 0, "outcome"), {"code": "splendid"}, "step 0: unknown code 'splendid'"),
        (("steps", 0, "observations"), {"used": 0.5}, "step 0: observation: used must be an integer"),
        (("cycle",), 999, "cycle must be null or a step"),
        (("initial",), None, "initial must be an object"),
    ],
)
def test_a_wrong_trace_is_one_clear_line(path: tuple[Any, ...], value: Any, said: str) -> None:
    message = json.loads(to_json(random_trace(LRU, "normative")))
    inner = message
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(InputError) as error:
        trace_from_message(message)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@named
def test_every_format_shows_every_operation(component: AnyComponent) -> None:
    for trace in traces(component):
        finding = violated(trace)
        console = Console(width=400, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
        console.print(FORMATS["table"](finding))
        drawn = {
            "table": console.export_text(),
            "mermaid": to_mermaid(finding),
            "svg": "\n".join(texts_of(to_svg(finding))),
        }
        for number, step in enumerate(trace.steps, 1):
            for shown in drawn.values():
                assert operation_text(step.operation) in shown
            assert f"{number}. {operation_text(step.operation)}: {step.outcome.code.value}" in drawn["svg"]
        assert all("LRU-0" in shown and "C-X-1" in shown for shown in drawn.values())


@pytest.mark.parametrize("finding", findings(), ids=lambda finding: type(finding).__name__)
@pytest.mark.parametrize("name", FILES)
def test_the_same_finding_is_the_same_text(finding: Finding, name: str) -> None:
    again = finding_from_message(finding_to_message(finding))
    assert shown_as(finding, name) == shown_as(again, name)
    assert shown_as(finding, name).endswith("\n")


@pytest.mark.parametrize("finding", findings(), ids=lambda finding: type(finding).__name__)
def test_svg_is_well_formed_and_holds_what_it_draws(finding: Finding) -> None:
    svg = to_svg(finding)
    root = ET.fromstring(svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for box in root.iter(f"{SVG}rect"):
        x, y = float(box.attrib.get("x", 0)), float(box.attrib.get("y", 0))
        assert 0 <= x <= x + float(box.attrib["width"]) <= width
        assert 0 <= y <= y + float(box.attrib["height"]) <= height
    for text in root.iter(f"{SVG}text"):
        x, length = float(text.attrib["x"]), len(text.text or "") * 7.3
        left = x - length / 2 if text.attrib["text-anchor"] == "middle" else x
        assert left >= 0
        assert left + length <= width
        assert float(text.attrib["y"]) <= height


def test_svg_arrows_of_different_lanes_do_not_overlap_their_texts() -> None:
    """Texts on one height do not touch."""
    root = ET.fromstring(to_svg(lasso()))
    rows: dict[str, list[tuple[float, float]]] = {}
    for text in root.iter(f"{SVG}text"):
        x, length = float(text.attrib["x"]), len(text.text or "") * 7.3
        left = x - length / 2 if text.attrib["text-anchor"] == "middle" else x
        rows.setdefault(text.attrib["y"], []).append((left, left + length))
    for spans in rows.values():
        spans.sort()
        assert all(first[1] <= second[0] for first, second in pairwise(spans))


def test_a_lasso_has_a_loop_box_in_both_pictures() -> None:
    assert "loop: for ever" in texts_of(to_svg(lasso()))
    lines = [line.strip() for line in to_mermaid(lasso()).splitlines()]
    assert lines.count("loop for ever") == lines.count("end") == 1
    inside = lines[lines.index("loop for ever") : lines.index("end")]
    assert [line for line in inside if ": 5. evict" in line or ": 6. evict" in line] == inside[1:3]


@pytest.mark.parametrize("finding", findings(), ids=lambda finding: type(finding).__name__)
def test_mermaid_is_well_formed(finding: Finding) -> None:
    first, title, *lines = to_mermaid(finding).splitlines()
    assert first == "sequenceDiagram"
    assert title.startswith("    title ")
    declared: set[str] = set()
    depth = 0
    for line in lines:
        text = line.strip()
        assert ";" not in re.sub(r"#(35|59|lt|gt);", "", text)
        if text.startswith("participant"):
            declared.add(text.split()[1])
        elif text.startswith("loop "):
            depth += 1
        elif text == "end":
            depth -= 1
        elif text.startswith("Note over "):
            assert set(text.removeprefix("Note over ").partition(":")[0].split(",")) <= declared
        else:
            arrow = re.fullmatch(r"(L\d+)(->>|-->>|-x)(L\d+): .+", text)
            assert arrow is not None
            assert {arrow[1], arrow[3]} <= declared
    assert depth == 0


@named
def test_itf_states_are_the_observables(component: AnyComponent) -> None:
    for trace in traces(component):
        document = json.loads(to_itf(trace))
        states = document["states"]
        assert len(states) == len(trace.steps) + 1
        assert states[0]["mbt::actionTaken"] == "init"
        for index, state in enumerate(states):
            assert state["#meta"]["index"] == index
            assert sorted(key for key in state if key != "#meta") == sorted(document["vars"])
        for step, state in zip(trace.steps, states[1:], strict=True):
            picks = {name: pick["value"] for name, pick in state["mbt::nondetPicks"].items() if pick["tag"] == "Some"}
            assert {"op": state["mbt::actionTaken"], **picks} == trace_to_message(replace(trace, steps=(step,)))[
                "steps"
            ][0]["operation"]
            assert state["outcome"] == step.outcome.code.value
            for name, value in step.observations.items():
                assert state[name] == (list(value) if isinstance(value, tuple) else value)


def test_itf_of_a_lasso_says_where_it_returns_to() -> None:
    assert json.loads(to_itf(lasso().trace))["loop"] == 4
    assert "loop" not in json.loads(to_itf(random_trace(LRU, "normative")))


def test_itf_writes_large_integers_as_the_format_wants_them() -> None:
    trace = random_trace(LRU, "normative", length=1)
    large = replace(trace, initial={**trace.initial, "used": 1 << 60})
    assert json.loads(to_itf(large))["states"][0]["used"] == {"#bigint": str(1 << 60)}


@named
def test_lanes_of_every_operation_are_drawn(component: AnyComponent) -> None:
    """Faults, internal steps and calls have their own arrows."""
    arrows = {Kind.CALL: "->>", Kind.INTERNAL: "-->>", Kind.FAULT: "-x"}
    for trace in traces(component):
        text = to_mermaid(violated(trace))
        for number, step in enumerate(trace.steps, 1):
            line = next(line for line in text.splitlines() if f": {number}. " in line)
            assert re.match(rf"\s+L\d+{arrows[step.operation.kind]}L\d+:", line)


def test_lanes_are_told_apart_where_each_call_says_whose_it_is() -> None:
    assert individual(LRU) == {}
    if "mirror" in components():
        assert individual(component_named("mirror")) == {"client": "sender", "P0": "sender", "channel": "sender"}


def test_unknown_format() -> None:
    with pytest.raises(
        InputError, match="unknown format 'pdf': there are table, mermaid, svg, itf, json, pytest, html"
    ):
        shown_as(lasso(), "pdf")


def test_files_in_every_format(tmp_path: Path) -> None:
    paths = write_files(lasso(), tmp_path / "new" / "folder")
    assert sorted(path.name for path in paths) == [
        "test_lru_m2_lru_6.html",
        "test_lru_m2_lru_6.itf.json",
        "test_lru_m2_lru_6.json",
        "test_lru_m2_lru_6.mmd",
        "test_lru_m2_lru_6.py",
        "test_lru_m2_lru_6.svg",
    ]
    assert all(path.stat().st_size > 0 for path in paths)
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be written"):
        write_files(lasso(), tmp_path / "file")
