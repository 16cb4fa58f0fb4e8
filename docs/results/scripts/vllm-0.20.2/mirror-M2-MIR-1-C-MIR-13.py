"""vllm==0.20.2: Several frontends in front of one engine core.

Release: vllm==0.20.2
Code: the caches of front end and engine: vllm.multimodal.cache, and vllm.v1.engine.mm_input_cache before
Property: MIR-1: once P1 has applied every message of the epoch, P0 and P1 have equal orders, sizes included;
  this does not hold
What happens: Two frontends mirror the same cache of the engine core. Each believes that its own updates are
  all there are.
Reach: the release's own classes did this, called as the specification lets callers; their engine was not run
Known as: C-MIR-13, #22198, #23717
Needs: Python with vllm==0.20.2 and what that imports, no accelerator; nothing else is imported
Ends with: 1 where the violation is seen, 0 where it is not, 2 where the script cannot run
"""

import signal
import sys
import traceback

try:
    from threading import Lock
    from types import SimpleNamespace

    import torch
    import vllm.multimodal.cache as caches
    import vllm.multimodal.inputs as inputs
    from vllm.multimodal.cache import MultiModalProcessorSenderCache as SenderCache
    from vllm.multimodal.cache import MultiModalReceiverCache as ReceiverCache
    from vllm.multimodal.processing.processor import BaseMultiModalProcessor
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


GIBIBYTE = 1 << 30
REPAIRS = hasattr(caches, "MultiModalCacheMissError")
"""Whether P1 tells P0 what it missed."""
DIES = not hasattr(caches, "CacheInfo")
"""Whether an error at P1 ends more than the request."""


def settings(capacity):
    """The one setting that the caches read."""
    multimodal = SimpleNamespace(mm_processor_cache_gb=capacity / GIBIBYTE)
    return SimpleNamespace(get_multimodal_config=lambda: multimodal)


class Frontend:
    """P0: its cache, looked up and updated as the processor does it, by the release's `_merge_mm_kwargs`."""

    def __init__(self, capacity):
        self.cache = SenderCache(settings(capacity))
        self.renderer = SimpleNamespace(
            mm_processor_cache=self.cache, _pending_mm_cache_invalidations=set(), _mm_cache_invalidation_lock=Lock()
        )
        self.rendered, self.messages, self.answers, self.retries = [], [], [], []

    def render(self, items):
        if REPAIRS:
            BaseRenderer._drain_mm_cache_invalidations(self.renderer)
        groups = {}
        for item in sorted(items, key=lambda item: item.modality):
            groups.setdefault(item.modality, []).append(item)
        hashes = {modality: [item.mm_hash for item in group] for modality, group in groups.items()}
        cached = {modality: self.cache.is_cached(keys) for modality, keys in hashes.items()}
        missing = {
            modality: [item for item, there in zip(group, cached[modality]) if not there]
            for modality, group in groups.items()
        }
        processed = {modality: [process(item) for item in group] for modality, group in missing.items()}
        updates = {modality: [[item.content] for item in group] for modality, group in missing.items()}
        named = {"mm_hashes": hashes, "mm_missing_kwargs": processed, "mm_missing_prompt_updates": updates}
        merge = BaseMultiModalProcessor._merge_mm_kwargs
        if "mm_is_cached" in merge.__annotations__:
            named["mm_is_cached"] = cached
        processor = SimpleNamespace(_recompute_cached_prompt_update=lambda update, index: update)
        try:
            data, placeholders = merge(processor, self.cache, **named)
        finally:
            getattr(self.cache, "release_sender_touches", lambda: None)()
        return Message(items, in_prompt_order(items, data), [one for (one,) in in_prompt_order(items, placeholders)])

    def take_misses(self, mm_hashes):
        if REPAIRS:
            BaseRenderer.queue_mm_cache_invalidations(self.renderer, mm_hashes)

    def order(self):
        return [key for key in self.cache._cache.order if key in self.cache._cache]

    def clear(self):
        self.cache.clear_cache()


def process(item):
    """What a processor makes of an item: as many bytes as it has."""
    data, field = torch.zeros(item.size, dtype=torch.uint8), inputs.MultiModalBatchedField()
    named = {"data": data, "field": field}
    if "modality" in inputs.MultiModalFieldElem.__annotations__:
        named |= {"modality": item.modality, "key": "data"}
    made = inputs.MultiModalKwargsItem({"data": inputs.MultiModalFieldElem(**named)})
    made.content = item.content
    return made


def in_prompt_order(items, groups):
    """What is grouped by modality, item by item of the prompt."""
    waiting = {modality: iter(group) for modality, group in groups.items()}
    return [next(waiting[item.modality]) for item in items]


