"""How the integers of an observable belong together, for people who read one: declared once, beside what it holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grouping:
    """The rows of an observable that is a sequence of integers.

    `row` names the integers of one row, in their order, and the sequence repeats rows: `("block", "")` is pairs, and
    the second number has no name but the observable's. With `counted`, a row goes on with a number, and with so many
    of what `counted` names. With `each`, row 0 is about the first of what it names, row 1 about the second. With
    `beside`, the rows are about the entries of the observable that it names, in their order. `lane` is the lane of
    operations whose state this is. `unless` names the variants whose rows are others.
    """

    row: tuple[str, ...] = ()
    counted: str = ""
    each: str = ""
    beside: str = ""
    lane: str = ""
    unless: tuple[str, ...] = ()
