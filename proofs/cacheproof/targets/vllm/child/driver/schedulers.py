"""The schedulers of the releases, made by their own constructors, with the requests and the outputs that they take.

From 0.11 on. The settings of an engine are the release's own configuration: a text model without connectors, statistics
or parallelism. What the encoder may compute in a step, how much the encoder cache holds and whether the model is an
encoder-decoder is set later, as a real engine derives these from a multimodal model. There is one group of layers, with
full attention, and none with cross-attention.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

from .block_hash import MANAGER, UTILITIES, digest
from .configured import UnsetError, released
from .kv_managers import kv_cache_config, parameters
from .worker import Chunk, Key, Told, flat, touched

SCHEDULER = "vllm.v1.core.sched.scheduler"
ASYNCHRONOUS = "vllm.v1.core.sched.async_scheduler"
ENCODER = "vllm.v1.core.encoder_cache_manager"
REQUEST = "vllm.v1.request"
INPUTS = "vllm.multimodal.inputs"
OUTPUTS = "vllm.v1.outputs"
STEPS = "vllm.v1.core.sched.output"
TOTAL = "total_num_scheduled_tokens"
STRUCTURE = "vllm.v1.structured_output"
MANAGER_OF_GRAMMARS = "StructuredOutputManager"
ALIGNED = "_mamba_block_aligned_split"
"""What cuts a chunk of a prompt where layers keep states."""

POLICIES = ("fcfs", "priority")
RUNNERS = ("generate", "pooling")
UNLIMITED = 1 << 30


@dataclass(frozen=True)
class Part:
    """One request's part of a step: its tokens from `start` on, the last ones drafts."""

    request: int
    start: int
    tokens: int
    drafts: int
    samples: bool
    encodes: tuple[int, ...]
    dropped: bool = False
    """A reset has preempted the request since: the release drops its output."""

    def chunk(self, items: Sequence[Sequence[int]], *, crosses: bool = False) -> Chunk:
        """What the workers compute of it, and which of the request's items they read.

        `crosses`: of an encoder-decoder model the first chunk reads all, and later ones their cross-attention KV.
        """
        end = self.start + self.tokens
        if crosses:
            every = tuple(range(len(items)))
            return Chunk(self.request, self.start, end, self.encodes, () if self.start else every, every)
        return Chunk(self.request, self.start, end, self.encodes, touched(items, self.start, end))


@dataclass(frozen=True)
class Step:
    """A step in flight: what the release has said, and what there is to do."""

    said: Any
    parts: tuple[Part, ...]
    drafts: tuple[tuple[int, int], ...] = ()
    """Requests and their drafts, also of requests of which nothing is scheduled."""

    def begun_earlier(self, request: int, tokens: int) -> Step:
        """Drafts before the request's part were rejected, so the workers begin the part `tokens` earlier."""
        parts = (replace(part, start=part.start - tokens) if part.request == request else part for part in self.parts)
        return replace(self, parts=tuple(parts))

    def counted(self) -> list[int]:
        """The requests whose part no reset has dropped: a load that was made for them is one of this step."""
        return [part.request for part in self.parts if not part.dropped]

    def without_output(self, requests: Collection[int]) -> Step:
        """A reset has preempted these requests."""
        parts = (replace(part, dropped=True) if part.request in requests else part for part in self.parts)
        return replace(self, parts=tuple(parts))


Steps = Sequence[Step]


class Item(NamedTuple):
    """An item of a prompt: what it shows, where its placeholders begin, and how many there are."""

    content: int
    start: int
    length: int
    data: Any = None
    """What came with the request for it, if the caller looks at that."""


