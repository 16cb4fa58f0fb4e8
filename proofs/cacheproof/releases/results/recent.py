"""What the last `conform` of each release has found, kept so that `reproduce` can make it again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cacheproof.foundation.errors import InputError
from cacheproof.model.store import load_all, name_of, save
from cacheproof.releases.results.ids import named
from cacheproof.releases.results.record import Violation

KIND = "violations"


def remember(found: Sequence[dict[str, Any]]) -> None:
    """Name the findings of a run, in their messages too, and keep them in the place of those of an earlier run."""
    for target in dict.fromkeys(str(message["target"]) for message in found):
        mine = [message for message in found if message["target"] == target]
        violations = [msgspec.convert(message, Violation) for message in mine]
        named(violations)
        for message, violation in zip(mine, violations, strict=True):
            message["id"] = violation.id
        save(KIND, name_of(target), {"target": target, "violations": msgspec.to_builtins(violations)})


def recent() -> Iterator[Violation]:
    """Every finding that is kept. Raises InputError for a file that is none of ours."""
    for kept in load_all(KIND):
        try:
            yield from msgspec.convert(kept.get("violations"), list[Violation])
        except msgspec.ValidationError as error:
            raise InputError(f"{KIND}/{kept.get('name')}: not as `conform` keeps them: {error}") from None
