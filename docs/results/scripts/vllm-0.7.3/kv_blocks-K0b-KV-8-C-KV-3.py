"""vllm==0.7.3: KV-8 is broken: a call that is not done changes nothing.

Release: vllm==0.7.3
Code: KVCacheManager, of vllm.v1.core.kv_cache_manager
Property: KV-8: a call that is not done changes nothing; this does not hold
Reach: a caller breaks what the class expects of it; the engine's own callers were not seen to do this
Known as: possibly C-KV-3, #11562, #11565, #10507
Needs: Python with vllm==0.7.3 and what that imports, no accelerator; nothing else is imported
Ends with: 1 where the violation is seen, 0 where it is not, 2 where the script cannot run
"""

import signal
import sys
import traceback

try:
    import inspect
    from types import SimpleNamespace

    import vllm.v1.core.kv_cache_manager as kv_cache_manager
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


def make_manager(block_size, blocks, limit, preallocated):
    kv_cache_manager.PrefixCacheStats = lambda: SimpleNamespace(requests=0, queries=0, hits=0, reset=False)
    return kv_cache_manager.KVCacheManager(
        block_size=block_size,
        num_gpu_blocks=blocks,
        max_model_len=limit,
        num_preallocate_tokens=preallocated * block_size,
    )


def hashed(request, block_size):
    """The manager makes the hashes."""
    return request


def computed_blocks(manager, request):
    return numbers(manager.get_computed_blocks(request)[0])


def look_up_first(manager, request):
    """As every engine does with a prompt: its hashes are then known."""
    manager.get_computed_blocks(request)


def allocate(manager, request, tokens, hits, block_size):
    return manager.allocate_slots(request, tokens, [manager.block_pool[hit] for hit in hits])


def release(manager, request):
    manager.free(request)
    manager.free_block_hashes(request)


def forget(manager, name):
    manager.free_block_hashes(Tokens(name, []))


def common_blocks(manager, request, running):
    return manager.get_num_common_prefix_blocks(request, running)


def table(manager, name):
    return numbers(manager.req_to_blocks.get(name, ()))


def free_queue(manager):
    return manager.free_block_queue.get_all_free_blocks()


def all_blocks(manager):
    return manager.block_pool


STATEMENT = 'a call that is not done changes nothing'


def reproduce():
    setting = {
        "block_size": 2,
        "blocks": 2,
        "chains": [[], []],
        "lengths": [1, 1],
        "prompts": [],
        "limit": 0,
        "preallocated": 0,
    }
    engine = Engine(setting)

    call(engine.allocate_slots, 0, 0, 1, [0])

    # what breaks the property is the whole of what the calls answer and leave; None: it does not matter
    recorded = ['an error']
    same = all(is_as(known, answer) for known, answer in zip(recorded, ANSWERS, strict=True))
    left = engine.shown()
    same = same and left == {'free, the next one first': [1], 'references': {0: 1}, 'tables': {0: [0]}}
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
