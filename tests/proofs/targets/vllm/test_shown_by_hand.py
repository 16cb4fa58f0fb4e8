"""What people once showed on released packages by hand is found by the search, with no hint, in calls as few as theirs.

A row is one of those: what is broken in which releases, who has to do what for it, and how many calls were needed by
hand. Two more are allowed. Where no trace was written down, the bound is what the search is known to come to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from cacheproof.lockstep.tally import Limit
from cacheproof.present.show.violations import messages
from cacheproof.releases.reach import CLASS, ENGINE, MISUSE
from cacheproof.releases.searching import search
from cacheproof.targets.vllm.eras import table
from cacheproof.targets.vllm.release import Release, add, installed

CALLS = 4_000
SEED = 1
EVERY = ("0.7.3", "0.11.0", "0.20.2", "0.33.0")
SHARED = EVERY[1:]
"""Releases in which requests share the entries of the encoder cache, and items can lie in shared memory."""

Message = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """`by` is the call that breaks one of the properties; `longest` is in calls."""

    what: str
    component: str
    properties: tuple[str, ...]
    longest: int
    releases: tuple[str, ...]
    reach: tuple[str, ...] = (CLASS,)
    by: tuple[str, ...] = ()
    faults: tuple[str, ...] | None = None
    ending: str | None = None
    also: Callable[[Message], bool] = field(default=lambda found: True)

    def matches(self, found: Message) -> bool:
        return (
            found["component"] == self.component
            and found["property"] in self.properties
            and found["reach"] in self.reach
            and (not self.by or found["operation"] in self.by)
            and (self.faults is None or tuple(found["faults"]) == self.faults)
            and (self.ending is None or found["ending"] == self.ending)
            and found["length"] <= self.longest
            and self.also(found)
        )


def fails(found: Message) -> bool:
    return bool(found["outcomes"][-1]["code"] == "failed")


def of_single_items_that_fit_or_not(found: Message) -> bool:
    config = found["config"]
    return bool(config["items"] == 1 and max(config["sizes"]) > config["capacity"])


def of_two_modalities(found: Message) -> bool:
    return len(set(found["config"]["modalities"])) > 1


def of_a_larger_request(found: Message) -> bool:
    return bool(found["config"]["items"] > 1)


def clears_before_ids_come_round(found: Message) -> bool:
    """No id was given twice but for the clear: no more chunks were allocated than there are ids."""
    calls = [call["op"] for call in found["operations"]]
    answers = [outcome["code"] for outcome in found["outcomes"]]
    allocated = list(zip(calls, answers, strict=True)).count(("allocate", "done"))
    return "clear" in calls and bool(allocated <= found["config"]["modulus"])


SENT, RENDERED = "submit", "render"

ROWS = (
    # The encoder cache: by hand, calls were made without asking for room first.
    Row(
        "freeing what is not cached adds room",
        "encoder_cache",
        ("ENC-1", "ENC-2"),
        5,
        ("0.7.3",),
        (MISUSE,),
        ("free_input",),
        also=lambda found: not found["config"]["claims"],
    ),
    Row("allocating twice loses room for good", "encoder_cache", ("ENC-2",), 8, EVERY, (MISUSE,), ("allocate",)),
    Row("allocating without room", "encoder_cache", ("ENC-1",), 3, ("0.7.3",), (MISUSE,), ("allocate",)),
    Row(
        "an entry can be evicted while its request needs it still",
        "encoder_cache",
        ("ENC-6",),
        6,
        ("0.11.0", "0.20.2"),
        (CLASS,),
        ("can_allocate",),
    ),
    Row(
        "an entry is reported as dropped and is there again",
        "encoder_cache",
        ("ENC-7",),
        8,
        ("0.11.0", "0.20.2"),
        (CLASS,),
        ("report",),
    ),
    # The scheduler alone.
    Row(
        "a request that waits holds an item, and nobody goes on",
        "scheduler",
        ("SCH-8",),
        8,
        ("0.11.0",),
        (ENGINE,),
        ending="stall",
    ),
    # The mirrored caches of frontend and engine core.
    Row("two requests are delivered in the other order", "mirror", ("MIR-2", "MIR-3"), 6, EVERY, faults=("reorder",)),
    Row("a request is lost on its way", "mirror", ("MIR-2", "MIR-3"), 6, EVERY, faults=("drop",)),
    Row(
        "a request evicts what it is about to use: an assertion fails",
        "mirror",
        ("MIR-9",),
        5,
        ("0.11.0", "0.33.0"),
        by=(SENT, RENDERED),
        also=lambda found: of_a_larger_request(found) and fails(found),
    ),
    Row(
        "a request evicts what it is about to use: the frontend hangs",
        "mirror",
        ("MIR-9",),
        5,
        ("0.20.2",),
        by=(SENT, RENDERED),
        ending="diverged",
        also=of_a_larger_request,
    ),
    Row(
        "one side walks by modality, the other by position",
        "mirror",
        ("MIR-1", "MIR-5"),
        8,
        SHARED,
        faults=(),
        also=of_two_modalities,
    ),
    Row(
        "an item that is too large leaves a ghost, and the frontend hangs",
        "mirror",
        ("MIR-7",),
        6,
        ("0.20.2",),
        by=(SENT, RENDERED),
        faults=(),
        ending="diverged",
        also=of_single_items_that_fit_or_not,
    ),
    # Items in shared memory. By hand, a worker read a handle twice; here somebody makes a handle up, or the store is
    # cleared, or a request comes back: it is the same count that is too large then.
    Row("what no worker reads blocks all behind it", "object_store", ("X-3/store",), 16, SHARED),
    Row(
        "a handle is acknowledged more often than it was issued",
        "object_store",
        ("SHM-3", "SHM-3/out"),
        12,
        SHARED,
        (MISUSE, CLASS),
        ("read",),
    ),
    Row(
        "after clearing, an old handle gives another item",
        "ring",
        ("SHM-10",),
        6,
        ("0.11.0", "0.20.2"),
        by=("read",),
        also=clears_before_ids_come_round,
    ),
    Row(
        "live chunks overlap, and what nobody has read is overwritten",
        "ring",
        ("SHM-1",),
        12,
        ("0.11.0",),
        by=("allocate",),
        also=lambda found: "clear" not in {call["op"] for call in found["operations"]},
    ),
    Row("room is refused although everything was read", "ring", ("SHM-8/room",), 12, ("0.11.0",), by=("allocate",)),
)


@cache
def found_in(release: str, component: str, calls: int = CALLS) -> list[Message]:
    """What the search finds in a component of a release; no row is given to it."""
    era = next(era for era in table().of(Release(release), component) if not era.first)
    return messages(search(table(), era, limit=Limit(steps=calls), seed=SEED))


def named(row: Row, release: str) -> str:
    return f"{row.what.replace(' ', '-')}-{release}"


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("row", "release"),
    [pytest.param(row, release, id=named(row, release)) for row in ROWS for release in row.releases],
)
def test_what_was_shown_by_hand_is_found(row: Row, release: str) -> None:
    add(Release(release), progress=print)
    found = found_in(release, row.component)
    alike = [(one["property"], one["operation"], one["length"]) for one in found if one["property"] in row.properties]
    assert any(row.matches(one) for one in found), alike


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("what", "release"),
    [
        ("freeing what is not cached adds room", "0.11.0"),
        ("an entry can be evicted while its request needs it still", "0.33.0"),
        ("an entry is reported as dropped and is there again", "0.33.0"),
        ("a request evicts what it is about to use: an assertion fails", "0.7.3"),
        ("an item that is too large leaves a ghost, and the frontend hangs", "0.33.0"),
        ("after clearing, an old handle gives another item", "0.33.0"),
        ("live chunks overlap, and what nobody has read is overwritten", "0.20.2"),
    ],
)
def test_what_a_release_does_not_do_is_not_found_in_it(what: str, release: str) -> None:
    """The rows tell releases apart."""
    add(Release(release), progress=print)
    row = next(row for row in ROWS if row.what == what)
    assert not [one for one in found_in(release, row.component) if row.matches(one)]


@pytest.mark.parametrize("release", EVERY)
def test_a_short_search_of_the_encoder_cache(release: str) -> None:
    """What needs a few calls only is found at once, where the release is installed."""
    if installed(Release(release)) is None:
        pytest.skip(f"vllm=={release} is not installed: cacheproof target add vllm=={release}")
    found = found_in(release, "encoder_cache", 60)
    rows = [row for row in ROWS if row.component == "encoder_cache" and release in row.releases and MISUSE in row.reach]
    assert rows
    for row in rows:
        assert any(row.matches(one) for one in found), row.what
