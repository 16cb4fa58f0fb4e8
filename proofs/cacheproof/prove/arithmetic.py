"""Facts of arithmetic that a solver shows by themselves, and that a proof then uses at its own terms.

A product of unknown numbers among "for every" costs a solver much time. So a proof says it by an uninterpreted function
(`whole_blocks`), gives its definition at the terms that the transition computes, and uses facts of this module there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.asking import alone, answer_of, question
from cacheproof.prove.executor import NotFollowedError, Term, path

Fact = Callable[..., Term]

INTEGER = z3.IntSort()
WHOLE_BLOCKS = z3.Function("whole_blocks", INTEGER, INTEGER, INTEGER)
IS_WHOLE = z3.Function("is_whole", INTEGER, INTEGER, z3.BoolSort())


def use(fact: Fact, *terms: Term) -> None:
    """Assume the fact at these terms. Raises `NotFollowedError` if z3 does not show it for all integers."""
    if not is_shown(fact, len(terms)):
        raise NotFollowedError(f"{fact.__name__} is not shown by z3")
    path().assume(fact(*terms))


@cache
def is_shown(fact: Fact, count: int) -> bool:
    """Whether the fact holds for all integers: z3 finds no others."""
    numbers = z3.Ints(" ".join(f"n{place}" for place in range(count)))
    return bool(answer_of(question(alone([z3.Not(fact(*numbers))]))) == z3.unsat)


def blocks(size: Term, tokens: Term) -> Term:
    """The tokens in full blocks, as transitions compute them."""
    return (tokens / size) * size


def whole_blocks(size: Term, tokens: Term) -> Term:
    """The tokens in full blocks. Its definition holds at the terms that `define_blocks` was given."""
    return WHOLE_BLOCKS(size, tokens)


def is_whole(size: Term, tokens: Term) -> Term:
    """Whether the tokens are those of full blocks, likewise."""
    return IS_WHOLE(size, tokens)


def define_blocks(size: Term, *tokens: Term) -> None:
    """`whole_blocks` and `is_whole` at these terms."""
    for term in tokens:
        path().assume(WHOLE_BLOCKS(size, term) == blocks(size, term))
        path().assume(IS_WHOLE(size, term) == (term % size == 0))


def blocks_are_within(size: Term, tokens: Term) -> Term:
    """The tokens in full blocks are at most all tokens, and are whole blocks."""
    full = blocks(size, tokens)
    return z3.Implies(z3.And(size > 0, tokens >= 0), z3.And(full >= 0, full <= tokens, full % size == 0))


def prefix_ends_before(size: Term, length: Term, reach: Term) -> Term:
    """Where a request begins whose prompt is cached up to `reach`: at least its last block is computed anew."""
    start, last = z3.If(reach < length, reach, reach - size), blocks(size, length - 1)
    given = z3.And(size > 0, length > 0, reach >= 0, reach <= length, reach % size == 0)
    same = start == z3.If(reach < last, reach, last)
    return z3.Implies(given, z3.And(same, start >= 0, start < length))