class Settings(NamedTuple):
    """What a scheduler is made with. Lengths and budgets are in tokens; an item has one embedding a token."""

    block_size: int
    blocks: int
    token_budget: int
    max_running: int
    max_model_len: int
    encoder_compute: int = 0
    encoder_capacity: int = 0
    whole_items: bool = False
    chunked_prefill: bool = True
    long_prefill_threshold: int = 0
    by_priority: bool = False
    asynchronous: bool = False
    drafts: int = 0
    prefix_caching: bool = True
    watermark: int = 0
    reserves: bool = True
    """A request is admitted only if all of its tokens find blocks."""
    window: int = 0
    """Tokens that a layer looks back; 0 for full attention."""
    max_adapters: int = 0
    """Different adapters that may run at once; 0 if there are none."""
    has_grammars: bool = False
    """The outputs of some requests follow a grammar."""
    encoder_decoder: bool = False
    """The model is an encoder-decoder."""
    pools: bool = False
    """The model pools: its requests have no output."""
    alignment: int = 0
    """Chunks of a prompt end at multiples of this, as with layers that keep states; 0 if there are none."""


class Classes:
    """What is taken from a release, with its own hashing of blocks."""

    later = True

    def __init__(self) -> None:
        self.scheduler = importlib.import_module(SCHEDULER).Scheduler
        self.asynchronous = importlib.import_module(ASYNCHRONOUS).AsyncScheduler
        self.drafts_ahead = "__init__" in vars(self.asynchronous)
        encoder = importlib.import_module(ENCODER)
        self._encoder_cache = encoder.EncoderCacheManager
        self._of_encoder_decoder = getattr(encoder, "EncoderDecoderCacheManager", self._encoder_cache)
        request: Any = importlib.import_module(REQUEST)
        self.request, self.status = request.Request, request.RequestStatus
        inputs: Any = importlib.import_module(INPUTS)
        self._feature, self._range = inputs.MultiModalFeatureSpec, inputs.PlaceholderRange
        outputs: Any = importlib.import_module(OUTPUTS)
        self._output, self.drafts = outputs.ModelRunnerOutput, outputs.DraftTokenIds
        self._utilities: Any = importlib.import_module(UTILITIES)
        importlib.import_module(MANAGER)

    def make(self, settings: Settings) -> Any:
        """A scheduler without requests."""
        kind = self.asynchronous if settings.asynchronous else self.scheduler
        sized = {"block_size": settings.block_size} if "block_size" in parameters(self.scheduler) else {}
        made = kind(
            vllm_config=engine_settings(settings),
            kv_cache_config=kv_cache_config(settings.block_size, settings.blocks, 1, settings.window),
            structured_output_manager=Grammars()
            if settings.has_grammars
            else released()(MANAGER_OF_GRAMMARS, STRUCTURE),
            mm_registry=TextOnly(),
            **sized,
        )
        made.max_num_encoder_input_tokens = settings.encoder_compute
        made.is_encoder_decoder = settings.encoder_decoder
        if settings.alignment:  # its blocks are those of attention all the same: only the scheduler cuts as for Mamba
            made.need_mamba_block_aligned_split = True
            made.cache_config.block_size = settings.alignment
        manager = self._of_encoder_decoder if settings.encoder_decoder else self._encoder_cache
        made.encoder_cache_manager = manager(cache_size=settings.encoder_capacity)
        return made

    def hasher(self, block_size: int, function: Any = digest) -> Any:
        """What gives keys to a request's full blocks."""
        self._utilities.init_none_hash(function)
        return self._utilities.get_request_block_hasher(block_size, function)

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
        *,
        goes_on: bool = False,
        pools: bool = False,
    ) -> Any:
        """The release's own request, which its hasher has hashed. `goes_on`: a turn of a session may follow.

        `pools`: it has no output.
        """
        ends: dict[str, Any] = {"eos_token_id": None} if "eos_token_id" in parameters(self.request) else {}
        if goes_on:
            ends["resumable"] = True
        return self.request(
            request_id=name,
            prompt_token_ids=list(tokens),
            sampling_params=None if pools else sampling(output, least),
            lora_request=Adapter.numbered(adapter),
            pooling_params=SimpleNamespace(skip_reading_prefix_cache=False) if pools else None,
            arrival_time=arrival,
            priority=priority,
            mm_features=[
                self._feature(
                    data=item.data,
                    modality="image",
                    identifier=str(item.content),
                    mm_position=self._range(offset=item.start, length=item.length),
                )
                for item in items
            ],
            block_hasher=hasher,
            **ends,
        )

    def await_grammar(self, request: Any) -> None:
        """The output of the request follows a grammar that is not compiled yet."""
        waits = [status for status in self.status if status.name in WAITS_FOR_GRAMMAR]
        if not waits:
            raise UnsetError(f"{REQUEST} has no status of a request that waits for a grammar")
        request.structured_output_request = SimpleNamespace(grammar=None, reasoning_ended=None)
        request.status = waits[0]

    def empty_step(self) -> Any:
        """A step that computes nothing. Of its fields a release without `make_empty` reads the counts only."""
        step: Any = importlib.import_module(STEPS).SchedulerOutput
        if hasattr(step, "make_empty"):
            return step.make_empty()
        return step(**{field.name: 0 if field.name == TOTAL else {} for field in dataclasses.fields(step)})

    def output(self, sampled: Mapping[str, list[int]], *, pools: bool = False) -> Any:
        """What the workers have made of a step: the tokens that were sampled for each of its requests.

        `pools`: something is pooled instead, for the same requests.
        """
        pooled = [object() if tokens else None for tokens in sampled.values()] if pools else None
        sampled = {name: [] for name in sampled} if pools else sampled
        wanted: dict[str, Any] = {"logprobs": None, "prompt_logprobs_dict": {}, "pooler_output": pooled}
        return self._output(
            req_ids=list(sampled),
            req_id_to_index={name: place for place, name in enumerate(sampled)},
            sampled_token_ids=list(sampled.values()),
            **wanted,
        )

    def dropped(self, said: Any) -> list[int]:
        """Encoder outputs that the workers are told to drop, by content."""
        return [int(content) for content in said.free_encoder_mm_hashes]

    def output_key(self, config: Mapping[str, Any], request: int, item: int) -> Key:
        """Requests that show the same content share its encoder output."""
        return (config["items"][request][item][0],)

    def dropped_keys(self, said: Any) -> list[Key]:
        """The encoder outputs of `dropped`."""
        return [(content,) for content in self.dropped(said)]

    def told(self, said: Any) -> list[Told]:
        """The blocks that a step gives to its requests. A new or resumed request gets its whole table."""
        again = said.scheduled_cached_reqs
        if hasattr(again, "resumed_req_ids"):
            resumed = [name in again.resumed_req_ids for name in again.req_ids]
        else:
            resumed = again.resumed_from_preemption
        rows = zip(again.req_ids, again.new_block_ids, resumed, strict=True)
        return [
            *(Told(int(part.req_id), flat(part.block_ids), True) for part in said.scheduled_new_reqs),
            *(Told(int(name), flat(blocks), whole) for name, blocks, whole in rows),
        ]

    def starts(self, said: Any) -> dict[str, int]:
        """Where the parts of a step begin; not of a request that was preempted in the same step."""
        again = said.scheduled_cached_reqs
        new = {part.req_id: part.num_computed_tokens for part in said.scheduled_new_reqs}
        return {**new, **dict(zip(again.req_ids, again.num_computed_tokens, strict=True))}

    def features(self, said: Any) -> list[tuple[str, Sequence[Any]]]:
        """The requests whose items a step sends to the workers, and what it sends."""
        return [(part.req_id, part.mm_features) for part in said.scheduled_new_reqs if part.mm_features]

    def free_blocks(self, scheduler: Any) -> int:
        """How many."""
        return int(scheduler.kv_cache_manager.block_pool.get_num_free_blocks())

    def computed(self, request: Any, steps: Steps) -> int:
        """Tokens that are computed, or will be by the steps in flight."""
        return int(request.num_computed_tokens)


