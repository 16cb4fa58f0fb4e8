"""What is proved of the requests of a scheduler says what the specification says, and fails on a bug made for it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types
from tests.proofs.prove.bugs.scheduler import BUGS
from tests.proofs.prove.planted import Bug, assert_refuted, claims_without_a_bug, identified
from tests.proofs.prove.test_formulas import says

from cacheproof.prove.executor import Path, boolean_term, following, integer_term
from cacheproof.prove.proof import Move, lifted
from cacheproof.prove.scheduler.life import INVARIANTS
from cacheproof.prove.scheduler.pins import PINS
from cacheproof.prove.scheduler.queues import Flight, Members, SymbolicLine
from cacheproof.prove.scheduler.requests import LIFE
from cacheproof.prove.scheduler.rounds import claims_of_part
from cacheproof.prove.scheduler.settings import ended_length, final_length, is_turn, number_of_later_turns
from cacheproof.prove.scheduler.values import SMALL
from cacheproof.prove.solvers import satisfiable
from cachespec.kernel import FROZEN, Code, Operation
from cachespec.scheduler import COMPONENT, NORMATIVE_SCHEDULER, configuration, lines, parts, rounds, work
from cachespec.scheduler.operations import Abort, Schedule
from cachespec.scheduler.state import State

ONE_ALONE = SMALL._replace(max_running=1, ahead=2, drafts=1)
SESSION = SMALL._replace(
    items=(), grammars=(), prompts=(1, 4), outputs=(2, 1), turns=(0, 1), max_model_len=6, prefix_caching=0
)
STEPS_OF_PARTS = (
    "SCH-2/next",
    "SCH-2/known",
    "SCH-2/drafts",
    "SCH-2/samples",
    "SCH-2/awaited",
    "SCH-1/threshold",
    "SCH-1/uncut",
)


def reached(config: Any, most: int = 60) -> Iterator[tuple[State, Operation, Any, State]]:
    """Steps of the scheduler, breadth first."""
    start = NORMATIVE_SCHEDULER.initial(config, FROZEN)
    seen, waiting = {start}, [start]
    while waiting and len(seen) < most:
        state = waiting.pop(0)
        for operation in NORMATIVE_SCHEDULER.alphabet(config, state):
            after, outcome = NORMATIVE_SCHEDULER.step(config, state, operation)
            yield state, operation, outcome, after
            if after not in seen:
                seen.add(after)
                waiting.append(after)


def disturbed(state: State) -> Iterator[State]:
    """The state, and states in which something of one request is wrong."""
    yield state
    request = (*state.running, *state.waiting, 0)[0]
    yield state._replace(waiting=(*state.waiting, request))
    yield state._replace(running=(), waiting=(*state.running, *state.waiting), computed=FROZEN.map())
    yield state._replace(running=(*state.running, *state.waiting), waiting=())
    for part, value in (("produced", 2), ("proposed", 3), ("compiling", 1), ("gone", 1), ("queued", 1)):
        yield state._replace(**{part: getattr(state, part).set(request, value)})


OF_ANSWERS = ("SCH-1/answered", "SCH-2/least", "SCH-6/named")
NEVER_TRIVIAL = (*OF_ANSWERS, "SCH-2/output", "SCH-2/offered", "X-1")
RULES: tuple[Any, ...] = (*COMPONENT.steps, *COMPONENT.safety)
NAMED = [one.name for one in INVARIANTS if one.name in {rule.name for rule in COMPONENT.safety}]


@pytest.mark.parametrize("name", NAMED)
def test_the_formula_is_the_property(name: str) -> None:
    (rule,) = (one for one in COMPONENT.safety if one.name == name)
    answers = set()
    for config in (ONE_ALONE, SESSION):
        states = {after for _, _, _, after in reached(config, 25)}
        for state in (one for each in states for one in disturbed(each)):
            expected = rule.holds(config, NORMATIVE_SCHEDULER.view(config, state))
            assert says(LIFE, name, config, state) == expected, (name, state)
            answers.add(expected)
    assert answers == {True, False}


def test_each_claim_has_the_statement_of_its_property() -> None:
    rules: tuple[Any, ...] = tuple(COMPONENT.properties())
    said = {rule.name: rule.statement for rule in rules}
    made: tuple[Any, ...] = (*LIFE.invariants, *LIFE.laws)
    claims = {one.name: one.statement for one in made if one.name in said}
    assert len(claims) > 25
    assert {name: said[name] for name in claims} == claims


def as_terms(config: Any, step: tuple[State, Operation, Any, State]) -> Move:
    """A concrete step, as laws see it."""
    before, operation, outcome, after = step
    known = LIFE.lift(LIFE.config, config)
    first, last = lifted(LIFE, known, before), lifted(LIFE, known, after)
    if isinstance(operation, Schedule) and len(after.plans) > len(before.plans):
        plan = after.plans[-1]
        names: dict[str, Any] = {name: members(getattr(plan, name)) for name in ("scheduled", "finished", "preempted")}
        last = last._replace(plans=replace(last.plans, newest=plan._replace(**names)))
    return Move(known, first, LIFE.lift(type(operation), operation), outcome, last)


def members(several: Any) -> Members:
    """The requests of a tuple of requests or of parts."""
    found = Members.of(())
    for one in several:
        found = found.joined(one)
    return found


@pytest.mark.parametrize(
    "law", [one for one in LIFE.laws if one.name not in {"SCH-2", *STEPS_OF_PARTS}], ids=lambda one: one.name
)
def test_the_law_is_the_property(law: Any) -> None:
    (rule,) = (one for one in RULES if one.name == law.name)
    answers = set()
    for config in (ONE_ALONE, SESSION):
        for before, operation, outcome, after in reached(config, 20):
            if type(operation) not in law.operations:
                continue
            for code, other in ((outcome.code, one) for one in disturbed(after)):
                step = (before, operation, outcome._replace(code=code), other)
                answers.add(assert_alike(config, law, rule, step))
            answers.add(assert_alike(config, law, rule, (before, operation, outcome._replace(code=Code.FAILED), after)))
            if law.name in OF_ANSWERS:
                longer = outcome._replace(values=(*outcome.values, 0))
                answers.add(assert_alike(config, law, rule, (before, operation, longer, after)))
    assert True in answers
    assert False in answers or law.name not in NEVER_TRIVIAL


def assert_alike(config: Any, law: Any, rule: Any, step: Any) -> bool:
    """The law holds of the step exactly if the property does."""
    before, operation, outcome, after = step
    views = [NORMATIVE_SCHEDULER.view(config, state) for state in (before, after)]
    expected: bool
    if rule in COMPONENT.safety:  # of the new plan alone
        new = views[1].plans[len(views[0].plans) :]
        expected = rule.holds(config, views[1]._replace(plans=new))
    else:
        expected = bool(rule.holds(config, views[0], operation, outcome, views[1]))
    with following(Path()) as path:
        move = as_terms(config, step)
        if isinstance(operation, Abort):
            turns = number_of_later_turns(move.config, z3.IntVal(operation.request))
            path.assume(turns == len(configuration.later_turns(config, operation.request)))
        formula = boolean_term(law.then(move))
        demands = [one.formula for one in path.demands]
        said = not satisfiable((*path.assumptions, z3.Not(z3.And(formula, *demands))))
    assert said == expected, (law.name, step)
    return expected


def test_what_is_claimed_of_a_part_is_the_property() -> None:
    rules = {rule.name: rule for rule in RULES}
    answers: dict[str, set[bool]] = {}
    for config in (
        ONE_ALONE,
        SMALL._replace(chunked_prefill=0, long_prefill_threshold=3),
        SMALL._replace(ahead=2, pipelined=1),
    ):
        for before, operation, outcome, after in reached(config, 30):
            if not isinstance(operation, Schedule) or len(after.plans) == len(before.plans):
                continue
            for plan in other_plans(after.plans[-1]):
                state = after._replace(plans=(*after.plans[:-1], plan))
                views = [NORMATIVE_SCHEDULER.view(config, one) for one in (before, state)]
                said = claimed(config, before, plan)
                for name in said:
                    arguments = (views[1],) if name == "SCH-2" else (views[0], operation, outcome, views[1])
                    expected = bool(rules[name].holds(config, *arguments))
                    if name in ("SCH-2", "SCH-1/threshold"):  # of all plans in flight; a lone request may have more
                        assert expected or not said[name], (name, before, plan)
                    else:
                        assert said[name] == expected, (name, before, plan)
                    answers.setdefault(name, set()).add(said[name])
    assert set(answers) == {"SCH-2", *STEPS_OF_PARTS}
    assert all(found == {True, False} for name, found in answers.items()), answers


def other_plans(plan: Any) -> Iterator[Any]:
    """The plan, and plans in which one number of a part is wrong, or a part is there twice."""
    yield plan
    for place, part in enumerate(plan.scheduled):
        for name, more in (
            ("tokens", 1),
            ("tokens", 5),
            ("start", 1),
            ("drafts", 1),
            ("samples", 1 - 2 * part.samples),
        ):
            changed = part._replace(**{name: getattr(part, name) + more})
            yield plan._replace(scheduled=(*plan.scheduled[:place], changed, *plan.scheduled[place + 1 :]))
        yield plan._replace(scheduled=(*plan.scheduled, part))


def claimed(config: Any, before: State, plan: Any) -> dict[str, bool]:
    """What the proof claims of all parts of the plan, one after the other."""
    said: dict[str, bool] = {}
    with following(Path()) as path:
        known = LIFE.lift(LIFE.config, config)
        first, named, tokens = lifted(LIFE, known, before), Members.of(()), config.token_budget
        for part in plan.scheduled:
            for name, condition in claims_of_part(known, first, named, tokens, part):
                holds = not satisfiable((*path.assumptions, z3.Not(boolean_term(condition))))
                said[name] = said.get(name, True) and holds
            named, tokens = named.joined(part), tokens - part.tokens
    return said


# Stand-ins ----------------------------------------------------------------------------------------------------------

LINES = [(), (1,), (0, 2), (2, 0, 1), (1, 1, 0)]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("request_", [0, 1, 2])
def test_lines_obey_the_laws_of_lines(line: tuple[int, ...], request_: int) -> None:
    config = SMALL._replace(prompts=(1, 1, 1))
    cases: tuple[tuple[Any, tuple[int, ...]], ...] = (
        (lambda one: one.without(request_), lines.left_out(line, request_)),
        (lambda one: one.added(request_), lines.placed(config, line, request_)),
        (lambda one: one.added(request_), lines.in_front(config, line, request_)),
        (lambda one: one.reordered(), tuple(reversed(line))),
    )
    for symbolic, real in cases:
        with following(Path()) as path:
            found = symbolic(SymbolicLine.of(line))
            told = z3.And(
                found.length == len(real),
                *(found.items[place] == other for place, other in enumerate(real)),
            )
            counts = z3.And(*(found.counts[other] == real.count(other) for other in range(3)))
            assert satisfiable((*path.assumptions, told)), "the real line is one of those that are allowed"
            assert not satisfiable((*path.assumptions, z3.Not(counts)))


def test_void_parts_do_not_count() -> None:
    seen = 0
    for _, _, _, state in reached(ONE_ALONE, 40):
        for request in (0, 1) if state.plans else ():
            real = rounds.voided(state, request)
            with following(Path()) as path:
                found, wanted = (flight(one) for one in (state, real))
                found = found.without(request)
                same = [found.counted[other] == wanted.counted[other] for other in (0, 1)]
                same += [found.promised[other] == wanted.promised[other] for other in (0, 1)]
                same += [
                    found.oldest.items[place] == wanted.oldest.items[place]
                    for place in range(len(real.plans[0].scheduled))
                ]
                assert not satisfiable((*path.assumptions, z3.Not(z3.And(*same))))
                seen += 1
    assert seen > 20


def flight(state: State) -> Flight:
    """The plans of a state as terms."""
    lifted_state: Any = LIFE.lift(State, state)
    plans: Flight = lifted_state.plans
    return plans


def test_settings_without_forks_are_the_settings() -> None:
    config = SMALL._replace(
        prompts=(1, 4, 7), outputs=(2, 9, 3), stops=(1, 0, 3), min_tokens=(2, 0, 1), turns=(0, 1, 0)
    )
    for one in (config, config._replace(stops=(), min_tokens=(), turns=())):
        with following(Path()):
            known = LIFE.lift(LIFE.config, one)
            for request in range(3):
                assert number(final_length(known, request)) == configuration.final_length(one, request)
                assert number(ended_length(known, request)) == configuration.ended_length(one, request)
                assert z3.is_true(z3.simplify(is_turn(known, request).term)) == configuration.is_turn(one, request)


def number(value: Any) -> int:
    """The number that a term of constants is."""
    return int(z3.simplify(integer_term(value)).as_long())


def test_what_the_workers_do_changes_the_worker_alone() -> None:
    """So the stand-ins for it may return the state as it is."""
    changed = {
        keyword.arg
        for node in ast.walk(ast.parse(inspect.getsource(work)))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "state._replace"
        for keyword in node.keywords
    }
    assert changed == {"worker"}


# Bugs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bug", BUGS, ids=identified)
def test_a_planted_bug_is_refuted(bug: Bug) -> None:
    assert_refuted(LIFE, bug)


def test_every_claim_has_a_bug() -> None:
    """The bug for SCH-1/running is one of admission (`is_full`): it is refuted in the loop that admits."""
    assert claims_without_a_bug(LIFE, BUGS) == {"SCH-1/running"}
    assert rounds.is_full in {bug.function for bug in BUGS if bug.refuted == "loops/schedule"}


def test_an_encoder_pass_that_pins_for_another_request_is_refuted() -> None:
    bug = Bug(
        parts.look_up, "CheckAndUpdate($request, $index)", "CheckAndUpdate($request + 1, $index)", "loops/schedule"
    )
    assert_refuted(PINS, bug)
    bug = Bug(parts.take, "Allocate($request, $index)", "Allocate($request + 1, $index)", "loops/schedule")
    assert_refuted(PINS, bug)
