"""More findings on a running vLLM: `python running_engine_more.py CASE MODELS [OPTION=VALUE ...]`, as `running_engine.py`."""

import asyncio
import itertools
import os
import sys
import tempfile

APART = ("long_session", "queue_is_full", "retried", "after_a_retry", "reset_in_flight", "shared_memory")
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = str(int(sys.argv[1:2] != [] and sys.argv[1] in APART))

import msgspec
import zmq
from running_engine import (
    BLOCK, LosingConnector, compared, engine, picture, serve, settings, with_image, words,
)
from vllm import LLM, SamplingParams
from vllm.config import KVEventsConfig, KVTransferConfig


class WaitingConnector(LosingConnector):
    """Has the first block of some requests, which wait for it. The first loads fail."""

    has, failures = {}, 0
    loading, failed, offered = set(), set(), 0

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        count = self.has.get(request.request_id.split("-")[0], 0)
        WaitingConnector.offered += count > num_computed_tokens
        return max(0, count - num_computed_tokens), count > num_computed_tokens

    def update_state_after_alloc(self, request, blocks, num_external_tokens):
        if num_external_tokens:
            self.loading.add(request.request_id)
            if self.failures:
                WaitingConnector.failures -= 1
                WaitingConnector.failed = set(blocks.get_block_ids()[0])

    def get_finished(self, finished_req_ids):
        done, WaitingConnector.loading = WaitingConnector.loading, set()
        return None, done or None

    def get_block_ids_with_load_errors(self):
        failed, WaitingConnector.failed = WaitingConnector.failed, set()
        return failed


class SharedConnector(LosingConnector):
    """As its base, for the request `first`."""

    promised = {"first": 64}


def with_connector(name, **options):
    """A text engine with a connector of this file."""
    transfer = KVTransferConfig(
        kv_connector=name, kv_role="kv_both", kv_connector_module_path="running_engine_more", kv_load_failure_policy="recompute",
    )
    return engine("text", kv_transfer_config=transfer, **options)


def stuck(wanted, seen, what):
    """How a case ends in which requests may never be served."""
    missing = {name: len(seen.get(name, ())) for name, count in wanted.items() if len(seen.get(name, ())) < count}
    if missing:
        print(f"VIOLATED: {what}: output tokens {missing} of {wanted}")
        return 1
    print("NOT SHOWN: all requests were served")
    return 0


def failed_load_again():
    """C-SCH-35: a failed load begins again only if it leaves the request's own blocks free beside it."""
    import running_engine_more as ours

    ours.WaitingConnector.has, ours.WaitingConnector.failures = {"loaded": BLOCK}, 1
    llm = with_connector("WaitingConnector", num_gpu_blocks_override=3, max_model_len=64, max_num_batched_tokens=64)
    seen = serve(llm, [(1, "loaded", words(50, 7, 3), 4, 0), (6, "behind", words(8, 11, 5), 4, 0)])
    print(f"the load was offered {ours.WaitingConnector.offered} times")
    return stuck({"loaded": 4, "behind": 4}, seen, "in 400 steps two requests are not served")


def load_beside_its_drafts():
    """C-SCH-50: a load takes all blocks, and is to leave one free for drafts."""
    import running_engine_more as ours

    ours.WaitingConnector.has = {"loaded": BLOCK + 8}
    drafts = {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 2, "prompt_lookup_min": 1}
    options = dict(num_gpu_blocks_override=3, max_model_len=64, max_num_batched_tokens=64, speculative_config=drafts)
    seen = serve(with_connector("WaitingConnector", **options), [
        (1, "loaded", words(50, 7, 3), 4, 0), (6, "behind", words(8, 11, 5), 4, 0),
    ])
    print(f"the load was offered {ours.WaitingConnector.offered} times")
    return stuck({"loaded": 4, "behind": 4}, seen, "in 400 steps two requests are not served")