STOP = -2
"""The token that ends each output."""
WAITS_FOR_GRAMMAR = ("WAITING_FOR_FSM", "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR")


def sampling(tokens: int, least: int = 0) -> Any:
    """The release's own parameters of a request: at most and at least so many tokens, and a token that ends it."""
    given = {
        "max_tokens": tokens,
        "min_tokens": least,
        "ignore_eos": True,
        "stop_token_ids": (STOP,),
        "eos_token_id": None,
    }
    return released()("SamplingParams", "vllm.sampling_params", **given)


class Adapter(NamedTuple):
    """What a scheduler and a hasher read of a request's adapter."""

    lora_int_id: int
    lora_name: str
    lora_path: str

    @classmethod
    def numbered(cls, number: int) -> Adapter | None:
        """The adapter of this number; 0 for none."""
        return cls(number, f"adapter-{number}", f"/adapters/{number}") if number else None


class Grammars:
    """In the place of the manager of grammars: each output follows its grammar."""

    def grammar_bitmask(self, *arguments: Any, **named: Any) -> None:
        """Nothing is masked."""

    def should_advance(self, request: Any) -> bool:
        """No grammar is followed step by step."""
        return False

    def accept_tokens(self, request: Any, tokens: Sequence[int]) -> bool:
        """The tokens follow the grammar."""
        return True

    def validate_tokens(self, request: Any, tokens: list[int]) -> list[int]:
        """All drafts follow the grammar."""
        return tokens


