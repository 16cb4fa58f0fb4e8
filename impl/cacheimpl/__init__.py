"""The fast one: cache control on torch tensors, one code path for CPU and CUDA."""

from cacheimpl.encoder_cache.manager import EncoderCacheManager

__all__ = ["EncoderCacheManager"]
