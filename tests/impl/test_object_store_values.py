"""Whatever is put comes back equal and of the same type, or is refused with `SerdeError`; no reader crashes."""

from __future__ import annotations

import datetime as dt
import sys
from collections import Counter, OrderedDict, UserDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, Flag
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
import numpy as np
import pytest
import torch
from tests.impl.object_stores import Stores

from cacheimpl.object_store.errors import SerdeError, TooLargeError
from cacheimpl.object_store.forms import DEEPEST, MOST_PARTS, OBJECT, restored
from cacheimpl.object_store.serde import DTYPES, MsgpackSerde

torch.set_num_threads(1)


@pytest.fixture
def stores() -> Iterator[Stores]:
    made = Stores()
    yield made
    made.close()


def got(stores: Stores, value: Any) -> Any:
    """The value as a reader has it, which is what the writer and a view show too."""
    handle = stores.put("key", value)
    first, second = stores.readers
    with second.view(*handle) as shown:
        assert repr(shown) == repr(stores.writer.get(*handle[:2]))
        return first.get(*handle)


def same(left: Any, right: Any) -> bool:
    """Of the same types all the way down, and equal; NaN equals itself."""
    if type(left) is not type(right):
        return False
    if isinstance(left, torch.Tensor):
        like = bool(left.dtype == right.dtype and left.shape == right.shape)
        return like and left.resolve_conj().resolve_neg().tolist() == right.resolve_conj().resolve_neg().tolist()
    if isinstance(left, np.ndarray):
        return bool(left.dtype == right.dtype and left.shape == right.shape and (left == right).all())
    if isinstance(left, dict):
        return same(list(left), list(right)) and same(list(left.values()), list(right.values()))
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if hasattr(left, "__dict__") and not isinstance(left, Enum):
        return same(vars(left), vars(right))
    return repr(left) == repr(right)


# What is stored right ------------------------------------------------------------------------------------------------


class Modality(Enum):
    """A member is one object in each process."""

    IMAGE = "image"


class Place(NamedTuple):
    """Where an item stands."""

    offset: int
    length: int


@dataclass(frozen=True)
class Stacked:
    """How the items of a batch are stacked."""

    slices: tuple[slice, ...]
    modality: Modality = Modality.IMAGE


@dataclass
class Element:
    """An entry of a processed item, as engines have it."""

    data: torch.Tensor
    field: Stacked
    kept: list[int]


@dataclass(slots=True)
class Slotted:
    """Without a dictionary."""

    first: int
    second: str = "two"


class Item(UserDict[str, Element]):
    """A processed item, as engines have it."""