class Engine:
    """P1: its cache takes the features of a request, in prompt order."""

    def __init__(self, capacity):
        self.cache = ReceiverCache(settings(capacity))
        self.dead = False

    def take(self, message):
        features = []
        for index, (item, data) in enumerate(zip(message.items, message.data)):
            named = {"data": data, "modality": item.modality, "identifier": item.mm_hash}
            if "mm_hash" in inputs.MultiModalFeatureSpec.__annotations__:
                named["mm_hash"] = item.mm_hash
            place = inputs.PlaceholderRange(offset=index, length=1)
            features.append(inputs.MultiModalFeatureSpec(mm_position=place, **named))
        return [feature.data.content for feature in self.cache.get_and_update_features(features)]

    def missed(self, error):
        """The keys that a miss of this release names; None for any other error."""
        return list(error.mm_hashes) if REPAIRS and isinstance(error, caches.MultiModalCacheMissError) else None

    def order(self):
        return [key for key in self.cache._cache.order if key in self.cache._cache]

    def clear(self):
        self.cache.clear_cache()


class Item:
    """An item of a prompt: what it is, the hash that names it, its modality, its size in bytes."""

    def __init__(self, content, mm_hash, modality, size):
        self.content, self.mm_hash, self.modality, self.size = content, mm_hash, modality, size

    def __repr__(self):
        return self.content


class Message:
    """A request on its way: data of an item, or None where P1 is to have it; and what placeholders were computed for."""

    def __init__(self, items, data, placeholders):
        self.items, self.data, self.placeholders = items, data, placeholders


# What is around the two caches: messages and answers wait in order, and a client tries again what it is told to.


def render(p0, items):
    """The front end looks the items up, updates its cache, and makes the message."""
    message = p0.render(items)
    p0.rendered.append(message)
    return f"data is sent of {[str(item) for item, data in zip(items, message.data) if data is not None]}"


def send(p0, which):
    p0.messages.append(p0.rendered.pop(which))


def submit(p0, items):
    """Rendered and sent at once; what fails in a release that repairs is tried again later."""
    try:
        said = render(p0, items)
    except AssertionError:
        if REPAIRS:
            p0.retries.append(items)
        raise
    send(p0, len(p0.rendered) - 1)
    return said


def retry(p0):
    said = render(p0, p0.retries[0])
    p0.retries.pop(0)
    send(p0, len(p0.rendered) - 1)
    return said


def submit_rejected(p0, items):
    """The front end rejects the request after its cache was updated: nothing is sent."""
    said = render(p0, items)
    p0.rendered.pop()
    return f"{said}, but the request is rejected"


def deliver(p0, p1):
    """P1 takes the next message: what the engine gets for its items, or what was missed."""
    if p1.dead:
        return "nobody takes messages any more"
    message = p0.messages.pop(0)
    try:
        contents = p1.take(message)
    except Exception as error:
        missed = p1.missed(error)
        if missed is None:
            p1.dead = DIES
            if not DIES:
                p0.answers.append((message, []))
            raise
        p0.answers.append((message, missed))
        return f"a miss of {missed} is reported"
    p0.answers.append((message, []))
    return f"placeholders are for {message.placeholders}, data is of {contents}"


def receive(p0):
    """P0 takes the next answer; the client tries again what was missed."""
    message, missed = p0.answers.pop(0)
    if missed:
        p0.retries.append(message.items)
    p0.take_misses(missed)


def swap(waiting, which):
    """One message overtakes another."""
    waiting[which : which + 2] = reversed(waiting[which : which + 2])
    return "one overtakes another"


def lose(waiting, which):
    waiting.pop(which)
    return "one is lost"


def shown(frontends, p1):
    return {"P0": [p0.order() for p0 in frontends], "P1": p1.order(), "on the way": [len(p0.messages) for p0 in frontends]}


STATEMENT = 'once P1 has applied every message of the epoch, P0 and P1 have equal orders, sizes included'


def reproduce():
    CAPACITY = 3  # bytes, at P0 and at P1
    p0_0 = Frontend(CAPACITY)
    p0_1 = Frontend(CAPACITY)
    p1 = Engine(CAPACITY)
    A = Item("A", "#0", "modality 0", 1)
    B = Item("B", "#1", "modality 0", 2)
    C = Item("C", "#2", "modality 0", 1)
    D = Item("D", "#3", "modality 0", 1)

    call(submit, p0_0, [A])
    call(deliver, p0_0, p1)

    left = shown([p0_0, p0_1], p1)
    violated = any(order != left["P1"] for order in left["P0"])
    return violated, f"from the oldest to the most recent: {left}"


if __name__ == "__main__":
    try:
        violated, what = reproduce()
    except Exception:
        traceback.print_exc()
        print("CANNOT RUN: this script does not fit the installed package")
        sys.exit(2)
    print(("VIOLATED: " if violated else "NOT SHOWN: ") + what)
    sys.exit(1 if violated else 0)
