"""The keys of blocks: what they are in known cases, what the releases made of them, and that each property can fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.planting import Change, planted

from cacheproof.model.plan import Plan
from cacheproof.model.scope import scopes_of
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending
from cachespec.block_hash import (
    COMPONENT,
    EXTRAS_BESIDE,
    NO_OFFSET,
    NORMATIVE_BLOCK_HASH,
    OFFSET,
    SALTED,
    TAGGED,
    Adapt,
    Append,
    Config,
    Place,
    Request,
    Season,
    Submit,
    Write,
)
from cachespec.block_hash.state import Item
from cachespec.block_hash.transitions import (
    adapt,
    adapter_extras,
    append,
    extras_in,
    item_extra,
    items_in,
    lacks_a_key,
    next_key,
    overlaps,
    place,
    salt_extras,
    season,
    submit,
    with_all_keys,
    write,
)
from cachespec.kernel import ABSENT, DONE, PRESENT, REFUSED, Operation, Outcome

RELEASED = {"K0": EXTRAS_BESIDE, "K0b": NO_OFFSET, "K1": SALTED, "K1b": OFFSET, "K2": TAGGED}
A, B, C = 0, 1, 2
"""Contents."""
TEXT = 1


def ran(variant: Any, config: Config, operations: Sequence[Operation]) -> tuple[Any, Outcome]:
    """The view after these calls, and the last outcome."""
    state, outcome = variant.start(config), DONE
    for operation in operations:
        state, outcome = variant.call(config, state, operation)
    return variant.view(config, state), outcome


def keys(variant: Any, config: Config, operations: Sequence[Operation]) -> tuple[int, ...]:
    """The keys of all blocks, numbered as they are first met."""
    view, _ = ran(variant, config, operations)
    shown = COMPONENT.observe(config, view)["keys"]
    assert isinstance(shown, tuple)
    return shown


# In known cases ------------------------------------------------------------------------------------------------------

SIXTEEN = Config(block_size=16, opening=(TEXT,) * 16, prompt_tokens=28, tokens=32, lengths=(2, 6, 2), words=(TEXT,))


def tail_of_two(request: int, first: int) -> list[Operation]:
    """Two items in the prompt's tail, at 17 and at 20; four tokens of output complete the block."""
    prompt: list[Operation] = [Write(request, TEXT), Place(request, first), Write(request, TEXT), Place(request, B)]
    return [*prompt, Write(request, TEXT), Write(request, TEXT), Submit(request), *[Append(request, TEXT)] * 4]


@pytest.mark.parametrize(
    ("tag", "shared"), [("K0", True), ("K0b", True), ("K1", True), ("K1b", True), ("K2", False), ("normative", False)]
)
def test_the_block_that_the_output_completes(tag: str, shared: bool) -> None:
    """C-KV-7 with its own numbers: blocks of 16, items at 17 to 19 and 20 to 26, a prompt of 28."""
    found = keys(COMPONENT.variants[tag], SIXTEEN, [*tail_of_two(0, A), *tail_of_two(1, C)])
    assert found == ((0, 1, 0, 1) if shared else (0, 1, 0, 2))


def test_the_text_after_an_image() -> None:
    """C-KV-18."""
    config = Config(block_size=1, prompt_tokens=2, tokens=2, lengths=(1, 1))
    calls = [Place(0, A), Write(0, TEXT), Submit(0), Place(1, B), Write(1, TEXT), Submit(1)]
    assert keys(EXTRAS_BESIDE, config, calls) == (0, 1, 2, 1)
    assert keys(NO_OFFSET, config, calls) == keys(NORMATIVE_BLOCK_HASH, config, calls) == (0, 1, 2, 3)


def test_an_item_that_began_before_the_block_counts_backwards() -> None:
    config = Config(block_size=2, prompt_tokens=5, tokens=5, lengths=(4,))
    view, _ = ran(NORMATIVE_BLOCK_HASH, config, [Write(0, TEXT), Place(0, A), Submit(0)])
    extras = [link.extras for link in view.blocks[-1].key.chain]
    assert [[extra.offset for extra in of] for of in extras] == [[1], [-1]]
    assert [block.items for block in view.blocks] == [(0,), (0,)]


