"""vllm==0.11.0: KV-1 is broken: the reference count of a block equals the number of table entries that name it.

Release: vllm==0.11.0
Code: KVCacheManager, of vllm.v1.core.kv_cache_manager
Property: KV-1: the reference count of a block equals the number of table entries that name it; this does not
  hold
Reach: the release's own classes did this, called as the specification lets callers; their engine was not run
Known as: possibly C-KV-20
Needs: Python with vllm==0.11.0 and what that imports, no accelerator; nothing else is imported
Ends with: 1 where the violation is seen, 0 where it is not, 2 where the script cannot run
"""

import signal
import sys
import traceback

try:
    import hashlib
    import inspect

    import torch
    from vllm.v1.core.kv_cache_manager import KVCacheBlocks, KVCacheManager
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.request import RequestStatus
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


class Tokens:
    """What the manager reads of a request: tokens, and nothing that is drafted, loaded or preempted beyond that."""

    def __init__(self, name, tokens):
        self.request_id, self.all_token_ids = name, tokens
        self.num_tokens = self.num_prompt_tokens = len(tokens)
        self.num_computed_tokens, self.spec_token_ids, self.block_hashes = 0, [], []
        self.mm_features = self.mm_positions = self.mm_hashes = ()
        self.lora_request = self.cache_salt = self.prompt_embeds = self.sampling_params = None
        self.skip_reading_prefix_cache = False
        self.num_preemptions = self.num_in_flight_tokens = self.shared_prefix_boundary = 0
        self.status = RequestStatus.RUNNING


def parameters(function):
    return inspect.signature(function).parameters


def numbers(blocks):
    return [block.block_id for block in blocks]


class Engine:
    """The manager, and requests whose full blocks hold tokens that name their contents."""

    def __init__(self, setting):
        self.setting = setting
        self.limit = setting["limit"] or max(setting["lengths"])
        self.manager = make_manager(setting["block_size"], setting["blocks"], self.limit, setting["preallocated"])

    def request(self, number, tokens):
        size = self.setting["block_size"]
        written = [content for content in self.setting["chains"][number] for _ in range(size)][:tokens]
        return hashed(Tokens(str(number), [*written, *[-1] * (tokens - len(written))]), size)

    def whole(self, number):
        return self.request(number, self.setting["lengths"][number])

    def get_computed_blocks(self, number, tokens):
        """What is cached of the first so many tokens. One that has blocks already is asked for by a twin of it."""
        request = self.request(number, tokens)
        if table(self.manager, str(number)):
            request.request_id = "a twin"
        found = computed_blocks(self.manager, request)
        forget(self.manager, "a twin")
        return found

    def allocate_slots(self, number, computed, tokens, hits):
        """Room for so many tokens behind those that are computed and found."""
        request, size = self.whole(number), self.setting["block_size"]
        request.num_computed_tokens = computed
        beyond = computed + len(hits) * size + tokens - self.setting["lengths"][number]
        request.spec_token_ids = [-1] * max(0, beyond)
        if not table(self.manager, str(number)):
            prompts = self.setting["prompts"] or self.setting["lengths"]
            look_up_first(self.manager, self.request(number, prompts[number]))
        blocks = allocate(self.manager, request, tokens, hits, size)
        return "no room" if blocks is None else numbers(blocks)

    def free(self, number):
        release(self.manager, self.whole(number))

    def evict(self, block):
        self.manager.evict_blocks({block})

    def common_prefix(self, number, running):
        return common_blocks(self.manager, self.whole(number), running)

    def shown(self):
        held = range(len(self.setting["lengths"]))
        return {
            "free, the next one first": numbers(free_queue(self.manager)),
            "references": {one.block_id: one.ref_cnt for one in all_blocks(self.manager) if one.ref_cnt},
            "tables": {number: blocks for number in held if (blocks := table(self.manager, str(number)))},
        }


def digest(value):
    """The hash function that the release is given for its blocks."""
    return hashlib.sha256(repr(value).encode()).digest()


def make_manager(block_size, blocks, limit, preallocated):
    """One group of layers with full attention; prefix caching on."""
    init_none_hash(digest)
    full = {"block_size": block_size, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float16}
    if "use_mla" in parameters(FullAttentionSpec):
        full["use_mla"] = False
    groups = [KVCacheGroupSpec(["layer 0"], FullAttentionSpec(**full))]
    config = KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups)
    there = parameters(KVCacheManager)
    sizes = {name: block_size for name in ("hash_block_size", "scheduler_block_size") if name in there}
    return KVCacheManager(config, max_model_len=limit, **sizes)


def hashed(request, block_size):
    request.block_hashes.extend(get_request_block_hasher(block_size, digest)(request))
    return request


def computed_blocks(manager, request):
    return numbers(manager.get_computed_blocks(request)[0].blocks[0])


def look_up_first(manager, request):
    """Hashes are the request's own."""


def allocate(manager, request, tokens, hits, block_size):
    found = KVCacheBlocks(([manager.block_pool.blocks[hit] for hit in hits],)) if hits else None
    blocks = manager.allocate_slots(request, tokens, len(hits) * block_size, found)
    return None if blocks is None else blocks.blocks[0]


def release(manager, request):
    manager.coordinator.single_type_managers[0].free(request.request_id)


def forget(manager, name):
    """Hashes went with the request."""


def common_blocks(manager, request, running):
    of_one = "running_request_id" in parameters(manager.get_num_common_prefix_blocks)
    return manager.get_num_common_prefix_blocks(*((request.request_id,) if of_one else (request, running)))[0]


def table(manager, name):
    return list(manager.get_block_ids(name)[0])


def free_queue(manager):
    return manager.block_pool.free_block_queue.get_all_free_blocks()


def all_blocks(manager):
    return manager.block_pool.blocks


STATEMENT = 'the reference count of a block equals the number of table entries that name it'


def reproduce():
    setting = {
        "block_size": 1,
        "blocks": 7,
        "chains": [[0, 1, 2, 3], [4], [4, 5, 6], [0, 7, 8, 9]],
        "lengths": [4, 1, 3, 4],
        "prompts": [],
        "limit": 0,
        "preallocated": 0,
    }
    engine = Engine(setting)

    call(engine.allocate_slots, 0, 0, 4, [])
    call(engine.allocate_slots, 0, 0, 1, [1, 2, 3])

    # what breaks the property is the whole of what the calls answer and leave; None: it does not matter
    recorded = ['[1, 2, 3, 4]', 'an error']
    same = all(is_as(known, answer) for known, answer in zip(recorded, ANSWERS, strict=True))
    left = engine.shown()
    same = same and left == {'free, the next one first': [5, 6], 'references': {1: 2, 2: 2, 3: 2, 4: 1}, 'tables': {0: [1, 2, 3, 4]}}
    what = f"{ANSWERS[-1:]} at the end, after which {left}; this has to hold: " + STATEMENT
    return same, what


if __name__ == "__main__":
    try:
        violated, what = reproduce()
    except Exception:
        traceback.print_exc()
        print("CANNOT RUN: this script does not fit the installed package")
        sys.exit(2)
    print(("VIOLATED: " if violated else "NOT SHOWN: ") + what)
    sys.exit(1 if violated else 0)
