"""vllm==0.7.3: MIR-8 is broken: a message of an earlier epoch reads and changes nothing.

Release: vllm==0.7.3
Code: the caches of front end and engine: vllm.multimodal.cache, and vllm.v1.engine.mm_input_cache before
Property: MIR-8: a message of an earlier epoch reads and changes nothing; this does not hold
Reach: the release's own classes did this, called as the specification lets callers; their engine was not run;
  with faults of the environment between the processes: restart_receiver
Known as: possibly C-MIR-12, #42995, #43001, AReaL#1143, verl#7067
Needs: Python with vllm==0.7.3 and what that imports, no accelerator; nothing else is imported
Ends with: 1 where the violation is seen, 0 where it is not, 2 where the script cannot run
"""

import signal
import sys
import traceback

try:
    from types import SimpleNamespace

    import vllm.v1.engine.mm_input_cache as caches
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


REPAIRS, DIES = False, True
"""P1 does not tell P0 what it missed, and an error at P1 ends the thread that takes messages."""


class Frontend:
    """P0: items are looked up one by one, in prompt order. The cache counts entries."""

    def __init__(self, capacity):
        caches.VLLM_MM_INPUT_CACHE_SIZE = capacity
        registry = SimpleNamespace(create_input_mapper=lambda config: None, init_mm_limits_per_prompt=lambda config: None)
        self.client = caches.MMInputCacheClient(SimpleNamespace(disable_mm_preprocessor_cache=False), registry)
        self.rendered, self.messages, self.answers, self.retries = [], [], [], []

    def render(self, items):
        data = self.client.process_inputs(
            mm_data={},
            mm_hashes=[item.mm_hash for item in items],
            mm_processor_kwargs=None,
            precomputed_mm_inputs=[SimpleNamespace(content=item.content) for item in items],
        )
        return Message(items, data, [item.content for item in items])

    def take_misses(self, mm_hashes):
        """Nobody tells it of any."""

    def order(self):
        return list(self.client.mm_cache.cache)


class Engine:
    """P1: data that comes with a message replaces what is there."""

    def __init__(self, capacity):
        caches.VLLM_MM_INPUT_CACHE_SIZE = capacity
        self.server = caches.MMInputCacheServer(SimpleNamespace(disable_mm_preprocessor_cache=False))
        self.dead = False

    def take(self, message):
        got = self.server.get_and_update(list(message.data), [item.mm_hash for item in message.items])
        return [one.content for one in got]

    def missed(self, error):
        return None

    def order(self):
        return list(self.server.mm_cache.cache)


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


STATEMENT = 'a message of an earlier epoch reads and changes nothing'


def reproduce():
    CAPACITY = 3  # items, at P0 and at P1
    p0_0 = Frontend(CAPACITY)
    p1 = Engine(CAPACITY)
    A = Item("A", "#0", "modality 0", 1)
    B = Item("B", "#1", "modality 0", 1)

    call(render, p0_0, [A])
    # the engine is started anew: what was on its way is lost
    p1 = Engine(CAPACITY)
    for p0 in [p0_0]:
        p0.messages.clear()
        p0.answers.clear()
    call(send, p0_0, 0)
    call(deliver, p0_0, p1)

    # what breaks the property is the whole of what the calls answer and leave; None: it does not matter
    recorded = ["data is sent of ['A']", None, None]
    same = all(is_as(known, answer) for known, answer in zip(recorded, ANSWERS, strict=True))
    left = shown([p0_0], p1)
    same = same and left == {'P0': [['#0']], 'P1': ['#0'], 'on the way': [0]}
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