def test_a_salt_is_in_the_first_block_and_so_in_every_key() -> None:
    config = Config(block_size=1, prompt_tokens=2, tokens=2, salts=2)
    calls = [Season(0, 1), Season(1, 2), *[Write(name, TEXT) for name in (0, 1, 0, 1)], Submit(0), Submit(1)]
    view, _ = ran(NORMATIVE_BLOCK_HASH, config, calls)
    assert [len(link.extras) for link in view.blocks[1].key.chain] == [1, 0]
    assert keys(NORMATIVE_BLOCK_HASH, config, calls) == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("operations", "last"),
    [
        ([Append(0, TEXT)], ABSENT),
        ([Submit(0), Submit(0)], PRESENT),
        ([Submit(0), Write(0, TEXT)], REFUSED),
        ([Submit(0), Place(0, A)], REFUSED),
        ([Submit(0), Adapt(0, 0)], REFUSED),
        ([Submit(0), Season(0, 1)], REFUSED),
        ([Write(0, TEXT), Place(0, A)], REFUSED),
        ([Place(0, A), Write(0, TEXT)], REFUSED),
        ([Submit(0), Append(0, TEXT), Append(0, TEXT), Append(0, TEXT), Append(0, TEXT)], REFUSED),
    ],
)
def test_what_is_refused(operations: list[Operation], last: Outcome) -> None:
    config = Config(block_size=2, prompt_tokens=2, tokens=3, lengths=(2,), adapters=((1, 0, 0),), salts=1)
    before, _ = ran(NORMATIVE_BLOCK_HASH, config, operations[:-1])
    after, outcome = ran(NORMATIVE_BLOCK_HASH, config, operations)
    assert outcome == last
    assert after == before


@pytest.mark.parametrize("tag", RELEASED)
def test_a_text_without_anything_else_is_hashed_alike_by_all(tag: str) -> None:
    config = Config(block_size=2, prompt_tokens=4, tokens=6, words=(1, 2))
    prompt = [Write(0, 1), Write(0, 2), Write(0, 1), Write(0, 1), Submit(0)]
    output = [Write(1, 1), Submit(1), Append(1, 2), Append(1, 1), Append(1, 1)]
    assert keys(RELEASED[tag], config, [*prompt, *output]) == (0, 1, 0, 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"block_size": 0}, "block_size"),
        ({"tokens": 3}, "prompt_tokens"),
        ({"opening": (1,) * 5}, "opening"),
        ({"words": (-1,)}, "tokens are not negative"),
        ({"lengths": (0,)}, "placeholder"),
        ({"adapters": ((1, -1, 0),)}, "adapter"),
        ({"adapters": ((1, 0, 0), (1, 0, 0))}, "two adapters"),
        ({"salts": -1}, "salts"),
        ({"forger": 1}, "digests"),
        ({"disciplined": 2}, "disciplined"),
    ],
)
def test_a_wrong_configuration_is_said_to_be_so(change: dict[str, Any], said: str) -> None:
    right = Config(block_size=2, prompt_tokens=4, tokens=4)
    assert COMPONENT.invalid(right) is None
    assert said in (COMPONENT.invalid(right._replace(**change)) or "")


@pytest.mark.parametrize("operation", [Adapt(0, 1), Season(0, 0), Season(0, 2), Place(0, 1), Write(0, 5), Append(0, 5)])
def test_what_there_is_not_is_unknown(operation: Operation) -> None:
    config = Config(block_size=2, prompt_tokens=4, tokens=4, lengths=(1,), adapters=((1, 0, 0),), salts=1)
    assert "there is no" in (COMPONENT.unknown(config, operation) or "")
    assert COMPONENT.unknown(config, Place(0, 0)) is None


# That its properties can fail ----------------------------------------------------------------------------------------

SMALL = Config(
    block_size=2,
    prompt_tokens=4,
    tokens=4,
    words=(0,),
    lengths=(1, 1, 2),
    items=2,
    adapters=((1, 0, 0),),
    disciplined=1,
)
SALTS = Config(block_size=1, prompt_tokens=2, tokens=3, words=(0,), lengths=(1,), items=1, salts=1)


