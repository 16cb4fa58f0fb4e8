"""The encoder budgets, for any number of modalities, any sizes, any settings, and any number of items."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import states
from cacheproof.prove.containers import every
from cacheproof.prove.executor import SymbolicBoolean, Term, assume, both, implies, integer, integer_term
from cacheproof.prove.loops import Locals, Loop, modules_of
from cacheproof.prove.proof import Invariant, Law, Move, Proof
from cacheproof.prove.sequences import length
from cacheproof.prove.shapes import INTEGER
from cacheproof.prove.states import unchanged_but
from cachespec import encoder_budget
from cachespec.encoder_budget import eras, transitions
from cachespec.encoder_budget.configuration import Config
from cachespec.encoder_budget.operations import Admit, Configure
from cachespec.encoder_budget.state import Settings
from cachespec.encoder_budget.transitions import asked_compute, asked_space
from cachespec.kernel import Code, Variant

Budget = Any
Sizes = Callable[[Any], Any]
"""The sizes of a configuration that a formula counts: in embeddings, or in tokens."""

NORMATIVE = encoder_budget.COMPONENT.normative


def in_embeddings(config: Any) -> Any:
    """The embeddings that the encoder computes."""
    return config.embeds


def in_tokens(config: Any) -> Any:
    """The positions of the item in the prompt."""
    return config.tokens


# Formulas over all modalities ---------------------------------------------------------------------------------------


def is_a_modality(sizes: Any, modality: Term, before: Term) -> Term:
    """A position of the tuple, before another one."""
    return z3.And(modality >= 0, modality < before, modality < sizes.length)


def is_on(settings: Any, modality: Term) -> Term:
    """`is_enabled`, as a term."""
    return z3.Or(settings.limits.items[modality] > 0, integer_term(settings.embeddings) > 0)


def at_most(sizes: Any, settings: Any, bound: Any, before: Any) -> SymbolicBoolean:
    """No item of a modality that is on is larger than the bound."""
    limit, end = integer_term(bound), integer_term(before)

    def small(modality: Term) -> Term:
        counts = z3.And(is_a_modality(sizes, modality, end), is_on(settings, modality))
        return z3.Implies(counts, sizes.items[modality] <= limit)

    return SymbolicBoolean(every(INTEGER, small))


def attained(sizes: Any, settings: Any, largest: Any, before: Any) -> SymbolicBoolean:
    """0, or the size of a modality that is on."""
    size, end = integer_term(largest), integer_term(before)
    modality = z3.Int("attaining")
    there = z3.And(is_a_modality(sizes, modality, end), is_on(settings, modality), sizes.items[modality] == size)
    return SymbolicBoolean(z3.Or(size == 0, z3.Exists([modality], there)))


def is_largest(sizes: Any, settings: Any, largest: Any, before: Any) -> SymbolicBoolean:
    """The largest item of the modalities that are on, before a position."""
    bounded = at_most(sizes, settings, largest, before)
    return both(largest >= 0, bounded, attained(sizes, settings, largest, before))


# Invariants ---------------------------------------------------------------------------------------------------------


def when_configured(budget: Budget, condition: Any) -> SymbolicBoolean:
    """There is an engine, or all is 0."""
    nothing = both(budget.compute == 0, budget.space == 0, budget.largest == 0, budget.admitted.length == 0)
    return both(
        (budget.configured == 0) | (budget.configured == 1), implies(budget.configured == 0, nothing)
    ) & implies(budget.configured == 1, condition)


def takes_the_largest(config: Any, budget: Budget) -> SymbolicBoolean:
    """BUD-1."""
    end = length(config.embeds)
    compute = at_most(config.embeds, budget.settings, budget.compute, end)
    return when_configured(budget, both(compute, at_most(config.embeds, budget.settings, budget.space, end)))


def largest_is_largest(sizes: Sizes) -> Callable[[Any, Budget], SymbolicBoolean]:
    """The operands of the formula."""

    def holds(config: Any, budget: Budget) -> SymbolicBoolean:
        counted = sizes(config)
        return when_configured(budget, is_largest(counted, budget.settings, budget.largest, length(counted)))

    return holds


def is_what_was_asked_or_the_largest(config: Any, budget: Budget) -> SymbolicBoolean:
    """BUD-1/least, and half of BUD-2."""
    compute, space = asked_compute(budget.settings), asked_space(budget.settings)
    return when_configured(
        budget,
        both(
            implies(budget.largest == 0, both(budget.compute == 0, budget.space == 0)),
            implies(budget.largest > 0, is_maximum(budget.compute, compute, budget.largest)),
            implies(budget.largest > 0, is_maximum(budget.space, space, budget.largest)),
        ),
    )


def is_maximum(value: Any, one: Any, other: Any) -> SymbolicBoolean:
    """The larger of the two."""
    return both(value >= one, value >= other, (value == one) | (value == other))


def zero_exactly_where_all_is_off(config: Any, budget: Budget) -> SymbolicBoolean:
    """BUD-2."""
    sizes, settings = config.embeds, budget.settings
    modality = z3.Int("on")
    end = integer_term(length(sizes))
    there = z3.Exists([modality], z3.And(is_a_modality(sizes, modality, end), is_on(settings, modality)))
    on = SymbolicBoolean(there)
    positive = both(budget.compute > 0, budget.space > 0)
    return when_configured(
        budget, both(implies(on, positive), implies(~on, both(budget.compute == 0, budget.space == 0)))
    )


def admitted_fits(part: int, bound: Callable[[Budget], Any]) -> Callable[[Any, Budget], SymbolicBoolean]:
    """A size of every item that was let in is within a bound."""

    def holds(config: Any, budget: Budget) -> SymbolicBoolean:
        limit = integer_term(bound(budget))

        def small(item: Term) -> Term:
            triple = config.items.items[item]
            return z3.Implies(budget.admitted.members[item], triple.sort().accessor(0, part)(triple) <= limit)

        return SymbolicBoolean(every(INTEGER, small))

    return holds


def whole_items_fit(config: Any, budget: Budget) -> SymbolicBoolean:
    """BUD-4: the bound itself is computed when the engine starts."""
    splits = both(budget.settings.chunked_prefill > 0, budget.settings.whole_items == 0)
    return splits | admitted_fits(2, lambda one: one.longest)(config, budget)


BUD_1 = "each budget takes the largest item of every modality that is enabled"

INVARIANTS = (
    Invariant("BUD-1", BUD_1, takes_the_largest),
    Invariant(
        "largest", "what the formula counts is the largest item that is enabled", largest_is_largest(in_embeddings)
    ),
    Invariant(
        "BUD-1/least",
        "each budget is what was asked for, or the largest item if that is more",
        is_what_was_asked_or_the_largest,
    ),
    Invariant(
        "BUD-2", "both encoder budgets are 0 if and only if no modality is enabled", zero_exactly_where_all_is_off
    ),
    Invariant(
        "BUD-3/compute",
        "no item is queued that is larger than the compute budget",
        admitted_fits(1, lambda one: one.compute),
    ),
    Invariant(
        "BUD-3/space", "no item is queued that is larger than the space", admitted_fits(1, lambda one: one.space)
    ),
    Invariant(
        "BUD-4", "where items may not be split, none is queued that is longer than a chunk takes", whole_items_fit
    ),
)


# Laws ---------------------------------------------------------------------------------------------------------------


def differs_in_batch_only(move: Move) -> SymbolicBoolean:
    """The engine is valid; the next engine has more tokens in a step, and the same settings otherwise."""
    before, op = move.before.settings, move.operation
    same = [
        getattr(before, name) == getattr(op, name)
        for name in Settings._fields
        if name not in ("batch_tokens", "limits")
    ]
    limits = before.limits.same_as(op.limits)
    started = both(move.before.configured == 1, move.outcome.code is Code.DONE)
    return both(started, limits, before.batch_tokens <= op.batch_tokens, *same)


def budgets_grow(move: Move) -> SymbolicBoolean:
    """BUD-5."""
    return both(move.after.compute >= move.before.compute, move.after.space >= move.before.space)


BUD_5 = Law(
    "BUD-5", "more tokens in a step never make a budget smaller", (Configure,), budgets_grow, differs_in_batch_only
)

LAWS = (
    BUD_5,
    Law(
        "refused",
        "what is turned down changes nothing",
        (Configure, Admit),
        lambda move: unchanged_but(move.before, move.after),
        lambda move: move.outcome.code in (Code.REFUSED, Code.TOO_LARGE),
    ),
)


# What is assumed ----------------------------------------------------------------------------------------------------


def fresh(kind: Any, name: str) -> Any:
    """Any value; each item that is read meets the rules of a valid configuration."""
    value = states.fresh(kind, name)
    if kind is not Config:
        return value

    def an_item(place: Term, item: Any) -> Any:
        modality, embeds, tokens = item
        assume(both(modality >= 0, modality < length(value.embeds), embeds > 0, embeds <= tokens))
        return item

    return value._replace(items=replace(value.items, seen=an_item))


def environment(config: Any, operation: Any) -> Iterable[Any]:
    """Sizes and settings as a valid configuration and `unknown` have them."""
    end = integer_term(length(config.embeds))

    def sized(modality: Term) -> Term:
        embeds, tokens = config.embeds.items[modality], config.tokens.items[modality]
        return z3.Implies(is_a_modality(config.embeds, modality, end), z3.And(embeds > 0, embeds <= tokens))

    yield SymbolicBoolean(every(INTEGER, sized))
    yield length(config.tokens) == length(config.embeds)
    yield config.constant > 0
    if type(operation) is Configure:
        yield both(operation.batch_tokens > 0, operation.sequences > 0, operation.alignment > 0)
        yield both(operation.compute >= 0, operation.space >= 0, operation.threshold >= 0, operation.embeddings >= 0)
        yield both(operation.chunked_prefill >= 0, operation.whole_items >= 0)
        yield length(operation.limits) == length(config.embeds)
    if type(operation) is Admit:
        yield both(operation.item >= 0, operation.item < length(config.items))


def settings_fit(config: Any, budget: Any, operation: Any) -> Iterable[Any]:
    """The settings that are kept were settings once: they have a limit for each modality, and numbers of their kind."""
    settings = budget.settings
    yield implies(budget.configured == 1, length(settings.limits) == length(config.embeds))
    yield implies(budget.configured == 1, both(settings.batch_tokens > 0, settings.compute >= 0, settings.space >= 0))
    yield implies(budget.configured == 1, both(settings.embeddings >= 0, settings.sequences > 0))


# Loops --------------------------------------------------------------------------------------------------------------


def so_far(entry: Locals, now: Locals) -> Iterable[Any]:
    """The largest of the modalities that were looked at."""
    modality, sizes = now["modality"], now["sizes"]
    yield both(modality >= 0, modality <= length(sizes))
    yield is_largest(sizes, now["settings"], now["largest"], modality)


def limits_so_far(entry: Locals, now: Locals) -> Iterable[Any]:
    """A position, and a number that is not negative."""
    yield both(now["modality"] >= 0, now["modality"] <= length(now["limits"]), now["limit"] >= 0)


def only_fewer_items(entry: Locals, now: Locals) -> Iterable[Any]:
    """Nothing else is touched."""
    yield unchanged_but(entry["budget"], now["budget"], "admitted")


def some_length(settings: Any) -> Any:
    """Any size of a chunk: no claim here depends on its origin."""
    tokens = integer("longest")
    assume(tokens >= 0)
    return tokens


ROW = "loops"

LOOPS = (
    Loop(transitions.largest_item, ROW, so_far, (lambda local: length(local["sizes"]) - local["modality"],)),
    Loop(transitions.without_items, ROW, only_fewer_items, (lambda local: local["budget"].admitted.length,)),
)
LIMITS = Loop(eras.largest_limit, ROW, limits_so_far, (lambda local: length(local["limits"]) - local["modality"],))

WITNESSES = (
    Config(
        embeds=(1, 2),
        tokens=(2, 2),
        items=((0, 1, 1), (1, 3, 3)),
        batches=(1, 2),
        limits=((0, 0), (1, 0), (1, 1)),
        whole=(0, 1),
    ),
    Config(embeds=(2,), tokens=(3,), items=((0, 2, 3),), batches=(2, 4), computes=(0, 2), spaces=(0, 3)),
)

PROOF = Proof(
    component="encoder_budget",
    variant=NORMATIVE,
    config=Config,
    invariants=INVARIANTS,
    laws=LAWS,
    witnesses=WITNESSES,
    environment=environment,
    lemmas=settings_fit,
    loops=LOOPS,
    modules=modules_of(encoder_budget),
    replaced=((transitions, "longest_item", some_length),),
    fresh=fresh,
)


def of_a_formula(variant: Variant[Any, Any, Any], sizes: Sizes, *, is_a_maximum: bool = False) -> Proof:
    """BUD-1 and its premises, for the formula of an era; and BUD-5, for the larger of step and item."""
    tag = variant.tag
    maximum = Invariant(f"BUD-1/least@{tag}", "a step, or the largest item", is_what_was_asked_or_the_largest)
    return replace(
        PROOF,
        variant=variant,
        invariants=(
            Invariant(f"BUD-1@{tag}", BUD_1, takes_the_largest),
            Invariant(f"largest@{tag}", "what the formula counts is the largest item", largest_is_largest(sizes)),
            *((maximum,) if is_a_maximum else ()),
        ),
        laws=(replace(BUD_5, name=f"BUD-5@{tag}"),) if is_a_maximum else (),
        loops=(*LOOPS, LIMITS),
    )


PROOFS = (
    PROOF,
    of_a_formula(eras.ONE_MORE, in_tokens),
    of_a_formula(eras.ONE_MORE_AS_REVIEWED, in_tokens),
    of_a_formula(eras.MERGED, in_tokens, is_a_maximum=True),
    of_a_formula(eras.CHECKED, in_tokens, is_a_maximum=True),
    of_a_formula(eras.IN_EMBEDDINGS, in_embeddings, is_a_maximum=True),
    of_a_formula(eras.AS_SET, in_embeddings),
)
