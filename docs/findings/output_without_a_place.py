"""vllm==0.11.0: a request is scheduled and preempted in one step, and its output ends the engine (C-SCH-14, #30142).

Asynchronous scheduling and priorities. Request 0 (2 tokens, less important) came first, request 1 (2 tokens) second;
there are five blocks of two tokens, one of which is set aside. Both decode; request 1 needs a block, and takes that
of request 0, which is scheduled in this step already. The plan keeps its tokens, no place is kept for its output, and
when the output arrives an assertion fails: the engine's core ends, with all requests.

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
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request


class Settings(SimpleNamespace):
    """Settings of an engine or a request. A setting that is not given is off."""

    def __getattr__(self, name):
        return None


def digest(value):
    return hashlib.sha256(repr(value).encode()).digest()


def taken_by(function, **arguments):
    """Those arguments that this release takes."""
    return {name: value for name, value in arguments.items() if name in inspect.signature(function).parameters}


settings = Settings(
    scheduler_config=Settings(
        max_num_seqs=2,
        max_num_batched_tokens=4,
        max_model_len=8,
        long_prefill_token_threshold=0,
        enable_chunked_prefill=True,
        chunked_prefill_enabled=True,
        async_scheduling=True,
        policy="priority",
        max_num_encoder_input_tokens=0,
        encoder_cache_size=0,
        scheduler_reserve_full_isl=True,
        watermark=0.0,
        prefill_schedule_interval=1,
    ),
    model_config=Settings(max_model_len=8, runner_type="generate"),
    cache_config=Settings(num_gpu_blocks=5, block_size=2, enable_prefix_caching=True, mamba_cache_mode="none"),
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
    num_speculative_tokens=0,
    num_lookahead_tokens=0,
    num_prefill_lookahead_tokens=0,
    num_hash_lookahead_tokens=0,
    max_concurrent_batches=2,
    max_in_flight_tokens=8,
    use_v2_model_runner=True,
)
attention = {"block_size": 2, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float16}
layer = FullAttentionSpec(**attention, **taken_by(FullAttentionSpec, use_mla=False))
scheduler = AsyncScheduler(
    vllm_config=settings,
    kv_cache_config=KVCacheConfig(
        num_blocks=5, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], layer)]
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
init_none_hash(digest)


def add(number, priority):
    """A request arrives, with tokens that no other has."""
    request = Request(
        request_id=str(number),
        prompt_token_ids=[2 * number, 2 * number + 1],
        sampling_params=Settings(max_tokens=4, min_tokens=0, ignore_eos=True, stop_token_ids=()),
        pooling_params=None,
        arrival_time=float(number),
        priority=priority,
        block_hasher=get_request_block_hasher(2, digest),
        **taken_by(Request, eos_token_id=None),
    )
    scheduler.add_request(request)


def update(plan):
    """A planned step is executed: each scheduled request has a token of output."""
    names = list(plan.num_scheduled_tokens)
    output = ModelRunnerOutput(
        req_ids=names,
        req_id_to_index={name: place for place, name in enumerate(names)},
        sampled_token_ids=[[1000 + int(name)] for name in names],
        logprobs=None,
        prompt_logprobs_dict={},
        pooler_output=None,
    )
    scheduler.update_from_output(plan, output)


add(0, priority=1)
plans = [scheduler.schedule(), scheduler.schedule()]
add(1, priority=0)
for _ in range(2):
    update(plans.pop(0))
    plans.append(scheduler.schedule())
both = plans[-1].num_scheduled_tokens
try:
    for plan in plans:
        update(plan)
except AssertionError as error:
    violated, failed = True, traceback.extract_tb(error.__traceback__)[-1]
    print(f"VIOLATED: planned was {both}; when its output arrives, this fails in {failed.name}: {failed.line}")
else:
    violated = False
    print(f"NOT SHOWN: planned was {both}; its output is taken")
sys.exit(1 if violated else 0)
