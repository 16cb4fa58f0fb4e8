"""The usual lines in compiled code: the specification's functions, translated, take whole batches of lines.

It decides nothing on its own. Compiled code stops before the first line that is not a usual one, or not what the
specification answers. The state goes back to Python, where the validator takes this line, as it takes any line of the
reference engine.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.foundation.limits import TooSlowError, unlimited
from cacheproof.logs.validate.fast import largest_operands
from cacheproof.logs.validate.header import Header
from cacheproof.logs.validate.lines import Pattern, is_partial
from cacheproof.model.naming import names_in
from cacheproof.search.engines import AUTO
from cacheproof.search.native.build import compiler_of_this_machine
from cacheproof.search.native.following import NativeFollower, is_there, translated
from cacheproof.search.native.unit import CompileError
from cacheproof.search.worker import NATIVE, REFERENCE
from cachespec.kernel import Code, Observation, Operation

ENGINES = (AUTO, REFERENCE, NATIVE)

WORTH_LOADING = 50_000
"""Lines ahead from which a cached library is used. The translation takes up to half a second."""
WORTH_COMPILING_SECONDS = 60.0
"""Seconds ahead, in Python, from which a library is compiled. The compilation takes 5 to 30 seconds."""
LEAST_MEGABYTES = 512
"""With a smaller limit of memory, `auto` stays in Python: compiled code keeps old versions of the state for a while."""
LEAST_PAUSE = 0.01
"""Seconds in Python after compiled code has handed over, at first."""


class NativePath:
    """Steps over the usual lines of one log in compiled code. Raises CompileError and InputError."""

    def __init__(self, header: Header, observables: tuple[str, ...]) -> None:
        if reason := why_not(header):
            raise InputError(f"the native engine cannot follow this log: {reason}")
        self._follower = NativeFollower(header.component, header.variant, header.config)
        self._follower.show(list(observables))
        if hidden := [name for name in header.updates if not self._follower.shows(name)]:
            raise InputError(f"the native engine cannot follow this log: the compiler lacks the observable {hidden[0]}")
        names = names_in(header.component, header.config)
        for kind in header.component.operations:
            most = largest_operands(kind, names)
            if most is not None:
                self._follower.limit(kind, most)
        self.inside = False
        """Whether the state is in compiled code."""
        self.refused = False
        """Whether it stands before a line that it does not take."""
        self.taken = 0
        self._moving, self._pause, self._not_before, self._lines = 0.0, LEAST_PAUSE, 0.0, 0

    def may_enter(self, known: Mapping[str, Pattern], *, forced: bool) -> bool:
        """Whether to go on in compiled code: not soon after it has handed over, and not with what is known in part."""
        if any(value is None or is_partial(value) for value in known.values()):
            return False
        return forced or time.perf_counter() >= self._not_before

    def enter(self, state: Any, known: Mapping[str, Any]) -> bool:
        """Go on from a state; False where it does not fit into compiled code."""
        began = time.perf_counter()
        try:
            self._follower.enter(state, known)
        except InputError:
            self._not_before = float("inf")
            return False
        self._moving, self.inside, self.refused, self._lines = time.perf_counter() - began, True, False, 0
        return True

    def take(self, lines: list[bytes]) -> None:
        """Take lines for some time; `taken` says how many are right. Raises TooSlowError, as a line in Python does."""
        self.taken = 0
        try:
            self._follower.follow(b"\n".join((*lines, b"")))
        except TooSlowError:  # the signal came while the last line was taken
            self.taken = max(0, self._follower.lines - 1)
            raise
        self.taken, self.refused = self._follower.lines, self._follower.refused
        self._lines += self.taken

    def leave(self) -> tuple[Any, dict[str, Observation]]:
        """The state, and what was logged last of the observables that are logged when they change."""
        began = time.perf_counter()
        state, known = self._follower.state(), self._follower.known()
        self.inside = False
        now = time.perf_counter()
        self._moving += now - began
        few = self._lines * 1e-5 < self._moving  # Python would have been as fast
        self._pause = max(self._moving, 2 * self._pause if few else LEAST_PAUSE)
        self._not_before = now + self._pause
        return state, known

    @property
    def seen(self) -> set[tuple[type[Operation], Code]]:
        """The calls that were taken, each with the code that it was answered."""
        return self._follower.seen


def why_not(header: Header) -> str:
    """Why the lines of a log cannot be taken in compiled code; empty where they can."""
    if header.unlogged.operations:
        return "calls may be unlogged"
    if header.own_names is not None:
        return "its names are its own"
    if compiler_of_this_machine() is None:
        return "there is no C++ compiler"
    try:
        translated(header.component, header.variant)
    except CompileError as error:
        return str(error)
    return ""


class Choice:
    """Whether to use compiled code. It is asked until the answer is yes."""

    def __init__(self, engine: str, megabytes: int | None) -> None:
        self._native = engine == NATIVE
        small = megabytes is not None and megabytes < LEAST_MEGABYTES
        self._open = self._native or (engine == AUTO and not small)
        self._looked = False

    def made(self, header: Header, ahead: float, seconds: float) -> bool:
        """By the lines that are ahead, and the seconds that they take in Python."""
        if not self._open or (ahead < WORTH_LOADING and not self._native):
            return False
        chosen = self._native or seconds > WORTH_COMPILING_SECONDS
        if not self._looked and not self._native:
            self._looked = True
            if why_not(header):
                self._open = False
                return False
            chosen = chosen or is_there(header.component, header.variant)
        self._open = not chosen
        return chosen


def path_for(header: Header, observables: tuple[str, ...], engine: str) -> NativePath | None:
    """A path in compiled code. With `auto`, None where there is none; otherwise raises InputError."""
    with unlimited():  # the compiler has its own needs
        if engine == NATIVE:
            return NativePath(header, observables)
        with suppress(InputError, InconclusiveError):
            return NativePath(header, observables)
    return None
