"""A reader decodes only bytes that it has copied and verified: a reused chunk never reaches the decoder."""

from __future__ import annotations

import ast
import gc
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.impl.object_stores import RING, Handle, Stores, filled

from cacheimpl import object_store
from cacheimpl.object_store.errors import StaleHandleError
from cacheimpl.object_store.reading import Reader
from cacheimpl.object_store.serde import MsgpackSerde
from cacheimpl.ring.segment import Segment

torch.set_num_threads(1)


class Watched(MsgpackSerde):
    """Notes every description that it is asked to decode."""

    decoded: list[bytes]

    def deserialize(self, data_view: memoryview) -> Any:
        self.decoded.append(bytes(data_view))
        return super().deserialize(data_view)

    def view(self, description: memoryview, data: memoryview) -> Any:
        self.decoded.append(bytes(description))
        return super().view(description, data)


@pytest.fixture
def stores() -> Iterator[Stores]:
    made = Stores()
    for reader in made.readers:
        reader.ser_de = Watched()
        reader.ser_de.decoded = []
    yield made
    made.close()


def reuse(stores: Stores, handle: Handle) -> None:
    """The request ends; its handle is revoked; another request's item takes the place of the chunk."""
    stores.end(handle)
    stores.writer.free_unused()
    stores.ring.placement.end = stores.ring.placement.start = 0  # the next chunk begins where the old one did
    assert stores.put("z", filled("z", 1900))[0] == handle[0]


def reused_after_the_first_look(stores: Stores, handle: Handle, patched: pytest.MonkeyPatch) -> None:
    look = Reader.look

    def then_reuse(reader: Reader, given: Any) -> Any:
        looked = look(reader, given)
        patched.undo()
        reuse(stores, handle)
        return looked

    patched.setattr(Reader, "look", then_reuse)


def reused_before_the_second_look(stores: Stores, handle: Handle, patched: pytest.MonkeyPatch) -> None:
    barrier = Segment.barrier

    def after_reuse(segment: Segment) -> None:
        patched.undo()
        reuse(stores, handle)
        barrier(segment)

    patched.setattr(Segment, "barrier", after_reuse)


Reuse = Callable[[Stores, Handle, pytest.MonkeyPatch], None]
REUSES: tuple[Reuse, ...] = (reused_after_the_first_look, reused_before_the_second_look)


@pytest.mark.parametrize("happens", REUSES)
def test_get_never_decodes_a_reused_chunk(stores: Stores, happens: Reuse, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = stores.put("a")
    happens(stores, handle, monkeypatch)
    with pytest.raises(StaleHandleError):
        stores.readers[0].get(*handle)
    assert stores.readers[0].ser_de.decoded == []  # type: ignore[attr-defined]  # of `Watched`


@pytest.mark.parametrize("happens", REUSES)
def test_view_never_decodes_a_reused_chunk(stores: Stores, happens: Reuse, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = stores.put("a")
    happens(stores, handle, monkeypatch)
    with pytest.raises(StaleHandleError), stores.readers[0].view(*handle):
        pytest.fail("a view of a reused chunk")
    assert stores.readers[0].ser_de.decoded == []  # type: ignore[attr-defined]  # of `Watched`


def test_a_value_keeps_nothing_of_the_shared_memory(stores: Stores) -> None:
    handle = stores.put("a")
    found = stores.readers[0].get(*handle)
    stores.readers[1].get(*handle)
    stores.writer.free_unused()
    stores.ring.segment.data[:RING] = b"\xff" * RING
    assert torch.equal(found, filled("a"))


def test_a_value_goes_when_its_last_reference_goes(stores: Stores) -> None:
    """No cycle keeps the copy until the next collection: an item may have many megabytes."""
    handle = stores.put("a", {"pixels": filled("a"), "place": (1, (2, 3))})
    gc.collect()
    stores.readers[0].get(*handle)
    assert gc.collect() == 0


def test_the_decoder_is_seen(stores: Stores) -> None:
    handle = stores.put("a")
    assert torch.equal(stores.readers[0].get(*handle), filled("a"))
    assert stores.readers[0].ser_de.decoded  # type: ignore[attr-defined]  # of `Watched`
    with stores.readers[1].view(*handle) as found:
        assert torch.equal(found, filled("a"))
    assert stores.readers[1].ser_de.decoded  # type: ignore[attr-defined]  # of `Watched`


def test_no_module_of_the_store_imports_pickle() -> None:
    folder = Path(inspect.getfile(object_store)).parent
    names = {
        alias.name
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert "struct" in names
    assert names.isdisjoint({"pickle", "marshal", "shelve", "copyreg"})
