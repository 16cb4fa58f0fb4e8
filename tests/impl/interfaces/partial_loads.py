"""Random loads in the scheduler of 0.33.0 with full attention and states, whose hits may end within a block.

`partial_loads.py DRIVER SOURCE IMPL FIRST LAST [RULES...]`. It stands alone: the Python of a release's environment runs
it, with the release's manager and with ours. The worker is made up. It appends the blocks that a plan gives it to its
tables, makes all copies of a step at once, lets each request read its keys, values and state, and then writes. It
reports the first read of something that is not there. One JSON object comes out: for each mode and each manager, how
the loads ended.
"""

from __future__ import annotations

import hashlib
import importlib
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from tests.impl.interfaces import random_loads
else:
    sys.path.append(str(Path(__file__).parent))
    random_loads = importlib.import_module("random_loads")

BLOCK, LIMIT, STEPS, BUDGET, RUNNING, DRAFTS = 4, 40, 150, 12, 4, 2
MODES = {
    "sync": (1, 0, "", 16),
    "hash blocks": (2, 0, "", 16),
    "async": (1, 1, "", 16),
    "priority": (1, 0, "priority", 16),
    "preempting": (1, 0, "priority", 11),
    "async, preempting": (1, 1, "priority", 11),
    "drafts": (1, 0, "drafts", 24),
    "drafts, preempting": (2, 0, "drafts", 15),
}
"""Tokens of a hash block, steps that are in flight while the next one is planned, the policy, and the blocks.

With few blocks a request is admitted although not all of its tokens find blocks. With drafts a request has blocks for
their states.
"""
VOCABULARY = 2


class Unset(SimpleNamespace):
    """Settings of an engine or of a request. A setting that is not given is None."""

    def __getattr__(self, name: str) -> Any:
        """Not given."""
        return None


def digest(value: Any) -> bytes:
    """A hash."""
    return hashlib.sha256(repr(value).encode()).digest()


def settings_of(unit: int, ahead: int, policy: str, blocks: int) -> Any:
    """A small engine."""
    return Unset(
        scheduler_config=Unset(
            max_num_seqs=RUNNING,
            max_num_batched_tokens=BUDGET,
            max_model_len=LIMIT,
            long_prefill_token_threshold=0,
            enable_chunked_prefill=True,
            policy="priority" if policy == "priority" else "fcfs",
            max_num_encoder_input_tokens=0,
            encoder_cache_size=0,
            scheduler_reserve_full_isl=blocks > 15,
            watermark=0.0,
            prefill_schedule_interval=1,
            async_scheduling=bool(ahead),
        ),
        model_config=Unset(max_model_len=LIMIT, runner_type="generate"),
        cache_config=Unset(
            num_gpu_blocks=blocks,
            block_size=BLOCK,
            enable_prefix_caching=True,
            mamba_cache_mode="align",
            prefix_match_unit=unit,
            enable_mamba_shared_prefix_checkpoint=False,
        ),
        parallel_config=Unset(
            data_parallel_rank=0,
            data_parallel_index=0,
            data_parallel_size=1,
            decode_context_parallel_size=1,
            prefill_context_parallel_size=1,
            pipeline_parallel_size=1,
        ),
        observability_config=Unset(per_request_spec_decode_metrics="none"),
        ec_manager_config=Unset(get_encoder_cache_manager_obj=lambda: None),
        aux_output_config=Unset(enabled=False),
        num_speculative_tokens=DRAFTS if policy == "drafts" else 0,
        num_lookahead_tokens=0,
        num_prefill_lookahead_tokens=0,
        num_hash_lookahead_tokens=0,
        max_concurrent_batches=1 + ahead,
        max_in_flight_tokens=BUDGET * (1 + ahead),
        use_v2_model_runner=policy != "drafts",
    )


