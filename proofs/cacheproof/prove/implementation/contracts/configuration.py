"""The processor caches for given settings, beside the specification."""

from __future__ import annotations

from icontract import ensure, require

from cacheimpl.processor_cache import selectors
from cacheproof.prove.contract import Beside
from cacheproof.prove.implementation.side_by_side import agree, era
from cacheproof.targets.tensor.processor_caches import SelectorsTarget
from cachespec import configuration
from cachespec.configuration import LRU, SHM, Config, Start


def starts_alike(start: Start, *, with_registry: bool = False, tag: str = "normative") -> bool:
    """The functions that choose, and one variant."""
    target = SelectorsTarget(with_registry=with_registry, balanced_outside=tag != "normative")
    return agree(target, configuration.COMPONENT, era(configuration.COMPONENT, tag), Config(), (start,))


@require(lambda processes, engines: min(processes, engines) >= 1)
@ensure(lambda result: result)
def sending_is_saved_for_pairs(processes: int, engines: int, *, external: bool, shared: bool) -> bool:
    """The sending is saved only if each frontend sends to one engine, and each engine has one frontend."""
    kind = SHM if shared else LRU
    return starts_alike(Start(1, 1, processes, engines, 1 if external else 0, kind))


@require(lambda processes: processes >= 1)
@ensure(lambda result: result)
def no_cache_without_inputs(processes: int, *, multimodal: bool, memory: bool) -> bool:
    """There is a cache only for a model that takes other inputs than text, and with memory for it."""
    start = Start(1 if multimodal else 0, 1 if memory else 0, processes, 1, 0, LRU)
    return starts_alike(start, with_registry=True)


@require(lambda processes, engines: min(processes, engines) >= 1)
@ensure(lambda result: result)
def balanced_outside(processes: int, engines: int, *, external: bool) -> bool:
    """M1: with a load balancer outside, the number of frontends is not checked."""
    return starts_alike(Start(1, 1, processes, engines, 1 if external else 0, LRU), with_registry=True, tag="M1")


SETTINGS = "any number of frontends and engines"
LEDGER = {
    "sending_is_saved_for_pairs": Beside(
        SETTINGS, selectors.one_to_one, {"processes": 1, "engines": 1, "external": False, "shared": False}, 8
    ),
    "no_cache_without_inputs": Beside(
        "any number of frontends", selectors.is_enabled, {"processes": 1, "multimodal": True, "memory": True}, 4
    ),
    "balanced_outside": Beside(SETTINGS, selectors.cache_type, {"processes": 2, "engines": 1, "external": True}, 4),
}
