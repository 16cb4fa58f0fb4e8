"""What can be wrong with an argument, by its sort: for each sort all the bad values that a caller could give instead.

A bad value is made from the good one, so that a tensor of another type still has the right shape and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import nan
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

Sort = Mapping[str, Callable[[Any], Any]]
"""In words what is wrong, to the bad value for a good one."""


def always(value: Any) -> Callable[[Any], Any]:
    return lambda good: value


def count(least: int | None = 0, most: int | None = None, *, optional: bool = False) -> Sort:
    """An integer; `least` and `most` are the last good ones, None where any will do."""
    bad: dict[str, Any] = {
        "a fraction": 1.5,
        "a whole fraction": 2.0,
        "NaN": nan,
        "a truth value": True,
        "a text": "3",
        "a tensor of fractions": torch.tensor(1.5),
        "a tensor of a truth value": torch.tensor(True),
        "several at once": torch.tensor([1, 2]),
        "another device": torch.empty((), dtype=torch.int64, device="meta"),
    }
    if not optional:
        bad["nothing"] = None
    if least is not None:
        bad["too few"] = least - 1
        bad["far too few"] = -(2**63) - 1
    if most is not None:
        bad["too many"] = most + 1
        bad["far too many"] = 2**80
    return {what: always(value) for what, value in bad.items()}


def amount(most: float | None = None) -> Sort:
    """A number that may have a fraction, not negative."""
    bad: dict[str, Any] = {"negative": -0.5, "NaN": nan, "infinite": float("inf"), "a text": "much", "nothing": None}
    if most is not None:
        bad["too much"] = most + 1
    return {what: always(value) for what, value in bad.items()}


def rows(least: int, most: int) -> Sort:
    """A tensor of numbers of rows, [turns] int64; `most` is the last good one."""
    return {
        **tensor(torch.int64),
        "a negative row": lambda good: torch.full_like(good, least - 1),
        "a row that there is not": lambda good: torch.full_like(good, most + 1),
    }


def counts(least: int = 0) -> Sort:
    """A tensor of counts, int64."""
    return {**tensor(torch.int64), "negative": lambda good: torch.full_like(good, least - 1)}


def tensor(dtype: torch.dtype) -> Sort:
    """A tensor of one type, one shape and one device."""
    others = (torch.float32, torch.float64, torch.bool, torch.int64, torch.int32)
    return {
        **{f"{other}": cast(other) for other in others if other != dtype},
        "NaN": lambda good: torch.full_like(good, nan, dtype=torch.float64),
        "one dimension more": lambda good: good[None],
        "one element more": lambda good: torch.cat((good.reshape(-1), good.reshape(-1)[:1])),
        "another device": lambda good: good.to("meta"),
        "a list": lambda good: good.tolist(),
        "nothing": always(None),
    }


def one_of(*wrong: Any) -> Sort:
    """What has a few bad values that are said here."""
    return {repr(value)[:40]: always(value) for value in wrong}


def texts(*, several: bool) -> Sort:
    """Names or hashes: a sequence of them, or one."""
    if not several:
        return one_of(None, 3, 1.5, b"bytes", ["a list"])
    return {
        **one_of(None, 3, "one text"),
        "no texts": lambda good: [*good[:-1], None],
        "numbers": lambda good: [7] * len(good),
    }


def lacking(*attributes: str, **wrong: Sort) -> Sort:
    """A duck-typed request or configuration: without one of its attributes, or with a bad value in one of them."""
    found: dict[str, Callable[[Any], Any]] = {"nothing": always(None), "something else": always(object())}
    for name in (*attributes, *wrong):
        found[f"without {name}"] = partial(changed, name=name)
    for name, sort in wrong.items():
        for what, bad in sort.items():
            found[f"{name}: {what}"] = partial(changed, name=name, bad=bad)
    return found


def changed(good: Any, *, name: str, bad: Callable[[Any], Any] | None = None) -> Any:
    """The same thing with another value of one attribute, or without it."""
    names = [one for one in dir(good) if not one.startswith("__") and one != name]
    copy = SimpleNamespace(**{one: getattr(good, one) for one in names})
    if bad is not None:
        setattr(copy, name, bad(getattr(good, name)))
    return copy


def cast(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    """To another type."""
    return lambda good: good.to(dtype)


class Call(NamedTuple):
    """One method: good arguments, and for each parameter what sort it is of."""

    good: Callable[[Any], dict[str, Any]]
    """For a face that was just made."""
    bad: Mapping[str, Sort] = {}
    free: Mapping[str, str] = {}
    """Parameters for which everything will do, and why."""
    misuse: Mapping[str, tuple[type[Exception], Callable[[Any], Any]]] = {}
    """In words, to what is raised and a whole call of the face."""
    works: bool = True
    """Whether the good arguments are tried too, at the end."""
    says: tuple[str, ...] = ()
    """What a message may name instead of the parameter."""


class Face(NamedTuple):
    """One public class."""

    kind: Any
    """The class, or a function that makes an object of it."""
    make: Callable[[], Any]
    """An object in use: something is in it of everything that there can be."""
    error: type[Exception]
    """The base of whatever it raises."""
    calls: Mapping[str, Call]
    open: Mapping[str, str] = {}
    """Methods that take nothing that could be wrong, and why."""
    close: Callable[[Any], Any] = lambda face: None
    look: Callable[[Any], Any] = lambda face: face
    """What must not change: the face itself."""


def within(sort: Sort, around: Callable[[Any], Any], prefix: str = "") -> Sort:
    """The bad values of a sort, each inside of something else."""

    def made(bad: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda good: around(bad(None))

    return {f"{prefix}{what}": made(bad) for what, bad in sort.items()}
