"""What is drawn: values with their probabilities, and the times between arrivals."""

from __future__ import annotations

import ast
import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random

TOLERANCE = 1e-6
"""How far the probabilities of a distribution may be from one, together."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Integers that are not negative, and the probability that a draw is at most each of them."""

    values: tuple[int, ...]
    cumulative: tuple[float, ...]

    def draw(self, random: Random) -> int:
        """One value."""
        place = bisect_right(self.cumulative, random.random() * self.cumulative[-1])
        return self.values[min(place, len(self.values) - 1)]


def distribution(text: str) -> Distribution | None:
    """From `{value: probability, ...}`; None where nothing is in it.

    Raises:
        ValueError: what is wrong with the text.
    """
    pairs = sorted(_pairs(text).items())
    if not pairs:
        return None
    total = sum(probability for _, probability in pairs)
    if abs(total - 1) > TOLERANCE:
        raise ValueError(f"the probabilities add up to {total:.6g}")
    return Distribution(tuple(value for value, _ in pairs), tuple(accumulate(probability for _, probability in pairs)))


def _pairs(text: str) -> dict[int, float]:
    try:
        pairs = dict(ast.literal_eval(text))
    except (SyntaxError, TypeError, ValueError, MemoryError, RecursionError):
        raise ValueError(f"'{text[:30]}' is not a distribution {{value: probability, ...}}") from None
    for value, probability in pairs.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"the value {value!r} is not an integer from 0 up")
        if not isinstance(probability, int | float) or not 0 <= probability <= 1 + TOLERANCE:
            raise ValueError(f"{probability!r} is not a probability")
    return pairs


GAMMA, WEIBULL = "Gamma", "Weibull"


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a client's day in which its arrivals are alike; `shape` and `scale` are those of the family."""

    start: float
    """Seconds."""
    length: float
    rate: float
    """Requests a second."""
    family: str
    """Of the seconds between arrivals; empty where the client was quiet."""
    shape: float
    scale: float

    def arrivals(self, random: Random) -> Iterator[float]:
        """Seconds of the day; the times between arrivals are scaled so that their mean is one over the rate."""
        if self.rate == 0:
            return
        factor = 1 / (self.rate * self.mean)
        clock = self.start + factor * self._gap(random)
        while clock < self.start + self.length:
            yield clock
            clock += factor * self._gap(random)

    @property
    def mean(self) -> float:
        """Of the family as it is given, before scaling; in seconds. Infinite where it is too large to say."""
        try:
            return self.shape * self.scale if self.family == GAMMA else self.scale * math.gamma(1 + 1 / self.shape)
        except OverflowError:
            return math.inf

    def _gap(self, random: Random) -> float:
        if self.family == GAMMA:
            return random.gammavariate(self.shape, self.scale)
        return random.weibullvariate(self.scale, self.shape)


def window(text: str, length: float) -> Window:
    """From `start,rate,cv,family,shape,scale`.

    Raises:
        ValueError: what is wrong with the text.
    """
    fields = text.strip().split(",")
    if len(fields) != 6:
        raise ValueError(f"'{text.strip()[:40]}' is not a window start,rate,cv,family,shape,scale")
    start, rate, _, family, shape, scale = fields
    try:
        read = Window(float(start), length, float(rate), family, float(shape), float(scale))
    except ValueError:
        raise ValueError(f"'{text.strip()[:40]}' has something other than numbers in it") from None
    if not (math.isfinite(read.rate) and math.isfinite(read.start)) or read.rate < 0 or read.start < 0:
        raise ValueError(f"a window starts at {start} with {rate} requests a second")
    if read.rate > 0 and (family not in (GAMMA, WEIBULL) or not (read.shape > 0 and 0 < read.mean < math.inf)):
        raise ValueError(f"a window with requests has the arrivals '{family},{shape},{scale}'")
    return read
