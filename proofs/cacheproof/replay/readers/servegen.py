"""ServeGen, image requests: the clients of a production service, as distributions. The load is composed from them.

One JSON object a line: `client`, `windows` (arrivals for each ten minutes of a day) and `dataset` (for each six hours,
the images of a request and the tokens of an image; only marginals, so that fields are drawn independently). Nothing
says which images are the same: a reuse rule decides, and the tokens of an image are drawn once, so that they are a
function of the image.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from cacheproof.replay.composing.distribution import Distribution, Window, distribution, window
from cacheproof.replay.composing.reuse import PARAMETERS, RULES
from cacheproof.replay.lines import Record, records
from cacheproof.replay.options import choice, integer
from cacheproof.replay.readers import Reader
from cacheproof.replay.workload import Arrival, Workload

WINDOW_SECONDS = 600.0


class _Period(NamedTuple):
    """Six hours of a client's day; None where there was no traffic."""

    start: int
    image_count: Distribution | None
    image_tokens: Distribution | None


@dataclass(frozen=True, slots=True)
class _Client:
    name: int
    path: Path
    line: int
    windows: tuple[Window, ...]
    periods: tuple[_Period, ...]

    def period(self, seconds: float) -> _Period:
        """The latest that has begun."""
        return max((period for period in self.periods if period.start <= seconds), key=_start)


def _start(period: _Period) -> int:
    return period.start


class _Draw(NamedTuple):
    """One request: its images are numbers within its client."""

    seconds: float
    client: _Client
    images: tuple[int, ...]


def _client(record: Record) -> _Client:
    """A client whose every window with requests has distributions to draw from."""
    name = record.integer("client")
    try:
        windows = tuple(window(_text(item), WINDOW_SECONDS) for item in record.array("windows"))
        dataset = record.object("dataset")
        periods = tuple(_period(start, fields) for start, fields in dataset.items())
        client = _Client(name, record.path, record.line, windows, periods)
        for each in windows:
            _assert_drawable(client, each)
    except ValueError as error:
        record.fail(f"client {name}: {error}")
    return client


def _text(item: Any) -> str:
    if not isinstance(item, str):
        raise ValueError(f"{item!r} is not a text")  # noqa: TRY004  # the reader's one error, with the line number
    return item


def _period(start: str, fields: Any) -> _Period:
    if not start.isdigit() or not isinstance(fields, dict):
        raise ValueError(f"the dataset has '{start}', which is not seconds with distributions")
    if not fields:
        return _Period(int(start), None, None)
    if "image_count" not in fields or "image_tokens" not in fields:
        raise ValueError(f"the dataset at {start} lacks image_count or image_tokens")
    return _Period(int(start), distribution(_text(fields["image_count"])), distribution(_text(fields["image_tokens"])))


def _assert_drawable(client: _Client, each: Window) -> None:
    begun = [period for period in client.periods if period.start <= each.start]
    if each.rate > 0 and (not begun or None in max(begun, key=_start)):
        raise ValueError(f"there are requests at {each.start:g} seconds, but nothing says what is in them")


def _requests(client: _Client, options: Mapping[str, Any]) -> Iterator[_Draw]:
    """One client's requests of a day, drawn from a stream of its own: other clients do not change it."""
    random = Random(f"{options['seed']}:{client.name}")  # noqa: S311  # a reproducible load, no secret
    rule = RULES[options["reuse"]](options)
    for each in client.windows:
        if each.start + each.length <= options["start"]:
            continue
        for seconds in each.arrivals(random):
            counts = client.period(seconds).image_count
            assert counts is not None
            if seconds >= options["start"]:
                yield _Draw(seconds, client, rule.images(lambda counts=counts: counts.draw(random), random))  # type: ignore[misc]  # the default binds this turn's value


def _tokens(draw: _Draw, image: int, seed: int) -> int:
    """Of an image that occurs for the first time."""
    tokens = draw.client.period(draw.seconds).image_tokens
    assert tokens is not None
    return tokens.draw(Random(f"{seed}:{draw.client.name}:{image}"))  # noqa: S311  # a reproducible load, no secret


def _read(paths: Sequence[Path], options: Mapping[str, Any]) -> Workload:
    """The requests of all clients by their time."""
    clients = [_client(record) for path in paths for record in records(path)]
    contents: dict[tuple[int, int], int] = {}
    sizes: list[int] = []
    arrivals = []
    streams = [_requests(client, options) for client in clients]
    merged = heapq.merge(*streams, key=lambda draw: (draw.seconds, draw.client.name))
    for draw in islice(merged, options["requests"]):
        for image in draw.images:
            if contents.setdefault((draw.client.name, image), len(sizes)) == len(sizes):
                sizes.append(_tokens(draw, image, options["seed"]))
        named = tuple(contents[draw.client.name, image] for image in draw.images)
        arrivals.append(Arrival(named, draw.client.path, draw.client.line, draw.seconds))
    rule = options["reuse"]
    parameters = "".join(f", {option.name} {options[option.name]:g}" for option in PARAMETERS[rule])
    return Workload(
        title=f"composed from ServeGen image clients, reuse {rule}{parameters}",
        unit="tokens",
        sizes=tuple(sizes),
        arrivals=tuple(arrivals),
        composed=True,
        seed=options["seed"],
    )


def _recognises(head: str) -> bool:
    return head.startswith("{") and '"windows"' in head and '"dataset"' in head


READER = Reader(
    name="servegen",
    title="ServeGen image clients, JSON lines of distributions",
    options=(
        choice("reuse", tuple(RULES), "which images are the same; the source does not say, so the load is composed"),
        *(option for options in PARAMETERS.values() for option in options),
        integer("requests", 10_000, "how many are drawn at the most", least=1),
        integer("start", 0, "second of the day at which the load begins"),
        integer("seed", 0, "of everything that is drawn"),
    ),
    recognises=_recognises,
    read=_read,
)
