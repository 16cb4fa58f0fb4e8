"""What a run did not see: operations that were never called, and answers of the specification that never came.

Which answers an operation of the normative variant has is in `present.book.answers`. Without it, "no difference" could
mean that half of the interface was never tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.present.book.answers import kept
from cachespec.kernel import NORMATIVE

MOST_SHOWN = 12
"""How many operations or answers one line names."""

Seen = tuple[str, str]
"""An operation by its wire name, and the code that it was answered."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """Operations that were never called, and for each of the others the codes that it never returned."""

    operations: tuple[str, ...]
    answers: dict[str, tuple[str, ...]]

    @property
    def lines(self) -> list[str]:
        """One compact line; none if all was seen."""
        parts = []
        if self.operations:
            parts.append(f"never called: {_listed(self.operations)}")
        if self.answers:
            texts = (f"{name} {'/'.join(codes)}" for name, codes in self.answers.items())
            parts.append(f"never answered: {_listed(texts)}")
        return ["; ".join(parts)] if parts else []

    @property
    def data(self) -> dict[str, Any]:
        """The same for a machine, in full."""
        return {
            "operations": list(self.operations),
            "answers": {name: list(codes) for name, codes in self.answers.items()},
        }


def unseen(component: AnyComponent, variant: AnyVariant, seen: Iterable[Seen]) -> Unseen:
    """What these calls and answers lack of all that the variant has.

    The answers are those of the normative variant; of an era only its operations are known. A turn of a loop inside
    another call is no operation here.
    """
    known = set(seen)
    called = {operation for operation, _ in known}
    answers = kept().get(component.name, {})
    names = [kind.wire_name() for kind in component.operations if kind in variant.transitions]
    names = [name for name in names if answers.get(name) or name in called or not answers]
    lacking = {
        name: tuple(code for code in answers.get(name, ()) if (name, code) not in known)
        for name in names
        if name in called and variant.tag == NORMATIVE
    }
    never = tuple(name for name in names if name not in called)
    return Unseen(never, {name: codes for name, codes in lacking.items() if codes})


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = [f"{len(every) - MOST_SHOWN} more"] if len(every) > MOST_SHOWN else []
    return ", ".join([*every[:MOST_SHOWN], *more])
