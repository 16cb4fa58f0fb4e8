"""vllm==0.33.0: A threshold smaller than an item that may not be split.

Release: vllm==0.33.0
Code: Scheduler, and with steps ahead of their output AsyncScheduler, of vllm.v1.core
Property: SCH-8: every queued request is eventually finished; this does not hold
What happens: Long prompts are cut to a threshold as soon as several requests are there; an item that may not
  be split and is longer is never scheduled while they are.
Reach: the release's own scheduler, driven by requests that arrive and are aborted, did this by itself
Known as: C-ENC-16
Needs: Python with vllm==0.33.0 and what that imports, no accelerator; nothing else is imported
Ends with: 1 where the violation is seen, 0 where it is not, 2 where the script cannot run
"""

import signal
import sys
import traceback

try:
    import hashlib
    import inspect
    from types import SimpleNamespace

    import torch
    from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
    from vllm.v1.core.encoder_cache_manager import EncoderCacheManager
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
    from vllm.v1.request import Request, RequestStatus
except ImportError as error:
    print(f"CANNOT RUN: {error}")
    sys.exit(2)

NEVER = "does not return"
ANSWERS = []


class HangsError(BaseException):
    """Raised in the middle of a call that computes for too long."""


def stop(number, frame):
    raise HangsError


def call(function, *arguments):
    """One call, printed with its result. An exception is a result too, and so is computing for a whole second."""
    signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 1.0)
        try:
            result = function(*arguments)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except HangsError:
        result = NEVER
    except (ArithmeticError, AssertionError, LookupError, MemoryError, RuntimeError, ValueError) as error:
        result = error
    shown = describe(result)
    print(f"  {function.__name__}({', '.join(map(describe, arguments))}) -> {shown}")
    ANSWERS.append(shown)
    return result


def describe(value):
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {value}".strip(": ")
    text = str(value)
    return type(value).__name__ if " object at 0x" in text else text


def is_as(recorded, answer):
    """Whether an answer is as it was recorded; of an error, any will do."""
    return recorded in (None, answer) or (recorded == "an error" and "Error" in answer)


def sampling(tokens):
    """So many tokens, and nothing that ends them before."""
    return SimpleNamespace(
        max_tokens=tokens,
        min_tokens=0,
        ignore_eos=True,
        eos_token_id=None,
        stop_token_ids=(),
        logprobs=None,
        num_logprobs=None,
        prompt_logprobs=None,
        extra_args=None,
        structured_outputs=None,
        repetition_detection=None,
        skip_reading_prefix_cache=None,
    )