def shared_failed_blocks():
    """C-SCH-25: a request shares blocks whose load failed, and reads them before they are computed."""
    llm = with_connector("SharedConnector", max_model_len=120, max_num_batched_tokens=96, long_prefill_token_threshold=BLOCK)
    shared = words(64, 7, 3)
    second = f"{shared} {words(6, 11, 5)}"
    seen = serve(llm, [(1, "first", f"{shared} {words(20, 13, 1)}", 6, 0), (1, "second", second, 6, 0)])
    alone = serve(llm, [(1, "alone", {"prompt": second, "cache_salt": "another"}, 6, 0)])
    return compared("a request reads blocks whose load failed for another one", seen["second"], alone["alone"])


def padded_beyond_the_budget():
    """C-SCH-31: a request of one token waits, as made-up drafts do not fit the step."""
    drafts = {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 2, "prompt_lookup_min": 1}
    llm = engine("text", speculative_config=drafts, max_model_len=128, max_num_seqs=3, max_num_batched_tokens=3)
    finished = []
    step, steps = llm.step, itertools.count(1)

    def noted():
        number, outputs = next(steps), step()
        finished.extend((number, output.request_id) for output in outputs if output.finished)
        return outputs

    llm.step = noted
    serve(llm, [(1, "first", words(3, 7, 1), 60, 0), (10, "second", "w5", 1, 0)])
    print(f"ended: {finished}")
    waited = next(step for step, name in finished if name == "second") - 10
    if waited > 5:
        print(f"VIOLATED: a request of one token waits {waited} steps beside steps with room for it")
        return 1
    print("NOT SHOWN: the request was served at once")
    return 0


def never_fits():
    """C-SCH-5: a request needs more blocks than there are."""
    try:
        llm = engine("text", num_gpu_blocks_override=4, max_model_len=200, max_num_batched_tokens=64)
    except ValueError as error:
        print(f"the engine does not start: {' '.join(str(error).split())[:200]}")
        print("NOT SHOWN: the engine refuses these settings")
        return 0
    seen = serve(llm, [(1, "large", words(120, 7, 3), 4, 0), (3, "behind", words(8, 11, 5), 4, 0)])
    return stuck({"large": 4, "behind": 4}, seen, "in 400 steps two requests are not served")


def events_of(llm, endpoint):
    """A subscriber to the events of the KV cache: a function that gives those that have come."""
    socket = zmq.Context.instance().socket(zmq.SUB)
    socket.connect(endpoint)
    socket.setsockopt(zmq.SUBSCRIBE, b"")

    def come(milliseconds=1000):
        events = []
        while socket.poll(milliseconds):
            told = msgspec.msgpack.decode(socket.recv_multipart()[-1])
            events += [(event["type"], event.get("block_hashes", ())) for event in told[1]]
        return events

    return come


def with_events(**options):
    """A text engine that tells of its KV cache, and its subscriber."""
    endpoint = f"ipc://{tempfile.mkdtemp()}/events"
    llm = engine("text", kv_events_config=KVEventsConfig(enable_kv_cache_events=True, publisher="zmq", endpoint=endpoint), **options)
    return llm, events_of(llm, endpoint)


def reset_is_not_told():
    """C-KV-29: the prefix cache is reset while no request runs, and subscribers are not told."""
    llm, come = with_events(max_model_len=120, max_num_batched_tokens=96)
    come(100)
    serve(llm, [(1, "early", words(70, 7, 3), 2, 0)])
    print(f"events of the request:  {[name for name, _ in come()]}")
    print(f"reset_prefix_cache:     {llm.reset_prefix_cache()}")
    events = [name for name, _ in come(3000)]
    print(f"events in three seconds: {events}")
    serve(llm, [(1, "late", words(8, 11, 5), 1, 0)])
    later = [name for name, _ in come()]
    print(f"events of a later request: {later}")
    if "AllBlocksCleared" not in events and "AllBlocksCleared" in later:
        print("VIOLATED: subscribers hear of the reset with the next request only")
        return 1
    print("NOT SHOWN: subscribers hear of the reset")
    return 0


