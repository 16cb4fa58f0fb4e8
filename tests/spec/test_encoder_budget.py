"""The encoder budgets: what they are in known cases, and that each property can fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.search.reference import explore
from cachespec.encoder_budget import COMPONENT, Budget, Config, Settings, longest_item
from cachespec.encoder_budget.environment import unknown
from cachespec.encoder_budget.operations import Admit, Configure
from cachespec.encoder_budget.state import settings_of
from cachespec.encoder_budget.transitions import Result, admit, configure, is_enabled, let_in
from cachespec.kernel import DONE, REFUSED, TOO_LARGE, Operation, Transitions

S3 = Config(embeds=(8687,), tokens=(8687,), items=((0, 8687, 8687),), batches=(8192,), constant=16384)
"""The model of #11895's example."""

STEP = Configure(8192, 2, (1,), 0, 1, 0, 0, 1, 0, 0)


def budgets(tag: str, op: Configure = STEP, config: Config = S3) -> tuple[int, int]:
    variant = COMPONENT.variants[tag]
    after, outcome = variant.step(config, variant.start(config), op)
    assert outcome == DONE
    return after.compute, after.space


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("normative", 8687),
        ("B0", 16384),
        ("B1", 2 * 8687),
        ("B2", 2 * 8687),
        ("B3", 8687),
        ("B4", 8687),
        ("B5", 8687),
        ("B6", 8687),
    ],
)
def test_the_formulas_with_the_numbers_of_11895(tag: str, expected: int) -> None:
    assert budgets(tag) == (expected, expected)


def test_one_item_more_is_cut_to_what_there_can_be() -> None:
    small = S3._replace(embeds=(1000,), tokens=(1000,))
    assert budgets("B1", replace(STEP, sequences=256), small) == (10_000, 10_000)
    assert budgets("B1", replace(STEP, sequences=3), small) == (3000, 3000)
    assert budgets("B2", replace(STEP, sequences=3, limits=(2,)), small) == (6000, 6000)


def covered(start: int, tokens: int, chunk: int, alignment: int) -> bool:
    """Whether a step takes the item whole: it begins at the last multiple before it, or anywhere from there on."""
    begin = start // alignment * alignment
    return begin + chunk // alignment * alignment >= start + tokens


@pytest.mark.parametrize("alignment", [1, 2, 3, 4])
@pytest.mark.parametrize("threshold", [0, 3, 5, 8])
def test_the_longest_item_fits_wherever_it_begins_and_no_longer_one_does(threshold: int, alignment: int) -> None:
    """The bound is checked against the chunks themselves, for every place of the item."""
    for batch in range(1, 13):
        settings = Settings(batch_tokens=batch, threshold=threshold, alignment=alignment)
        chunk, longest = min(batch, threshold or batch), longest_item(settings)
        everywhere = [
            all(covered(start, tokens, chunk, alignment) for start in range(3 * alignment)) for tokens in range(1, 14)
        ]
        assert everywhere == [tokens <= longest for tokens in range(1, 14)]


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        (Admit(1), "there is no item 1"),
        (replace(STEP, limits=(1, 1)), "limits must have one number"),
        (replace(STEP, batch_tokens=0), "must be positive"),
        (replace(STEP, whole_items=2), "must be 0 or 1"),
    ],
)
def test_what_no_engine_takes_is_refused_before_it_is_tried(operation: Operation, said: str) -> None:
    assert said in (unknown(S3, operation) or "")
    assert unknown(S3, STEP) is None


# Planted bugs -------------------------------------------------------------------------------------------------------


def less(config: Config, budget: Budget, op: Configure) -> Result:
    """A budget of one less."""
    after, outcome = configure(config, budget, op)
    return (after._replace(space=max(0, after.space - 1)), outcome) if outcome == DONE else (after, outcome)


def more(config: Config, budget: Budget, op: Configure) -> Result:
    """A budget of one more."""
    after, outcome = configure(config, budget, op)
    return after._replace(compute=after.compute + 1) if after.compute else after, outcome


def always(config: Config, budget: Budget, op: Configure) -> Result:
    """A cache for nothing."""
    after, outcome = configure(config, budget, op)
    return after._replace(compute=max(1, after.compute), space=max(1, after.space)), outcome


def falling(config: Config, budget: Budget, op: Configure) -> Result:
    """A large step has a small budget."""
    after, outcome = configure(config, budget, op)
    return after._replace(compute=min(after.compute, 3)) if op.batch_tokens > 5 else after, outcome


def never(config: Config, budget: Budget, op: Admit) -> Result:
    """Everything is too large."""
    return budget, TOO_LARGE


def everything(config: Config, budget: Budget, op: Admit) -> Result:
    """Whatever is on."""
    modality, embeds, _ = config.items[op.item]
    if budget.configured == 0 or not is_enabled(budget.settings, modality):
        return budget, REFUSED
    return let_in(budget, op, embeds), DONE


def whole_without_a_look(config: Config, budget: Budget, op: Admit) -> Result:
    """An item that may not be split is held against the budgets only."""
    after, outcome = admit(config, budget, op)
    _, embeds, _ = config.items[op.item]
    fits = outcome == TOO_LARGE and embeds <= min(budget.compute, budget.space)
    return (let_in(budget, op, embeds), DONE) if fits else (after, outcome)


def let_in_by_word(config: Config, budget: Budget, op: Admit) -> Result:
    """Says that the item is queued, and leaves it."""
    return budget, admit(config, budget, op)[1]


def just_enough(config: Config, budget: Budget, op: Configure) -> Result:
    """Whatever was asked for, a budget is the largest item."""
    after, outcome = configure(config, budget, op)
    return after._replace(compute=after.largest), outcome


def start_anyway(config: Config, budget: Budget, op: Configure) -> Result:
    """An engine that could never schedule its items starts, as if they could be split."""
    after, outcome = configure(config, budget, op)
    return (budget, DONE) if outcome == REFUSED else (after, outcome)


PLANTED: tuple[tuple[str, str, Transitions[Config, Budget]], ...] = (
    ("BUD-1", "settings", {Configure: less}),
    ("BUD-1/least", "settings", {Configure: more}),
    ("BUD-2", "settings", {Configure: always}),
    ("BUD-1/profile", "settings", {Configure: less}),
    ("BUD-3", "settings", {Admit: everything}),
    ("BUD-3/reason", "settings", {Admit: never}),
    ("BUD-4", "items-in-one-piece", {Admit: whole_without_a_look}),
    ("BUD-5", "settings", {Configure: falling}),
    ("BUD-3/answered", "settings", {Admit: let_in_by_word}),
    ("BUD-1/asked", "settings", {Configure: just_enough}),
    ("BUD-4/start", "items-in-one-piece", {Configure: start_anyway}),
)


@pytest.mark.parametrize(("name", "scope", "transitions"), PLANTED, ids=[name for name, _, _ in PLANTED])
def test_a_planted_bug_breaks_the_property(name: str, scope: str, transitions: Transitions[Config, Budget]) -> None:
    config = scope_named(component_named("encoder_budget"), scope).config
    normative = COMPONENT.normative
    wrong = replace(normative, transitions={**normative.transitions, **transitions})
    found = explore(COMPONENT, wrong, config, Plan(until=frozenset({name})))
    assert name in [violation.property for violation in found.violations]


def test_every_property_has_a_bug() -> None:
    assert {name for name, _, _ in PLANTED} == {one.name for one in COMPONENT.properties()}


def test_settings_are_kept_as_they_were_asked_for() -> None:
    kept = settings_of(STEP)
    assert {name: getattr(STEP, name) for name in kept._fields} == kept._asdict()
