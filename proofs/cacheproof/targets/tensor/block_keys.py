"""The keys and contents of our `KVCacheManager`, as a target: `python:cacheproof.targets.tensor.block_keys:open_keys`.

Requests are written here, as a frontend would, and hashed as the manager does it: the prompt at once, and each block
that the output fills behind those that are known. Two blocks are shown with one number where their contents are one;
that their keys are equal just then, and just then with `hash_request_tokens`, is looked at too.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from cacheimpl.kv_cache_manager import hash_request_tokens
from cacheimpl.kv_cache_manager.chains import Chains
from cacheimpl.kv_cache_manager.contents import Content, Links
from cacheproof.model.target import ByOperation, TargetError, factory_of
from cacheproof.targets.vllm.child.driver.block_hash import PLACEHOLDER, Feature, Position, Request
from cachespec.block_hash import operations as calls
from cachespec.block_hash.configuration import Config
from cachespec.kernel import ABSENT, DONE, PRESENT, REFUSED, Observation, Outcome


class KeysTarget(ByOperation):
    """Requests, and the links of their full blocks."""

    def __init__(self) -> None:
        self._config = Config(1, 1, 1)
        self._chains = Chains(1, hash)
        self._requests: list[Request] = []
        self._links: list[Links] = []

    def reset(self, config: Config) -> None:
        self._config = config
        self._chains = Chains(config.block_size, hash)
        self._requests = [Request(str(name), list(config.opening)) for name in range(config.requests)]
        self._links = [Links() for _ in self._requests]

    def observe(self) -> Mapping[str, Observation]:
        keys = [key for one in self._links for key in self._chains.keys(one.hashes)]
        again = [
            key
            for request, one in zip(self._requests, self._links, strict=True)
            for key in hash_request_tokens(self._config.block_size, request)[: len(one)]
        ]
        shown = numbered([exactly(its) for one in self._links for its in one.contents])
        if not shown == numbered(keys) == numbered(again):
            raise TargetError("keys are equal where contents are not, or differ where contents are equal")
        return {"blocks": tuple(len(one) for one in self._links), "keys": shown}

    def _adapt(self, op: calls.Adapt) -> Outcome:
        request = self._requests[op.request]
        if request.submitted:
            return REFUSED
        number, name, path = self._config.adapters[op.adapter]
        request.lora_request = SimpleNamespace(lora_int_id=number, lora_name=str(name), lora_path=str(path))
        return DONE

    def _season(self, op: calls.Season) -> Outcome:
        request = self._requests[op.request]
        if request.submitted:
            return REFUSED
        request.cache_salt = str(op.salt)
        return DONE

    def _write(self, op: calls.Write) -> Outcome:
        request = self._requests[op.request]
        if request.submitted or request.num_tokens >= self._config.prompt_tokens:
            return REFUSED
        request.all_token_ids.append(op.token)
        return DONE

    def _place(self, op: calls.Place) -> Outcome:
        request = self._requests[op.request]
        config, length = self._config, self._config.lengths[op.content]
        full = request.num_tokens + length > config.prompt_tokens or len(request.mm_features) >= config.items
        if request.submitted or full:
            return REFUSED
        request.mm_features.append(Feature(str(op.content), Position(request.num_tokens, length)))
        request.all_token_ids.extend([PLACEHOLDER] * length)
        return DONE

    def _submit(self, op: calls.Submit) -> Outcome:
        request = self._requests[op.request]
        if request.submitted:
            return PRESENT
        request.submitted = True
        self._hash(op.request)
        return DONE

    def _append(self, op: calls.Append) -> Outcome:
        request = self._requests[op.request]
        if not request.submitted:
            return ABSENT
        if request.num_tokens >= self._config.tokens:
            return REFUSED
        request.all_token_ids.append(op.token)
        self._hash(op.request)
        return DONE

    def _hash(self, name: int) -> None:
        """What is full has a link, behind those that are known."""
        request = self._requests[name]
        full = self._chains.full_blocks(request, request.num_tokens)
        self._links[name] = self._chains.extended(request, self._links[name], full)


def exactly(content: Content | None) -> tuple[Any, ...]:
    """All that a content stands for; the keys and values of its block depend on nothing else."""
    return () if content is None else (exactly(content.parent), content.piece, content.extra_keys)


def numbered(values: list[Any]) -> tuple[int, ...]:
    """Which of them are equal: numbers in the order in which they are first met."""
    numbers: dict[Any, int] = {}
    return tuple(numbers.setdefault(value, len(numbers)) for value in values)


open_keys = factory_of("block_hash", KeysTarget)
"""The keys of blocks."""