def removed_copy():
    """C-KV-28: one of two copies of a block is reallocated, and subscribers are told that its hash is gone."""
    llm, come = with_events(num_gpu_blocks_override=7, max_model_len=160, max_num_batched_tokens=160)
    come(100)
    shared = words(20, 7, 3)
    seen = serve(llm, [(1, "one", shared, 20, 0), (1, "two", shared, 20, 0)])
    told = come()
    serve(llm, [(1, "other", words(130, 11, 5), 2, 0)])
    told += come()
    kept = set()
    for name, hashes in told:
        print(name, [str(value)[:20] for value in hashes])
        if name == "BlockStored":
            kept |= set(hashes)
        if name == "BlockRemoved":
            kept -= set(hashes)
    first = told[0][1][0]
    scheduler, hits = llm.engine_core.engine_core.scheduler, []
    plan = scheduler.schedule

    def schedule(*arguments, **named):
        made = plan(*arguments, **named)
        hits.extend(request.num_computed_tokens for request in made.scheduled_new_reqs)
        return made

    scheduler.schedule = schedule
    again = llm.get_tokenizer().encode(shared) + seen["one"]
    serve(llm, [(1, "again", {"prompt_token_ids": again}, 1, 0)])
    print(f"the same prompt again finds {hits[0]} tokens; the subscriber has its first block: {first in kept}")
    if hits[0] >= BLOCK and first not in kept:
        print("VIOLATED: a subscriber believes that a block is gone which the engine finds")
        return 1
    print("NOT SHOWN: the subscriber and the engine agree")
    return 0


def two_sizes():
    """C-ENC-21: a client uses one identifier for items of two sizes."""
    import torch

    llm = engine("images", max_model_len=64, max_num_batched_tokens=64, mm_processor_cache_gb=0, enable_mm_embeds=True)
    large = {"prompt": "w1 <image> w2", "multi_modal_data": {"image": torch.rand(1, 8, 64)}}
    small, large = ({**prompt, "multi_modal_uuids": {"image": ["photo"]}} for prompt in (with_image(1), large))
    print(f"the first one gives {serve(llm, [(1, 'small', small, 4, 0)])}")
    seen = serve(llm, [(1, "large", large, 4, 0), (3, "behind", words(8, 11, 5), 4, 0)], steps=60)
    print(f"the other ones give {seen}")
    if len(seen.get("large", ())) or "behind" not in seen:
        print("VIOLATED: a request reads the output of an item of another size")
        return 1
    print("NOT SHOWN: the request is refused")
    return 0


def larger_than_measured():
    """C-ENC-11: an item is larger than the encoder cache, which has room for the largest measured one."""
    import torch

    llm = engine("images", max_model_len=96, max_num_batched_tokens=32, enable_mm_embeds=True)
    large = {"prompt": "w1 <image> w2", "multi_modal_data": {"image": torch.rand(1, 40, 64)}}
    try:
        seen = serve(llm, [(1, "large", large, 4, 0), (3, "behind", words(8, 11, 5), 4, 0)], steps=60)
    except Exception as error:
        print(f"the request is refused: {str(error)[:120]}")
        print("NOT SHOWN: the request is refused")
        return 0
    return stuck({"large": 4, "behind": 4}, seen, "in 60 steps requests are not served")


def passed_over():
    """C-SCH-12: a request waits for room for its item, and those behind it take the room."""
    import torch

    llm = engine(
        "images", max_model_len=96, max_num_batched_tokens=32, long_prefill_token_threshold=8, enable_mm_embeds=True
    )
    large = {"prompt": "<image> w2", "multi_modal_data": {"image": torch.rand(1, 30, 64)}}
    others = [(max(1, number), f"other{number}", with_image(number + 1), 1, 0) for number in range(100)]
    seen = serve(llm, [*others, (4, "large", large, 4, 0)], steps=100)
    behind = sum(1 for name in seen if name.startswith("other") and int(name[5:]) >= 4)
    if "large" not in seen:
        print(f"VIOLATED: in 100 steps the request with the large item has no token; {behind} later requests have theirs")
        return 1
    print("NOT SHOWN: the request was served")
    return 0


