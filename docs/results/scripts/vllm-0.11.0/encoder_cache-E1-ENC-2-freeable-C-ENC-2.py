"""vllm==0.11.0: ENC-2/freeable is broken: the freeable slots are the free slots plus the sizes of the unreferenced entries.

Release: vllm==0.11.0
Code: vllm.v1.core.encoder_cache_manager
Property: ENC-2/freeable: the freeable slots are the free slots plus the sizes of the unreferenced entries;
  this does not hold
Reach: a caller breaks what the class expects of it; the engine's own callers were not seen to do this
Known as: possibly C-ENC-2
Needs: Python with vllm==0.11.0 and what that imports, no accelerator; nothing else is imported
Ends with: 1 where the violation is seen, 0 where it is not, 2 where the script cannot run
"""

import signal
import sys
import traceback

try:
    from vllm.v1.core.encoder_cache_manager import EncoderCacheManager
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


class Item:
    """What the manager reads of an item: the hash of its content."""

    def __init__(self, identifier):
        self.identifier = identifier


class Request:
    """What the manager reads of a request: its id, its items, and how large the encoder's output for each is."""

    def __init__(self, request_id, contents, sizes):
        self.request_id = request_id
        self.mm_features = [Item(content) for content in contents]
        self.sizes = sizes

    def get_num_encoder_embeds(self, input_id):
        return self.sizes[input_id]

    get_num_encoder_tokens = get_num_encoder_embeds

    def __str__(self):
        return self.request_id


def shown(manager):
    """All that the manager of this release has."""
    free = manager.num_free_slots
    if not hasattr(manager, "cached"):
        return {"free": free, "freed": [*manager.to_free, *manager.allocated]}
    if not hasattr(manager, "freeable"):
        entries = sorted((name, place) for name, places in manager.cached.items() for place in places)
        return {"free": free, "entries": entries, "freed": list(manager.freed)}
    return {
        "free": free,
        "freeable": manager.num_freeable_slots,
        "holders": {content: sorted(requests) for content, requests in sorted(manager.cached.items())},
        "in the order of eviction": list(manager.freeable.items()),
        "freed": list(manager.freed),
    }


STATEMENT = 'the freeable slots are the free slots plus the sizes of the unreferenced entries'


def reproduce():
    CAPACITY = 2
    manager = EncoderCacheManager(cache_size=CAPACITY)
    r0 = Request("r0", ["A", "A"], [1, 1])
    r1 = Request("r1", ["A", "B"], [1, 1])
    r2 = Request("r2", ["C"], [2])

    call(manager.allocate, r0, 0)
    call(manager.free_encoder_input, r0, 0)
    call(manager.allocate, r0, 0)
    call(manager.free_encoder_input, r0, 0)

    # what breaks the property is the whole of what the calls answer and leave; None: it does not matter
    recorded = ['None', 'None', 'None', 'None']
    same = all(is_as(known, answer) for known, answer in zip(recorded, ANSWERS, strict=True))
    left = shown(manager)
    same = same and left == {'free': 0, 'freeable': 2, 'holders': {'A': []}, 'in the order of eviction': [('A', 1)], 'freed': []}
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