def engine_settings(setting):
    """What schedulers of all releases read of an engine: a text model without adapters, connectors or parallelism."""
    ahead, length = setting["ahead"] > 1, setting["max_model_len"]
    speculative = SimpleNamespace(
        num_speculative_tokens=setting["drafts"],
        use_eagle=lambda: False,
        uses_draft_model=lambda: False,
        use_eagle_block_drop=lambda: False,
        needs_eagle_block_drop=lambda: False,
        num_speculative_tokens_per_batch_size=None,
        max_num_new_slots_for_drafting=0,
    )
    return SimpleNamespace(
        scheduler_config=SimpleNamespace(
            max_num_seqs=setting["max_running"],
            max_num_active_seqs=None,
            max_num_batched_tokens=setting["token_budget"],
            max_num_scheduled_tokens=None,
            max_num_encoder_input_tokens=setting["encoder_compute"],
            encoder_cache_size=setting["encoder_capacity"],
            max_model_len=length,
            long_prefill_token_threshold=setting["long_prefill_threshold"],
            long_prefill_token_threshold_adaptive=False,
            chunked_prefill_enabled=bool(setting["chunked_prefill"]),
            enable_chunked_prefill=bool(setting["chunked_prefill"]),
            disable_chunked_mm_input=bool(setting["whole_items"]),
            policy="priority" if setting["policy"] else "fcfs",
            async_scheduling=ahead,
            scheduler_reserve_full_isl=True,
            watermark=0.0,
            prefill_schedule_interval=1,
        ),
        model_config=SimpleNamespace(
            max_model_len=length,
            is_encoder_decoder=False,
            is_multimodal_model=False,
            supports_multimodal_inputs=False,
            uses_mrope=False,
            runner_type="generate",
            is_diffusion=False,
            return_sampling_mask=False,
            enable_return_routed_experts=False,
        ),
        cache_config=SimpleNamespace(
            num_gpu_blocks=setting["kv_blocks"],
            block_size=setting["block_size"],
            enable_prefix_caching=True,
            mamba_cache_mode="none",
            enable_mamba_shared_prefix_checkpoint=False,
        ),
        parallel_config=SimpleNamespace(
            data_parallel_rank=0,
            data_parallel_index=0,
            data_parallel_size=1,
            decode_context_parallel_size=1,
            prefill_context_parallel_size=1,
            pipeline_parallel_size=1,
        ),
        observability_config=SimpleNamespace(
            kv_cache_metrics=False,
            per_request_spec_decode_metrics="none",
            enable_mfu_metrics=False,
            enable_logging_iteration_details=False,
        ),
        ec_manager_config=SimpleNamespace(get_encoder_cache_manager_obj=lambda: None),
        aux_output_config=SimpleNamespace(enabled=False),
        speculative_config=speculative if setting["drafts"] else None,
        lora_config=None,
        kv_events_config=None,
        kv_transfer_config=None,
        ec_transfer_config=None,
        is_mm_encoder_only=False,
        num_speculative_tokens=setting["drafts"],
        num_lookahead_tokens=0,
        num_prefill_lookahead_tokens=0,
        num_hash_lookahead_tokens=0,
        max_concurrent_batches=1 + ahead,
        max_in_flight_tokens=(1 + ahead) * setting["token_budget"],
        use_v2_model_runner=True,
    )