def repeated_image():
    """C-ENC-6: a request shows one image twice, in one step."""
    llm = engine("images", images=2, max_model_len=64, max_num_batched_tokens=64)
    twice = {"prompt": "w1 <image> w2 <image> w3", "multi_modal_data": {"image": [picture(1), picture(1)]}}
    manager = llm.engine_core.engine_core.scheduler.encoder_cache_manager
    before = manager.num_free_slots
    tokens = serve(llm, [(1, "twice", twice, 4, 0)])
    taken, entries = before - manager.num_free_slots, len(manager.cached)
    print(f"{tokens}; {entries} entry takes {taken} slots, {manager.num_freeable_slots} of {before} are freeable")
    if taken != 4 * entries:
        print("VIOLATED: room is lost")
        return 1
    print("NOT SHOWN: the image was charged once")
    return 0


GREEDY = dict(temperature=0, ignore_eos=True, detokenize=False)


def retried():
    """C-MIR-19: a request that is larger than the processor cache is tried again and again."""
    llm = LLM(**settings("images", images=3, max_model_len=64, max_num_batched_tokens=64, mm_processor_cache_gb=0.00002))

    def shown(*seeds):
        return {"prompt": " <image> ".join(f"w{seed}" for seed in (*seeds, 99)), "multi_modal_data": {"image": list(map(picture, seeds))}}

    llm.generate([shown(1)], SamplingParams(max_tokens=4, **GREEDY), use_tqdm=False)
    ends = []
    for _ in range(12):
        try:
            (output,) = llm.generate([shown(2, 3, 1)], SamplingParams(max_tokens=4, **GREEDY), use_tqdm=False)
            ends.append(output.outputs[0].finish_reason)
        except Exception as error:
            ends.append(type(error).__name__)
    print(f"the tries end with {ends}")
    if "length" not in ends:
        print("VIOLATED: a request fails at each of 12 tries")
        return 1
    print(f"NOT SHOWN: try {ends.index('length') + 1} was served")
    return 0


def after_a_retry():
    """C-MIR-20: a miss is repaired, and the next one follows from the same fault."""
    llm = LLM(**settings("images", images=2, max_model_len=64, max_num_batched_tokens=64))
    long = {"prompt": f"{words(55, 5)} <image> w1 <image> w2", "multi_modal_data": {"image": [picture(1), picture(2)]}}
    ends = []
    for prompt in (long, with_image(1), with_image(1), with_image(2), with_image(2)):
        try:
            (output,) = llm.generate([prompt], SamplingParams(max_tokens=4, **GREEDY), use_tqdm=False)
            ends.append(output.outputs[0].finish_reason)
        except Exception as error:
            ends.append(type(error).__name__)
    print(f"the requests end with {ends}")
    if ends[1:] == ["error", "length", "error", "length"]:
        print("VIOLATED: after a miss was repaired, another request ends without a token")
        return 1
    print("NOT SHOWN: the caches are the same again")
    return 0


def shared_memory():
    """C-SHM-4: refused requests leave their images in the shared memory, which no later image gets into."""
    llm = LLM(**settings(
        "images", max_model_len=64, max_num_batched_tokens=64, mm_processor_cache_type="shm", mm_processor_cache_gb=0.00003,
        distributed_executor_backend="mp",
    ))
    sampling = SamplingParams(max_tokens=4, **GREEDY)
    cache = llm.llm_engine.renderer.mm_processor_cache

    def hits(first):
        before = cache.make_stats()
        for seed in (first, first, first + 1, first + 1):
            llm.generate([with_image(seed)], sampling, use_tqdm=False)
        after = cache.make_stats()
        return after.hits - before.hits

    early = hits(1)
    for seed in range(10, 14):
        try:
            llm.generate([with_image(seed, 55, 6)], sampling, use_tqdm=False)
        except Exception as error:
            print(f"a long request is refused: {str(error)[:70]}")
    late = hits(20)
    print(f"of four requests with two images, {early} hit before the refused ones and {late} after them")
    if late < early:
        print("VIOLATED: the processor cache takes no image any more")
        return 1
    print("NOT SHOWN: images are cached as before")
    return 0


