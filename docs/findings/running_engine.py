"""Findings on a running vLLM: `python running_engine.py CASE MODELS [OPTION=VALUE ...]`.

MODELS is a folder with two tiny models of random weights, `text` (Llama) and `images` (LLaVA). An option goes to `LLM`, as in
`scheduler_cls=cacheimpl.vllm.Scheduler`. The exit status is 1 if the finding is seen, and 0 if it is not.
"""

import importlib
import os
import sys

APART = ("refused_request", "larger_than_the_cache", "embeddings")  # cases whose engine core is a process of its own
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", str(int(sys.argv[1:2] != [] and sys.argv[1] in APART)))

import numpy
from PIL import Image
from vllm import LLM, SamplingParams
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1, KVConnectorMetadata

BLOCK = 32
MODELS = sys.argv[2] if len(sys.argv) > 2 else "."
OPTIONS = dict(option.split("=", 1) for option in sys.argv[3:])
OPTIONS = {name: {"True": True, "False": False}.get(value, value) for name, value in OPTIONS.items()}


def settings(model, **options):
    """An engine on a CPU that serves synchronously."""
    common = dict(
        model=os.path.join(MODELS, model), dtype="float32", enforce_eager=True, seed=0, block_size=BLOCK,
        kv_cache_memory_bytes=64 << 20, max_num_seqs=4, async_scheduling=False,
    )
    if model == "images":
        common["limit_mm_per_prompt"] = {"image": options.pop("images", 1)}
    return {**common, **options, **OPTIONS}


def engine(model, **options):
    """An engine whose core is in this process."""
    return LLM(**settings(model, **options)).llm_engine


def words(count, step, first=0):
    """A prompt of so many words."""
    return " ".join(f"w{(step * number + first) % 240}" for number in range(count))


def picture(seed, size=28):
    """A random picture."""
    return Image.fromarray((numpy.random.RandomState(seed).rand(size, size, 3) * 255).astype("uint8"))


def serve(llm, arrivals, steps=400):
    """Serve requests, each `(step, name, prompt, output tokens, priority)`; the output tokens of each, by name."""
    scheduler = llm.engine_core.engine_core.scheduler
    plan = scheduler.schedule

    def schedule(*arguments, **named):
        made = plan(*arguments, **named)
        parts = {name.split("-")[0]: count for name, count in made.num_scheduled_tokens.items()}
        gone = [name.split("-")[0] for name in getattr(made, "preempted_req_ids", None) or ()]
        free = scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        if number <= 40 or gone or made.scheduled_encoder_inputs:
            print(f"step {number:3}: tokens {parts}, preempted {gone}, {free} free blocks", flush=True)
        return made

    scheduler.schedule = schedule
    tokens, left = {}, list(arrivals)
    for number in range(1, steps + 1):
        for arrival in [arrival for arrival in left if arrival[0] <= number]:
            left.remove(arrival)
            _, name, prompt, count, priority = arrival
            sampling = SamplingParams(max_tokens=count, temperature=0, ignore_eos=True, detokenize=False)
            llm.add_request(name, prompt if isinstance(prompt, dict) else {"prompt": prompt}, sampling, priority=priority)
        for output in llm.step():
            tokens[output.request_id] = list(output.outputs[0].token_ids)
        if not left and not llm.has_unfinished_requests():
            break
    scheduler.schedule = plan
    return tokens


def first_words(error):
    """What an error says, without the hash of an image."""
    return str(error).partition(" for ")[0]


def compared(what, seen, expected):
    """How a case ends in which tokens may be wrong."""
    print(f"tokens:   {seen}\nexpected: {expected}")
    if seen == expected:
        print("NOT SHOWN: the tokens are right")
        return 0
    print(f"VIOLATED: {what}")
    return 1


def unwritten_block():
    """C-KV-6: a block that no step wrote is found by the request that was to write it."""
    low, high = words(199, 7, 3), words(32, 11, 5)
    options = dict(scheduling_policy="priority", max_model_len=220, max_num_batched_tokens=96, long_prefill_token_threshold=64)
    llm = engine("text", num_gpu_blocks_override=9, **options)
    seen = serve(llm, [(1, "low", low, 6, 1), (2, "high", high, 12, 0)])
    alone = serve(llm, [(1, "alone", {"prompt": low, "cache_salt": "another"}, 6, 1)])
    return compared("a request reads a block of its prompt that no step wrote", seen["low"], alone["alone"])


