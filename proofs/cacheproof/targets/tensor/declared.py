"""What `cacheimpl` declares: parameters of its classes, and what it refuses by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from cacheimpl import hisparse, kv_cache_manager
from cacheimpl.kv_cache_manager.unsupported import Unsupported as OfManager
from cacheimpl.scheduler.fused_limits import REFUSED as FUSED
from cacheimpl.scheduler.unsupported import Unsupported as OfScheduler
from cacheimpl.vllm import batched_settings as batched
from cacheimpl.vllm import unsupported as settings
from cacheproof.foundation.errors import InputError

INTERFACE = re.compile(r"(?P<owner>\w+)\.(?P<method>\w+)(\((?P<parameter>\w+)\))?")


def check_interface(name: str) -> None:
    """Raises `InputError` for a `Class.method(parameter)` of the KV cache managers or HiSparse that does not exist."""
    found = INTERFACE.fullmatch(name)
    owners = {**vars(kv_cache_manager), **vars(hisparse)}
    method = None if found is None else getattr(owners.get(found["owner"]), found["method"], None)
    if found is None or method is None:
        raise InputError(f"cacheimpl has no {name}")
    if found["parameter"] and found["parameter"] not in inspect.signature(method).parameters:
        raise InputError(f"{found['owner']}.{found['method']} of cacheimpl has no parameter '{found['parameter']}'")


def refusals() -> Iterator[tuple[str, str]]:
    """What each class refuses by name, and the class."""
    for what in OfManager:
        yield what.value, "KVCacheManager"
    for each in OfScheduler:
        yield each.value, "scheduler.engine.Scheduler"
    for name in FUSED:
        yield name, "kernels.FusedRound"
    for name in (*settings.REFUSED, settings.CONNECTOR, settings.OTHER_VERSION):
        yield name, "vllm.Scheduler, vllm.BatchedScheduler"
    of_requests = (*batched.REFUSED_REQUESTS, batched.NO_LOOK_UP)
    for name in (*batched.REFUSED, *batched.REFUSED_LAYOUTS, *of_requests, *batched.REFUSED_CALLS):
        yield name, "vllm.BatchedScheduler"
