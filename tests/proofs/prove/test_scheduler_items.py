"""What is proved of the items of a plan says what the specification says, and fails on a bug that is made for it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types
from tests.proofs.prove.bugs.scheduler_items import OF_COMPUTED_TOKENS, OF_PASSES, OF_ROUNDS
from tests.proofs.prove.planted import Bug, assert_refuted, claims_without_a_bug, identified
from tests.proofs.prove.test_scheduler_life import reached

from cacheproof.prove.executor import Path, SymbolicBoolean, boolean_term, following
from cacheproof.prove.proof import Move, Proof, lifted
from cacheproof.prove.scheduler.begun import BEGUN
from cacheproof.prove.scheduler.entries import Entries, is_item, is_read, with_one
from cacheproof.prove.scheduler.inputs import INPUTS, begun_inside_is_read, is_encoded_once, was_not_held
from cacheproof.prove.scheduler.lists import Listed
from cacheproof.prove.scheduler.passes import PASSES, are_new, are_read, no_item_is_cut, runs_encoder_first
from cacheproof.prove.scheduler.values import SMALL
from cacheproof.prove.solvers import satisfiable
from cachespec.kernel import DONE, FROZEN
from cachespec.scheduler import COMPONENT, NORMATIVE_SCHEDULER
from cachespec.scheduler.operations import Schedule
from cachespec.scheduler.round_state import Fit
from cachespec.scheduler.state import Plan, Scheduled, State

TWO_ITEMS = SMALL._replace(items=(((0, 0, 1), (1, 1, 2)), ((1, 0, 2),)), encoder_capacity=3, encoder_compute=3)
CROSS = SMALL._replace(items=(((0, 0, 1), (1, 0, 2)), ((1, 0, 2),)), encoder_decoder=1, encoder_capacity=5,
                       encoder_compute=5, prefix_caching=0)  # fmt: skip
RULES: dict[str, Any] = {rule.name: rule for rule in COMPONENT.properties()}


def is_true(formula: Any, path: Path) -> bool:
    """Whether the formula follows from what the path assumes."""
    return not satisfiable((*path.assumptions, z3.Not(boolean_term(formula))))


def with_needed(config: Any, entries: Entries, plan: Plan) -> Entries:
    """With what the parts of the plan touch, as the formulas say it."""
    for part in plan.scheduled:
        for index in range(3):
            numbers = [z3.IntVal(number) for number in (part.request, index, part.start, part.start + part.tokens)]
            touched = z3.simplify(z3.And(is_item(config, *numbers[:2]), is_read(config, *numbers)))
            if z3.is_true(touched):
                entries = replace(entries, needed=with_one(entries.needed, *numbers[:2]))
    return entries


def emptied(state: State) -> State:
    """The state without an entry in its encoder cache."""
    return state._replace(encoder=state.encoder._replace(sizes=FROZEN.map()))


@pytest.mark.parametrize("config", [TWO_ITEMS, CROSS], ids=["items", "encoder-decoder"])
def test_the_law_of_items_is_the_property(config: Any) -> None:
    answers = set()
    (law,) = (one for one in INPUTS.laws if one.name == "SCH-3")
    for before, operation, outcome, after in reached(config, 30):
        if not isinstance(operation, Schedule) or len(after.plans) == len(before.plans):
            continue
        for other in (after, emptied(after)):
            views = [NORMATIVE_SCHEDULER.view(config, state) for state in (before, other)]
            expected = bool(RULES["SCH-3"].holds(config, views[0], operation, outcome, views[1]))
            with following(Path()) as path:
                known = INPUTS.lift(INPUTS.config, config)
                first, last = (lifted(INPUTS, known, state) for state in (before, other))
                last = last._replace(encoder=with_needed(known, last.encoder, after.plans[-1]))
                assert is_true(law.then(Move(known, first, operation, outcome, last)), path) == expected
            answers.add(expected)
    assert answers == {True, False}


def test_a_chunk_that_cuts_an_item_is_the_property() -> None:
    answers = set()
    (view,) = (NORMATIVE_SCHEDULER.view(TWO_ITEMS, NORMATIVE_SCHEDULER.initial(TWO_ITEMS, FROZEN)),)
    for whole, start, tokens in product((0, 1), range(4), range(1, 4)):
        config = TWO_ITEMS._replace(whole_items=whole)
        part = Scheduled(0, start, tokens, 0, 0, (), ())
        expected = RULES["SCH-3/whole"].holds(config, view._replace(plans=(Plan((part,), (), (), ()),)))
        with following(Path()) as path:
            known = INPUTS.lift(INPUTS.config, config)
            said = is_true(no_item_is_cut(known, z3.IntVal(0), z3.IntVal(2), start, tokens), path)
        assert said == expected, (whole, start, tokens)
        answers.add(said)
    assert answers == {True, False}


LISTS = ((), (0,), (1,), (0, 1), (1, 0))
"""Items that a part encodes or reads."""


@pytest.mark.parametrize("config", [TWO_ITEMS, CROSS], ids=["items", "encoder-decoder"])
@pytest.mark.parametrize("held", [(), (1,)], ids=str)
def test_what_a_plan_names_is_the_property(config: Any, held: tuple[int, ...]) -> None:
    answers: dict[str, set[bool]] = {"SCH-3/named": set(), "SCH-3/first": set()}
    state = NORMATIVE_SCHEDULER.initial(config, FROZEN)
    pairs = state.encoder.held
    for index in held:
        pairs = pairs.set((0, index), 1)
    before = NORMATIVE_SCHEDULER.view(config, state._replace(encoder=state.encoder._replace(held=pairs)))
    for encode, relies, (start, tokens) in product(LISTS, LISTS[2:], ((0, 3), (3, 1))):
        part = Scheduled(0, start, tokens, 0, 0, encode, relies)
        after = before._replace(plans=(Plan((part,), (), (), ()),))
        said = named_as_claimed(config, held, part)
        for name, holds in said.items():
            assert holds == bool(RULES[name].holds(config, before, Schedule(), DONE, after)), (name, part)
            answers[name].add(holds)
    assert answers["SCH-3/named"] == {True, False}
    assert answers["SCH-3/first"] == ({True, False} if config.encoder_decoder else {True})


def named_as_claimed(config: Any, held: tuple[int, ...], part: Scheduled) -> dict[str, bool]:
    """Whether the formulas hold of the part of a request that has held these items."""
    with following(Path()) as path:
        known, entries, number = INPUTS.lift(INPUTS.config, config), Entries.empty(3), z3.IntVal(2)
        for index in held:
            entries = replace(entries, pairs=with_one(entries.pairs, z3.IntVal(0), z3.IntVal(index)))
        fit = Fit(entries, FROZEN.map(), part.tokens, 0, 0, part.encode, (), part.relies, 0, 0)  # type: ignore[arg-type]  # a stand-in
        encode = Listed.of(known, z3.IntVal(0), part.encode)
        listed = z3_and(*(claim for _, claim in are_read(known, z3.IntVal(0), fit, part.start, number)))
        new = was_not_held(entries, z3.IntVal(0), encode.has)
        first = z3_and(*(claim for _, claim in runs_encoder_first(known, z3.IntVal(0), fit, part.start, number)))
        ascends = z3_and(z3.Or(z3.Not(z3.BoolVal(config.encoder_decoder == 1)), encode.ascends()))
        return {
            "SCH-3/named": is_true(listed & new, path),
            "SCH-3/first": is_true(first & ascends, path),
        }


def test_what_is_claimed_of_a_chunk_inside_of_an_item_is_the_property() -> None:
    """The proof claims more: that every item which the chunk touches is resident."""
    answers = set()
    (law,) = (one for one in INPUTS.laws if one.name == "X-2")
    before = NORMATIVE_SCHEDULER.initial(TWO_ITEMS, FROZEN)
    for start, tokens, resident in product(range(4), range(3), ((), (0,), (1,), (0, 1))):
        part = Scheduled(0, start, tokens, 0, 0, (), ())
        sizes = before.encoder.sizes
        for content in resident:
            sizes = sizes.set(content, 1)
        after = before._replace(encoder=before.encoder._replace(sizes=sizes), plans=(Plan((part,), (), (), ()),))
        views = [NORMATIVE_SCHEDULER.view(TWO_ITEMS, state) for state in (before, after)]
        expected = bool(RULES["X-2"].holds(TWO_ITEMS, views[0], Schedule(), DONE, views[1]))
        with following(Path()) as path:
            known = INPUTS.lift(INPUTS.config, TWO_ITEMS)
            first, last = (lifted(INPUTS, known, state) for state in (before, after))
            last = last._replace(encoder=with_needed(known, last.encoder, after.plans[-1]))
            said = is_true(begun_inside_is_read(known, part), path) and tokens > 0
            said = said and is_true(law.then(Move(known, first, Schedule(), DONE, last)), path)
        assert expected or not said, (part, resident)
        answers.add((said, expected))
    assert {(True, True), (False, False)} <= answers


ENCODED = [((), ()), ((0,), ()), ((0, 1), ()), ((0,), (0,)), ((1,), (0,)), ((0, 1), (0,)), ((0, 0), ())]


@pytest.mark.parametrize("config", [TWO_ITEMS, CROSS], ids=["items", "encoder-decoder"])
@pytest.mark.parametrize("encoded", ENCODED, ids=str)
def test_what_is_encoded_once_is_the_property(config: Any, encoded: tuple[tuple[int, ...], ...]) -> None:
    plan = Plan(tuple(Scheduled(r, 0, 1, 0, 0, encode, encode) for r, encode in enumerate(encoded)), (), (), ())
    view = NORMATIVE_SCHEDULER.view(config, NORMATIVE_SCHEDULER.initial(config, FROZEN))
    arguments = (view, Schedule(), DONE, view._replace(plans=(plan,)))
    expected = bool(RULES["SCH-4/once"].holds(config, *arguments))
    with following(Path()) as path:
        known, entries, said = INPUTS.lift(INPUTS.config, config), Entries.empty(3), True
        for request, encode in enumerate(encoded):
            fit = Fit(entries, FROZEN.map(), 1, 0, 0, encode, (), (), 0, 0)  # type: ignore[arg-type]  # a stand-in
            (once,) = (claim for _, claim in are_new(known, z3.IntVal(request), entries, fit) if "later" in str(claim))
            new = contents_of(config, request, encode)
            said &= is_true(z3_and(once) & is_encoded_once(known, entries, new), path)
            entries = replace(entries, encoded=z3.simplify(z3.Map(z3.Or(True, False).decl(), entries.encoded, new)))
    assert said == expected


def contents_of(config: Any, request: int, indices: tuple[int, ...]) -> Any:
    """The contents of these items of the request."""
    contents: Any = z3.K(z3.IntSort(), z3.BoolVal(False))
    for index in indices:
        contents = z3.Store(contents, config.items[request][index][0], z3.BoolVal(True))
    return contents


@pytest.mark.parametrize("listed", [(), (0,), (1,), (0, 1)])
def test_a_list_obeys_its_laws(listed: tuple[int, ...]) -> None:
    with following(Path()) as path:
        known = INPUTS.lift(INPUTS.config, TWO_ITEMS)
        one = Listed.of(known, z3.IntVal(0), listed)
        assert is_true(z3_and(*one.laws(), *one.laws_of_room(), one.ascends()), path)
        for index in (0, 1):
            assert is_true(z3_and(one.has(z3.IntVal(index))), path) == (index in listed)
            assert is_true(z3_and(one.has_content(z3.IntVal(index))), path) == (index in listed)
        assert is_true(z3_and(one.total == sum((1, 2)[index] for index in listed)), path)


def z3_and(*formulas: Any) -> Any:
    """All of them, as a condition."""
    return SymbolicBoolean(z3.And(*formulas))


def test_each_claim_has_the_statement_of_its_property() -> None:
    claims = {law.name: law.statement for proof in (PASSES, INPUTS) for law in proof.laws if law.name in RULES}
    assert set(claims) == {"SCH-3", "SCH-3/first", "SCH-3/named", "SCH-3/whole", "SCH-4/once", "X-2"}
    assert {name: RULES[name].statement for name in claims} == claims


@pytest.mark.parametrize("bug", OF_PASSES, ids=identified)
def test_a_planted_bug_of_a_pass_is_refuted(bug: Bug) -> None:
    assert_refuted(PASSES, bug)


@pytest.mark.parametrize(
    ("proof", "bug"),
    [*((INPUTS, bug) for bug in OF_ROUNDS), *((BEGUN, bug) for bug in OF_COMPUTED_TOKENS)],
    ids=lambda value: identified(value) if isinstance(value, Bug) else "",
)
def test_a_planted_bug_of_a_round_is_refuted(proof: Proof, bug: Bug) -> None:
    assert_refuted(proof, bug)


def test_every_claim_has_a_bug() -> None:
    assert not claims_without_a_bug(PASSES, OF_PASSES)
    assert not claims_without_a_bug(INPUTS, OF_ROUNDS)
    assert not claims_without_a_bug(BEGUN, OF_COMPUTED_TOKENS)
