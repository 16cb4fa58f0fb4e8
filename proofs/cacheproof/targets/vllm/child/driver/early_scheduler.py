"""The scheduler of 0.7: another constructor, items in lists beside each other, and counts that move with the output."""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from .block_hash import Position
from .schedulers import ENCODER, REQUEST, Adapter, Item, Settings, Steps, engine_settings, sampling
from .worker import Key, Told, flat

SCHEDULER = "vllm.v1.core.scheduler"
OUTPUTS = "vllm.v1.outputs"
MANAGER = "vllm.v1.core.kv_cache_manager"


class EarlyClasses:
    """What is taken from 0.7. Blocks are hashed by its manager; a token behind a picture has the picture's own hash."""

    later = drafts_ahead = False

    def __init__(self) -> None:
        self.scheduler: Any = importlib.import_module(SCHEDULER).Scheduler
        self._encoder_cache = importlib.import_module(ENCODER).EncoderCacheManager
        request: Any = importlib.import_module(REQUEST)
        self.request, self.status = request.Request, request.RequestStatus
        self._output: Any = importlib.import_module(OUTPUTS).ModelRunnerOutput

    def make(self, settings: Settings) -> Any:
        """A scheduler without requests; it plans ahead of output without another class.

        No blocks are taken in advance: for 64 tokens, as by default, that would be all of a small pool.
        """
        every = engine_settings(settings)
        made = self.scheduler(
            scheduler_config=every.scheduler_config,
            model_config=every.model_config,
            cache_config=every.cache_config,
            lora_config=every.lora_config,
            speculative_config=None,
            log_stats=False,
        )
        made.kv_cache_manager.num_preallocate_tokens = made.kv_cache_manager.num_preallocate_blocks = 0
        made.max_num_encoder_input_tokens = settings.encoder_compute
        made.encoder_cache_manager = self._encoder_cache(cache_size=settings.encoder_capacity)
        return made

    def hasher(self, block_size: int) -> None:
        """The manager hashes, with the hash of the interpreter."""
        vars(importlib.import_module("vllm.v1.core.kv_cache_utils"))["hash"] = builtins.hash

    def new_request(
        self,
        name: str,
        tokens: Sequence[int],
        output: int,
        hasher: Any,
        items: Sequence[Item] = (),
        priority: int = 0,
        arrival: float = 0.0,
        least: int = 0,
        adapter: int = 0,
    ) -> Any:
        """The release's own request; it has no priority."""
        return self.request(
            request_id=name,
            prompt=None,
            prompt_token_ids=list(tokens),
            multi_modal_inputs=[SimpleNamespace() for _ in items],
            multi_modal_hashes=[str(item.content) for item in items],
            multi_modal_placeholders=[Position(item.start, item.length) for item in items],
            sampling_params=sampling(output, least),
            lora_request=Adapter.numbered(adapter),
            eos_token_id=None,
            arrival_time=arrival,
        )

    def output(self, sampled: Mapping[str, list[int]]) -> Any:
        """What the workers have made of a step. Where no token is sampled one is given, and the release drops it."""
        return self._output(
            req_ids=list(sampled),
            req_id_to_index={name: place for place, name in enumerate(sampled)},
            sampled_token_ids=[tokens or [0] for tokens in sampled.values()],
            spec_token_ids=None,
            logprobs=None,
            prompt_logprobs_dict={},
        )

    def dropped(self, said: Any) -> list[int]:
        """Encoder outputs that the workers are told to drop: request and item, and so on."""
        return [int(part) for one in said.free_encoder_input_ids for part in one]

    def output_key(self, config: Mapping[str, Any], request: int, item: int) -> Key:
        """Each item of each request has an encoder output of its own."""
        return (request, item)

    def dropped_keys(self, said: Any) -> list[Key]:
        """The encoder outputs of `dropped`."""
        return [(int(request), int(item)) for request, item in said.free_encoder_input_ids]

    def told(self, said: Any) -> list[Told]:
        """The blocks that a step gives to its requests. A new or resumed request gets its whole table."""
        return [
            *(Told(int(part.req_id), flat(part.block_ids), True) for part in said.scheduled_new_reqs),
            *(
                Told(int(part.req_id), flat(part.new_block_ids), bool(part.resumed_from_preemption))
                for part in said.scheduled_cached_reqs
            ),
        ]

    def starts(self, said: Any) -> dict[str, int]:
        """Where the parts of a step begin."""
        return {
            part.req_id: part.num_computed_tokens for part in (*said.scheduled_new_reqs, *said.scheduled_cached_reqs)
        }

    def free_blocks(self, scheduler: Any) -> int:
        """How many."""
        return int(scheduler.kv_cache_manager.free_block_queue.num_free_blocks)

    def computed(self, request: Any, steps: Steps) -> int:
        """Tokens that are computed, or will be by the steps in flight, which this release counts when they are over."""
        flying = (part.tokens for step in steps for part in step.parts if part.request == int(request.request_id))
        return int(request.num_computed_tokens) + sum(flying) if request.status == self.status.RUNNING else 0
