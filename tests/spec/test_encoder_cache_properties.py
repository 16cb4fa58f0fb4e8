"""That each property of the encoder cache can fail: one planted bug for each, and more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from cacheproof.model.plan import Plan
from cacheproof.search.canonical import canonical
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending
from cachespec.encoder_cache import COMPONENT, NORMATIVE_ENCODER_CACHE, Cache, Config
from cachespec.encoder_cache.configuration import content_of, positions, size_of
from cachespec.encoder_cache.operations import (
    Abandon,
    Allocate,
    CachedInputs,
    CanAllocate,
    CheckAndUpdate,
    FreeInput,
    FreeRequest,
    Report,
    Reset,
)
from cachespec.encoder_cache.passes import end_pass, promise, redeem
from cachespec.encoder_cache.transitions import (
    Result,
    abandon,
    allocate,
    can_allocate,
    check_and_update,
    evict_oldest,
    free_input,
    make_room,
    place,
    release,
    report,
    reset,
)
from cachespec.kernel import DONE, HIT, MISS, PRESENT, REFUSED, Code, Operation, Outcome


def charge_without_room(config: Config, cache: Cache, op: Allocate) -> Result:
    """Trusts that room was asked for."""
    content, size = content_of(config, op.request, op.input), size_of(config, op.request, op.input)
    if cache.sizes.has(content):
        return cache, PRESENT
    return redeem(config, place(cache, op.request, op.input, content, size), op.request, op.input), DONE


def charge_again(config: Config, cache: Cache, op: Allocate) -> Result:
    """A resident content costs its size once more."""
    after, outcome = allocate(config, cache, op)
    size = size_of(config, op.request, op.input)
    if outcome.code is not Code.PRESENT or size > cache.free:
        return after, outcome
    return cache._replace(free=cache.free - size), DONE


def list_for_ever(config: Config, cache: Cache, op: Allocate) -> Result:
    """C-ENC-8: what is created again stays in the list."""
    after, outcome = allocate(config, cache, op)
    return after._replace(freed=cache.freed), outcome


def make_room_late(config: Config, cache: Cache, op: Allocate) -> Result:
    """Evicts only when it allocates."""
    size = size_of(config, op.request, op.input)
    return allocate(config, make_room(cache, size) if size <= cache.freeable else cache, op)


def grant_only(config: Config, cache: Cache, op: CanAllocate) -> Result:
    """A pure question, answered by what could be evicted."""
    size = size_of(config, op.request, op.input)
    granted = size <= op.budget and size + op.pending <= cache.freeable
    return (promise(config, cache, op), DONE) if granted else (cache, REFUSED)


def forget_pending(config: Config, cache: Cache, op: CanAllocate) -> Result:
    """C-ENC-3: what was granted before is not counted."""
    after, outcome = can_allocate(config, cache, replace(op, pending=0))
    return (promise(config, after._replace(promised=cache.promised), op) if outcome == DONE else after), outcome


def evict_held(config: Config, cache: Cache, op: CanAllocate) -> Result:
    """Takes what is held when nothing else is left."""
    after, outcome = can_allocate(config, cache, op)
    if outcome == DONE or size_of(config, op.request, op.input) > op.budget:
        return after, outcome
    for content in range(len(config.sizes)):
        size = cache.sizes.get(content, 0)
        cache = cache._replace(sizes=cache.sizes.remove(content), free=cache.free + size)
    return cache, DONE


def evict_newest(config: Config, cache: Cache, op: CanAllocate) -> Result:
    """Takes the wrong end of the order."""
    members = [content for content, _ in cache.idle.items()]
    for content in reversed(members):
        cache = cache._replace(idle=cache.idle.remove(content).push(content, cache.sizes.get(content, 0)))
    return can_allocate(config, cache, op)


def evict_everything(config: Config, cache: Cache, op: CanAllocate) -> Result:
    """Does not stop where there is room."""
    after, outcome = can_allocate(config, cache, op)
    while outcome == DONE and after.freed.length > cache.freed.length and after.idle.length > 0:
        after = evict_oldest(after)
    return after, outcome


def evict_nothing(config: Config, cache: Cache, op: CanAllocate) -> Result:
    """Answers by the free slots alone."""
    if size_of(config, op.request, op.input) + op.pending > cache.free:
        return cache, REFUSED
    return can_allocate(config, cache, op)


def evict_in_silence(config: Config, cache: Cache, op: CanAllocate) -> Result:
    """Evicts and lists nothing."""
    after, outcome = can_allocate(config, cache, op)
    return after._replace(freed=cache.freed), outcome


def stay_freeable(config: Config, cache: Cache, op: CheckAndUpdate) -> Result:
    """A pinned entry still counts as freeable."""
    after, outcome = check_and_update(config, cache, op)
    return after._replace(freeable=cache.freeable), outcome


def stay_idle(config: Config, cache: Cache, op: CheckAndUpdate) -> Result:
    """A pinned entry stays in the order of eviction."""
    after, outcome = check_and_update(config, cache, op)
    return after._replace(idle=cache.idle, freeable=cache.freeable), outcome


def ignore_claim(config: Config, cache: Cache, op: CheckAndUpdate) -> Result:
    """C-ENC-21: whatever size is claimed."""
    stored = cache.sizes.get(content_of(config, op.request, op.input), 0)
    contents = tuple(tuple(stored for _ in claims) for claims in config.claims)
    return check_and_update(config._replace(claims=contents), cache, op)


def adopt_claim(config: Config, cache: Cache, op: CheckAndUpdate) -> Result:
    """The last claim becomes the size."""
    after, outcome = ignore_claim(config, cache, op)
    if outcome != HIT:
        return after, outcome
    content = content_of(config, op.request, op.input)
    return after._replace(sizes=after.sizes.set(content, size_of(config, op.request, op.input))), outcome


def drop_at_first(config: Config, cache: Cache, op: FreeInput) -> Result:
    """C-ENC-7: the first release of a repeated item lets the entry rest."""
    after, outcome = free_input(config, cache, op)
    content = content_of(config, op.request, op.input)
    if outcome != DONE or not after.references.has(content):
        return after, outcome
    size = after.sizes.get(content, 0)
    resting = after._replace(references=after.references.remove(content), freeable=after.freeable + size)
    return resting._replace(idle=after.idle.push(content, size)), outcome


def free_anything(config: Config, cache: Cache, op: FreeInput) -> Result:
    """C-ENC-1: what holds nothing gives slots back."""
    after, outcome = free_input(config, cache, op)
    size = size_of(config, op.request, op.input)
    return (after._replace(free=after.free + size) if outcome.code is Code.ABSENT else after), outcome


def free_first_only(config: Config, cache: Cache, op: FreeRequest) -> Result:
    """Forgets the other inputs."""
    return free_input(config, cache, FreeInput(op.request, 0))[0], DONE


def leave_pinned(config: Config, cache: Cache, op: Abandon) -> Result:
    """C-ENC-10: nothing is undone."""
    return cache, DONE


def report_for_ever(config: Config, cache: Cache, op: Report) -> Result:
    """The list is handed out and kept."""
    return end_pass(cache), report(config, cache, op)[1]


def reset_half(config: Config, cache: Cache, op: Reset) -> Result:
    """The entries go, and the list of evicted ones stays."""
    return reset(config, cache, op)[0]._replace(freed=cache.freed), DONE


def reset_list_only(config: Config, cache: Cache, op: Reset) -> Result:
    """The list of evicted ones goes, and the entries stay."""
    return cache._replace(freed=reset(config, cache, op)[0].freed), DONE


def miss_what_is_idle(config: Config, cache: Cache, op: CheckAndUpdate) -> Result:
    """What nobody holds is kept, and never found again."""
    idle = cache.idle.has(content_of(config, op.request, op.input))
    return (cache, MISS) if idle else check_and_update(config, cache, op)


def say_hit_only(config: Config, cache: Cache, op: CheckAndUpdate) -> Result:
    """A hit that holds nothing, as before inputs were shared."""
    return cache, check_and_update(config, cache, op)[1]


def say_miss_and_hold(config: Config, cache: Cache, op: CheckAndUpdate) -> Result:
    """The caller is told to ask for room, and holds the entry."""
    after, outcome = check_and_update(config, cache, op)
    return after, MISS if outcome == HIT else outcome


def let_go_at_once(config: Config, cache: Cache, op: Allocate) -> Result:
    """The entry is created, and its caller does not hold it."""
    after, outcome = allocate(config, cache, op)
    content = content_of(config, op.request, op.input)
    return (release(after, op.request, op.input, content) if outcome == DONE else after), outcome


def need_a_grant(config: Config, cache: Cache, op: Allocate) -> Result:
    """Refuses what fits because nobody asked before."""
    granted = cache.promised.has((op.request, op.input)) or cache.sizes.has(content_of(config, op.request, op.input))
    return allocate(config, cache, op) if granted else (cache, REFUSED)


def keep_what_is_freed(config: Config, cache: Cache, op: FreeInput) -> Result:
    """Says that the input is released, and it is not."""
    return cache, free_input(config, cache, op)[1]


def evict_when_freed(config: Config, cache: Cache, op: FreeInput) -> Result:
    """Keeps nothing that nobody holds."""
    after, outcome = free_input(config, cache, op)
    while after.idle.length > 0:
        after = evict_oldest(after)
    return after, outcome


def list_what_is_resident(config: Config, cache: Cache, op: CachedInputs) -> Result:
    """Whoever holds it."""
    resident = (p for p in positions(config, op.request) if cache.sizes.has(content_of(config, op.request, p)))
    return cache, Outcome(Code.DONE, tuple(resident))


def list_nothing(config: Config, cache: Cache, op: CachedInputs) -> Result:
    """Whatever is held."""
    return cache, DONE


class Planted(NamedTuple):
    """A bug, the property that it breaks, and where."""

    breaks: str
    bug: Mapping[type[Operation], Any]
    where: Config


def leave_promised(config: Config, cache: Cache, op: Abandon) -> Result:
    """What was granted outlives the admission."""
    after, outcome = abandon(config, cache, op)
    return after._replace(promised=cache.promised), outcome


def stay_promised(config: Config, cache: Cache, op: Report) -> Result:
    """What was granted outlives the pass."""
    after, outcome = report(config, cache, op)
    return after._replace(promised=cache.promised), outcome


def stay_attempted(config: Config, cache: Cache, op: Allocate) -> Result:
    """A request that is admitted can still be abandoned."""
    after, outcome = allocate(config, cache, op)
    return after._replace(attempted=cache.attempted), outcome


def ignore_budget(config: Config, cache: Cache, op: CanAllocate) -> Result:
    """Room is all that counts."""
    return can_allocate(config, cache, replace(op, budget=config.capacity))


def grant_by_word(config: Config, cache: Cache, op: CanAllocate) -> Result:
    """Whoever is refused is told that there is room."""
    after, _ = can_allocate(config, cache, op)
    return after, DONE


ANY_CALL = Config(2, (1, 1, 2), ((0, 0), (1,), (2,)), resets=1)
SCHEDULER = Config(2, (1, 1, 2), ((0, 0), (0, 1), (2,)), disciplined=1, failures=1)
PINNED_LATER = Config(2, (1, 2), ((0,), (1, 0)), disciplined=1)
CLAIMS = Config(3, (1,), ((0, 0), (0,)), claims=((1, 1), (2,)), budgets=(1, 2))

PLANTED = [
    Planted("ENC-1", {Allocate: charge_without_room}, ANY_CALL),
    Planted("ENC-2", {Allocate: charge_again}, ANY_CALL),
    Planted("ENC-2/freeable", {CheckAndUpdate: stay_freeable}, SCHEDULER),
    Planted("ENC-3", {CheckAndUpdate: stay_idle}, SCHEDULER),
    Planted("ENC-4", {CheckAndUpdate: ignore_claim}, CLAIMS),
    Planted("ENC-4/constant", {CheckAndUpdate: adopt_claim}, CLAIMS),
    Planted("ENC-5", {FreeInput: drop_at_first}, SCHEDULER),
    Planted("ENC-5/finished", {FreeRequest: free_first_only}, SCHEDULER),
    Planted("ENC-6", {CanAllocate: evict_held}, SCHEDULER),
    Planted("ENC-6", {FreeInput: drop_at_first}, SCHEDULER),
    Planted("ENC-7", {Allocate: list_for_ever}, SCHEDULER),
    Planted("ENC-7/once", {CanAllocate: evict_in_silence}, SCHEDULER),
    Planted("ENC-7/once", {Report: report_for_ever}, SCHEDULER),
    Planted("ENC-7/once", {Reset: reset_half}, ANY_CALL),
    Planted("ENC-9", {CanAllocate: forget_pending}, Config(3, (2, 2), ((0, 1),), disciplined=1)),
    Planted("ENC-9/kept", {CanAllocate: grant_only, Allocate: make_room_late}, PINNED_LATER),
    Planted("ENC-9/ended", {Abandon: leave_promised}, SCHEDULER),
    Planted("ENC-9/ended", {CanAllocate: grant_by_word}, SCHEDULER),
    Planted("ENC-9/ended", {Report: stay_promised}, SCHEDULER._replace(disciplined=0)),
    Planted("ENC-9/used", {Allocate: stay_attempted}, SCHEDULER),
    Planted("ENC-9/budget", {CanAllocate: ignore_budget}, CLAIMS),
    Planted("ENC-10", {FreeInput: free_anything}, ANY_CALL),
    Planted("ENC-11", {Abandon: leave_pinned}, SCHEDULER),
    Planted("ENC-12", {CanAllocate: evict_newest}, ANY_CALL),
    Planted("ENC-12/needed", {CanAllocate: evict_everything}, ANY_CALL),
    Planted("ENC-12/needed", {FreeInput: evict_when_freed}, ANY_CALL),
    Planted("ENC-13/granted", {CanAllocate: evict_nothing}, SCHEDULER),
    Planted("ENC-2/reset", {Reset: reset_list_only}, ANY_CALL),
    Planted("ENC-5/answered", {CheckAndUpdate: say_hit_only}, ANY_CALL),
    Planted("ENC-5/answered", {CheckAndUpdate: say_miss_and_hold}, ANY_CALL),
    Planted("ENC-5/answered", {Allocate: let_go_at_once}, ANY_CALL),
    Planted("ENC-5/answered", {FreeInput: keep_what_is_freed}, ANY_CALL),
    Planted("ENC-5/listed", {CachedInputs: list_what_is_resident}, ANY_CALL),
    Planted("ENC-5/listed", {CachedInputs: list_nothing}, ANY_CALL),
    Planted("ENC-13/reasons", {CheckAndUpdate: miss_what_is_idle}, ANY_CALL),
    Planted("ENC-13/reasons", {Allocate: need_a_grant}, ANY_CALL),
]


def plan(*until: str) -> Plan:
    return Plan(limit_states=20_000, until=frozenset(until))


@pytest.mark.parametrize("where", [ANY_CALL, SCHEDULER, CLAIMS], ids=["any-call", "scheduler", "claims"])
def test_the_normative_variant_holds_where_the_bugs_are_planted(where: Config) -> None:
    found = explore(COMPONENT, NORMATIVE_ENCODER_CACHE, where, plan())
    assert found.ending is Ending.EXHAUSTED
    assert found.violations == ()


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: next(iter(planted.bug.values())).__name__)
def test_a_planted_bug_is_found(planted: Planted) -> None:
    named = dict.fromkeys(planted.bug, "planted")
    mutant = NORMATIVE_ENCODER_CACHE.era("planted", "a planted bug", planted.bug, named)
    found = explore(COMPONENT, mutant, planted.where, plan(planted.breaks))
    assert planted.breaks in {violation.property for violation in found.violations}


def test_every_property_has_a_planted_bug() -> None:
    assert {rule.name for rule in COMPONENT.properties()} == {planted.breaks for planted in PLANTED}


def test_every_call_leads_to_each_of_its_outcomes() -> None:
    """In the scopes where bugs are planted, every answer that a caller must expect occurs."""
    seen: dict[str, set[str]] = {}
    for where in (ANY_CALL, SCHEDULER, CLAIMS):
        for name, counts in explore(COMPONENT, NORMATIVE_ENCODER_CACHE, where, plan()).coverage.items():
            seen.setdefault(name, set()).update(counts)
    assert seen["check_and_update"] == {"hit", "miss", "refused"}
    assert seen["can_allocate"] == {"done", "refused"}
    assert seen["allocate"] == {"done", "present", "refused"}
    assert seen["free_input"] == {"done", "absent"}


REFUSALS: list[tuple[Operation, Code]] = [
    (Allocate(2, 0), Code.REFUSED),
    (Allocate(0, 1), Code.PRESENT),
    (FreeInput(0, 1), Code.ABSENT),
    (CanAllocate(2, 0, 2, 0), Code.REFUSED),
    (CanAllocate(2, 0, 1, 0), Code.REFUSED),
    (CheckAndUpdate(2, 0), Code.MISS),
]


@pytest.mark.parametrize(("operation", "code"), REFUSALS, ids=str)
def test_a_refusal_changes_nothing(operation: Operation, code: Code) -> None:
    state = NORMATIVE_ENCODER_CACHE.start(ANY_CALL)
    for filling in (Allocate(0, 0), Allocate(1, 0)):
        state, _ = NORMATIVE_ENCODER_CACHE.call(ANY_CALL, state, filling)
    assert NORMATIVE_ENCODER_CACHE.call(ANY_CALL, state, operation) == (state, Outcome(code))


TWO_ALIKE = Config(1, (1, 1), ((0, 1), (0, 1)), disciplined=1, failures=1, resets=1, halting=1, unreported=2)


@pytest.mark.parametrize("tag", COMPONENT.variants)
def test_exchanging_requests_that_show_the_same_merges_what_it_should(tag: str) -> None:
    """Every state that is found without the symmetry has its class among those found with it, and no other."""
    variant, plain = COMPONENT.variants[tag], explore_states(tag)
    to_class = canonical(COMPONENT, variant, TWO_ALIKE, symmetry=True)
    found = explore(COMPONENT, variant, TWO_ALIKE, plan())
    classes = {to_class(state) for state in plain}
    assert (found.ending, found.states) == (Ending.EXHAUSTED, len(classes))
    assert len(classes) < len(plain)


def explore_states(tag: str) -> set[Any]:
    """Every state, each name for itself."""
    variant = COMPONENT.variants[tag]
    level = [variant.start(TWO_ALIKE)]
    known: set[Any] = set(level)
    while level:
        state = level.pop()
        following = {variant.call(TWO_ALIKE, state, op)[0] for op in variant.alphabet(TWO_ALIKE, state)} - known
        known |= following
        level.extend(following)
    return known