class Engine:
    """The scheduler, and what is around it: prompts, and workers that sample where all that is known is computed."""

    def __init__(self, setting):
        self.setting = setting
        self.scheduler, self.hasher = make_scheduler(setting)
        self.requests, self.gone, self.steps = {}, set(), []

    def add(self, number):
        """A request arrives: tokens are its group's as far as they are shared, and its own behind."""
        setting = self.setting
        if setting["prompts"][number] >= setting["max_model_len"]:
            return "turned down by the front end"
        shared = setting["shared"][number] if setting["groups"] else 0
        own, common = (1 + number) << 20, -(1 + (setting["groups"] or [0] * (number + 1))[number]) << 20
        tokens = [(common if place < shared else own) + place for place in range(setting["prompts"][number])]
        items = setting["items"][number] if setting["items"] else ()
        priority = setting["priorities"][number] if setting["priorities"] else 0
        output, arrival = setting["outputs"][number], float(len(self.requests))
        request = make_request(str(number), tokens, output, items, priority, arrival, self.hasher)
        self.requests[number] = request
        self.scheduler.add_request(request)
        return f"{len(tokens)} tokens, items {items}, {output} tokens of output"

    def live(self):
        return {number: one for number, one in sorted(self.requests.items()) if number not in self.gone}

    def schedule(self):
        """A step is planned: for each request from which token to which."""
        if len(self.steps) >= self.setting["ahead"]:
            return "the output of earlier steps comes first"
        before = {number: one.num_computed_tokens for number, one in self.live().items()}
        running = {one.request_id for one in self.scheduler.running}
        said = self.scheduler.schedule()
        preempted = running - {one.request_id for one in self.scheduler.running}
        if not (said.num_scheduled_tokens or dropped_of(said) or said.finished_req_ids or preempted):
            return "nothing"
        parts, starts = [], starts_of(said)
        for name, tokens in said.num_scheduled_tokens.items():
            number, start = int(name), starts.get(name, before[int(name)])
            waited = sum(samples for _, step in self.steps for other, _, _, _, samples in step if other == number)
            samples = start + tokens >= self.requests[number].num_tokens + waited
            drafts = len(said.scheduled_spec_decode_tokens.get(name, ()))
            parts.append((number, start, tokens, drafts, samples))
        self.steps.append((said, parts))
        told = {number: f"{start} to {start + tokens}" for number, start, tokens, _, _ in parts}
        encoded = {int(name): list(places) for name, places in said.scheduled_encoder_inputs.items() if places}
        more = [f"encodes {encoded}"] * bool(encoded) + [f"preempts {sorted(preempted)}"] * bool(preempted)
        more += [f"drops {list(dropped_of(said))}"] * bool(dropped_of(said))
        return "; ".join([f"tokens {told}", *more])

    def update(self, accepted):
        """The oldest step is executed; so many of its drafts are right."""
        said, parts = self.steps.pop(0)
        sampled = {}
        for number, _, _, drafts, samples in parts:
            request = self.requests[number]
            first = ((1 + number) << 20) + request.num_tokens
            sampled[str(number)] = [first + place for place in range(1 + min(accepted, drafts))] if samples else []
        if parts:
            self.scheduler.update_from_output(said, make_output(sampled))
        finished = [number for number, *_ in parts if number not in self.gone and str(number) not in self.scheduler.requests]
        self.gone.update(finished)
        if self.setting["drafts"]:
            self.propose(parts)
        return f"finished {finished}"

    def propose(self, parts):
        """As many drafts as are of use behind each output, none behind a part of a prompt."""
        proposed = {}
        for number, _, _, _, samples in parts:
            request = self.requests[number]
            whole = min(self.setting["prompts"][number] + request.max_tokens, self.setting["max_model_len"])
            count = min(self.setting["drafts"], whole - 1 - request.num_tokens) if samples else 0
            proposed[str(number)] = [-1] * max(0, count)
        propose(self.scheduler, proposed)

    def abort(self, number):
        self.gone.add(number)
        self.scheduler.finish_requests(str(number), RequestStatus.FINISHED_ABORTED)

    def computed(self):
        """Tokens of each request that are computed, or will be by the steps in flight."""
        return {number: computed_of(number, request, self.steps) for number, request in self.live().items()}

    def shown(self):
        scheduler, running = self.scheduler, [int(one.request_id) for one in self.scheduler.running]
        queues = ["skipped_waiting", "waiting"] if hasattr(scheduler, "skipped_waiting") else ["waiting"]
        return {
            "waiting": [int(one.request_id) for name in queues for one in getattr(scheduler, name)],
            "running": running,
            "computed": {number: count for number, count in self.computed().items() if count or number in running},
            "output": {number: one.num_output_tokens for number, one in self.live().items() if one.num_output_tokens},
            "steps in flight": len(self.steps),
            "the newest": newest_of(self.steps),
            "free encoder slots": scheduler.encoder_cache_manager.num_free_slots,
            "free blocks": free_blocks(scheduler),
        }


def newest_of(steps):
    """The newest step that is planned and not executed: tokens, inputs to encode, and what workers are told to drop."""
    if not steps:
        return {}
    said, parts = steps[-1]
    return {
        "tokens": {number: [start, start + tokens] for number, start, tokens, _, _ in parts},
        "encodes": {int(name): list(places) for name, places in said.scheduled_encoder_inputs.items() if places},
        "drops": [str(one) for one in dropped_of(said)],
    }


def run_on(engine, rounds):
    """Nobody arrives any more: steps are planned and executed. What was planned in the last of so many rounds."""
    planned = []
    for _ in range(rounds):
        planned.append(engine.schedule())
        while engine.steps:
            engine.update(0)
    return planned


def parameters(function):
    return inspect.signature(function).parameters


def digest(value):
    """The hash function that the release is given for its blocks."""
    return hashlib.sha256(repr(value).encode()).digest()


class NoStructure:
    """No request asks for structured output."""

    def should_advance(self, request):
        return False

    def accept_tokens(self, request, tokens):
        return True

    def validate_tokens(self, request, tokens):
        return tokens


