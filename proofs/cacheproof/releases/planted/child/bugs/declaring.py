"""What a planted bug is, and how one is declared: a function with the place of the method that it stands for.

As in

    CACHE = Place("vllm.utils.cache:LRUCache", "vllm.utils:LRUCache")

    @CACHE.broken("touch")
    def touch_does_nothing(released, cache, key):
        '''A key that is touched stays where it is.'''

The function is called with the release's own method, bound, then with what that is called with. Its docstring says how
the method is broken; its name, with hyphens, is the bug's.

A bug inside a long method changes one part of its code (see `patterns`), and its function has a docstring only:

    @SCHEDULER.changed("schedule", "$one in scheduled_running_reqs", "False", fixed="#23713")
    def victim_stays_planned():
        '''A preempted request stays in the plan of the step.'''

A historic bug was fixed in public: `fixed` is the number of the fix and `reported` that of a report. A refactoring is
declared likewise, in a module whose name begins with `harmless_`; nothing may show it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

Broken = Callable[..., Any]
Changes = tuple[tuple[str, str], ...]
"""Parts of a method's code, each with its replacement: patterns, see `patterns`."""
NEWEST = "9999"
PUT_BACK = "0.33.0"
"""The release into which historic bugs are put back."""


@dataclass(frozen=True)
class Bug:
    """One method of one class, or one function of a module, that does something wrong."""

    name: str
    place: Place
    method: str
    """Empty where the place is a module: the function is then named by `function`."""
    says: str
    broken: Broken
    since: str
    until: str
    """The releases that have what it stands for, both included."""
    unseen: str = ""
    """Why nothing of the component shows it, where that is so; then it must not be found."""
    changes: Changes = ()
    """The changed parts of the method's code, if the bug is a change; `broken` is then not called."""
    also: tuple[str, Changes] | None = None
    """A further method of the class that would hide the bug otherwise, and its changed parts."""
    fixed: str = ""
    """The public number of the fix, if the bug is historic; of a report, if only the release itself shows the fix."""
    reported: str = ""
    """The public number of a report, if there is one beside the fix."""
    needs: str = ""
    """What the driver lacks to reach the bug, such as a connector; it then counts as not found."""

    @property
    def where(self) -> str:
        """As people write it: `LRUCache.touch`, by the newest name."""
        return f"{self.place.names[0].partition(':')[2]}.{self.method}".removeprefix(".")

    def is_in(self, version: str) -> bool:
        """Whether the release has what it stands for."""
        return _parts(self.since) <= _parts(version) <= _parts(self.until)


class Place:
    """A class by the modules and names it has had, the newest first; or a module, for its functions.

    `variant` is the era that shows it, where a release is compared with several.
    """

    def __init__(self, *names: str, variant: str = "") -> None:
        self.names = names
        self.variant = variant

    def broken(
        self,
        method: str,
        *,
        since: str = "0",
        until: str = NEWEST,
        unseen: str = "",
        fixed: str = "",
        reported: str = "",
        needs: str = "",
    ) -> Callable[[Broken], Bug]:
        """Declares what a method does wrong."""

        def declared(function: Broken) -> Bug:
            bug = Bug(_named(function), self, method, _says(function), function, since, until, unseen)
            return replace(bug, fixed=fixed, reported=reported, needs=needs)

        return declared

    def changed(
        self,
        method: str,
        *parts: str,
        fixed: str = "",
        reported: str = "",
        needs: str = "",
        unseen: str = "",
        also: tuple[str, str, str] | None = None,
    ) -> Callable[[Broken], Bug]:
        """Declares a historic bug as parts of a method's code, each followed by its replacement.

        `also`: a further method of the class, with one such part. It undoes what a later change did to the bug.
        """
        assert len(parts) % 2 == 0, "each part is followed by its replacement"
        changes = tuple(zip(parts[::2], parts[1::2], strict=True))
        further = (also[0], (also[1:],)) if also is not None else None

        def declared(function: Broken) -> Bug:
            bug = Bug(_named(function), self, method, _says(function), function, PUT_BACK, PUT_BACK, unseen)
            return replace(bug, changes=changes, also=further, fixed=fixed, reported=reported, needs=needs)

        return declared


@contextmanager
def meanwhile(owner: Any, **values: Any) -> Iterator[None]:
    """For the length of a block, the attributes of an object have these values."""
    kept = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in kept.items():
            setattr(owner, name, value)


def _named(function: Broken) -> str:
    return function.__name__.replace("_", "-")


def _says(function: Broken) -> str:
    says = inspect.getdoc(function)
    assert says, f"{function.__name__} does not say what is broken"
    return " ".join(says.split())


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall("[0-9]+", version))