def phantom_entry():
    """C-ENC-26: an image that was never encoded counts as cached."""
    llm = engine(
        "images", scheduling_policy="priority", num_gpu_blocks_override=6, max_model_len=150, max_num_batched_tokens=64,
        long_prefill_token_threshold=32,
    )
    low = {"prompt": f"{words(100, 1)} <image> {words(24, 7)}", "multi_modal_data": {"image": picture(3)}}
    try:
        serve(llm, [(1, "low", low, 3, 1), (2, "high", words(BLOCK, 11, 5), 12, 0)])
    except RuntimeError as error:
        print(f"VIOLATED: the engine core ended: {first_words(error)}")
        return 1
    print("NOT SHOWN: both requests were served")
    return 0


def padded():
    """C-SCH-16: a waiting request is padded with drafts, and cut by the threshold."""
    drafts = {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 2, "prompt_lookup_min": 1}
    llm = engine("text", speculative_config=drafts, long_prefill_token_threshold=1, max_model_len=64, max_num_batched_tokens=64)
    try:
        serve(llm, [(1, "first", words(8, 0, 1), 30, 0), (6, "second", "w5", 4, 0)])
    except AssertionError:
        import traceback

        line = traceback.extract_tb(sys.exc_info()[2])[-1]
        print(f"VIOLATED: the engine core ended: {line.line} ({os.path.basename(line.filename)}:{line.lineno})")
        return 1
    print("NOT SHOWN: both requests were served")
    return 0


def stripped_image():
    """C-ENC-30: workers have no data of an image that a cached prefix covered, and have to encode it after a preemption."""
    llm = engine("images", num_gpu_blocks_override=7, max_model_len=192, max_num_batched_tokens=32)
    shared = with_image(1, 40, 30)
    others = [(30 + 2 * number, f"other{number}", with_image(2 + number), 1, 0) for number in range(9)]
    long, late = (25, "long", words(30, 11, 5), 130, 0), (68, "late", shared, 30, 0)
    try:
        serve(llm, [(1, "early", shared, 4, 0), long, *others, late])
    except RuntimeError as error:
        print(f"VIOLATED: the engine core ended: {first_words(error)}")
        return 1
    print("NOT SHOWN: all requests were served")
    return 0


def same_name():
    """C-MIR-14: a client uses one identifier for two images."""
    llm = engine("images", max_model_len=64, max_num_batched_tokens=64)

    def shown(seed, name):
        prompt = {"prompt": f"{words(9, 5)} <image> {words(5, 3)}", "multi_modal_data": {"image": picture(seed)}}
        return {**prompt, "multi_modal_uuids": {"image": [name]}} if name else prompt

    cat = serve(llm, [(1, "cat", shown(1, "photo"), 6, 0)])["cat"]
    seen = serve(llm, [(1, "dog", shown(2, "photo"), 6, 0)])["dog"]
    expected = serve(llm, [(1, "right", shown(2, None), 6, 0)])["right"]
    print(f"the first image gives {cat}")
    return compared("the model sees the first image under the same identifier", seen, expected)


def starved_item():
    """C-ENC-16: an item that may not be split is longer than the threshold for long prompts."""
    llm = engine(
        "images", max_model_len=200, max_num_batched_tokens=64, long_prefill_token_threshold=3, disable_chunked_mm_input=True
    )
    item = with_image(1, 6)
    others = [(1 + 30 * number, f"other{number}", words(3, 7, number), 60, 0) for number in range(12)]
    tokens = serve(llm, [*others, (3, "item", item, 4, 0)], steps=330)
    served = sorted(name for name in tokens if name != "item")
    if "item" not in tokens:
        print(f"VIOLATED: in 330 steps the request with the image has no token; {len(served)} later requests have theirs")
        return 1
    print("NOT SHOWN: the request with the image was served")
    return 0


class LosingConnector(KVConnectorBase_V1):
    """Promises the first 64 tokens of one request, writes nothing, and reports that the load of both blocks failed."""

    promised, failed = {"low": 64}, set()

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        count = self.promised.pop(request.request_id.split("-")[0], 0)
        return max(0, count - num_computed_tokens), False

    def update_state_after_alloc(self, request, blocks, num_external_tokens):
        if num_external_tokens:
            LosingConnector.failed = set(blocks.get_block_ids()[0][:2])

    def build_connector_meta(self, scheduler_output):
        return KVConnectorMetadata()

    def get_block_ids_with_load_errors(self):
        failed, LosingConnector.failed = LosingConnector.failed, set()
        return failed

    def start_load_kv(self, forward_context, **named): ...
    def wait_for_layer_load(self, layer_name): ...
    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **named): ...
    def wait_for_save(self): ...