COMPLEX = torch.tensor([[1 + 2j, 3 - 4j], [5 + 6j, -7j]])
RIGHT: dict[str, Any] = {
    "plain": [None, True, False, 0, -1, 2**63, -(2**63), 2**64 - 1, 0.5, -0.0, "", "é" * 200, b"", b"\0" * 300, {}],
    "nothing": [None],
    "NaN and infinity": [float("nan"), float("inf"), -float("inf")],
    "tuples and lists": [(1, (2, [3, (4,)])), [], ()],
    "keys of all kinds": {"a": 1, 2: "b", (1, "c"): [3], None: 4, 1.5: 5, True: 6, b"d": 7, frozenset({8}): 9},
    "sets": {"set": {1}, "frozen": frozenset({(2, 3)}), "empty": set()},
    "complex": [1 + 2j, complex(0.0, -0.0)],
    "slices and ranges": [slice(1, None, 2), slice(None), range(3, 9, 2)],
    "bytes that change": bytearray(b"abc"),
    "sizes and types": [torch.Size([1, 2]), torch.float16],
    "a named tuple": Place(3, 4),
    "a member": [Modality.IMAGE],
    "slots": Slotted(1),
    "an item of an engine": Item(pixels=Element(torch.arange(6), Stacked((slice(0, 1),)), [1])),
    "many": {str(number): list(range(5)) for number in range(20)},
    "conjugated": COMPLEX.conj(),
    "conjugated in a part": {"x": COMPLEX.conj()[0], "y": COMPLEX[0]},
    "negative": COMPLEX.conj().imag,
    "transposed": torch.arange(12).reshape(3, 4).t(),
    "expanded": torch.tensor([7]).expand(5),
    "every other": torch.arange(10)[::2],
    "with a gradient": torch.ones(3, requires_grad=True).detach(),
    "no elements": torch.empty(0, 3),
    "no dimensions": torch.tensor(5, dtype=torch.int8),
    "an array": np.arange(6, dtype=np.float32).reshape(2, 3),
    "an array by columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_stored_comes_back(stores: Stores, name: str) -> None:
    assert same(got(stores, RIGHT[name]), RIGHT[name])


@pytest.mark.parametrize("name", DTYPES)
def test_every_type_of_elements_comes_back_bit_by_bit(stores: Stores, name: str) -> None:
    raw = (torch.arange(48) * 5 % (2 if name == "bool" else 256)).to(torch.uint8)
    value = raw.view(DTYPES[name])
    found = got(stores, value)
    assert found.dtype == value.dtype
    assert torch.equal(found.view(torch.uint8), raw)


def test_a_gradient_is_not_stored(stores: Stores) -> None:
    found = got(stores, torch.ones(3, requires_grad=True))
    assert (found.requires_grad, found.tolist()) == (False, [1.0, 1.0, 1.0])


def test_what_the_comparison_of_these_tests_takes_for_different() -> None:
    """A conjugate for its number, a wrong sign, a list for a tuple, another class."""
    pairs = [(COMPLEX.conj(), COMPLEX), (COMPLEX.conj().imag, COMPLEX.imag), ([1], (1,)), (Place(1, 2), (1, 2))]
    assert [same(left, right) for left, right in pairs] == [False] * 4


# What is refused ------------------------------------------------------------------------------------------------------


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def in_itself() -> Any:
    value: list[Any] = [1]
    value.append(value)
    return value


def doubled() -> Any:
    """2 to the power of 60 parts, in 60 lists."""
    value: Any = 1
    for _ in range(60):
        value = [value, value]
    return value


def without_storage() -> Any:
    value = torch.ones(100)
    value.untyped_storage().resize_(0)
    return value


def with_more() -> Any:
    class More(Place):
        """A named tuple with a dictionary."""

    value = More(1, 2)
    value.more = 3  # type: ignore[attr-defined]  # on purpose
    return value


class Closing(UserDict[str, int]):
    """Something happens when it goes."""

    def __del__(self) -> None:
        """Nothing that matters."""


class Colours(Flag):
    """Of which several may be one value."""

    RED = 1
    BLUE = 2


@dataclass
class FailedError(Exception):
    """What it was made of is seen by C code only."""

    number: int


class Tagged(torch.Tensor):
    """A class of tensors."""


WRONG: dict[str, Callable[[], Any]] = {
    "a lambda": lambda: len.__class__,
    "a function": lambda: deep,
    "an object of any class": lambda: SimpleNamespace(a=1),
    "an object that closes": lambda: Closing(a=1),
    "an exception": lambda: FailedError(3),
    "of a local class": with_more,
    "two members in one": lambda: Colours.RED | Colours.BLUE,
    "an integer of a class": lambda: type("Number", (int,), {})(3),
    "a time": lambda: dt.datetime(2026, 1, 2),  # noqa: DTZ001  # which msgspec alone would make a text of
    "a decimal": lambda: Decimal("1.5"),
    "a uuid": uuid4,
    "a counter": lambda: Counter("abca"),
    "an ordered dictionary": lambda: OrderedDict(a=1),
    "a dictionary with a default": lambda: defaultdict(list, a=[1]),
    "a struct": lambda: msgspec.defstruct("Struct", [("a", int)])(1),
    "a memoryview": lambda: memoryview(b"abcd").cast("H"),
    "half a pair of surrogates": lambda: ["\ud800"],
    "such a key": lambda: {"\ud800": 1},
    "a large integer": lambda: 2**64,
    "a small integer": lambda: -(2**63) - 1,
    "a path": lambda: Path("x"),
    "a module": lambda: sys,
    "deep": lambda: deep(DEEPEST + 2),
    "deeper than Python": lambda: deep(100_000),
    "in itself": in_itself,
    "doubled again and again": doubled,
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(4), 0.5, 0, torch.quint8),
    "quantized in an object": lambda: Item(
        x=Element(torch.quantize_per_tensor(torch.ones(4), 0.5, 0, torch.qint8), Stacked(()), [])
    ),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "sparse by rows": lambda: torch.eye(3).to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]),
    "jagged": lambda: torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], layout=torch.jagged),
    "of another device": lambda: torch.ones(3, device="meta"),
    "a parameter": lambda: torch.nn.Parameter(torch.ones(3)),
    "of a class of tensors": lambda: torch.ones(3).as_subclass(Tagged),
    "without storage": without_storage,
    "half a byte each": lambda: torch.empty(4, dtype=torch.float4_e2m1fn_x2),
    "an array of objects": lambda: np.array([object()]),
    "an array of texts": lambda: np.array(["a"]),
    "an array of records": lambda: np.zeros(2, dtype=[("a", "i4")]),
    "an array in another order": lambda: np.zeros(2, dtype=">i4"),
    "a number of numpy": lambda: np.float64(1.5),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_stored_right_is_refused(stores: Stores, name: str) -> None:
    value, before = WRONG[name](), stores.books()
    for given in (value, {"inside": [1, value]}):
        with pytest.raises(SerdeError):
            stores.put("key", given)
    assert stores.books() == before
    assert got(stores, "after") == "after"


