"""vllm==0.11.0: The ring begins at the chunk that was just freed.

Release: vllm==0.11.0
Code: SingleWriterShmRingBuffer, of vllm.distributed.device_communicators.shm_object_storage
Property: SHM-4: live ids are consecutive from the oldest to the next, and every table has exactly those; this
  does not hold
What happens: After freeing, the beginning of the live region was set to the address of the chunk that is
  gone, and the first id had a chunk that never was. A new chunk then overlaps a live one.
Reach: the release's own classes did this, called as the specification lets callers; their engine was not run
Known as: C-SHM-1, #27117, vllm-ascend#5117
Needs: Python with vllm==0.11.0 and what that imports, no accelerator; nothing else is imported
Ends with: 1 where the violation is seen, 0 where it is not, 2 where the script cannot run
"""

import signal
import sys
import traceback

try:
    from collections import Counter

    from vllm.distributed.device_communicators.shm_object_storage import SingleWriterShmRingBuffer
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


UNANSWERED = Counter()
"""By id: for how many readers' answers the writer still waits. The ring leaves that to its caller."""


def write(ring, value, size, readers):
    """What a writer does: take room, and fill it with bytes that say what it is."""
    try:
        address, identity = ring.allocate_buf(size)
    except MemoryError:
        return "refused"
    with ring.access_buf(address) as (payload, _):
        payload[:] = bytes([value]) * size
    UNANSWERED[identity] = readers
    return f"id {identity} at address {address}"


def read(reader, identity, place):
    """What a reader does with a handle: it compares the ids, and takes the bytes."""
    with reader.access_buf(place) as (payload, (found, _)):
        if found != identity:
            return f"stale: id {found} is there"
        values = list(payload)
    UNANSWERED[identity] -= 1
    return values


def free(ring, wanted):
    """Chunks go from the oldest on, as far as every reader has answered."""
    freed = list(ring.free_buf(lambda identity, payload: UNANSWERED[identity] <= 0, wanted))
    for identity in freed:
        del UNANSWERED[identity]
    return f"freed {freed}"


def clear(ring):
    """As its callers do: nothing is waited for any more."""
    UNANSWERED.clear()
    ring.clear()


def shown(ring):
    return {
        "addresses by id": dict(sorted(ring.metadata.items())),
        "ids from": ring.monotonic_id_start,
        "ids to": ring.monotonic_id_end,
        "start": ring.data_buffer_start,
        "end": ring.data_buffer_end,
    }


STATEMENT = 'live ids are consecutive from the oldest to the next, and every table has exactly those'


def reproduce():
    ring = SingleWriterShmRingBuffer(9, None, create=True)
    name = ring.shared_memory.name
    readers = [SingleWriterShmRingBuffer(9, name, create=False) for _ in range(1)]
    for one in (ring, *readers):
        one.ID_MAX = 4  # so that ids come round soon
        one.ID_NBYTES = one.SIZE_NBYTES = 1  # small fields, so that few calls are enough
        one.MD_SIZE = 2


    # what breaks the property is the whole of what the calls answer and leave; None: it does not matter
    recorded = []
    same = all(is_as(known, answer) for known, answer in zip(recorded, ANSWERS, strict=True))
    left = shown(ring)
    same = same and left == {'addresses by id': {0: 0}, 'ids from': 0, 'ids to': 0, 'start': 0, 'end': 0}
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
