"""Work of a release: the calls of its scheduler on its own classes, with requests that are made before.

Every turn gives the seconds of the calls, the number of units, and a few numbers for comparison with the work of
another implementation. A turn leaves out other work of the release, such as its log.
"""

from __future__ import annotations

import importlib
import random
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, NamedTuple

kv_managers: Any = importlib.import_module("driver.kv_managers")
encoder_cache: Any = importlib.import_module("driver.encoder_cache")
schedulers: Any = importlib.import_module("driver.schedulers")

HASHING = "vllm.utils.hashing"
DEFAULT_HASH = "sha256"
"""The release's default for the keys of blocks."""


class Turn(NamedTuple):
    """One turn."""

    seconds: float
    units: int
    answers: list[int]


class Request(SimpleNamespace):
    """A request with the driver's attributes as plain ones, so that reading them costs as much as in an engine."""


class Pool:
    """The release's manager of blocks, and its hashing of prompts."""

    def __init__(self, blocks: int, block_size: int, limit: int) -> None:
        utilities = importlib.import_module(kv_managers.UTILITIES)
        hashed = importlib.import_module(HASHING).get_hash_fn_by_name(DEFAULT_HASH)
        utilities.init_none_hash(hashed)
        self.hash = utilities.get_request_block_hasher(block_size, hashed)
        module = importlib.import_module(kv_managers.MANAGER)
        self.manager = module.KVCacheManager(
            kv_managers.kv_cache_config(block_size, blocks + 1, 1),
            max_model_len=limit,
            **kv_managers.block_sizes(module.KVCacheManager, block_size),
        )

    def request(self, name: str, tokens: list[int]) -> Request:
        """A request without hashed blocks."""
        driven = kv_managers.Request(name, tokens)
        attributes = {field.name: getattr(driven, field.name) for field in fields(driven)}
        known = {"num_tokens": len(tokens), "num_prompt_tokens": len(tokens)}
        return Request(**{**attributes, **known})

    def hashed(self, name: str, tokens: list[int]) -> Request:
        """A request with keys for its full blocks."""
        request = self.request(name, tokens)
        request.block_hashes.extend(self.hash(request))
        return request


