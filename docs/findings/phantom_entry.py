"""vllm==0.33.0: an item is never encoded, and a later step reads it: the phantom entry (C-ENC-26).

Scheduling by priority. Request 0 has the lower priority and an image in its last two tokens. Step 4 schedules these
tokens and the image. Later in the same step, request 1 needs a block, there is none, and request 0 is preempted: its
encoder work leaves the plan, and the entry of the image stays in the encoder cache manager. When request 0 resumes, the
image counts as cached. It is not encoded, and the step reads an output that was never computed. (Request 2 only makes
the first step the same in all releases: some lift the threshold for a request that is alone.)

A made-up worker keeps what the plans tell it to encode and to drop. Needs Python with the release and what that
imports, no accelerator and no model. Ends with 1 if it is seen, 0 if not, 2 if the script cannot be run.
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
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.v1.core.encoder_cache_manager import EncoderCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request


class Settings(SimpleNamespace):
    """Settings of an engine or of a request. A setting that is not given is None."""

    def __getattr__(self, name):
        return None


def digest(value):
    return hashlib.sha256(repr(value).encode()).digest()


def taken_by(function, **arguments):
    """Those arguments that this release takes."""
    return {name: value for name, value in arguments.items() if name in inspect.signature(function).parameters}


MODEL_LENGTH, BLOCK, BLOCKS, STEPS = 12, 2, 7, 20
IMAGE = MultiModalFeatureSpec(
    data=None, modality="image", identifier="7", mm_position=PlaceholderRange(offset=6, length=2)
)

settings = Settings(
    scheduler_config=Settings(
        max_num_seqs=3,
        max_num_batched_tokens=5,
        max_model_len=MODEL_LENGTH,
        long_prefill_token_threshold=2,
        enable_chunked_prefill=True,
        chunked_prefill_enabled=True,
        policy="priority",
        max_num_encoder_input_tokens=2,
        encoder_cache_size=2,
        scheduler_reserve_full_isl=True,
        watermark=0.0,
        prefill_schedule_interval=1,
    ),
    model_config=Settings(max_model_len=MODEL_LENGTH, runner_type="generate"),
    cache_config=Settings(num_gpu_blocks=BLOCKS, block_size=BLOCK, enable_prefix_caching=True, mamba_cache_mode="none"),
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
    max_in_flight_tokens=5,
    use_v2_model_runner=True,
)
attention = {"block_size": BLOCK, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float16}
layer = FullAttentionSpec(**attention, **taken_by(FullAttentionSpec, use_mla=False))
init_none_hash(digest)


def new_scheduler():
    scheduler = Scheduler(
        vllm_config=settings,
        kv_cache_config=KVCacheConfig(
            num_blocks=BLOCKS, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], layer)]
        ),
        structured_output_manager=Settings(
            should_advance=lambda request: False,
            accept_tokens=lambda request, tokens: True,
            validate_tokens=lambda request, tokens: tokens,
        ),
        mm_registry=Settings(supports_multimodal_inputs=lambda model_config: False),
        **taken_by(Scheduler, block_size=BLOCK),
    )
    scheduler.max_num_encoder_input_tokens = 2
    scheduler.encoder_cache_manager = EncoderCacheManager(cache_size=2)
    return scheduler


def new_request(number, tokens, outputs, priority, items=()):
    """A request with tokens that no other has."""
    return Request(
        request_id=str(number),
        prompt_token_ids=[100 * (number + 1) + place for place in range(tokens)],
        sampling_params=Settings(max_tokens=outputs, min_tokens=0, ignore_eos=True, stop_token_ids=()),
        pooling_params=None,
        arrival_time=float(number),
        priority=priority,
        mm_features=list(items),
        block_hasher=get_request_block_hasher(BLOCK, digest),
        **taken_by(Request, eos_token_id=None),
    )


def never_encoded(plan, before, requests, encoded):
    """The worker's part of a step: it drops, encodes, and reads. An item that it reads and does not have, or None."""
    encoded.difference_update(plan.free_encoder_mm_hashes)
    for name, places in plan.scheduled_encoder_inputs.items():
        encoded.update(requests[name].mm_features[place].identifier for place in places)
    starts = {part.req_id: part.num_computed_tokens for part in plan.scheduled_new_reqs}
    again = plan.scheduled_cached_reqs
    starts.update(zip(again.req_ids, again.num_computed_tokens))
    for name, tokens in plan.num_scheduled_tokens.items():
        start = starts.get(name, before[name])
        for item in requests[name].mm_features:
            first, last = item.mm_position.offset, item.mm_position.offset + item.mm_position.length
            if first < start + tokens and start < last and item.identifier not in encoded:
                return name, item.identifier, start, start + tokens
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


def run(scheduler, requests):
    """All steps. The first read of what was never encoded, or None."""
    encoded = set()
    for number in range(1, STEPS):
        before = {name: request.num_computed_tokens for name, request in requests.items()}
        plan = scheduler.schedule()
        read = never_encoded(plan, before, requests, encoded)
        if read is not None:
            name, item, start, end = read
            where = f"step {number} computes tokens {start} to {end - 1} of request {name}"
            return f"{where}, and item {item} was never encoded"
        if not scheduler.requests:
            return None
        update(scheduler, plan, requests)
        if number == 1:
            requests["1"] = new_request(1, tokens=4, outputs=4, priority=0)
            scheduler.add_request(requests["1"])
    return None


scheduler = new_scheduler()
requests = {
    "0": new_request(0, tokens=8, outputs=1, priority=1, items=[IMAGE]),
    "2": new_request(2, tokens=1, outputs=1, priority=0),
}
for request in requests.values():
    scheduler.add_request(request)
read = run(scheduler, requests)
print(f"VIOLATED: {read}" if read else "NOT SHOWN: every item that a step reads was encoded")
sys.exit(bool(read))
