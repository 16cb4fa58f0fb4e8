"""Scripts about `LRUCache`. A value is its own size."""

from __future__ import annotations

from collections.abc import Callable

from cacheproof.releases.results.record import Message
from cacheproof.releases.results.scripts.case import Case, Setting, letter
from cacheproof.releases.results.scripts.writer import Lines, Observation, Writer

MOVED = (0, 20)
"""From this release on, at the latest, the class is in `vllm.utils.cache`; 0.11 has it in `vllm.utils`."""

SNAPSHOT = "list(cache.order), cache.currsize"


def imports(setting: Setting) -> Lines:
    """From where this release has it."""
    module = "vllm.utils.cache" if setting.release >= MOVED else "vllm.utils"
    return [f"from {module} import LRUCache"]


def setup(setting: Setting) -> Lines:
    """The cache."""
    return [f"CAPACITY = {setting.config['capacity']}", "cache = LRUCache(CAPACITY, getsizeof=its_own_size)"]


def lines_of(case: Case, message: Message) -> Lines:
    """The class's own calls; a key is a letter."""
    key = f'"{letter(message["key"])}"' if "key" in message else ""
    match message["op"]:
        case "contains":
            return [f"call(cache.__contains__, {key})"]
        case "lookup":
            return [f"call(cache.__getitem__, {key})"]
        case "put":
            return [f"call(cache.put, {key}, {message['size']})"]
        case "pop":
            return [f"call(cache.pop, {key}, None)"]
        case "clear":
            return ["call(cache.clear)"]
        case "stat":
            return ["call(cache.stat)"]
        case name:
            return [f"call(cache.{name}, {key})"]


def answer(case: Case, message: Message, outcome: Message) -> str | None:
    """What does not return is the one answer that matters."""
    return "does not return" if outcome["code"] == "diverged" else None


def unchanged(case: Case) -> Observation:
    """The keys and what is used are as before the last call."""
    return Observation(
        [
            f"after = {SNAPSHOT}",
            'return before != after, f"keys, and what is used of {CAPACITY}: before {before}, after {after}"',
        ],
        [f"before = {SNAPSHOT}"],
    )


def returns(case: Case) -> Observation:
    """The last call came back."""
    return Observation(['return ANSWERS[-1] == NEVER, f"the last call: {ANSWERS[-1]}; keys: {list(cache.order)}"'])


def needed(case: Case) -> Observation:
    """What went although there was room."""
    kept = {
        letter(key): size for key, size in zip(_integers(case, -2, "order"), _integers(case, -2, "sizes"), strict=True)
    }
    last = case.violation.operations[-1]
    return Observation(
        [
            f'sizes = {kept} | {{"{letter(last["key"])}": {last.get("size", 0)}}}',
            "gone = [key for key in before if key not in cache]",
            "would_be_used = sum(sizes.values())",
            'what = f"{gone} went, where all together are {would_be_used} of {CAPACITY}"',
            "return bool(gone) and would_be_used <= CAPACITY, what",
        ],
        ["before = list(cache.order)"],
    )


def _integers(case: Case, place: int, name: str) -> tuple[int, ...]:
    found = case.observed(place)[name]
    assert isinstance(found, tuple)
    return found


OBSERVATIONS: dict[str, Callable[[Case], Observation]] = {
    "LRU-5": unchanged,
    "LRU-6": returns,
    "LRU-7/needed": needed,
    "LRU-8": unchanged,
}


def state(case: Case) -> tuple[str, object]:
    """The order, what each takes, and what is used."""
    return "shown(cache)", {
        "order": [letter(key) for key in _integers(case, -1, "order")],
        "sizes": list(_integers(case, -1, "sizes")),
        "used": case.shown["used"],
    }


WRITER = Writer(
    subject="LRUCache, of vllm.utils or vllm.utils.cache",
    imports=imports,
    preludes=lambda setting: ("lru",),
    setup=setup,
    lines=lines_of,
    answer=answer,
    observations=OBSERVATIONS,
    state=state,
)
