"""vllm==0.33.0: a load leaves blocks free for drafts that its request cannot use, and never begins (C-SCH-50).

One request of three tokens, two usable blocks of two tokens, as many tokens as the model is long, and a connector that has
the KV of the whole prompt. With a draft for each step, the load has to leave a block free beside the two that it takes.

Needs Python with the release and what that imports, no accelerator and no model. Ends with 1 if it is seen, 0 if
not, 2 if the script cannot be run.
"""

import hashlib
import inspect
import os
import sys
import traceback
from types import SimpleNamespace


def cannot_run(kind, error, where):
    traceback.print_exception(kind, error, where)
    print("CANNOT RUN: this script does not fit the installed package", flush=True)
    os._exit(2)


sys.excepthook = cannot_run

import torch
from vllm.v1.core.encoder_cache_manager import EncoderCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request

ROUNDS = 100


class Settings(SimpleNamespace):
    """Settings of an engine or a request. A setting that is not given is off."""

    def __getattr__(self, name):
        return None


class Connector:
    """An external store with all three tokens, which a request waits for. It ignores all other calls."""

    supports_divergent_local_hybrid_hits = False
    requires_kv_delivery = False
    blocks = None

    def __getattr__(self, name):
        return lambda *_, **__: None

    def get_num_new_matched_tokens(self, request, local):
        return 3 - local, True

    def update_state_after_alloc(self, request, blocks, count):
        self.blocks = blocks.get_block_ids()[0]

    def request_finished(self, *_):
        return False, None

    def has_pending_block_frees(self):
        return False

    def get_loaded_kv_cache_group_ids(self, request):
        return (0,)


def digest(value):
    return hashlib.sha256(repr(value).encode()).digest()


def taken_by(function, **arguments):
    """Those arguments that this release takes."""
    return {name: value for name, value in arguments.items() if name in inspect.signature(function).parameters}


settings = Settings(
    scheduler_config=Settings(
        max_num_seqs=1,
        max_num_batched_tokens=2,
        max_model_len=4,
        long_prefill_token_threshold=0,
        enable_chunked_prefill=True,
        chunked_prefill_enabled=True,
        policy="fcfs",
        max_num_encoder_input_tokens=0,
        encoder_cache_size=0,
        scheduler_reserve_full_isl=True,
        watermark=0.0,
        prefill_schedule_interval=1,
    ),
    model_config=Settings(max_model_len=4, runner_type="generate"),
    cache_config=Settings(num_gpu_blocks=3, block_size=2, enable_prefix_caching=True, mamba_cache_mode="none"),
    parallel_config=Settings(
        data_parallel_rank=0,
        data_parallel_index=0,
        data_parallel_size=1,
        decode_context_parallel_size=1,
        prefill_context_parallel_size=1,
        pipeline_parallel_size=1,
    ),
    observability_config=Settings(per_request_spec_decode_metrics="none"),
    ec_manager_config=Settings(get_encoder_cache_manager_obj=lambda: None),
    aux_output_config=Settings(enabled=False),
    speculative_config=Settings(
        num_speculative_tokens=1,
        use_eagle=lambda: False,
        uses_draft_model=lambda: False,
        use_eagle_block_drop=lambda: False,
        needs_eagle_block_drop=lambda: False,
        max_num_new_slots_for_drafting=0,
    ),
    num_speculative_tokens=1,
    num_lookahead_tokens=0,
    num_prefill_lookahead_tokens=0,
    num_hash_lookahead_tokens=0,
    max_concurrent_batches=1,
    max_in_flight_tokens=2,
    use_v2_model_runner=True,
)
attention = {"block_size": 2, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float16}
layer = FullAttentionSpec(**attention, **taken_by(FullAttentionSpec, use_mla=False))
scheduler = Scheduler(
    vllm_config=settings,
    kv_cache_config=KVCacheConfig(
        num_blocks=3, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], layer)]
    ),
    structured_output_manager=Settings(
        should_advance=lambda request: False,
        accept_tokens=lambda request, tokens: True,
        validate_tokens=lambda request, tokens: tokens,
    ),
    mm_registry=Settings(supports_multimodal_inputs=lambda model_config: False),
    **taken_by(Scheduler, block_size=2),
)
scheduler.encoder_cache_manager = EncoderCacheManager(cache_size=0)
scheduler.connector = connector = Connector()
init_none_hash(digest)


scheduler.add_request(
    Request(
        request_id="0",
        prompt_token_ids=[0, 1, 2],
        sampling_params=Settings(max_tokens=1, min_tokens=0, ignore_eos=True, stop_token_ids=()),
        pooling_params=None,
        arrival_time=0.0,
        block_hasher=get_request_block_hasher(2, digest),
        **taken_by(Request, eos_token_id=None),
    )
)
for step in range(1, ROUNDS + 1):
    plan = scheduler.schedule()
    if connector.blocks is not None or plan.num_scheduled_tokens:
        break
else:
    free = scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
    print(f"VIOLATED: {ROUNDS} steps load and compute nothing, with {free} of 2 blocks free and one request waiting")
    sys.exit(1)
print(f"NOT SHOWN: step {step} " + ("loads" if connector.blocks is not None else f"computes {plan.num_scheduled_tokens}"))