def make_scheduler(setting):
    """The release's own constructor, with an engine's settings as plain attributes."""
    settings = engine_settings(setting)
    size = setting["block_size"]
    full = {"block_size": size, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float16}
    if "use_mla" in parameters(FullAttentionSpec):
        full["use_mla"] = False
    groups = [KVCacheGroupSpec(["layer 0"], FullAttentionSpec(**full))]
    blocks = KVCacheConfig(num_blocks=setting["kv_blocks"], kv_cache_tensors=[], kv_cache_groups=groups)
    made = (AsyncScheduler if setting["ahead"] > 1 else Scheduler)(
        vllm_config=settings,
        kv_cache_config=blocks,
        structured_output_manager=NoStructure(),
        mm_registry=SimpleNamespace(supports_multimodal_inputs=lambda model_config: False),
        **({"block_size": size} if "block_size" in parameters(Scheduler) else {}),
    )
    # an engine takes both from its multimodal model
    made.max_num_encoder_input_tokens = setting["encoder_compute"]
    made.encoder_cache_manager = EncoderCacheManager(cache_size=setting["encoder_capacity"])
    init_none_hash(digest)
    return made, get_request_block_hasher(size, digest)


def make_request(name, tokens, output, items, priority, arrival, hasher):
    ends = {"eos_token_id": None} if "eos_token_id" in parameters(Request) else {}
    features = [
        MultiModalFeatureSpec(
            data=None,
            modality="image",
            identifier=str(content),
            mm_position=PlaceholderRange(offset=start, length=length),
        )
        for content, start, length in items
    ]
    return Request(
        request_id=name,
        prompt_token_ids=tokens,
        sampling_params=sampling(output),
        pooling_params=None,
        arrival_time=arrival,
        priority=priority,
        mm_features=features,
        block_hasher=hasher,
        **ends,
    )


def make_output(sampled):
    return ModelRunnerOutput(
        req_ids=list(sampled),
        req_id_to_index={name: place for place, name in enumerate(sampled)},
        sampled_token_ids=list(sampled.values()),
        logprobs=None,
        prompt_logprobs_dict={},
        pooler_output=None,
    )


def propose(scheduler, proposed):
    scheduler.update_draft_token_ids(DraftTokenIds(list(proposed), list(proposed.values())))


def starts_of(said):
    again = said.scheduled_cached_reqs
    new = {part.req_id: part.num_computed_tokens for part in said.scheduled_new_reqs}
    return {**new, **dict(zip(again.req_ids, again.num_computed_tokens))}


def dropped_of(said):
    return said.free_encoder_mm_hashes


def computed_of(number, request, steps):
    """This release counts what is in flight."""
    return request.num_computed_tokens


def free_blocks(scheduler):
    return scheduler.kv_cache_manager.block_pool.get_num_free_blocks()


STATEMENT = 'every queued request is eventually finished'


def reproduce():
    setting = {
        "block_size": 2,
        "kv_blocks": 6,
        "token_budget": 4,
        "encoder_compute": 3,
        "encoder_capacity": 3,
        "max_running": 2,
        "max_model_len": 9,
        "prompts": [4, 4, 1],
        "outputs": [2, 1, 2],
        "items": [[[0, 0, 3]], [[0, 0, 3]], []],
        "groups": [],
        "shared": [],
        "priorities": [],
        "policy": 0,
        "whole_items": 1,
        "chunked_prefill": 1,
        "long_prefill_threshold": 2,
        "ahead": 1,
        "drafts": 0,
    }
    engine = Engine(setting)

    call(engine.add, 0)
    call(engine.add, 1)

    run_on(engine, 80)
    before = engine.shown()
    planned = run_on(engine, 8)
    same = set(planned) == {"nothing"} and engine.shown() == before
    left = before["waiting"] + before["running"]
    what = f"in {len(planned)} rounds nothing was scheduled, and left is {before}" if same else str(planned)
    return same and bool(left), what if left else "all that were queued are served"


if __name__ == "__main__":
    try:
        violated, what = reproduce()
    except Exception:
        traceback.print_exc()
        print("CANNOT RUN: this script does not fit the installed package")
        sys.exit(2)
    print(("VIOLATED: " if violated else "NOT SHOWN: ") + what)
    sys.exit(1 if violated else 0)
