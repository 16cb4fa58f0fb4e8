"""What the specification did is possible; where a line was changed, that line is named which a plain reading names."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from tests.proofs.validate.logs import Message, first_impossible, header_for, log_of, validated, walked

from cacheproof.logs.validate.header import Header
from cacheproof.logs.validate.verdict import Impossible, Sort
from cacheproof.model.registry import components
from cachespec.kernel import Code

STEPS = 30
Corruption = Callable[[list[Message], random.Random], None]


def some(lines: list[Message], chosen: random.Random, key: str) -> Any:
    """A part of a random line that has it."""
    return chosen.choice([line[key] for line in lines if line.get(key)])


def change_answer(lines: list[Message], chosen: random.Random) -> None:
    outcome = some(lines, chosen, "outcome")
    outcome["code"] = chosen.choice([code.value for code in Code if code.value != outcome["code"]])


def change_values(lines: list[Message], chosen: random.Random) -> None:
    outcome = some(lines, chosen, "outcome")
    values = outcome.setdefault("values", [])
    if values and chosen.random() < 0.5:
        values[chosen.randrange(len(values))] += 1
    else:
        values.append(0)


def change_observable(lines: list[Message], chosen: random.Random) -> None:
    observations = some(lines, chosen, "observations")
    name = chosen.choice(sorted(observations))
    observations[name] = [*observations[name], 0] if isinstance(observations[name], list) else observations[name] + 1


def drop_line(lines: list[Message], chosen: random.Random) -> None:
    del lines[chosen.randrange(len(lines))]


def double_line(lines: list[Message], chosen: random.Random) -> None:
    place = chosen.randrange(len(lines))
    lines.insert(place, deepcopy(lines[place]))


def swap_lines(lines: list[Message], chosen: random.Random) -> None:
    place = chosen.randrange(len(lines) - 1)
    lines[place : place + 2] = reversed(lines[place : place + 2])


CORRUPTIONS = (change_answer, change_values, change_observable, drop_line, double_line, swap_lines)
ALWAYS_IMPOSSIBLE = (change_answer, change_values, change_observable)


def variants_of(name: str) -> list[tuple[str, str]]:
    """The normative variant, and one more where there is one."""
    return [(name, tag) for tag in list(components()[name].variants)[:2]]


SUBJECTS = [pair for name in components() for pair in variants_of(name)]


@pytest.mark.parametrize(("name", "variant"), SUBJECTS)
def test_a_run_is_possible_and_a_corrupted_one_is_not(name: str, variant: str) -> None:
    header = header_for(name, variant)
    found: Counter[str] = Counter()
    for seed in range(3):
        lines = walked(header, STEPS, seed)
        whole = validated(log_of(header, lines))
        assert (whole.sort, whole.consumed, whole.possible) == (Sort.POSSIBLE, len(lines), whole.possible)
        for corruption in CORRUPTIONS:
            changed = deepcopy(lines)
            corruption(changed, random.Random(seed))
            expected = first_impossible(header, changed)
            verdict = validated(log_of(header, changed))
            assert (None if verdict.found is None else verdict.found.line) == expected
            if corruption in ALWAYS_IMPOSSIBLE:
                assert expected is not None
            if expected is not None:
                found[corruption.__name__] += 1
                assert isinstance(verdict.found, Impossible)
                assert verdict.consumed == expected - 2
                assert verdict.found.reason or any(tried.differences for tried in verdict.found.tried)
    assert found.total() >= len(ALWAYS_IMPOSSIBLE) * 3


def test_every_sort_of_corruption_is_found_somewhere() -> None:
    """Of the components that are quick: that a dropped, doubled or swapped line is impossible is no accident."""
    found: Counter[str] = Counter()
    header = header_for("lru")
    for seed in range(24):
        lines = walked(header, STEPS, seed)
        for corruption in CORRUPTIONS:
            changed = deepcopy(lines)
            corruption(changed, random.Random(seed))
            found[corruption.__name__] += validated(log_of(header, changed)).sort is Sort.IMPOSSIBLE
    assert all(found[corruption.__name__] >= 4 for corruption in CORRUPTIONS), found


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("name", ["lru", "kv_blocks", "encoder_cache", "mirror"])
def test_the_quick_way_says_what_the_slow_one_says(name: str, observed: bool) -> None:
    """Lines of which all is known are taken at speed; each verdict is the same without that."""
    header = header_for(name)
    if observed:
        initial = header.component.observe(header.config, header.variant.view(header.config, start_of(header)))
        header = replace(header, updates=tuple(initial)[:2])
    quick = 0
    for seed in range(8):
        lines = walked(header, STEPS, seed, observed=observed)
        for line in lines[::7] if observed else []:
            line["source"] = 'a "thread"' if line is lines[0] else "a thread"
        for corruption in (None, *(each for each in CORRUPTIONS if observed or each is not change_observable)):
            changed = deepcopy(lines)
            if corruption is not None:
                corruption(changed, random.Random(seed))
            raw = log_of(header, changed)
            fast, slow = validated(raw), validated(raw, fast=False)
            assert (fast.sort, fast.consumed, fast.found) == (slow.sort, slow.consumed, slow.found)
            assert slow.fast_lines == 0
            quick += fast.fast_lines
    assert quick > 8 * STEPS


def start_of(header: Header) -> Any:
    return header.variant.start(header.config)


def test_observables_that_are_logged_when_they_change() -> None:
    """A line without one of them says that it is as it was."""
    header = header_for("lru", updates=("order", "used"))
    lines = walked(header, STEPS, 5)
    known: Message = {}
    for line in lines:
        shown = {name: line["observations"][name] for name in header.updates}
        line["observations"] = {name: value for name, value in shown.items() if known.get(name) != value}
        known = shown
    assert validated(log_of(header, lines)).sort is Sort.POSSIBLE
    changing = next(place for place, line in enumerate(lines) if place > 3 and line["observations"])
    (name, *_) = lines[changing]["observations"]
    lines[changing]["observations"].pop(name)
    verdict = validated(log_of(header, lines))
    assert verdict.found is not None
    assert verdict.found.line == changing + 2
    assert isinstance(verdict.found, Impossible)
    assert any(part.unchanged and part.what == name for part in verdict.found.tried[0].differences)
    lines[changing]["observations"][name] = None
    assert validated(log_of(header, lines[: changing + 1])).sort is Sort.POSSIBLE, "null says that it is not known"


def test_the_initial_state_is_looked_at_too() -> None:
    header = replace(header_for("lru"), initial={"order": (), "used": 0})
    assert validated(log_of(header, [])).sort is Sort.POSSIBLE
    verdict = validated(log_of(replace(header, initial={"used": 1}), []))
    assert isinstance(verdict.found, Impossible)
    assert verdict.found.line == 1
    assert verdict.found.tried[0].differences[0].statement == "used: the specification has 0, the log says 1"


def test_nothing_comes_after_a_call_that_never_returns() -> None:
    header = header_for("lru", "M2")
    run = next(lines for seed in range(300) if (lines := walked(header, 40, seed))[-1]["outcome"]["code"] == "diverged")
    assert validated(log_of(header, run)).sort is Sort.POSSIBLE
    verdict = validated(log_of(header, [*run, run[0]]))
    assert isinstance(verdict.found, Impossible)
    assert verdict.found.line == len(run) + 2
    assert "never returned" in verdict.found.reason


def test_a_difference_in_a_long_array_is_shown_where_it_is() -> None:
    config = {"block_size": 1, "blocks": 5000, "chains": [[0]], "lengths": [1]}
    header = header_for("kv_blocks", config=config)
    free = list(range(5000))
    free[4321] = 7
    verdict = validated(log_of(header, [{"observations": {"free": free}}]))
    assert isinstance(verdict.found, Impossible)
    (part,) = verdict.found.tried[0].differences
    assert "differing from 4,321 on" in part.statement
    assert "4320, 7, 4322" in part.statement
    assert len(part.statement) < 300
