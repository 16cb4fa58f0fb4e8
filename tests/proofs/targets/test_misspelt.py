"""A name that the specification does not know is wrong input: nothing green comes of a misspelt method or field."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.plan import subject_from
from cacheproof.model.features import is_observable
from cacheproof.model.recording import recording
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scopes_of
from cacheproof.targets.process import InProcessTarget
from cachespec.lru import Config

LRU, KV_BLOCKS = component_named("lru"), component_named("kv_blocks")
CONFIG = Config(capacity=2, sizes=(1, 1))


def made(kind: Any, config: Any) -> object:
    """A factory that is no class."""
    return kind(config)


class Misspelt:
    def __init__(self, config: Any) -> None: ...

    def get_computed_block(self, request: int) -> str:
        return "done"


class Helped:
    def __init__(self, config: Any) -> None: ...

    def put(self, key: int, size: int) -> str:
        return "done"

    def evict_all(self) -> None: ...


class Observed:
    def __init__(self, config: Any) -> None: ...

    def put(self, key: int, size: int) -> str:
        return "done"

    @property
    def ordr(self) -> list[int]:
        return []


class Inherited(OrderedDict[int, int]):
    """What the base class has beside operations is its own affair, unless it is like one."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.capacity = config.capacity

    def put(self, key: int, size: int) -> str:
        return "done"

    def _helper(self) -> None: ...


@pytest.mark.parametrize(
    ("component", "kind", "said"),
    [
        (KV_BLOCKS, Misspelt, "Misspelt.get_computed_block is nothing that kv_blocks has: did you mean 'get_computed_"),
        (LRU, Helped, "Helped.evict_all is nothing that lru has: there are clear, contains, evict, get, hits"),
        (LRU, Observed, "Observed.ordr is nothing that lru has: did you mean 'order'?"),
    ],
)
def test_a_public_name_that_nothing_calls(component: Any, kind: type, said: str) -> None:
    with pytest.raises(InputError) as error:
        InProcessTarget(kind, component).declaration()
    assert said in str(error.value)
    with pytest.raises(InputError, match=kind.__name__):
        InProcessTarget(partial(made, kind), component).reset(scopes_of(component)[0].config)


def test_a_base_class_may_have_other_names() -> None:
    target = InProcessTarget(Inherited, LRU)
    assert "put" not in target.declaration().missing(LRU)
    target.reset(CONFIG)


def test_a_field_that_the_configuration_does_not_have() -> None:
    target = InProcessTarget(lambda config: config.capacty, LRU)
    with pytest.raises(InputError, match="has no field 'capacty': did you mean 'capacity'"):
        target.reset(CONFIG)
    with pytest.raises(InputError, match="lru has no capacty: did you mean 'capacity'"):
        subject_from("lru", None, None, ["capacty=3"])


READS: list[tuple[Callable[[Any], object], set[str]]] = [
    (lambda config: None, set()),
    (lambda config: config.capacity, {"capacity"}),
    (lambda config: getattr(config, "sizes") and hasattr(config, "ages"), {"sizes"}),  # noqa: B009  # as adapters do
    (lambda config: config[0], set(Config._fields)),
    (lambda config: [*config], set(Config._fields)),
    (lambda config: config._asdict(), set(Config._fields)),
    (lambda config: config._replace(pins=1), set(Config._fields)),
]


@pytest.mark.parametrize(("reads", "fields"), READS)
def test_what_is_read_of_a_configuration(reads: Callable[[Any], object], fields: set[str]) -> None:
    read: set[str] = set()
    config = recording(CONFIG, read)
    assert isinstance(config, Config)
    assert config == CONFIG
    assert hash(config) == hash(CONFIG)
    reads(config)
    assert read == fields


class Showing:
    own = ("evictions",)

    def __init__(self, config: Any) -> None:
        self._shown = {"usd": 0} if config.pins else {"used": 0, "evictions": 7}

    def put(self, key: int, size: int) -> str:
        return "done"

    def observe(self) -> dict[str, int]:
        return self._shown


def test_an_observable_that_the_component_does_not_have() -> None:
    target = InProcessTarget(Showing, LRU)
    target.reset(CONFIG)
    assert target.observe() == {"used": 0}, "its own are not looked at"
    target.reset(CONFIG._replace(pins=1))
    with pytest.raises(InputError, match=r"lru has no observable 'usd': did you mean 'used'\?"):
        target.observe()


def test_an_observable_of_each_sender_is_known() -> None:
    mirror = component_named("mirror")
    assert is_observable(mirror, "p0_order_0")
    assert is_observable(mirror, "p0_order_12")
    assert not is_observable(mirror, "p0_order_x")
    assert not is_observable(LRU, "hist")
