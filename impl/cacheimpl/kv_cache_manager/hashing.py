"""Keys of blocks by the functions of the releases: keys of a manager until 0.7, and of requests from 0.11 on.

From 0.11 on a request brings its keys (`block_hashes`), which a hasher made before the manager sees it. The values
differ from those of the releases: the extra keys are ours (`contents.generate_block_hash_extra_keys`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, overload

from cacheimpl import counts
from cacheimpl.kv_cache_manager import contents
from cacheimpl.kv_cache_manager.contents import BlockHashType, HashFunction, generate_block_hash_extra_keys
from cacheimpl.kv_cache_manager.errors import InvalidCountError, InvalidSettingError
from cacheimpl.request import TokenRequest

BytesFunction = Callable[[Any], bytes]
"""A hash of any value made of integers, texts, bytes and tuples."""

SEED = "PYTHONHASHSEED"
"""The environment variable by which processes agree on the parent of first blocks."""

NONE_HASH: bytes = os.urandom(32)
"""The parent of first blocks, for hashes that are bytes. `init_none_hash` replaces it."""


def init_none_hash(hash_fn: BytesFunction) -> None:
    """Make a new parent of first blocks: random, so that no client can prepare a collision (C-KV-10).

    If `PYTHONHASHSEED` is set, it is the hash of that, and the same in all processes.
    """
    global NONE_HASH  # noqa: PLW0603  # the field's name and its way to set it
    _check_function("hash_fn", hash_fn)
    seed = os.environ.get(SEED)
    NONE_HASH = os.urandom(32) if seed is None else hash_fn(seed)


@overload
def hash_block_tokens(
    parent_block_hash: int | None,
    curr_block_token_ids: Sequence[int],
    extra_keys: tuple[Any, ...] | None = None,
    *,
    hash_function: HashFunction = hash,
) -> BlockHashType: ...
@overload
def hash_block_tokens(
    hash_function: BytesFunction,
    parent_block_hash: bytes | None,
    curr_block_token_ids: Sequence[int],
    extra_keys: tuple[Any, ...] | None = None,
    /,
) -> bytes: ...
def hash_block_tokens(*arguments: Any, **named: Any) -> BlockHashType | bytes:
    """The key of a full block, from the key of the block before it (None for a first block) and what it holds.

    Until 0.7 the first argument is the hash value of the block before, and a `BlockHashType` is returned. From 0.11 on
    the first argument is a hash function, and its value is returned.
    """
    if not arguments or not callable(arguments[0]):
        return contents.hash_block_tokens(*arguments, **named)
    hash_function, parent, tokens, *extra_keys = arguments
    extra = extra_keys[0] if extra_keys else named.get("extra_keys")
    hashed: bytes = hash_function((parent or NONE_HASH, tuple(tokens), extra))
    return hashed


def get_request_block_hasher(
    hash_block_size: int, caching_hash_fn: BytesFunction, num_hash_lookahead_tokens: int = 0
) -> Callable[[Any], list[bytes]]:
    """A function that gives the keys of those full blocks of a request that are not in its `block_hashes` yet.

    Each key covers `num_hash_lookahead_tokens` tokens behind its block, too, and is given when the request has them.
    Raises `InvalidCountError`, `InvalidSettingError`.
    """
    size = counts.whole("hash_block_size", hash_block_size, InvalidCountError, least=1)
    _check_function("caching_hash_fn", caching_hash_fn)
    ahead = counts.whole("num_hash_lookahead_tokens", num_hash_lookahead_tokens, InvalidCountError, least=0)

    def missing(request: Any) -> list[bytes]:
        return _missing(request, size, caching_hash_fn, ahead)

    return missing


def _missing(request: TokenRequest, size: int, hash_function: BytesFunction, ahead: int) -> list[bytes]:
    """The keys of full blocks behind those that the request has."""
    known: Sequence[bytes] = getattr(request, "block_hashes", None) or ()
    tokens, keys = request.all_token_ids, list[bytes]()
    parent = known[-1] if known else None
    for start in range(len(known) * size, len(tokens) - ahead - size + 1, size):
        extra_keys, _ = generate_block_hash_extra_keys(request, start, start + size + ahead, 0)
        if ahead:
            extra_keys = (extra_keys, *tokens[start + size : start + size + ahead])
        parent = hash_block_tokens(hash_function, parent, tokens[start : start + size], extra_keys)
        keys.append(parent)
    return keys


def _check_function(what: str, given: object) -> None:
    if not callable(given):
        raise InvalidSettingError(f"{what} must be a function, not {given!r}")
