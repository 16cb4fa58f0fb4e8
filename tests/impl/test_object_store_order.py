"""Which handles are out, late readers, and the order of publication; and planted bugs that these tests find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.impl.object_stores import Stores, filled
from tests.planting import Change, planted

from cacheimpl.object_store.errors import SerdeError, StaleHandleError, StoreFullError
from cacheimpl.object_store.handles import PREFIX
from cacheimpl.object_store.reading import Reader
from cacheimpl.object_store.tickets import FEW, Tickets
from cacheimpl.object_store.writing import Writer
from cacheimpl.ring.headers import Headers
from cacheimpl.ring.segment import Segment

torch.set_num_threads(1)


@pytest.fixture
def stores() -> Iterator[Stores]:
    made = Stores()
    yield made
    made.close()


# What is out --------------------------------------------------------------------------------------------------------


def test_a_handle_is_counted_while_it_is_out(stores: Stores) -> None:
    first, again = stores.put("key"), stores.hit("key")
    assert stores.writer.writer_flag == {0: 2}
    for reader in stores.readers:
        reader.get(*first)
        reader.get(*first)  # as a resumed request does
    assert stores.writer.free_unused() == ()
    assert stores.writer.writer_flag == {0: 1}
    stores.end(again)
    assert not stores.writer.revoke(*again)
    assert stores.writer.free_unused() == (0,)


def test_a_late_acknowledgement_means_nothing(stores: Stores) -> None:
    """The cell belongs to another handle by then, which the reader acknowledged before."""
    old = stores.put("key")
    reader = stores.readers[0].reader
    looked = reader.look(reader.verified(old[3], *old[:3]))
    stores.end(old)
    new = stores.hit("key")
    assert stores.readers[1].get(*new) is not None
    assert stores.readers[0].get(*new) is not None
    reader.acknowledge(looked)
    assert stores.writer.free_unused() == (0,)


def test_a_late_acknowledgement_is_none_of_the_new_handle(stores: Stores) -> None:
    old = stores.put("key")
    reader = stores.readers[0].reader
    looked = reader.look(reader.verified(old[3], *old[:3]))
    stores.end(old)
    new = stores.hit("key")
    stores.readers[1].get(*new)
    reader.acknowledge(looked)
    assert stores.writer.free_unused() == ()


def test_a_refusal_withdraws_what_is_in_the_way(stores: Stores) -> None:
    handles = [stores.put(key) for key in "abc"]
    with pytest.raises(StoreFullError):
        stores.put("d")
    assert not stores.writer.is_cached("a")
    assert torch.equal(stores.readers[0].get(*handles[0]), filled("a"))
    stores.end(handles[0])
    stores.put("d")
    assert sorted(stores.writer.key_index) == ["b", "c", "d"]


@pytest.mark.parametrize("out", [FEW - 1, FEW, FEW + 1, 500])
def test_many_handles_are_settled_as_few_are(stores: Stores, out: int) -> None:
    """Those that both readers have acknowledged, whether handles are looked at one by one or together."""
    handles = [stores.put("key", filled("k", 10)), *(stores.hit("key") for _ in range(out - 1))]
    for number, handle in enumerate(handles):
        for reader in (0, 1):
            if number % (2 + reader) == 0:
                stores.readers[reader].get(*handle)
    both = [number for number in range(out) if number % 6 == 0]
    stores.writer.writer.tickets.settle_acknowledged()
    assert stores.writer.writer_flag == {0: out - len(both)}
    assert [stores.writer.revoke(*handle) for handle in handles] == [number not in both for number in range(out)]
    assert stores.writer.free_unused() == (0,)


def acknowledged_in_rounds(stores: Stores) -> None:
    """Many are out all the while; each is settled when the second reader has acknowledged it, and no sooner."""
    handles = [stores.put("key", filled("k", 10)), *(stores.hit("key") for _ in range(FEW + 8))]
    left = len(handles)
    for handle in handles[:6]:
        for reader, settled in ((0, 0), (1, 1)):
            stores.writer.writer.tickets.settle_acknowledged()
            stores.readers[reader].get(*handle)
            stores.writer.writer.tickets.settle_acknowledged()
            left -= settled
            assert stores.writer.writer_flag == {0: left}
    fresh = stores.hit("key")
    for each in stores.readers:
        each.get(*fresh)
    stores.writer.writer.tickets.settle_acknowledged()
    assert stores.writer.writer_flag == {0: left}


def test_many_handles_are_settled_round_by_round(stores: Stores) -> None:
    acknowledged_in_rounds(stores)


def test_there_are_no_more_handles_than_cells() -> None:
    stores = Stores(max_handles=2)
    handles = [stores.put("a"), stores.hit("a")]
    before = stores.books()
    with pytest.raises(StoreFullError):
        stores.hit("a")
    with pytest.raises(StoreFullError):
        stores.put("b")
    assert stores.books() == before
    stores.end(handles[0])
    assert stores.put("b")[1] == 1
    stores.close()


# Late readers, and the order of publication ---------------------------------------------------------------------------


def overwritten_while_read(stores: Stores) -> None:
    """The reader has looked; its handle is revoked; the chunk, and two more, give way to a large one."""
    handles = [stores.put(key) for key in "abc"]
    reader = stores.readers[0].reader
    address, identity, signature, key = handles[1]
    looked = reader.look(reader.verified(key, address, identity, signature))
    stores.end(*handles)
    stores.writer.free_unused()
    was = bytes(looked.payload)

    def from_behind(*given: Any) -> None:
        """As a copy may go: the last bytes first. In between the reader copies, and looks again."""
        given[-1][-600:] = b"\xff" * 600
        assert bytes(looked.payload) != was
        with pytest.raises(StaleHandleError):
            reader.look_again(looked)

    stores.writer.writer.put("z", (b"", 1900, b"", 0), from_behind)


def test_a_header_in_the_way_is_struck_out_before_the_data(stores: Stores) -> None:
    overwritten_while_read(stores)


def put_in_order(stores: Stores) -> None:
    """What a reader finds at each barrier of a put that takes the place of another chunk, and of the one behind it."""
    handles = [stores.put(key) for key in "ab"]
    stores.end(*handles)
    stores.writer.free_unused()
    data, seen = stores.ring.segment.data, []
    places, barrier = (handles[0][0], handles[1][0]), Segment.barrier
    filling = bytes([ord("z")]) * 64

    def observed(segment: Segment) -> None:
        ids = tuple(int.from_bytes(data[place : place + 4], "little", signed=True) for place in places)
        prefix = bytes(data[stores.ring.MD_SIZE : stores.ring.MD_SIZE + PREFIX.size])
        seen.append((ids, filling in bytes(data), prefix))
        barrier(segment)

    before = bytes(data[stores.ring.MD_SIZE : stores.ring.MD_SIZE + PREFIX.size])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Segment, "barrier", observed)
        handle = stores.put("z", filled("z", 1900))
    assert len(seen) == 2
    assert seen[0] == ((-1, -1), False, before)  # struck out, and nothing else
    assert seen[1][0][0] == handle[1]
    assert seen[1][1]  # all of the data
    after = bytes(data[stores.ring.MD_SIZE : stores.ring.MD_SIZE + PREFIX.size])
    assert seen[1][2] == after != before  # and the prefix
    assert torch.equal(stores.readers[0].get(*handle), filled("z", 1900))


def test_the_order_of_publication(stores: Stores) -> None:
    put_in_order(stores)


def read_in_order(stores: Stores) -> None:
    """A barrier before the second look, which sees what happened by then, and one before the acknowledgement."""
    handle, barrier, seen = stores.put("a"), Segment.barrier, []
    cells = stores.ring.segment.cells(0)

    def observed(segment: Segment) -> None:
        seen.append(cells[0])
        barrier(segment)

    def overtaken(segment: Segment) -> None:
        stores.ring.strike_out(handle[0])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Segment, "barrier", observed)
        stores.readers[0].get(*handle)
        assert seen == [0, 0]
        assert cells[0] > 0
        patched.setattr(Segment, "barrier", overtaken)
        with pytest.raises(StaleHandleError):
            stores.readers[1].get(*handle)


def test_the_order_of_reading(stores: Stores) -> None:
    read_in_order(stores)


def test_what_cannot_be_written_leaves_everything_as_it_was(stores: Stores) -> None:
    kept = stores.put("a")
    before = stores.books()

    def fails(*given: Any) -> None:
        given[-1][:] = b"\xff" * len(given[-1])
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        stores.writer.writer.put("b", (b"", 100, b"", 10), fails)
    assert stores.books() == before
    with pytest.raises(SerdeError):
        stores.writer.put("b", lambda: None)
    assert stores.books() == before
    assert stores.put("b")[:2] == (kept[0] + stores.ring.placement.totals[0], 1)
    assert torch.equal(stores.readers[0].get(*kept), filled("a"))


def test_a_reader_that_fails_has_not_acknowledged(stores: Stores) -> None:
    handle = stores.put("a")
    with pytest.raises(RuntimeError, match="mine"), stores.readers[0].view(*handle):
        raise RuntimeError("mine")
    stores.readers[1].get(*handle)
    assert stores.writer.free_unused() == ()
    stores.readers[0].get(*handle)
    assert stores.writer.free_unused() == (0,)


def struck_out_is_gone(stores: Stores) -> None:
    """A header that is struck out, with nothing written over the rest of the chunk yet."""
    handle = stores.put("a")
    stores.ring.strike_out(handle[0])
    with pytest.raises(StaleHandleError):
        stores.readers[0].get(*handle)


PLANTED: dict[str, tuple[Callable[..., Any], str, str, Callable[[Stores], None]]] = {
    "the rows are compared once": (
        Tickets._readers_wrote, "self._seen != $before", "not $before", acknowledged_in_rounds,
    ),
    "only the first row is looked at for what is new": (
        Tickets._readers_wrote, "self._rows", "self._rows[:1]", acknowledged_in_rounds,
    ),
    "a header that is gone stays": (
        Headers.begin, "self.strike_out($gone.pop($first))", "$gone.pop($first)", overwritten_while_read,
    ),
    "only the first header is struck out": (
        Headers.begin, "while $first_address:\n    $body", "if $first_address:\n    $body", overwritten_while_read,
    ),
    "struck out without a barrier": (Headers.begin, "self._segment.barrier()", "pass", put_in_order),
    "the prefix behind the last barrier": (
        Writer._written, "PREFIX.pack_into(*$rest)",
        "self._segment.barrier()\nself._segment.barrier()\nPREFIX.pack_into(*$rest)", put_in_order,
    ),
    "the handle without a barrier before it": (Writer._written, "$segment.barrier()", "pass", put_in_order),
    "a second look without a barrier": (
        Reader.look_again, "$looked.attachment.segment.barrier()", "pass", read_in_order,
    ),
    "an acknowledgement without a barrier": (
        Reader.acknowledge, "$looked.attachment.segment.barrier()", "pass", read_in_order,
    ),
    "any id is the right one": (
        Reader.look, "($identity, *$found) == ($handle.identity, *$meant)", "(*$found,) == (*$meant,)",
        struck_out_is_gone,
    ),
    "a late acknowledgement undoes a newer one": (
        Reader.acknowledge, "max($cells[$handle.cell], $handle.number)", "$handle.number",
        test_a_late_acknowledgement_means_nothing,
    ),
    "an acknowledgement of the next handle": (
        Reader.acknowledge, "max($cells[$handle.cell], $handle.number)", "$handle.number + 1",
        test_a_handle_is_counted_while_it_is_out,
    ),
    "what could not be written stays reserved": (
        Writer._written, "$placement.give_up_newest($end)", "pass",
        test_what_cannot_be_written_leaves_everything_as_it_was,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(stores: Stores, name: str) -> None:
    function, right, wrong, check = PLANTED[name]
    with planted(Change(function, right, wrong)), pytest.raises((AssertionError, pytest.fail.Exception)):
        check(stores)


def test_what_is_struck_out_is_gone(stores: Stores) -> None:
    struck_out_is_gone(stores)
