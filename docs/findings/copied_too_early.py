"""vllm==0.33.0: a block is copied before the step that computes it has run, and a request reads the copy (C-KV-34).

Full attention and a state-space layer, with --mamba-cache-mode align and --prefix-match-unit: hits may end within a
block, which is then copied for the request. Scheduling by priority, two requests at a time, blocks of four tokens.

Request 0 has a prompt of three tokens and the lower priority. It has generated some tokens when request 1, which is
long, preempts it. Request 2 has the same prompt. It is aborted after its first step, which has computed two tokens:
their keys and values, and the state behind them, stay in the cache. Requests 3 and 4 take all blocks but that of the
state. When they end, request 0 and request 5, again with the same prompt, are scheduled in one step. Request 0 computes
four tokens at once, so it registers a block for its first two tokens, and no state there. Request 5 finds that block,
and the state of request 2. The plan copies the block; the worker does that before the model runs.

Needs Python with the release and what that imports, no accelerator and no model. Ends with 1 if it is seen, 0 if not,
2 if the script cannot be run.
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
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, MambaSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus


class Settings(SimpleNamespace):
    """Settings of an engine or of a request. A setting that is not given is None."""

    def __getattr__(self, name):
        return None


def digest(value):
    return hashlib.sha256(repr(value).encode()).digest()


def taken_by(function, **arguments):
    """Those arguments that this release takes."""
    return {name: value for name, value in arguments.items() if name in inspect.signature(function).parameters}


MODEL_LENGTH, BLOCK, UNIT, BLOCKS, STEPS = 40, 4, 1, 10, 30
PROMPT = [10, 11, 12]

settings = Settings(
    scheduler_config=Settings(
        max_num_seqs=2,
        max_num_batched_tokens=32,
        max_model_len=MODEL_LENGTH,
        long_prefill_token_threshold=0,
        enable_chunked_prefill=True,
        policy="priority",
        max_num_encoder_input_tokens=0,
        encoder_cache_size=0,
        scheduler_reserve_full_isl=True,
        watermark=0.0,
        prefill_schedule_interval=1,
    ),
    model_config=Settings(max_model_len=MODEL_LENGTH, runner_type="generate"),
    cache_config=Settings(
        num_gpu_blocks=BLOCKS,
        block_size=BLOCK,
        enable_prefix_caching=True,
        mamba_cache_mode="align",
        prefix_match_unit=UNIT,
    ),
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
    max_concurrent_batches=1,
    max_in_flight_tokens=32,
    use_v2_model_runner=True,
)
attention = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=1, dtype=torch.float16)
states = MambaSpec(block_size=BLOCK, shapes=((1,),), dtypes=(torch.float16,), mamba_cache_mode="align")
init_none_hash(digest)


def new_scheduler():
    groups = [KVCacheGroupSpec(["attention"], attention), KVCacheGroupSpec(["states"], states)]
    return Scheduler(
        vllm_config=settings,
        kv_cache_config=KVCacheConfig(num_blocks=BLOCKS, kv_cache_tensors=[], kv_cache_groups=groups),
        structured_output_manager=Settings(
            should_advance=lambda request: False,
            accept_tokens=lambda request, tokens: True,
            validate_tokens=lambda request, tokens: tokens,
        ),
        mm_registry=Settings(supports_multimodal_inputs=lambda model_config: False),
        block_size=BLOCK,
        hash_block_size=UNIT,
    )


def added(scheduler, requests, prompt, outputs, priority):
    """The next request."""
    request = Request(
        request_id=str(len(requests)),
        prompt_token_ids=list(prompt),
        sampling_params=Settings(max_tokens=outputs, min_tokens=0, ignore_eos=True, stop_token_ids=()),
        pooling_params=None,
        arrival_time=float(len(requests)),
        priority=priority,
        mm_features=[],
        block_hasher=get_request_block_hasher(UNIT, digest),
    )
    requests[request.request_id] = request
    scheduler.add_request(request)
    return request


def starts_of(plan):
    """How many tokens of each scheduled request were computed before this step."""
    starts = {part.req_id: part.num_computed_tokens for part in plan.scheduled_new_reqs}
    again = plan.scheduled_cached_reqs
    return {**starts, **dict(zip(again.req_ids, again.num_computed_tokens))}


def copied_too_early(scheduler, plan):
    """A copy of tokens that the same step computes: what is wrong with it, or None."""
    starts = starts_of(plan)
    tables = {name: scheduler.kv_cache_manager.get_block_ids(name)[0] for name in plan.num_scheduled_tokens}
    for source, target in map(tuple, plan.kv_cache_block_copies or ()):
        for reader in tables:
            for writer, table in tables.items():
                if writer == reader or target not in tables[reader] or source not in table:
                    continue
                first = max(starts[writer], table.index(source) * BLOCK)
                end = min(starts[writer] + plan.num_scheduled_tokens[writer], starts[reader])
                if first < end:
                    return (
                        f"block {source} is copied into block {target} for tokens {first} to {end - 1} of request"
                        f" {reader}, and request {writer} computes them in the same step"
                    )
    return None


def update(scheduler, plan, requests):
    """A planned step is executed: a token of output for each request of which all that is known is computed."""
    names = list(plan.num_scheduled_tokens)
    sampled = [
        [1000 + requests[name].num_tokens] if requests[name].num_computed_tokens >= requests[name].num_tokens else []
        for name in names
    ]
    output = ModelRunnerOutput(
        req_ids=names,
        req_id_to_index={name: place for place, name in enumerate(names)},
        sampled_token_ids=sampled,
        logprobs=None,
        prompt_logprobs_dict={},
        pooler_output=None,
    )
    scheduler.update_from_output(plan, output)


def arrivals(scheduler, requests, number):
    """What comes before a step: each time the next of these happens when what it waits for has happened."""
    if len(requests) == 1 and number == 5:
        added(scheduler, requests, range(100, 120), outputs=2, priority=0)
    elif len(requests) == 2 and requests["1"].is_finished():
        added(scheduler, requests, PROMPT, outputs=1, priority=0)
    elif len(requests) == 3 and requests["2"].num_computed_tokens == 2:
        scheduler.finish_requests("2", RequestStatus.FINISHED_ABORTED)
        added(scheduler, requests, range(200, 205), outputs=1, priority=0)
        added(scheduler, requests, range(300, 305), outputs=1, priority=0)
        added(scheduler, requests, PROMPT, outputs=1, priority=6)


def run(scheduler, requests):
    """All steps. The first copy that comes too early, or None."""
    for number in range(1, STEPS):
        arrivals(scheduler, requests, number)
        plan = scheduler.schedule()
        wrong = copied_too_early(scheduler, plan)
        if wrong is not None:
            return f"in step {number} {wrong}"
        if plan.num_scheduled_tokens:
            update(scheduler, plan, requests)
    return None


scheduler, requests = new_scheduler(), {}
added(scheduler, requests, PROMPT, outputs=8, priority=5)
wrong = run(scheduler, requests)
print(f"VIOLATED: {wrong}" if wrong else "NOT SHOWN: every block that a step copies was computed before it")
sys.exit(bool(wrong))
