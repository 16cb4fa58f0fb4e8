"""A tuple of any length, of which two members are looked at: what code may do with it, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import NotFollowedError, SymbolicInteger, explore
from cacheproof.prove.histories import spliced
from cacheproof.prove.two_of_many import AnyNumber, TwoOfMany, mapped

NAMED = z3.Int("named")


def with_many(body: Callable[[TwoOfMany, SymbolicInteger], Any]) -> list[Any]:
    """What the body returns on each path, for the members "named.named" and "named.another"."""
    results: list[Any] = []
    for _ in explore(lambda: results.append(body(TwoOfMany.fresh(NAMED, str, "named"), SymbolicInteger(NAMED)))):
        pass
    return results


def test_the_named_member_is_replaced_and_the_others_stay() -> None:
    (after,) = with_many(lambda many, place: spliced((True, many[:place]), (False, "new"), (True, many[place + 1 :])))
    assert after.members == ("new", "named.another")


def test_all_members_are_mapped() -> None:
    (after,) = with_many(lambda many, place: mapped(str.upper, many))
    assert after.members == ("NAMED.NAMED", "NAMED.ANOTHER")
    assert mapped(str.upper, "ab") == ("A", "B")


def test_any_number_of_equal_members() -> None:
    (many,) = with_many(lambda many, place: ("same",) * AnyNumber())
    assert many.members == ("same", "same")


@pytest.mark.parametrize(
    "use",
    [
        lambda many, place: many[0],
        lambda many, place: many[place + 1],
        lambda many, place: many[place:],
        lambda many, place: many[: place + 1],
        lambda many, place: many[1:2],
        lambda many, place: len(many),
        lambda many, place: sum(member for member in many),
        lambda many, place: list(enumerate(many)),
        lambda many, place: spliced((True, many[:place]), (False, "new")),
        lambda many, place: spliced((True, many[place + 1 :]), (False, "new"), (True, many[:place])),
        lambda many, place: spliced((True, many[:place]), (False, "a"), (False, "b"), (True, many[place + 1 :])),
        lambda many, place: spliced((True, many[:place]), (True, ("a", "b")), (True, many[place + 1 :])),
    ],
)
def test_what_looks_at_a_third_member_is_refused(use: Callable[[TwoOfMany, SymbolicInteger], Any]) -> None:
    with pytest.raises(NotFollowedError):
        with_many(use)
