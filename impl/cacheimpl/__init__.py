"""The fast one: cache control on torch tensors, one code path for CPU and CUDA."""

from cacheimpl.encoder_budget import compute_encoder_budget, compute_mm_encoder_budget
from cacheimpl.encoder_cache.manager import EncoderCacheManager
from cacheimpl.hisparse import HiSparseCoordinator
from cacheimpl.kv_cache_manager import KVCacheManager
from cacheimpl.scheduler.engine import Scheduler

__all__ = [
    "EncoderCacheManager",
    "HiSparseCoordinator",
    "KVCacheManager",
    "Scheduler",
    "compute_encoder_budget",
    "compute_mm_encoder_budget",
]