def served_by(options, serving):
    """Run a coroutine with an engine that serves asynchronously."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    async def run():
        llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**options))
        try:
            return await serving(llm)
        finally:
            llm.shutdown()

    return asyncio.run(run())


async def answer(llm, name, prompt, count, seconds=60):
    """How one request ends: its number of tokens and its reason, or its error."""
    from vllm.sampling_params import RequestOutputKind

    sampling = SamplingParams(max_tokens=count, output_kind=RequestOutputKind.DELTA, **GREEDY)
    tokens, reason = 0, None

    async def follow():
        nonlocal tokens, reason
        async for output in llm.generate(prompt, sampling, name):
            tokens += len(output.outputs[0].token_ids)
            reason = output.outputs[0].finish_reason

    try:
        await asyncio.wait_for(follow(), seconds)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:100]}"
    return f"{tokens} tokens, {reason}"


def queue_is_full():
    """C-MIR-4: a request is refused for a full queue after the frontend's cache has its image."""

    async def serving(llm):
        first = asyncio.create_task(answer(llm, "first", words(8, 7, 3), 150))
        await asyncio.sleep(0.2)
        print("refused:", await answer(llm, "refused", with_image(1), 4))
        print("first:  ", await first)
        ends = [await answer(llm, name, with_image(1), 4) for name in ("late", "again")]
        print("late:   ", ends)
        return ends

    late, _ = served_by(settings("images", max_model_len=200, max_num_batched_tokens=64, max_num_queued_reqs=1), serving)
    if late.startswith("4 tokens"):
        print("NOT SHOWN: the later request was served")
        return 0
    print("VIOLATED: a later request with the image of a refused one ends without a token")
    return 1


def reset_in_flight():
    """C-MIR-12: both caches are cleared while a request is on its way between them."""

    async def serving(llm):
        for number in range(40):
            image = with_image(100 + number)
            one = asyncio.create_task(answer(llm, f"one{number}", image, 1))
            await asyncio.sleep(number % 10 / 1000)
            await llm.reset_mm_cache()
            print(number, await one, end="; ")
            end = await answer(llm, f"two{number}", image, 1)
            print(end)
            if not end.startswith("1 tokens"):
                return number + 1
        return 0

    if found := served_by(settings("images", max_model_len=64, max_num_batched_tokens=64), serving):
        print(f"reset {found} came while a request was on its way")
        print("VIOLATED: after a reset of the processor cache, a request ends without a token")
        return 1
    print("NOT SHOWN: all requests were served")
    return 0


def long_session():
    """C-SCH-28: the turns of a session are longer together than the model."""
    from vllm.engine.protocol import StreamingInput
    from vllm.sampling_params import RequestOutputKind

    async def serving(llm):
        got, turn_ended = [], asyncio.Event()

        async def turns():
            for turn in range(3):
                print(f"turn {turn + 1}: 40 tokens more")
                yield StreamingInput(prompt=words(40, 7, turn))
                await turn_ended.wait()
                turn_ended.clear()

        async def follow():
            sampling = SamplingParams(max_tokens=2, output_kind=RequestOutputKind.DELTA, **GREEDY)
            async for output in llm.generate(turns(), sampling, "session"):
                got.extend(output.outputs[0].token_ids)
                print(f"output {list(output.outputs[0].token_ids)}, {output.outputs[0].finish_reason}", flush=True)
                if output.outputs[0].finish_reason:
                    turn_ended.set()

        end = "ended"
        try:
            await asyncio.wait_for(follow(), 40)
        except Exception as error:
            end = f"{type(error).__name__}: {str(error)[:150]}"
        print(f"the session: {len(got)} tokens, {end}")
        return end, await answer(llm, "behind", words(8, 11, 5), 4, 20)

    end, behind = served_by(settings("text", max_model_len=64, max_num_batched_tokens=32), serving)
    print(f"another request: {behind}")
    if "Dead" in behind:
        print("VIOLATED: the engine core ended with a session that is longer than the model")
        return 1
    print("NOT SHOWN: the other request was served")
    return 0


CASES = {
    one.__name__: one
    for one in (
        failed_load_again, load_beside_its_drafts, shared_failed_blocks, padded_beyond_the_budget, never_fits,
        reset_is_not_told, removed_copy, two_sizes, larger_than_measured, passed_over, repeated_image,
        retried, after_a_retry, shared_memory, queue_is_full, reset_in_flight, long_session,
    )
}

if __name__ == "__main__":
    sys.exit(CASES[sys.argv[1]]())
