"""vllm==0.20.2: SHM-3/settled is broken: once no request or worker needs a chunk, all its issued handles are acknowledged.

Release: vllm==0.20.2
Code: SingleWriterShmObjectStorage, of vllm.distributed.device_communicators.shm_object_storage
Property: SHM-3/settled: once no request or worker needs a chunk, all its issued handles are acknowledged;
  this does not hold
Reach: the release's own classes did this, called as the specification lets callers; their engine was not run
Known as: possibly C-SHM-4, #46451
Needs: Python with vllm==0.20.2 and what that imports, no accelerator; nothing else is imported
Ends with: 1 where the violation is seen, 0 where it is not, 2 where the script cannot run
"""

import signal
import sys
import traceback

try:
    from contextlib import nullcontext

    from vllm.distributed.device_communicators.shm_object_storage import (
        SingleWriterShmObjectStorage,
        SingleWriterShmRingBuffer,
    )
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


COUNT_BYTES = 4
MARK = 0xA0

HANDLES = {}
"""By request: what it has in the place of each item; None for an item that is sent as it is."""
INBOXES = []
"""What each worker has to do: a key, its handle, and whether it is only to touch it."""


class Bytes:
    """Serialises item A as so many bytes that are all alike, B as others, and so on."""

    sizes = {}

    def serialize(self, item):
        size = self.sizes[item] - COUNT_BYTES
        return bytes([MARK + ord(item) - ord("A")]) * size, size, b"", 0

    def deserialize(self, data):
        found = set(bytes(data))
        return chr(found.pop() - MARK + ord("A")) if len(found) == 1 else "bytes of no one item"


def is_cached(writer, request, keys):
    """The front end looks for every item of a request, before anything else."""
    HANDLES[request] = []
    return [writer.is_cached(key) for key in keys]


def get_cached(writer, request, key):
    return issued(writer, request, key, *writer.get_cached(key))


def put(writer, request, key):
    """An item that is refused is sent as it is."""
    try:
        address, identity = writer.put(key, key)
    except (MemoryError, ValueError) as error:
        HANDLES[request].append(None)
        return "refused" if isinstance(error, MemoryError) else "too large"
    return issued(writer, request, key, address, identity)


def issued(writer, request, key, address, identity):
    signature = writer.get_signature(key) if hasattr(writer, "get_signature") else None
    HANDLES[request].append((key, address, identity, signature))
    return f"id {identity} at address {address}"


def forge(writer, request, key, other):
    """Somebody names the chunk of another item under this key."""
    address, identity = writer.key_index.get(other) or (0, 0)
    if hasattr(writer, "verify_signature"):
        return writer.verify_signature(key, address, identity, [0] * 32)
    HANDLES[request] = [(key, address, identity, None)]
    return f"id {identity} at address {address}"


def schedule(request, touching):
    """Every worker is sent the handles: where there is a touch, first to touch and then to read."""
    handles = [handle for handle in HANDLES[request] if handle is not None]
    for inbox in INBOXES:
        inbox.extend((handle, True) for handle in handles if touching)
        inbox.extend((handle, False) for handle in handles)


def next_delivery(number, readers):
    """A worker does the next thing that it was sent."""
    (key, address, identity, signature), touching = INBOXES[number].pop(0)
    if touching:
        signed = {} if signature is None else {"signature": signature}
        return readers[number].touch(key, address=address, monotonic_id=identity, **signed)
    return readers[number].get(address, identity, *(() if signature is None else (signature, key)))


def free_unused(writer):
    before = set(writer.id_index)
    writer.free_unused()
    return f"freed {sorted(before - set(writer.id_index))}"


def shown(writer):
    ring, counted = writer.ring_buffer, acknowledged(writer)
    return {
        "ids by item": {key: identity for key, (_, identity) in sorted(writer.key_index.items())},
        "addresses by id": {identity: ring.metadata[identity] % ring.data_buffer_size for identity in sorted(ring.metadata)},
        "issued by id": {identity: writer.writer_flag.get(identity, 0) for identity in sorted(ring.metadata)},
        "acknowledged by id": {one: count for one, count in counted.items() if one in writer.writer_flag and count >= 0},
        "ids from": ring.monotonic_id_start,
        "ids to": ring.monotonic_id_end,
        "start": ring.data_buffer_start,
        "end": ring.data_buffer_end,
    }


def acknowledged(writer):
    """The counts that readers have written into the chunks, by id."""
    ring, found = writer.ring_buffer, {}
    for identity, address in sorted(ring.metadata.items()):
        place = getattr(ring, "DATA_OFFSET", 0) + address % ring.data_buffer_size + ring.MD_SIZE
        found[identity] = ring.byte2int(bytes(ring.shared_memory.buf[place : place + COUNT_BYTES]))
    return found


STATEMENT = 'once no request or worker needs a chunk, all its issued handles are acknowledged'


def reproduce():
    Bytes.sizes = {'A': 16, 'B': 16, 'C': 16}
    CAPACITY = 48
    ring = SingleWriterShmRingBuffer(CAPACITY, None, create=True)
    ring.ID_MAX = 8  # so that ids come round soon
    writer = SingleWriterShmObjectStorage(16, 2, ring, Bytes)
    readers = []
    for _ in range(2):
        attached = SingleWriterShmRingBuffer(CAPACITY, ring.shared_memory.name, create=False)
        readers.append(SingleWriterShmObjectStorage(16, 2, attached, Bytes, nullcontext()))
        INBOXES.append([])

    call(is_cached, writer, 0, ['A'])
    call(put, writer, 0, "A")
    # request 0 is rejected by the front end, of which the store hears nothing

    identity = 0  # nobody was issued or sent a handle of it and has not acknowledged it
    issued, said = shown(writer)["issued by id"][identity], acknowledged(writer)[identity]
    sent = [handle for inbox in INBOXES for handle, _ in inbox if handle[2] == identity]
    violated = not sent and said != len(readers) * issued
    what = f"nobody has anything to do with chunk {identity} any more"
    return violated, f"{what}; issued: {issued}, acknowledged: {said}, readers: {len(readers)}"


if __name__ == "__main__":
    try:
        violated, what = reproduce()
    except Exception:
        traceback.print_exc()
        print("CANNOT RUN: this script does not fit the installed package")
        sys.exit(2)
    print(("VIOLATED: " if violated else "NOT SHOWN: ") + what)
    sys.exit(1 if violated else 0)
