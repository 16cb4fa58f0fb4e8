"""Integers that stand for any number: each has a value in one configuration, and the form by which it follows from it.

A run of the specification on such numbers is a run in the configuration of their values. Each comparison of two such
numbers adds a condition on the configuration. All configurations that satisfy the conditions give the same answers, so
the run is the same in each of them.

Any other question about a number, such as its position in a range or its hash, *pins* it: the condition is then that
the number equals its present value. This is sound and makes regions small. `isinstance` and `type` would be answered
wrongly in silence; the first is refused, and no function of the specification uses the second on an integer.

There are two symbolic mechanisms: `prove/executor` forks the paths of one step over terms without values, and `regions`
runs whole explorations with values that remember their comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from cacheproof.search.regions.decisions import NOTHING, Decisions, Form


class RefusedError(Exception):
    """The specification does something with a number that cannot be followed."""


def _refused(number: Number) -> NoReturn:
    raise RefusedError("isinstance() of a number of the configuration cannot be followed")


class Number:
    """An integer that depends on the configuration. What does not depend on it is a plain integer."""

    __slots__ = ("decisions", "form", "value")
    __class__ = property(_refused)  # otherwise a silent False

    def __init__(self, value: int, form: Form, decisions: Decisions) -> None:
        self.value, self.form, self.decisions = value, form, decisions

    def pinned(self) -> int:
        """Its value, from here on the only one."""
        self.decisions.is_zero(self.form.minus(Form(self.value)), 0)
        return self.value

    def made(self, value: int, form: Form) -> Any:
        """A number of the same run; a plain integer if nothing in it depends on the configuration."""
        return Number(value, form, self.decisions) if form.weights else value

    # Arithmetic ------------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return self.made(self.value + value_of(other), self.form.plus(form_of(other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self.made(self.value - value_of(other), self.form.minus(form_of(other)))

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __neg__(self) -> Any:
        return self.made(-self.value, NOTHING.minus(self.form))

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __mul__(self, other: Any) -> Any:
        """By a number: that one is pinned. A sequence is repeated: this one is."""
        if type(other) in (tuple, list, str, bytes):
            return other * self.pinned()
        factor = whole(other)
        return self.made(self.value * factor, NOTHING.plus(self.form, factor))

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        """A quotient by a positive integer is a number too. Any other divisor fixes this one."""
        divisor = whole(other)
        if divisor <= 0:
            return self.pinned() // divisor
        return self.made(self.value // divisor, self.form.over(divisor))

    def __mod__(self, other: Any) -> Any:
        divisor = whole(other)
        return self - (self // divisor) * divisor

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rfloordiv__(self, other: Any) -> Any:
        return other // self.pinned()

    def __rmod__(self, other: Any) -> Any:
        return other % self.pinned()

    # Questions -------------------------------------------------------------------------------------------------------

    def _is_at_least_zero(self, difference: Any) -> bool:
        if type(difference) is Number:
            return self.decisions.at_least_zero(difference.form, difference.value)
        return bool(difference >= 0)

    def __ge__(self, other: Any) -> bool:
        return self._is_at_least_zero(self - other)

    def __le__(self, other: Any) -> bool:
        return self._is_at_least_zero(-self + other)

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __eq__(self, other: object) -> bool:
        """A number of another run is another value: a cached function may hold one."""
        if type(other) not in (int, bool, Number):
            return NotImplemented
        if type(other) is Number and other.decisions is not self.decisions:
            return False
        difference = self - other
        if type(difference) is Number:
            return self.decisions.is_zero(difference.form, difference.value)
        return bool(difference == 0)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return not self.decisions.is_zero(self.form, self.value)

    def __hash__(self) -> int:
        return hash(self.pinned())

    def __index__(self) -> int:
        return self.pinned()

    __int__ = __index__

    def to_bytes(self, *how: Any) -> bytes:
        """As of its value."""
        return self.pinned().to_bytes(*how)

    def __repr__(self) -> str:
        """For texts: a name that is the same in every configuration."""
        return "?"


def whole(value: Any) -> int:
    """A plain integer: a number is pinned."""
    return value.pinned() if type(value) is Number else value


def value_of(number: Any) -> int:
    """What a number or an integer is in the configuration of the run."""
    return number.value if type(number) is Number else number


def form_of(number: Any) -> Form:
    """The form of a number or an integer."""
    return number.form if type(number) is Number else Form(int(number))


def mapped(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """A value of the specification with this in the place of each of its numbers; classes stay what they are."""
    kind = type(value)
    if kind is int:
        return value
    if kind is Number:
        return leaf(value)
    if isinstance(value, tuple):
        parts = [mapped(part, leaf) for part in value]
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    return value