def test_more_bytes_than_any_chunk_has_are_refused_before_they_are_copied(stores: Stores) -> None:
    """One element, seen as 2 to the power of 40."""
    with pytest.raises(TooLargeError):
        stores.put("key", {"x": torch.ones(1).expand(2**20, 2**20)})


def test_the_limits_are_where_they_are_said_to_be(stores: Stores) -> None:
    assert same(got(stores, deep(DEEPEST)), deep(DEEPEST))
    assert MOST_PARTS < 2**60


# What a description cannot do -----------------------------------------------------------------------------------------


def described(*parts: Any) -> bytes:
    return msgspec.msgpack.encode(msgspec.msgpack.Ext(OBJECT, msgspec.msgpack.encode(parts)))


@pytest.mark.parametrize(
    "description",
    [
        described("subprocess", "Popen", {"args": "x"}, {}),
        described("os", "system", {}, {}),
        described("builtins", "object", {}, {}),
        described("nowhere", "Item", {}, {}),
        described(__name__, "Closing", {"data": {}}, {}),
        described(__name__, "FailedError", {}, {}),
        described(__name__, "Slotted", {}, {"third": 1}),
        described(__name__, "Element"),
        described([], "Element", {}, {}),
        described(__name__, 3, {}, {}),
        msgspec.msgpack.encode(msgspec.msgpack.Ext(99, b"\x01")),
        msgspec.msgpack.encode(msgspec.msgpack.Ext(-1, b"\0" * 4))[:-1],
        b"",
        b"\xc1",
        b"\x91",
        b"\xc0\xc0",
        b"\xa2\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\x91" * 100_000,
    ],
)
def test_a_description_of_nothing_is_refused(description: bytes) -> None:
    with pytest.raises(SerdeError):
        restored(description, {})


@pytest.mark.parametrize("description", [("float32", 0, 3), ("float32", -4, 1), ("quint8", 0, 1), ("Tensor", 0, 1), ()])
def test_a_tensor_that_is_not_there_is_refused(description: tuple[Any, ...]) -> None:
    tree = msgspec.msgpack.encode(msgspec.msgpack.Ext(1, msgspec.msgpack.encode(description)))
    head = memoryview(len(tree).to_bytes(4, "little") + tree)
    with pytest.raises(SerdeError):
        MsgpackSerde().view(head, memoryview(bytearray(8)))


def test_no_method_of_a_class_runs_when_its_object_is_read(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = stores.put("key", RIGHT["an item of an engine"])
    for kind in (Item, Element, Stacked):
        for method in ("__init__", "__setattr__", "__setstate__"):
            monkeypatch.setattr(kind, method, lambda *given: pytest.fail("a method ran"), raising=False)
    assert type(stores.readers[0].get(*handle)) is Item


def test_callers_of_the_field_catch_the_error() -> None:
    assert issubclass(SerdeError, ValueError)
