"""The ring and the object store, as tests of such a ring and store are written; the same with releases, and in eras."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces.cases import shared_memory as cases
from tests.impl.interfaces.released import AbsentError, Bytes, absent
from tests.impl.interfaces.releases import Case, Difference, cases_of, check_release, each

from cacheimpl.object_store import ReleasedObjectStorage, SingleWriterShmObjectStorage, StoreEra
from cacheimpl.object_store.counting import RINGS
from cacheimpl.object_store.errors import NotInEraError
from cacheimpl.ring import ReleasedRingBuffer, SingleWriterShmRingBuffer
from cacheimpl.ring.errors import RingFullError

VERSIONS = ("0.11.0", "0.20.2", "0.33.0")
UNTIL_0_20 = ("0.11.0", "0.20.2")
ERA_OF = dict(zip(VERSIONS, StoreEra, strict=True))

DIFFERENCES = {
    "a_new_ring_has_no_chunk": Difference(("0.11.0",), "C-SHM-1"),
    "an_emptied_ring_is_as_good_as_new": Difference(("0.11.0",), "C-SHM-1"),
    "ids_go_on_after_clearing": Difference(UNTIL_0_20, "C-SHM-7"),
    "a_handle_is_good_after_clearing": Difference(VERSIONS, "C-SHM-12"),
    "a_request_that_is_lost_keeps_no_chunk": Difference(VERSIONS, "C-SHM-4"),
    "counts_go_down": Difference(VERSIONS, "C-SHM-15"),
    "everything_that_may_go_goes": Difference(VERSIONS, "C-SHM-13"),
}


class Made:
    """Rings and stores, closed in the end."""

    def __init__(self, era: StoreEra | None) -> None:
        self.era, self.kept = era, list[Any]()

    def ring(self, size: int = 400) -> Any:
        made: Any = (
            SingleWriterShmRingBuffer(size, create=True)
            if self.era is None
            else ReleasedRingBuffer(size, create=True, era=RINGS[self.era.value])
        )
        self.kept.append(made)
        return made

    def attached(self, writer: Any) -> Any:
        made: Any = (
            SingleWriterShmRingBuffer(*writer.handle())
            if self.era is None
            else ReleasedRingBuffer(*writer.handle(), era=RINGS[self.era.value])
        )
        self.kept.append(made)
        return made

    def stored(self, largest: int, ring: Any, lock: Any) -> Any:
        if self.era is None:
            return SingleWriterShmObjectStorage(largest, 2, ring, Bytes, lock)
        return ReleasedObjectStorage(largest, 2, ring, Bytes, lock, era=self.era)

    def store(self, size: int = 4096, largest: int = 2048) -> Any:
        writer, lock = self.stored(largest, self.ring(size), None), Lock()
        readers = [self.stored(largest, self.attached(writer.ring_buffer), lock) for _ in range(2)]
        return SimpleNamespace(writer=writer, readers=readers)

    def handle(self, writer: Any, key: str, address: int, identity: int) -> tuple[Any, ...]:
        signed = self.era in (None, StoreEra.STORE_2026_11)
        return (address, identity, *((writer.get_signature(key), key) if signed else ()))

    def reader_without_lock(self, made: Any) -> Any:
        return self.stored(2048, self.attached(made.writer.ring_buffer), None)

    def api(self) -> Any:
        names = ("ring", "attached", "store", "handle", "reader_without_lock")
        given = {name: getattr(self, name) for name in names}
        return SimpleNamespace(absent=absent, NO_ROOM=(RingFullError,), **given)

    def close(self) -> None:
        for ring in reversed(self.kept):
            ring.close()


@pytest.fixture
def ours() -> Iterator[Made]:
    made = Made(None)
    yield made
    made.close()


@pytest.mark.parametrize("case", each(cases))
def test_ours(case: Case, ours: Made) -> None:
    case(ours.api())


def outcome_in_era(era: StoreEra, case: Case) -> str:
    """How a case ends with our store of an era."""
    made = Made(era)
    try:
        case(made.api())
    except (AbsentError, NotInEraError):
        return "absent"
    except Exception as error:  # noqa: BLE001  # whatever it is
        return type(error).__name__
    finally:
        made.close()
    return "passed"


@pytest.mark.parametrize("version", VERSIONS)
def test_eras_differ_where_their_releases_do(version: str) -> None:
    found = {name: outcome_in_era(ERA_OF[version], case) for name, case in cases_of(cases).items()}
    differs = {name for name, how in found.items() if how not in ("passed", "absent")}
    assert differs == {name for name, one in DIFFERENCES.items() if version in one.versions}, found


@pytest.mark.nightly
@pytest.mark.parametrize("version", VERSIONS)
def test_released(version: str) -> None:
    check_release(version, cases, DIFFERENCES)
