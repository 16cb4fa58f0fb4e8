"""Goes through a log from its first byte to its last."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InconclusiveError, InputError, shortened
from cacheproof.foundation.limits import Clock, TooSlowError, memory, too_large, within
from cacheproof.logs.validate.fast import FastPath
from cacheproof.logs.validate.header import Header, header_from_message
from cacheproof.logs.validate.lines import End, Reader, object_on
from cacheproof.logs.validate.native import Choice, NativePath, path_for
from cacheproof.logs.validate.own_names import OwnNumbers
from cacheproof.logs.validate.possible import CAP, Possible
from cacheproof.logs.validate.source import Source, TruncatedError
from cacheproof.logs.validate.validator import Validator
from cacheproof.logs.validate.verdict import Impossible, Inconclusive, Sort
from cacheproof.search.engines import AUTO
from cacheproof.search.worker import NATIVE

CONTEXT = 4
"""Lines before the impossible one that are shown."""


class Validation:
    """One log, validated. Everything can be read at any time, so that an interrupted validation says what is known."""

    def __init__(
        self,
        source: Source,
        *,
        component: str | None = None,
        variant: str | None = None,
        deviations: Sequence[str] = (),
        cap: int = CAP,
        unfinished: bool = False,
        fast: bool = True,
        engine: str = AUTO,
        seconds: float | None = None,
        megabytes: int | None = None,
    ) -> None:
        self.header: Header | None = None
        self.consumed = 0
        """Lines that are possible, the header and the end record not counted."""
        self.fast_lines = 0
        """Those of them that were taken at speed."""
        self.native_lines = 0
        """Those of them that compiled code has taken."""
        self.telling = 0
        """Those that say how a call ended, or what was seen: no other line can be impossible but by its operands."""
        self.seconds = 0.0
        self.found: Impossible | Inconclusive | None = None
        self.before: deque[str] = deque(maxlen=CONTEXT)
        """The last lines before the impossible one."""
        self.finished = False
        self._source, self._asked, self._cap = source, (component, variant, deviations), cap
        self._unfinished, self._may_be_fast = unfinished, fast
        self._most_seconds, self._most_megabytes = seconds, megabytes
        self._clock = Clock(None)
        self._batches = source.batches()
        self._validator: Validator | None = None
        self._reader: Reader | None = None
        self._fast: FastPath | None = None
        self._engine, self._choice = engine, Choice(engine, megabytes)
        self._native: NativePath | None = None
        self._end: End | None = None

    @property
    def sort(self) -> Sort:
        """What is known by now."""
        if isinstance(self.found, Impossible):
            return Sort.IMPOSSIBLE
        return Sort.POSSIBLE if self.found is None and self.finished else Sort.INCONCLUSIVE

    @property
    def partial(self) -> str:
        """Why a log that is possible says little; empty if most of its lines say something."""
        if self.sort is not Sort.POSSIBLE or 2 * self.telling > self.consumed > 0:
            return ""
        if self.consumed == 0:
            return "the log has no line after its header"
        return f"{self.telling:,} of {self.consumed:,} lines say how a call ended or what was seen"

    @property
    def seen(self) -> set[tuple[str, str]]:
        """The operations that were called by their wire names, each with a code that the specification answers."""
        taken = set() if self._validator is None else self._validator.seen
        fast = set() if self._fast is None else self._fast.seen
        native = set() if self._native is None else self._native.seen
        return {(kind.wire_name(), code.value) for kind, code in taken | fast | native}

    @property
    def numbers(self) -> OwnNumbers | None:
        """How the log's own names are read; None where it has those of the specification."""
        return None if self._validator is None else self._validator.numbers

    @property
    def possible(self) -> int:
        """How many states are possible after the lines that were consumed."""
        if self._native is not None and self._native.inside:
            return 1
        return 0 if self._validator is None else len(self._validator.possible)

    @property
    def peak(self) -> int:
        """The most states that were possible at once."""
        return 0 if self._validator is None else self._validator.peak

    def run(self, show: Show = lambda _line: None, until: int | None = None) -> None:
        """All of the log, or up to the first line that is impossible or of which nothing is known.

        With `until`, at least so many lines, in whole batches, one at least; the next call goes on from there. Raises
        InputError where it is no log, and TruncatedError where it ends too early. A line, the first one too, may
        take as many seconds as were given, and all of it as many megabytes: beyond that it is not known any more.
        """
        began, before = time.perf_counter(), self.seconds
        try:
            with memory(self._most_megabytes), within(self._most_seconds) as self._clock:
                self._run(show, until, began - before)
        except (TooSlowError, MemoryError) as error:
            if self.header is None:
                raise InconclusiveError(f"{self._source.name}, line 1: {self._beyond(error)}") from None
            self.found = Inconclusive(self.number, self._beyond(error))
        finally:
            self.seconds = time.perf_counter() - (began - before)

    def _run(self, show: Show, until: int | None, began: float) -> None:
        self._clock.pause()  # a log may still be written: waiting for it takes no time
        for batch in self._batches:
            self._clock.begin()
            self._take_batch(batch)
            self._clock.pause()
            self.seconds = time.perf_counter() - began
            if self.found is not None or (until is not None and self.consumed >= until):
                return
            show(self._progress())
        self._close()

    def _beyond(self, error: BaseException) -> str:
        return str(error) if isinstance(error, TooSlowError) else too_large(self._most_megabytes)

    @property
    def number(self) -> int:
        """Of the line that is looked at, or that was looked at last."""
        return 1 if self._reader is None else self.consumed + 2 + (self._end is not None)

    def _take_batch(self, batch: list[bytes]) -> None:
        first = 0
        if self.header is None:
            self._begin(batch[0])
            first = 1
        self._choose_engine(batch)
        place = first
        while place < len(batch) and self.found is None:
            place = self._hurry(batch, place)
            if place < len(batch):
                self._take(batch, place)
                place += 1
        if self.found is not None:
            self.before.extend(map(_text, batch[max(0, place - 1 - CONTEXT) : place - 1]))
            return
        self.before.extend(map(_text, batch[-CONTEXT:]))
        if self._end is None and self._counts_bytes:
            self._source.passed(batch)

    @property
    def _counts_bytes(self) -> bool:
        return self.header is not None and "sha256" in self.header.promises

    def _hurry(self, batch: list[bytes], place: int) -> int:
        """The usual lines from this place on; the place of the first one that is not."""
        place = self._natively(batch, place)
        if self._native is not None and self._native.inside:
            return place
        if self._fast is None or self._validator is None or len(self._validator.possible) != 1 or self._end is not None:
            return place
        began, step, state = place, self._fast.step, self._validator.possible.alone
        begin_time = self._clock.begin
        known = self._validator.known
        self._validator.possible = Possible(self._cap)  # a state that is kept would keep every change since then
        try:
            while place < len(batch):
                begin_time()
                after = step(batch[place], state, known)
                if after is None:
                    break
                state = after
                place += 1
        finally:
            self._validator.possible = Possible.only(self._cap, state)
            self.consumed += place - began
            self.fast_lines += place - began
            self.telling += place - began
        return place

    def _natively(self, batch: list[bytes], place: int) -> int:
        """As `_hurry`, in compiled code, if that is there and worth it."""
        native, validator = self._native, self._validator
        if native is None or validator is None or self._end is not None:
            return place
        if not native.inside:
            if len(validator.possible) != 1 or not native.may_enter(validator.known, forced=self._engine == NATIVE):
                return place
            if not native.enter(validator.possible.alone, validator.known):
                return place
            validator.possible = Possible(self._cap)
        while place < len(batch):
            self._clock.begin()
            try:
                native.take(batch[place:])
            finally:
                place += native.taken
                self.consumed += native.taken
                self.native_lines += native.taken
                self.telling += native.taken
            if native.refused:
                break
        return place

    def _in_python(self) -> None:
        """The state comes back from compiled code, if it is there."""
        if self._native is not None and self._native.inside:
            assert self._validator is not None
            state, known = self._native.leave()
            self._validator.possible = Possible.only(self._cap, state)
            self._validator.known.update(known)

    def _choose_engine(self, batch: list[bytes]) -> None:
        """Whether compiled code takes the lines from here on; it is asked until the answer is yes."""
        if self.header is None or self._validator is None or self._native is not None:
            return
        read = self._source.fraction
        lines = self.consumed or len(batch)
        ahead = lines * (1 / max(read, 1e-9) - 1) if read is not None else self.consumed
        seconds = self.seconds * ahead / max(self.consumed, 1)
        self._clock.pause()
        if self._choice.made(self.header, ahead, seconds):
            self._native = path_for(self.header, self._validator.observables, self._engine)
        self._clock.begin()

    def _take(self, batch: list[bytes], place: int) -> None:
        """One line, looked at closely."""
        number = self.number
        self._clock.begin()
        try:
            self._take_or_refuse(batch, place, number)
        except InputError as error:
            raise InputError(f"{self._source.name}, line {number}: {error}") from None

    def _take_or_refuse(self, batch: list[bytes], place: int, number: int) -> None:
        assert self._reader is not None
        assert self._validator is not None
        if self._end is not None:
            raise InputError("there is a line after the end record")
        line = self._reader.read(batch[place])
        if isinstance(line, End):
            self._take_end(line, batch[:place])
            return
        self._in_python()
        self.found = self._validator.take(line, number, _text(batch[place]))
        self.consumed += self.found is None
        self.telling += self.found is None and (line.tells or bool(self._validator.known))

    def _begin(self, first: bytes) -> None:
        try:
            header = header_from_message(object_on(first), *self._asked)
            self.header = header
            self._validator = Validator(header, self._cap)
        except InputError as error:
            raise InputError(f"{self._source.name}, line 1: {error}") from None
        fast = FastPath(header)
        self._fast = fast if fast.usable and self._may_be_fast else None
        own = header.own_names
        self._reader = Reader(header.component, header.config, None if own is None else own.sort)
        self.found = self._validator.begin(_text(first))

    def _take_end(self, end: End, before: list[bytes]) -> None:
        self._end = end
        promised = () if self.header is None else self.header.promises
        for name in promised:
            if getattr(end, name) is None:
                raise InputError(f"the header promises '{name}' in the end record, and it is not there")
        if end.lines is not None and end.lines != self.consumed:
            raise InputError(f"the end record counts {end.lines:,} lines, and there are {self.consumed:,}")
        if self._counts_bytes:
            self._source.passed(before)
            if end.sha256 != self._source.sha256:
                raise InputError("the lines before the end record are not those of which it has the digest")

    def _close(self) -> None:
        """There is no further line: is this the end?"""
        source, name = self._source, self._source.name
        if self.header is None:
            broken = f": what is compressed breaks off ({source.broken})" if source.broken else ""
            raise TruncatedError(f"{name}: truncated: there is no whole line{broken}")
        last = self.consumed + 1 + (self._end is not None)
        wrong = None
        if source.broken:
            wrong = f"what is compressed breaks off ({source.broken})"
        elif source.unfinished:
            wrong = "the last line does not end with a newline"
        elif self.header.promises and self._end is None:
            wrong = "the end record that the header promises is not there"
        if wrong is not None and not self._unfinished:
            raise TruncatedError(
                f"{name}: truncated after line {last:,}: {wrong}; the {self.consumed:,} lines before are possible "
                "(--unfinished takes a log as far as it goes)"
            )
        self.finished = True

    def _progress(self) -> str:
        rate = self.consumed / max(self.seconds, 1e-9)
        part = self._source.fraction
        read = "" if part is None else f"{part:.0%}, "
        many = f", {self.possible:,} states possible" if self.possible > 1 else ""
        return f"{read}{self.consumed:,} lines, {rate:,.0f} a second{many}"


def _text(raw: bytes) -> str:
    return shortened(raw.decode("utf-8", "replace"))