def failed_load():
    """A load from a connector fails, the request is preempted before it computes again, and finds its blocks."""
    transfer = importlib.import_module("vllm.config").KVTransferConfig(
        kv_connector="LosingConnector", kv_role="kv_both", kv_connector_module_path="running_engine",
        kv_load_failure_policy="recompute",
    )
    llm = engine(
        "text", kv_transfer_config=transfer, scheduling_policy="priority", num_gpu_blocks_override=5, max_model_len=120,
        max_num_batched_tokens=96,
    )
    low = words(90, 7, 3)
    seen = serve(llm, [(1, "high", words(31, 11, 5), 8, 0), (2, "low", low, 6, 1)])
    alone = serve(llm, [(1, "alone", {"prompt": low, "cache_salt": "another"}, 6, 1)])
    return compared("a request reads blocks whose load failed and that no step wrote", seen["low"], alone["alone"])


def with_image(seed, before=9, after=5):
    """A prompt with one image."""
    return {"prompt": f"{words(before, 5)} <image> {words(after, 3)}".strip(), "multi_modal_data": {"image": picture(seed)}}


def refused_request():
    """C-MIR-3: a request is refused after the frontend's cache was updated; the next one has the same image."""
    llm = LLM(**settings("images", max_model_len=64, max_num_batched_tokens=64))
    sampling = SamplingParams(max_tokens=4, temperature=0, ignore_eos=True, detokenize=False)
    try:
        llm.generate([with_image(1, 55, 6)], sampling, use_tqdm=False)
        print("the long request was served")
    except Exception as error:
        print(f"the long request is refused: {str(error)[:70]}")
    return ended(lambda: llm.generate([with_image(1)], sampling, use_tqdm=False))


def ended(serve_it):
    """How a case ends in which a request may get nothing."""
    (output,) = serve_it()
    tokens, reason = list(output.outputs[0].token_ids), output.outputs[0].finish_reason
    print(f"another try gives {list(serve_it()[0].outputs[0].token_ids)}")
    if tokens:
        print(f"NOT SHOWN: the next request with the image was served: {tokens}")
        return 0
    print(f"VIOLATED: the next request with the image ends without a token: finish_reason={reason!r}")
    return 1


def larger_than_the_cache():
    """C-MIR-9: a request evicts an image that it is about to use, as its images do not fit the processor cache."""
    llm = LLM(**settings("images", images=3, max_model_len=64, max_num_batched_tokens=64, mm_processor_cache_gb=0.00002))
    sampling = SamplingParams(max_tokens=4, temperature=0, ignore_eos=True, detokenize=False)

    def shown(*seeds):
        return {"prompt": " <image> ".join(f"w{seed}" for seed in (*seeds, 99)), "multi_modal_data": {"image": list(map(picture, seeds))}}

    llm.generate([shown(1)], sampling, use_tqdm=False)
    try:
        (output,) = llm.generate([shown(2, 3, 1)], sampling, use_tqdm=False)
    except Exception as error:
        (output,) = llm.generate([shown(2, 3)], sampling, use_tqdm=False)
        print(f"without the cached image: {list(output.outputs[0].token_ids)}")
        print(f"VIOLATED: a request fails: {type(error).__name__}: {first_words(error)}")
        return 1
    print(f"NOT SHOWN: the request was served: {list(output.outputs[0].token_ids)}")
    return 0


def embeddings():
    """C-MIR-23: an image that comes as embeddings passes the frontend's record by, and the engine core evicts another."""
    import torch

    llm = LLM(**settings(
        "images", max_model_len=64, max_num_batched_tokens=64, mm_processor_cache_gb=0.000018, enable_mm_embeds=True
    ))
    sampling = SamplingParams(max_tokens=4, temperature=0, ignore_eos=True, detokenize=False)
    embedded = {"prompt": "w1 <image> w2", "multi_modal_data": {"image": torch.rand(1, 4, 64)}}
    for prompt in (with_image(1), with_image(2), embedded):
        (output,) = llm.generate([prompt], sampling, use_tqdm=False)
        print(f"served: {list(output.outputs[0].token_ids)}")
    return ended(lambda: llm.generate([with_image(1, 7)], sampling, use_tqdm=False))


def uncut_prompt():
    """C-SCH-9, C-SCH-10: prompts may not be split, and one is longer than a step."""
    try:
        engine("text", enable_chunked_prefill=False, max_model_len=128, max_num_batched_tokens=64)
    except ValueError as error:
        print(f"the engine does not start: {' '.join(str(error).split())[:160]}")
        print("NOT SHOWN: the engine refuses these settings")
        return 0
    print("VIOLATED: the engine accepts prompts that are longer than a step")
    return 1


CASES = {
    one.__name__: one
    for one in (
        unwritten_block, failed_load, phantom_entry, stripped_image, padded, same_name, starved_item,
        refused_request, larger_than_the_cache, embeddings, uncut_prompt,
    )
}

if __name__ == "__main__":
    sys.exit(CASES[sys.argv[1]]())
