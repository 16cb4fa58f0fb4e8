"""How a value of the specification is written as one term: integers, and records of integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, get_args, get_origin

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import NotFollowedError, SymbolicInteger, Term, integer_term, path
from cachespec.kernel.names import hints_of, unwrap


@dataclass(frozen=True, slots=True)
class Shape:
    """One sort of term, and the way there and back."""

    sort: Any
    encode: Callable[[Any], Term]
    decode: Callable[[Term], Any]
    samples: tuple[Term, ...]
    """A few different values: where small counterexamples have their keys."""
    blank: Term
    """Any one value: the remaining positions of a small counterexample have it."""
    numeric: bool = False


INTEGER = Shape(z3.IntSort(), integer_term, SymbolicInteger, (z3.IntVal(0), z3.IntVal(1)), z3.IntVal(0), numeric=True)


@cache
def shape_of(hint: Any) -> Shape:
    """The shape of an annotated integer, of a tuple of fixed length, or of a NamedTuple."""
    inner, _ = unwrap(hint)
    if inner is int:
        return INTEGER
    arguments = get_args(inner)
    if get_origin(inner) is tuple and Ellipsis not in arguments:
        return _record("pair", tuple(shape_of(argument) for argument in arguments), lambda *parts: parts)
    if isinstance(inner, type) and hasattr(inner, "_fields"):
        hints = hints_of(inner)
        return _record(inner.__name__, tuple(shape_of(hints[name]) for name in inner._fields), inner)
    raise NotFollowedError(f"a value of type {inner} cannot be written as one term")


def _record(name: str, parts: tuple[Shape, ...], make: Callable[..., Any]) -> Shape:
    sort, construct, projections = record_sort(name, tuple(part.sort for part in parts))

    def encode(value: Any) -> Term:
        return construct(*(part.encode(item) for part, item in zip(parts, value, strict=True)))

    def decode(term: Term) -> Any:
        fields = (z3.simplify(projection(term)) for projection in projections)
        return make(*(part.decode(field) for part, field in zip(parts, fields, strict=True)))

    samples = tuple(construct(*values) for values in product(*(part.samples for part in parts)))
    return Shape(sort, encode, decode, samples, construct(*(part.blank for part in parts)))


def small_array(key: Shape, blank: Term, name: str) -> Term:
    """An array that is blank but at a few keys."""
    array = z3.K(key.sort, blank)
    for sample in key.samples:
        array = z3.Store(array, sample, path().fresh(name, blank.sort()))
    return array


@cache
def record_sort(name: str, sorts: tuple[Any, ...]) -> tuple[Any, Any, list[Any]]:
    """One sort for each name and list of parts; later calls return the same sort."""
    full = "_".join((name, *(str(sort) for sort in sorts)))
    sort, construct, projections = z3.TupleSort(full, list(sorts))
    return sort, construct, projections
