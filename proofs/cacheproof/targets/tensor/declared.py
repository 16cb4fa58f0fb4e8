"""What `cacheimpl` declares: parameters of its classes, and what it refuses by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from cacheimpl import hisparse, kv_cache_manager
from cacheimpl.kv_cache_manager.kinds import REFUSED as KINDS
from cacheimpl.vllm.batched_settings import REFUSED as BATCHED
from cacheimpl.vllm.batched_settings import check_served
from cacheimpl.vllm.unsupported import REFUSED as SETTINGS
from cacheproof.foundation.errors import InputError

INTERFACE = re.compile(r"(?P<owner>\w+)\.(?P<method>\w+)(\((?P<parameter>\w+)\))?")

ASKED = re.compile(r'^ +"(.+)": ', re.MULTILINE)
"""How `check_served` names what `BatchedScheduler` refuses of a request."""


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
    """Each refused kind or setting by its name, and the class that refuses it."""
    for spec, name in KINDS.items():
        yield f"{name} (`{spec}`)", "KVCacheManager"
    for name in SETTINGS:
        yield name, "vllm.Scheduler, vllm.BatchedScheduler"
    for name in (*BATCHED, *ASKED.findall(inspect.getsource(check_served))):
        yield name, "vllm.BatchedScheduler"
