"""The release's batch processor, scheduler, offloading and paged cache, with a model that knows what it should read.

`ContinuousBatchProcessor` takes requests and cancellations from its queues, plans batches and is told what came of
them, as released. In the place of its tensors and its model stands one that writes, for each token, a digest of all
tokens up to it into the cache, through the release's own indices, and compares what it reads. What the next token is
depends only on the request and its place, so it is known in advance.
"""

from __future__ import annotations

import gc
import importlib
import queue
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from driver.calls import (  # type: ignore[import-not-found]  # of the driver for vLLM, on the child's path only
    MISS,
    Calls,
    Reply,
    operations_of,
)
from paged import BATCHING, made_cache  # type: ignore[import-not-found]  # beside this file, likewise

UNKNOWN = -1
"""The release's own sign for a token that is not known yet."""
CHILDREN = 100
"""The number of a request's first child is its own and this; of its second, twice this, and so on."""
OUTPUTS = 1_000
"""Tokens that are produced; prompts have smaller ones."""
MODULUS = (1 << 61) - 1
SAFETY = 0.8


def number_of(request_id: str) -> int:
    """The number of a request or of a child."""
    base, _, child = request_id.partition("__child#")
    return int(base) + (CHILDREN * (int(child) + 1) if child else 0)


class Model:
    """What is computed in each batch, at once: later batches come after it on any stream."""

    def __init__(self, prompts: Sequence[Sequence[int]]) -> None:
        self._prompts = prompts
        self.wrong: list[int] = []
        """The request and the place of the first thing that was not as it should be."""

    def token(self, request_id: str, place: int) -> int:
        """The token of a request at a place: of its prompt, or produced. Children differ in every third one."""
        number = number_of(request_id)
        prompt = self._prompts[number % CHILDREN]
        if place < len(prompt):
            return prompt[place]
        return OUTPUTS + place + (number // CHILDREN * CHILDREN if place % 3 == 2 else 0)

    def digests(self, request_id: str, length: int) -> list[int]:
        """For each of the first tokens, what is written for it: a number of all tokens up to it."""
        found, digest = [], 0
        for place in range(length):
            digest = (digest * 1_000_003 + self.token(request_id, place) + 1) % MODULUS
            found.append(digest)
        return found

    def note(self, request_id: str, place: int) -> None:
        """Something is wrong there; the first is kept."""
        self.wrong = self.wrong or [number_of(request_id), place]


class Batches:
    """In the place of the release's inputs and outputs: the same changes of requests, and the model above."""

    compute_stream = None
    made: Batches
    model: Model

    def __init__(self, cache: Any, continuous_batching_config: Any, **_settings: Any) -> None:
        self._cache = cache
        self._carries = bool(continuous_batching_config.use_async_batching)
        self._last: dict[str, int] = {}
        """What the newest batch produced; with a step ahead, the next one is given that in the place of what it has."""
        self._in_flight: list[tuple[list[Any], list[int]]] = []
        self.planned: tuple[int, int, int] = (0, 0, 0)
        """Of the newest batch: its requests, its tokens, and the fewest tokens of one request."""
        type(self).made = self

    def prepare_batch_tensors(
        self,
        requests_in_batch: list[Any],
        logits_processors: Any,
        use_decode_fast_path: bool,
        num_q_tokens: int,
        max_kv_read: int,
        use_padding: bool,
    ) -> None:
        """Requests go on by what is scheduled, and the batch is computed."""
        write: list[list[int]] = [[]]
        read: list[list[int]] | None = [[]] if max_kv_read else None
        parts: list[tuple[str, int, int]] = []
        produced: dict[str, int] = {}
        for future in requests_in_batch:
            state, past, length = future.state, future.state.position_offset, future.query_length
            given = list(state.tokens_to_process)
            state.position_offset += length
            self._cache.extend_read_and_write_indices(state.request_id, past, length, read, write)
            if self._carries and future.has_new_token and state.request_id in self._last:
                given[-1:] = [self._last[state.request_id]]
            if len(given) != length:
                self.model.note(state.request_id, past)
            for place, token in enumerate(given, start=past):
                if token != self.model.token(state.request_id, place):
                    self.model.note(state.request_id, place)
            parts.append((state.request_id, past, length))
            if future.has_new_token:
                state.tokens_to_process = [UNKNOWN]
                produced[state.request_id] = self.model.token(state.request_id, past + length)
        self._compute(parts, read, write)
        counts = [length for _, _, length in parts]
        self.planned = (len(counts), sum(counts), min(counts))
        self._last = produced
        self._in_flight.append((requests_in_batch, list(produced.values())))

    def prepare_batch_update(self) -> tuple[list[Any], list[int], None]:
        """The oldest batch, and what was produced."""
        requests, tokens = self._in_flight.pop(0)
        return requests, tokens, None

    def _compute(self, parts: list[tuple[str, int, int]], read: list[list[int]] | None, write: list[list[int]]) -> None:
        (allocator,) = self._cache.cache_allocators.values()
        own = [d for name, past, length in parts for d in self.model.digests(name, past + length)[past:]]
        shape = (len(own), 1, allocator.head_dim)
        states = torch.tensor(own, dtype=torch.int64).view(-1, 1, 1).expand(shape)
        index = torch.tensor([] if read is None else read[0], dtype=torch.int64)
        keys, values = allocator.update(states, states, 0, index, torch.tensor(write[0], dtype=torch.int64))
        seen, also = keys[:, 0, 0].tolist(), values[:, 0, 0].tolist()
        start = 0
        for name, past, length in parts:
            expected = self.model.digests(name, past + length)
            for place, digest in enumerate(expected):
                at = start + place
                if seen[at : at + 1] != [digest] or also[at : at + 1] != [digest]:
                    self.model.note(name, place)
                    break
            start += len(expected)


class Runner:
    """In the place of the release's model runner: nothing is padded, and nothing is computed elsewhere."""

    pad_inputs = False

    def __init__(self, **_settings: Any) -> None:
        pass

    def maybe_pad_inputs(self, tokens: int, read: int, _fast: bool) -> tuple[int, int]:
        """As they are."""
        return tokens, read


class AnyProcessor:
    """In the place of logits processors: none has settings."""

    def check_kwargs(self, _settings: object) -> None:
        """There is nothing to check."""


class ServingDriver:
    """One batch processor. A step is one pass of the loop of its background thread."""

    scheduler = "fifo"

    def __init__(self, calls: Calls) -> None:
        self._api = importlib.import_module(f"{BATCHING}.continuous_api")
        for name, ours in (
            ("ContinuousBatchingIOs", Batches),
            ("ContinuousBatchingAsyncIOs", Batches),
            ("ModelRunner", Runner),
        ):
            setattr(self._api, name, ours)
        self._requests = importlib.import_module(f"{BATCHING}.requests")
        self._processor: Any = None
        self.operations = operations_of(self, calls)

    def reset(self, config: Mapping[str, Any]) -> None:
        """A new processor, and requests with these prompts, outputs and children."""
        self._config = config
        Batches.model = Model(config["prompts"])
        cache = made_cache(config["block_size"], config["blocks"], 1, config["token_budget"], config["sharing"])
        (self._allocator,) = cache.cache_allocators.values()
        self._cache = cache
        schedulers = importlib.import_module(f"{BATCHING}.scheduler").SCHEDULER_MAPPING
        scheduler = schedulers[type(self).scheduler](
            cache=cache, safety_margin=None, max_requests_per_batch=config["running"]
        )
        settings = SimpleNamespace(
            return_logprobs=False,
            seed=0,
            use_async_batching=bool(config["ahead"]),
            cpu_offload_space=0.0,
            cpu_offload_space_safety_threshold=SAFETY,
            cpu_group_timeout=None,
        )
        helper = importlib.import_module(f"{BATCHING}.distributed").DistributedHelper(None, None)
        gc.disable()  # a processor that is deleted collects by itself
        self._router = self._api.OutputRouter()
        self._arrivals: queue.Queue[Any] = queue.Queue()
        self._cancellations: queue.Queue[str] = queue.Queue()
        self._processor = self._api.ContinuousBatchProcessor(
            cache=cache,
            config=SimpleNamespace(),
            generation_config=SimpleNamespace(do_sample=False),
            continuous_batching_config=settings,
            logit_processor=AnyProcessor(),
            input_queue=self._arrivals,
            cancel_queue=self._cancellations,
            output_router=self._router,
            background_thread_status=self._api.BackgroundThreadStatus(),
            model_device=torch.device("cpu"),
            model_dtype=torch.int64,
            scheduler=scheduler,
            distributed_helper=helper,
        )
        self._launched = False
        self._delivered: list[int] = []
        self._texts: dict[int, list[int]] = {}
        self._failure = ""

    def observe(self) -> dict[str, Any]:
        """Where blocks are, who waits and runs, whose whole output was delivered, and what was read wrongly."""
        pool, ledger, scheduler = self._cache.pool, self._allocator.ledger, self._processor.scheduler
        each, first = self._allocator.blocks_per_sector, pool.num_reserved_sectors * self._allocator.blocks_per_sector
        free = [sector * each + place for sector in pool.free_sectors for place in range(each)]
        free += [block for tree in pool._free_blocks[0].trees.values() for block in tree]
        while not self._router.output_queue.empty():
            output = self._router.output_queue.get_nowait()
            if output.is_finished():
                self._delivered.append(number_of(output.request_id))
                self._texts[number_of(output.request_id)] = output.prompt_ids + output.generated_tokens
        held = {block for table in self._allocator.block_table.values() for block in table}
        return {
            "free": sorted(block - first for block in free),
            "cached": sorted(block - first for block in ledger.cached_blocks),
            "held": sorted(block - first for block in held),
            "holders": sorted(number_of(name) for name in self._allocator.block_table),
            "running": sorted(number_of(name) for name in scheduler.active_requests),
            "waiting": sorted(number_of(name) for name in scheduler.waiting_requests),
            "delivered": sorted(self._delivered),
            "found": [len(self._allocator.match_prefix_blocks(self._texts[one])) for one in sorted(self._delivered)],
            "wrong": Batches.model.wrong,
            "failure": self._failure,
        }

    def do_arrive(self, request: int) -> None:
        state = self._requests.RequestState(
            request_id=str(request),
            initial_tokens=list(self._config["prompts"][request]),
            num_children=self._config["children"][request],
            max_new_tokens=self._config["outputs"][request],
        )
        self._arrivals.put(state)

    def do_cancel(self, request: int) -> None:
        self._cancellations.put(str(request))

    def do_step(self) -> Reply:
        try:
            return self._passed()
        except Exception as error:
            self._failure = f"{type(error).__name__}: {error}"
            raise

    def _passed(self) -> Reply:
        if not self._processor.prepare_next_batch():
            return MISS
        planned = Reply("done", Batches.made.planned)
        if self._config["ahead"] and not self._launched:
            self._launched = True
            return planned
        self._processor.update_batch()
        return planned


class PrefillFirstDriver(ServingDriver):
    """The same with the other scheduler."""

    scheduler = "prefill_first"