class Decode:
    """Steps of one token for each running request: `allocate_slots(request, 1)`, one after the other."""

    def __init__(
        self,
        running: int,
        block_size: int,
        prompt: int,
        steps: int,
        turns: int,
        make_pool: Callable[[int, int, int], Any] = Pool,
    ) -> None:
        self.steps = steps
        limit = prompt + block_size + (1 + steps) * (turns + 1) + 1
        self.pool = make_pool(running * (-(-limit // block_size)), block_size, limit)
        self.requests = []
        for number in range(running):
            request = self.pool.hashed(str(number), [number * limit + place for place in range(limit)])
            computed = prompt + number % block_size
            assert self.pool.manager.allocate_slots(request, computed) is not None
            request.num_computed_tokens = computed
            self.requests.append(request)

    def turn(self, number: int) -> Turn:  # noqa: ARG002  # every turn is alike
        """Run `steps` steps after an untimed one; for each, the number of new blocks."""
        self._step()
        steps = [self._step() for _ in range(self.steps)]
        return Turn(sum(seconds for seconds, _ in steps), self.steps, [taken for _, taken in steps])

    def _step(self) -> tuple[float, int]:
        """One token for every request: the seconds of the calls, and the number of new blocks."""
        allocate = self.pool.manager.allocate_slots
        started = time.process_time()
        given = [allocate(request, 1) for request in self.requests]
        seconds = time.process_time() - started
        for request in self.requests:
            request.num_computed_tokens += 1
        return seconds, sum(len(blocks.blocks[0]) for blocks in given)


class Step:
    """Whole steps of the release's scheduler, one token for each running request: `schedule`, `update_from_output`.

    The output of the workers is made while the clock is stopped. With `items`, a request has that number of items,
    whose embeddings were computed with the prompt.
    """

    def __init__(self, running: int, block_size: int, prompt: int, steps: int, turns: int, items: int) -> None:
        limit = prompt + block_size + steps * (turns + 2) + 2
        self.steps, classes = steps, schedulers.Classes()
        self.scheduler = classes.make(
            schedulers.Settings(
                block_size=block_size,
                blocks=running * (-(-limit // block_size)) + 1,
                token_budget=max(running, limit),
                max_running=running,
                max_model_len=limit,
                encoder_compute=max(1, running * items),
                encoder_capacity=max(1, running * items),
            )
        )
        hasher = classes.hasher(block_size, importlib.import_module(HASHING).get_hash_fn_by_name(DEFAULT_HASH))
        self.output = classes.output
        for number in range(running):
            tokens = [number * limit + place for place in range(prompt + number % block_size)]
            shown = [schedulers.Item(number * items + place, place, 1) for place in range(items)]
            self.scheduler.add_request(classes.new_request(str(number), tokens, limit, hasher, shown))
        self._prefill(running * (prompt + block_size))

    def _prefill(self, tokens: int) -> None:
        """All prompts at once, as one large step."""
        scheduler, settings = self.scheduler, self.scheduler.scheduler_config
        kept = scheduler.max_num_scheduled_tokens, settings.max_num_batched_tokens
        scheduler.max_num_scheduled_tokens = settings.max_num_batched_tokens = tokens
        self._step()
        scheduler.max_num_scheduled_tokens, settings.max_num_batched_tokens = kept

    def turn(self, number: int) -> Turn:  # noqa: ARG002  # every turn is alike
        """Run `steps` steps; for each, the tokens, and the free blocks afterwards."""
        seconds, answers = 0.0, []
        for _ in range(self.steps):
            taken, tokens = self._step()
            seconds += taken
            answers += [tokens, self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()]
        return Turn(seconds, self.steps, answers)

    def _step(self) -> tuple[float, int]:
        """The seconds of the two calls, and the number of scheduled tokens."""
        scheduler = self.scheduler
        started = time.process_time()
        planned = scheduler.schedule()
        seconds = time.process_time() - started
        made = self.output({name: [1] for name in planned.num_scheduled_tokens})
        started = time.process_time()
        scheduler.update_from_output(planned, made)
        return seconds + time.process_time() - started, planned.total_num_scheduled_tokens


class Pictures:
    """Requests with a picture each, admitted and finished in one step of the release's scheduler.

    `schedule` and `update_from_output` are timed; the making and the arrival of requests are not.
    """

    def __init__(self, requests: int, block_size: int, text: int, picture: int, steps: int) -> None:
        self.count, self.text, self.picture, self.steps = requests, text, picture, steps
        limit, self.arrived, self.classes = text + picture + 2, 0, schedulers.Classes()
        self.scheduler = self.classes.make(
            schedulers.Settings(
                block_size=block_size,
                blocks=2 * requests * -(-(text + picture + 1) // block_size) + 1,
                token_budget=requests * limit,
                max_running=requests,
                max_model_len=limit,
                encoder_compute=requests * picture,
                encoder_capacity=2 * requests * picture,
            )
        )
        function = importlib.import_module(HASHING).get_hash_fn_by_name(DEFAULT_HASH)
        self.hasher = self.classes.hasher(block_size, function)

    def turn(self, number: int) -> Turn:  # noqa: ARG002  # every turn is alike
        """Run `steps` steps; for each, the tokens, the encoded pictures, and the free blocks afterwards."""
        seconds, answers = 0.0, []
        for _ in range(self.steps):
            for _ in range(self.count):
                self._arrives()
            started = time.process_time()
            planned = self.scheduler.schedule()
            seconds += time.process_time() - started
            made = self.classes.output({name: [1] for name in planned.num_scheduled_tokens})
            started = time.process_time()
            self.scheduler.update_from_output(planned, made)
            seconds += time.process_time() - started
            encoded = sum(len(items) for items in planned.scheduled_encoder_inputs.values())
            answers += [planned.total_num_scheduled_tokens, encoded, self.classes.free_blocks(self.scheduler)]
        return Turn(seconds, self.steps, answers)

    def _arrives(self) -> None:
        self.arrived += 1
        tokens = [self.arrived] * (self.text + self.picture)
        shown = [schedulers.Item(self.arrived, self.text, self.picture)]
        self.scheduler.add_request(self.classes.new_request(str(self.arrived), tokens, 1, self.hasher, shown))


class Arrivals:
    """Requests that are added to the release's scheduler in bursts; with `named`, hashing their blocks is timed too.

    The requests are made before. The step after a burst serves and finishes all of them, and is not timed.
    """

    def __init__(self, requests: int, block_size: int, text: int, picture: int, steps: int, named: int) -> None:
        self.load = Pictures(requests, block_size, text, picture, steps)
        self.steps, self.named, self.arrived = steps, named, 0

    def turn(self, number: int) -> Turn:  # noqa: ARG002  # every turn is alike
        """Run bursts; for each, the number of unfinished requests, and the tokens and pictures of the step after it."""
        load, scheduler, seconds, answers = self.load, self.load.scheduler, 0.0, []
        add, hashed = scheduler.add_request, self.load.hasher
        for _ in range(self.steps):
            burst = [self._new() for _ in range(load.count)]
            started = time.process_time()
            if self.named:
                for request in burst:
                    request.block_hashes.extend(hashed(request))
                    add(request)
            else:
                for request in burst:
                    add(request)
            seconds += time.process_time() - started
            answers.append(scheduler.get_num_unfinished_requests())
            planned = scheduler.schedule()
            scheduler.update_from_output(
                planned, load.classes.output({name: [1] for name in planned.num_scheduled_tokens})
            )
            encoded = sum(len(items) for items in planned.scheduled_encoder_inputs.values())
            answers += [planned.total_num_scheduled_tokens, encoded]
        return Turn(seconds, self.steps * load.count, answers)

    def _new(self) -> Any:
        """Hash the blocks outside of the clock."""
        load, name = self.load, str(self.arrived)
        tokens = prompt_of(self.arrived, load.text + load.picture)
        shown = [schedulers.Item(self.arrived, load.text, load.picture)] if load.picture else []
        self.arrived += 1
        return load.classes.new_request(name, tokens, 1, None if self.named else load.hasher, shown)


def prompt_of(number: int, tokens: int) -> list[int]:
    """The tokens of a prompt, by the prompt's number."""
    return random.Random(number).choices(range(100_000), k=tokens)  # noqa: S311  # a workload, nothing secret


class Burst:
    """New prompts at once: hashed, looked up, allocated. They are freed outside of the clock."""

    def __init__(self, requests: int, tokens: int, block_size: int, blocks: int, repeated: int) -> None:
        self.count, self.tokens, self.repeated = requests, tokens, repeated
        self.pool = Pool(blocks, block_size, tokens)

    def turn(self, number: int) -> Turn:
        """Serve another burst, or with `repeated` always the same burst."""
        first = 0 if self.repeated else (number + 1) * self.count
        manager, hashed, hits, taken = self.pool.manager, self.pool.hash, 0, 0
        requests = [self.pool.request(str(place), prompt_of(first + place, self.tokens)) for place in range(self.count)]
        started = time.process_time()
        for request in requests:
            request.block_hashes.extend(hashed(request))
            found, computed, *_ = manager.get_computed_blocks(request)
            given = manager.allocate_slots(request, request.num_tokens - computed, computed, found)
            hits, taken = hits + computed, taken + len(given.blocks[0])
        seconds = time.process_time() - started
        for request in requests:
            request.num_computed_tokens = request.num_tokens
            manager.free(request)
        return Turn(seconds, self.count, [hits, taken])


class Cycle:
    """One prompt after the other, hashed before: looked up, allocated and freed; these three calls are timed."""

    def __init__(self, tokens: int, block_size: int, blocks: int, hit: int, times: int) -> None:
        self.pool, self.hit = Pool(blocks, block_size, tokens), hit
        self.requests = [self.pool.hashed(str(number), prompt_of(number, tokens)) for number in range(times)]

    def turn(self, number: int) -> Turn:  # noqa: ARG002  # every turn is alike
        """Serve each prompt once, or with `hit` the first prompt as often."""
        manager, seconds, computed_in_all = self.pool.manager, 0.0, 0
        for place in range(len(self.requests)):
            request = self.requests[0 if self.hit else place]
            request.num_computed_tokens = 0
            started = time.process_time()
            found, computed, *_ = manager.get_computed_blocks(request)
            given = manager.allocate_slots(request, request.num_tokens - computed, computed, found)
            manager.free(request)
            seconds += time.process_time() - started
            assert given is not None
            computed_in_all += computed
        return Turn(seconds, len(self.requests), [computed_in_all])


class Hashes:
    """The keys of a prompt's blocks."""

    def __init__(self, tokens: int, block_size: int, times: int) -> None:
        self.pool, self.tokens, self.times = Pool(1, block_size, tokens), tokens, times

    def turn(self, number: int) -> Turn:
        """Hash `times` prompts."""
        requests = [
            self.pool.request("", prompt_of(number * self.times + place, self.tokens)) for place in range(self.times)
        ]
        started = time.process_time()
        keys = [self.pool.hash(request) for request in requests]
        seconds = time.process_time() - started
        return Turn(seconds, self.times, [len(of_one) for of_one in keys])


class Encoder:
    """Inputs of one item: checked, room asked for, allocated, freed; or with `hit`, checked and freed."""

    def __init__(self, contents: int, capacity: int, hit: int, times: int) -> None:
        self.manager = importlib.import_module(encoder_cache.MODULE).EncoderCacheManager(cache_size=capacity)
        self.hit, self.times = hit, times
        self.requests = [
            encoder_cache.Request(str(number), (encoder_cache.Position(str(number)),), (1,))
            for number in range(1 if hit else contents)
        ]

    def turn(self, number: int) -> Turn:  # noqa: ARG002  # every turn is alike
        """Run `times` inputs."""
        manager, requests, hits, count = self.manager, self.requests, 0, len(self.requests)
        started = time.process_time()
        for place in range(self.times):
            request = requests[place % count]
            if manager.check_and_update_cache(request, 0):
                hits += 1
            elif manager.can_allocate(request, 0, 1, 0):
                manager.allocate(request, 0)
            manager.free_encoder_input(request, 0)
        return Turn(time.process_time() - started, self.times, [hits])


class Lru:
    """A cache of entries of 1 byte: `get` and `touch` of a resident entry, `put` that evicts."""

    def __init__(self, capacity: int, call: str, times: int) -> None:
        cache = importlib.import_module("vllm.utils.cache").LRUCache(capacity, getsizeof=lambda value: 1)
        for key in range(capacity):
            cache[key] = key
        self.cache, self.capacity, self.call, self.times, self.next = cache, capacity, call, times, capacity

    def turn(self, number: int) -> Turn:  # noqa: ARG002  # every turn is alike
        """Run `times` calls."""
        keys = [place % self.capacity for place in range(self.times)]
        if self.call == "put":
            keys = list(range(self.next, self.next + self.times))
            self.next += self.times
        call = getattr(self.cache, self.call)
        started = time.process_time()
        if self.call == "put":
            for key in keys:
                call(key, key)
        else:
            for key in keys:
                call(key)
        return Turn(time.process_time() - started, self.times, [len(self.cache)])


class Bytes:
    """An item in shared memory is its bytes."""

    def serialize(self, value: bytes) -> tuple[bytes, int, bytes, int]:
        """Data without a description."""
        return value, len(value), b"", 0

    def deserialize(self, data: memoryview) -> bytes:
        """A copy."""
        return bytes(data)


class Shared:
    """Items in shared memory, put and got by one writer and one reader in one process."""

    ROOM = 4096

    def __init__(self, call: str, kib: int, items: int, times: int) -> None:
        module = importlib.import_module("vllm.distributed.device_communicators.shm_object_storage")
        size = kib << 10
        largest, room = size + self.ROOM, items * (size + self.ROOM)
        ring = module.SingleWriterShmRingBuffer(room, None, create=True)
        attached = module.SingleWriterShmRingBuffer(room, ring.shared_memory.name, create=False)
        self.writer = module.SingleWriterShmObjectStorage(largest, 1, ring, Bytes)
        lock = nullcontext()  # a single process needs no lock
        self.reader = module.SingleWriterShmObjectStorage(largest, 1, attached, Bytes, lock)
        self.call, self.data, self.times = call, random.Random(kib).randbytes(size), times  # noqa: S311  # as ours

    def turn(self, number: int) -> Turn:
        """Put and get `times` items."""
        signed, seconds, read = hasattr(self.writer, "get_signature"), 0.0, 0
        for place in range(self.times):
            key = f"{number} {place}"
            started = time.process_time()
            address, identity = self.writer.put(key, self.data)
            more = (self.writer.get_signature(key), key) if signed else ()
            between = time.process_time()
            read += len(self.reader.get(address, identity, *more))
            ended = time.process_time()
            seconds += between - started if self.call == "put" else ended - between
        return Turn(seconds, self.times, [read])


WORKS: Mapping[str, Callable[..., Any]] = {
    "decode": Decode,
    "step": Step,
    "pictures": Pictures,
    "arrivals": Arrivals,
    "burst": Burst,
    "cycle": Cycle,
    "hashes": Hashes,
    "encoder": Encoder,
    "lru": Lru,
    "shared": Shared,
}
"""The works by name."""
