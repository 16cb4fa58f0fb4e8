"""Fields of a configuration that an adapter ignores, although the specification's calls depend on them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from cacheproof.model.finding import Subject
from cacheproof.model.recording import recording
from cacheproof.model.target import Target

CALLS = 200
"""Calls of the specification in which its reads are recorded."""


def ignored(subject: Subject, target: Target) -> tuple[str, ...]:
    """The fields that the specification reads in its calls or at the start, and the target never read.

    A field with its default value says nothing, and is left out; so is a field that only bounds which calls are made.
    Empty if the target cannot tell what it reads: only an implementation in Python can.
    """
    read: Iterable[str] | None = getattr(target, "read", None)
    return () if read is None else tuple(name for name in fields_read(subject) if name not in read)


def fields_read(subject: Subject) -> tuple[str, ...]:
    """The fields without their default value that the specification reads in a short random run."""
    config, variant, read = subject.config, subject.variant, set[str]()
    if not hasattr(config, "_fields"):
        return ()
    recorded, source = recording(config, read), random.Random(1)  # noqa: S311  # not a secret
    state = variant.start(recorded)
    for _ in range(CALLS):
        offered = list(variant.alphabet(config, state))
        state = variant.call(recorded, state, source.choice(offered))[0] if offered else variant.start(config)
    return tuple(name for name in config._fields if name in read and not _is_default(config, name))


def _is_default(config: Any, name: str) -> bool:
    usual = config._field_defaults
    return name in usual and bool(usual[name] == getattr(config, name))