class TextOnly:
    """In the place of the registry of multimodal models."""

    def supports_multimodal_inputs(self, model_config: Any) -> bool:
        """The model takes text; what the encoder may do is set on the scheduler."""
        return False


def engine_settings(settings: Settings) -> Any:
    """The release's own configuration of an engine: a text model, and nothing but its defaults beside the settings.

    A name that a release does not have is not read there.
    """
    made, limit = released(), settings.max_model_len
    return made(
        "VllmConfig",
        scheduler_config=made(
            "SchedulerConfig",
            max_num_seqs=settings.max_running,
            max_num_batched_tokens=settings.token_budget,
            max_num_encoder_input_tokens=settings.encoder_compute,
            encoder_cache_size=settings.encoder_capacity,
            max_model_len=limit,
            long_prefill_token_threshold=settings.long_prefill_threshold,
            chunked_prefill_enabled=settings.chunked_prefill,
            enable_chunked_prefill=settings.chunked_prefill,
            disable_chunked_mm_input=settings.whole_items,
            policy=POLICIES[settings.by_priority],
            async_scheduling=settings.asynchronous,
            scheduler_reserve_full_isl=settings.reserves,
            watermark=(settings.watermark + 0.5) / settings.blocks if settings.watermark else 0.0,
        ),
        model_config=made(
            "ModelConfig", max_model_len=limit, is_multimodal_model=False, runner_type=RUNNERS[settings.pools]
        ),
        cache_config=made(
            "CacheConfig",
            num_gpu_blocks=settings.blocks,
            block_size=settings.block_size,
            enable_prefix_caching=settings.prefix_caching,
            sliding_window=None,
        ),
        parallel_config=made("ParallelConfig", data_parallel_rank=0, data_parallel_index=0),
        observability_config=made("ObservabilityConfig"),
        speculative_config=_speculative(settings.drafts) if settings.drafts else None,
        lora_config=SimpleNamespace(max_loras=settings.max_adapters) if settings.max_adapters else None,
        kv_events_config=None,
        kv_transfer_config=None,
        ec_transfer_config=None,
        use_v2_model_runner=True,
    )


def _speculative(drafts: int) -> Any:
    """So many drafts, whoever proposes them: no draft model, and no layers of its own."""
    return released()("SpeculativeConfig", num_speculative_tokens=drafts, method="ngram")