class Worker:
    """The memory of the workers, and what they know of each request."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.slots: dict[tuple[int, int], bytes] = {}
        """For each block and each place in it, the prefix whose last keys and values are there."""
        self.states: dict[int, bytes] = {}
        """For each block the prefix whose state it has."""
        self.tables: dict[str, tuple[list[int], ...]] = {}
        self.tokens: dict[str, list[int]] = {}
        self.computed: dict[str, int] = {}
        self.state_in: dict[str, int] = {}
        """The block with the state of each request; with drafts that may be one for drafts."""
        self.copies = 0

    def prefix(self, name: str, tokens: int) -> bytes:
        """The first tokens of a request."""
        return digest(self.tokens[name][:tokens])

    def execute(self, said: Any) -> dict[str, list[int]]:
        """What each request of the step samples."""
        for part in said.scheduled_new_reqs:
            self.tables[part.req_id] = tuple(list(blocks) for blocks in part.block_ids)
            self.begin(part.req_id, part.num_computed_tokens)
        again = said.scheduled_cached_reqs
        for name, blocks, computed in zip(again.req_ids, again.new_block_ids, again.num_computed_tokens, strict=True):
            if name in again.resumed_req_ids:
                self.tables[name] = tuple(list(its) for its in blocks)
                self.begin(name, computed)
            elif blocks is not None:
                for table, more in zip(self.tables[name], blocks, strict=True):
                    table.extend(more)
        self.copy([tuple(its) for its in said.kv_cache_block_copies or ()])
        for name in said.num_scheduled_tokens:
            self.read(name)
        drafted = said.scheduled_spec_decode_tokens
        return {
            name: self.write(name, count, len(drafted.get(name, ())))
            for name, count in said.num_scheduled_tokens.items()
        }

    def begin(self, name: str, computed: int) -> None:
        """A new or resumed request goes on behind the tokens of its hit."""
        self.computed[name] = computed
        if computed:
            self.state_in[name] = self.tables[name][1][(computed - 1) // BLOCK]

    def copy(self, pairs: list[tuple[int, int]]) -> None:
        """All sources are read before a target is written."""
        slots = {(to, place): self.slots.get((of, place)) for of, to in pairs for place in range(BLOCK)}
        states = {to: self.states.get(of) for of, to in pairs}
        self.slots.update({slot: its for slot, its in slots.items() if its is not None})
        self.states.update({to: its for to, its in states.items() if its is not None})
        self.copies += len(pairs)

    def read(self, name: str) -> None:
        """Keys and values of all tokens before the step, and the state behind them."""
        start, (attention, _) = self.computed[name], self.tables[name]
        for position in range(start):
            if self.slots.get((attention[position // BLOCK], position % BLOCK)) != self.prefix(name, position + 1):
                raise random_loads.WrongReadError("keys and values that are not there")
        if start and self.states.get(self.state_in[name]) != self.prefix(name, start):
            raise random_loads.WrongReadError("a state that is not there")

    def write(self, name: str, count: int, drafts: int) -> list[int]:
        """Keys and values, and the state behind the step; tokens if all that is known was computed.

        Some drafts are accepted. The state behind each is in a block of its own; that of a whole block is kept there.
        """
        start, (attention, states), tokens = self.computed[name], self.tables[name], self.tokens[name]
        end, running = start + count - drafts, (start + count - 1) // BLOCK
        samples = end >= len(tokens)
        accepted = self.rng.randint(0, drafts)
        sampled = [self.rng.randrange(VOCABULARY) for _ in range(accepted + 1)] if samples else []
        tokens.extend(sampled)
        for position in range(start, end + drafts):
            slot = attention[position // BLOCK], position % BLOCK
            self.slots[slot] = self.prefix(name, position + 1) if position < end + accepted else b""
        for place in range(drafts + 1):
            self.states[states[running + place]] = self.prefix(name, end + place) if place <= accepted else b""
        self.computed[name], self.state_in[name] = end + accepted, states[running + accepted]
        whole = (end + accepted) // BLOCK * BLOCK
        if drafts and whole > start:
            self.states[states[whole // BLOCK - 1]] = self.prefix(name, whole)
        return sampled


class Load(random_loads.Load):
    """One engine with random requests, aborts and resets of the prefix cache."""

    LIMIT = LIMIT

    def __init__(self, mode: str, seed: int) -> None:
        self.unit, ahead, policy, blocks = MODES[mode]
        super().__init__(seed, STEPS, ahead, DRAFTS if policy == "drafts" else 0)
        self.by_priority = policy == "priority"
        self.ABORTED = importlib.import_module("vllm.v1.request").RequestStatus.FINISHED_ABORTED
        self.worker = Worker(random.Random(seed + 1))
        interface: Any = importlib.import_module("vllm.v1.kv_cache_interface")
        torch: Any = importlib.import_module("torch")
        utilities: Any = importlib.import_module("vllm.v1.core.kv_cache_utils")
        name = "async_scheduler" if self.ahead else "scheduler"
        module: Any = importlib.import_module(f"vllm.v1.core.sched.{name}")
        utilities.init_none_hash(digest)
        self.hasher = utilities.get_request_block_hasher(self.unit, digest)
        attention = interface.FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=1, dtype=torch.float16)
        states = interface.MambaSpec(
            block_size=BLOCK,
            shapes=((1,),),
            dtypes=(torch.float16,),
            mamba_cache_mode="align",
            num_speculative_blocks=self.drafts,
        )
        groups = [interface.KVCacheGroupSpec([part], spec) for part, spec in (("a", attention), ("s", states))]
        self.scheduler = (module.AsyncScheduler if self.ahead else module.Scheduler)(
            vllm_config=settings_of(self.unit, self.ahead, policy, blocks),
            kv_cache_config=interface.KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups),
            structured_output_manager=Unset(
                should_advance=lambda request: False,
                accept_tokens=lambda request, tokens: True,
                validate_tokens=lambda request, tokens: tokens,
            ),
            mm_registry=Unset(supports_multimodal_inputs=lambda model_config: False),
            block_size=BLOCK,
            hash_block_size=self.unit,
        )
        self.requests: dict[str, Any] = {}
        self.begun = set[str]()
        self.hits = self.within = self.resumed = 0

    def add(self) -> None:
        """A request; mostly it begins as another one does."""
        number = str(len(self.requests))
        prompt = [self.rng.randrange(VOCABULARY) for _ in range(self.rng.randint(1, 14))]
        if self.requests and self.rng.random() < 0.8:
            other = self.worker.tokens[str(self.rng.randrange(len(self.requests)))]
            count = self.rng.randint(1, min(len(other), 20))
            prompt = [*other[:count], *(prompt if self.rng.random() < 0.5 else prompt[:1])][:24]
        self.worker.tokens[number] = list(prompt)
        self.requests[number] = importlib.import_module("vllm.v1.request").Request(
            request_id=number,
            prompt_token_ids=prompt,
            sampling_params=Unset(max_tokens=self.rng.randint(1, 10), min_tokens=0, ignore_eos=True, stop_token_ids=()),
            pooling_params=None,
            arrival_time=float(number),
            priority=self.rng.randint(0, 2) if self.by_priority else 0,
            mm_features=[],
            block_hasher=self.hasher,
        )
        self.scheduler.add_request(self.requests[number])

    def step(self) -> None:
        """Plan a step, and execute it."""
        said = self.scheduler.schedule()
        again = said.scheduled_cached_reqs
        self.plans.append(
            (
                dict(said.num_scheduled_tokens),
                [(part.req_id, part.block_ids, part.num_computed_tokens) for part in said.scheduled_new_reqs],
                (list(again.req_ids), list(again.new_block_ids), list(again.num_computed_tokens)),
                [tuple(its) for its in said.kv_cache_block_copies or ()],
                sorted(said.finished_req_ids),
            )
        )
        found = [part.num_computed_tokens for part in said.scheduled_new_reqs]
        self.hits += sum(found)
        self.within += sum(tokens % BLOCK > 0 for tokens in found)
        began = {part.req_id for part in said.scheduled_new_reqs}
        self.resumed += len(began & self.begun) + len(again.resumed_req_ids)
        self.begun |= began
        if said.num_scheduled_tokens:
            self.steps.append((said, self.worker.execute(said)))
        if len(self.steps) > self.ahead or not said.num_scheduled_tokens:
            self.update()

    def output(self, sampled: Mapping[str, list[int]]) -> Any:
        """What the scheduler hears of the oldest step."""
        return importlib.import_module("vllm.v1.outputs").ModelRunnerOutput(
            req_ids=list(sampled),
            req_id_to_index={name: place for place, name in enumerate(sampled)},
            sampled_token_ids=list(sampled.values()),
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=None,
        )

    def proposed(self, drafts: Mapping[str, list[int]]) -> Any:
        """Drafts, as the release has them."""
        return importlib.import_module("vllm.v1.outputs").DraftTokenIds(list(drafts), list(drafts.values()))

    def counts(self) -> dict[str, int]:
        """What has occurred, by name."""
        return {"hits": self.hits, "within": self.within, "copies": self.worker.copies, "resumed": self.resumed}


def main() -> None:
    """Print how the loads ended."""
    with random_loads.answering() as answer:
        given = random_loads.arguments()
        answer(random_loads.compared(Load, MODES, range(given.first, given.last), given.impl, given.ours))


if __name__ == "__main__":
    main()