def breaks(config: Config, change: Change, rule: str) -> bool:
    """Whether the planted bug breaks this property; the search ends where it does."""
    with planted(change):
        found = explore(COMPONENT, NORMATIVE_BLOCK_HASH, config, Plan(until=frozenset({rule})))
    return found.ending is Ending.FOUND


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (Change(overlaps, "$start < $item.offset + $y", "$start <= $item.offset + $y"), "HASH-3"),
        (Change(items_in, "range(len($request.items))", "range(len($request.items))[-1:]"), "HASH-3"),
        (Change(item_extra, "$item.offset - $start", "0"), "HASH-1"),
        (Change(item_extra, "$item.content", "0"), "HASH-1"),
        (Change(adapter_extras, "(Extra(ADAPTER, $request.adapter),)", "()"), "HASH-1"),
        (Change(salt_extras, "$start == 0", "$start > 0"), "HASH-1"),
        (
            Change(extras_in, "(*adapter_extras($request), *items, $x)", "(*adapter_extras($request), *items[:1], $x)"),
            "HASH-1",
        ),
        (Change(next_key, "(*$parent, $link)", "($link,)"), "HASH-1"),
        (Change(next_key, "(*$parent, $link)", "($link, *$parent)"), "HASH-1/chained"),
        (
            Change(salt_extras, "$start == 0 and $request.salt != UNSALTED", "$request.salt != UNSALTED"),
            "HASH-3/counted",
        ),
        (Change(lacks_a_key, "$x <= len($request.tokens)", "$x < len($request.tokens)"), "HASH-2/full"),
        (Change(append, "with_all_keys($config, $longer)", "$longer"), "HASH-2/full"),
        (
            Change(
                append,
                "with_all_keys($config, $longer)",
                "with_all_keys($config, $longer._replace(blocks=(), items=()))",
            ),
            "HASH-1/written",
        ),
        (Change(submit, "$request._replace(submitted=1)", "$request"), "HASH-1/written"),
        (Change(write, "$request.submitted or $x", "$x"), "HASH-1/answered"),
        (Change(place, "Item($op.content, len($request.tokens))", "Item($op.content, 0)"), "HASH-1/written"),
        (Change(adapt, "adapter=$op.adapter", ""), "HASH-1/written"),
        (Change(season, "$request.submitted", "not $request.submitted"), "HASH-1/answered"),
    ],
    ids=lambda value: value.function.__name__ if isinstance(value, Change) else "",
)
def test_a_planted_bug_is_found(change: Change, broken: str) -> None:
    open_to_any_call = change.function in (write, season, salt_extras)
    assert breaks(SALTS if open_to_any_call else SMALL, change, broken)


def test_keys_that_change_later_are_found() -> None:
    change = Change(
        with_all_keys, "return $request", "return $request._replace(blocks=tuple(reversed($request.blocks)))"
    )
    assert breaks(SALTS, change, "HASH-2/kept")


def test_every_key_of_a_request_names_what_overlaps_position_by_position() -> None:
    """HASH-3, said anew on a request of three items that straddle blocks."""
    config = Config(block_size=4, prompt_tokens=16, tokens=16, lengths=(3, 1, 6), items=3)
    request = Request((0,) * 16, (Item(0, 2), Item(1, 5), Item(2, 7)), submitted=1)
    hashed = with_all_keys(config, request)
    assert [block.items for block in hashed.blocks] == [(0,), (0, 1, 2), (2,), (2,)]


def test_the_scopes_show_every_catalogued_entry() -> None:
    shown = {
        violation.catalogue
        for scope in scopes_of(COMPONENT)
        for expectation in scope.expect.values()
        for violation in expectation.violations
    }
    assert shown == {
        *("C-KV-7", "C-KV-8", "C-KV-9", "C-KV-10", "C-KV-17", "C-KV-18"),
        *("C-MIR-15", "C-HASH-1", "C-HASH-2"),
    }
