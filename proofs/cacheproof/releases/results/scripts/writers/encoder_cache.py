"""Scripts about `EncoderCacheManager`, whose calls are few and alike in all releases."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cacheproof.releases.results.record import Message
from cacheproof.releases.results.scripts.case import Case, Setting, letter
from cacheproof.releases.results.scripts.writer import Lines, Observation, Writer

SHARED_FROM = (0, 11)
"""From this release on, at the latest, entries are shared by content, and a check is told what else is wanted."""
BLOCKS = 1
RELEASES_WITHOUT_BLOCKS = (0, 20)
COUNTING = "ED"


def class_of(setting: Setting) -> str:
    """Which manager it is."""
    return "EncoderDecoderCacheManager" if setting.variant == COUNTING else "EncoderCacheManager"


def shares(setting: Setting) -> bool:
    """Whether entries are shared by content."""
    return setting.release >= SHARED_FROM


def setup(setting: Setting) -> Lines:
    """The manager and the requests."""
    config, claims = setting.config, setting.config.get("claims") or ()
    lines = [f"CAPACITY = {config['capacity']}", f"manager = {class_of(setting)}(cache_size=CAPACITY)"]
    for number, contents in enumerate(config["requests"]):
        sizes = claims[number] if claims else [config["sizes"][one] for one in contents]
        named = ", ".join(f'"{letter(one)}"' for one in contents)
        lines.append(f'r{number} = Request("r{number}", [{named}], {list(sizes)})')
    return lines


def lines_of(case: Case, message: Message) -> Lines:
    """The release's own call."""
    request = f"r{message['request']}" if "request" in message else ""
    place = f"{request}, {message['input']}" if "input" in message else request
    match message["op"]:
        case "check_and_update":
            name = "check_and_update_cache" if shares(case) else "has_cache"
            return [f"call(manager.{name}, {place})"]
        case "can_allocate":
            more = f", {message['budget']}, {message['pending']}" if shares(case) else ""
            return [f"call(manager.can_allocate, {place}{more})"]
        case "allocate":
            return [f"call(manager.allocate, {place})"]
        case "free_input":
            return [f"call(manager.free_encoder_input, {place})"]
        case "free_request":
            return [f"call(manager.free, {request})"]
        case "cached_inputs":
            return [f"call(manager.get_cached_input_ids, {request})"]
        case "report":
            return [f"call(manager.{'get_freed_mm_hashes' if shares(case) else 'get_freed_ids'})"]
        case "abandon":
            if message["cause"] == BLOCKS and case.release >= RELEASES_WITHOUT_BLOCKS:
                return [f"call(manager.free, {request})"]
            return [f"# {request} is not scheduled after all, and this release's scheduler tells the manager nothing"]
        case _:
            return ["call(manager.reset)"]


ANSWERS = {
    ("check_and_update", "hit"): "True",
    ("check_and_update", "miss"): "False",
    ("can_allocate", "done"): "True",
    ("can_allocate", "refused"): "False",
}


def answer(case: Case, message: Message, outcome: Message) -> str | None:
    """As `describe` shows it."""
    if outcome["code"] in ("failed", "diverged") or message["op"] in ("report", "cached_inputs"):
        return None
    return ANSWERS.get((message["op"], outcome["code"]), "None")


def sizes_of(case: Case) -> dict[str, int]:
    """By content."""
    return {letter(number): size for number, size in enumerate(case.config["sizes"])}


def resident(case: Case) -> str:
    """An expression for the sizes of what is resident."""
    if shares(case):
        return f"[{sizes_of(case)}[content] for content in manager.cached]"
    requests = ", ".join(f'"r{number}": r{number}' for number in range(len(case.config["requests"])))
    every = "for name, inputs in manager.cached.items() for i in inputs"
    return f"[{{{requests}}}[name].sizes[i] {every}]"


def held(case: Case, place: int) -> dict[str, list[str]]:
    """What callers were granted and have not released, before or after a call: requests and their contents."""
    found: dict[str, list[str]] = {}
    for request, position in sorted(case.views[place].held):
        found.setdefault(f"r{request}", []).append(letter(case.config["requests"][request][position]))
    return found


def counts(case: Case) -> Observation:
    """Both counts between nothing and the capacity."""
    return Observation(
        [
            "free = manager.num_free_slots",
            'freeable = getattr(manager, "num_freeable_slots", free)',
            "violated = not 0 <= free <= freeable <= CAPACITY",
            'return violated, f"{free} slots are free and {freeable} can be freed, of a capacity of {CAPACITY}"',
        ]
    )


def conservation(case: Case) -> Observation:
    """Free and resident together."""
    return Observation(
        [
            "free = manager.num_free_slots",
            f"sizes = {resident(case)}",
            'what = f"{free} slots are free and the entries have {sum(sizes)}, of a capacity of {CAPACITY}"',
            "return free + sum(sizes) != CAPACITY, what",
        ]
    )


SNAPSHOT = 'str((manager.num_free_slots, manager.cached, getattr(manager, "freeable", None), manager.freed))'


def nothing_happens(case: Case) -> Observation:
    """A release of what is not held."""
    return Observation(
        [
            f"after = {SNAPSHOT}",
            'return before != after, f"nothing was held, and the manager went from {before} to {after}"',
        ],
        [f"before = {SNAPSHOT}"],
    )


def references(case: Case) -> Observation:
    """What is held, against what the manager has as referring."""
    wanted: dict[str, list[str]] = {}
    for request, contents in held(case, -1).items():
        for one in contents:
            wanted.setdefault(one, []).append(request)
    wanted = {one: sorted(set(requests)) for one, requests in sorted(wanted.items())}
    return Observation(
        [
            "# what was granted above and not given back, by content",
            f"held = {wanted}",
            "listed = {content: sorted(requests) for content, requests in sorted(manager.cached.items()) if requests}",
            'return listed != held, f"held by {held}, and the manager has {listed} as the holders"',
        ]
    )


def evicted(case: Case) -> Observation:
    """What is held before and after the last call, and gone."""
    before, after = held(case, -2), held(case, -1)
    still = {name: [one for one in contents if one in after.get(name, [])] for name, contents in before.items()}
    return Observation(
        [
            "# what was granted above and not given back, by request",
            f"held = { ({name: contents for name, contents in still.items() if contents}) }",
            "gone = {name: [c for c in contents if c not in manager.cached] for name, contents in held.items()}",
            'return any(gone.values()), f"held by {held}, and resident is {sorted(manager.cached)}"',
        ]
    )


def order(case: Case) -> Observation:
    """Entries to which nobody refers, against those that can be evicted."""
    return Observation(
        [
            "unheld = sorted(content for content, requests in manager.cached.items() if not requests)",
            'what = f"nobody refers to {unheld}, and evicted can be {sorted(manager.freeable)}"',
            "return unheld != sorted(manager.freeable), what",
        ]
    )


def claims(case: Case) -> Observation | None:
    """Requests that refer to one entry and claim several sizes."""
    if case.violation.operations[-1]["op"] != "check_and_update":
        return None
    requests = ", ".join(f"r{number}" for number in range(len(case.config["requests"])))
    return Observation(
        [
            f"requests = [{requests}]",
            "claims = {}",
            "for request in requests:",
            "    for item, size in zip(request.mm_features, request.sizes):",
            "        if request.request_id in manager.cached.get(item.identifier, ()):",
            "            claims.setdefault(item.identifier, {})[request.request_id] = size",
            "violated = any(len(set(sizes.values())) > 1 for sizes in claims.values())",
            'return violated, f"one entry, and its holders claim {claims}"',
        ]
    )


def dropped(case: Case) -> Observation:
    """The report of the last call, and what is resident."""
    there = (
        "manager.cached" if shares(case) else "[(name, i) for name, inputs in manager.cached.items() for i in inputs]"
    )
    return Observation(
        [
            f"there = list({there})",
            "violated = any(one in there for one in reported)",
            'return violated, f"reported as dropped: {list(reported)}; resident: {there}"',
        ],
    )


def once(case: Case) -> Observation | None:
    """A report with an entry twice; where something else is wrong with the list, all that is left is compared."""
    values = case.violation.outcomes[-1].get("values") or ()
    if case.violation.operations[-1]["op"] != "report" or not shares(case) or len(values) == len(set(values)):
        return None
    return Observation(
        [
            "reported = list(reported)",
            'return len(reported) != len(set(reported)), f"reported as dropped: {reported}"',
        ]
    )


def abandoned(case: Case) -> Observation:
    """Who is listed as a holder though its admission was given up."""
    name = f"r{case.violation.operations[-1]['request']}"
    return Observation(
        [
            f'listed = [content for content, requests in manager.cached.items() if "{name}" in requests]',
            f'return bool(listed), f"{name} was not scheduled, and still holds {{listed}}"',
        ]
    )


def promises(case: Case) -> Observation | None:
    """What was granted in the pass, where the last call is what grants too much."""
    if case.violation.operations[-1]["op"] != "can_allocate":
        return None
    granted = case.views[-1].promised_embeds
    return Observation(
        [
            "free = manager.num_free_slots",
            f"granted = {granted}  # the embeddings for which `can_allocate` said that there is room, in this pass",
            'return ANSWERS[-1] == "True" and granted > free, f"granted were {granted} slots, and {free} are free"',
        ]
    )


OBSERVATIONS: dict[str, Callable[[Case], Observation | None]] = {
    "ENC-1": counts,
    "ENC-2": conservation,
    "ENC-3": order,
    "ENC-4": claims,
    "ENC-5": references,
    "ENC-6": evicted,
    "ENC-7": dropped,
    "ENC-7/once": once,
    "ENC-9": promises,
    "ENC-10": nothing_happens,
    "ENC-11": abandoned,
}


def with_report(case: Case, message: Message) -> Lines:
    """A report is looked at."""
    lines = lines_of(case, message)
    return [f"reported = {lines[0]}", *lines[1:]] if message["op"] == "report" else lines


def state(case: Case) -> tuple[str, object]:
    """All that the manager has, as far as it has it."""
    known = {name: list(value) if isinstance(value, tuple) else [value] for name, value in case.shown.items()}
    (free,), freed = known["free"], known["freed"]
    if case.variant == COUNTING:
        return "shown(manager)", {"free": free, "freed": [letter(one) for one in freed]}
    if not shares(case):
        return "shown(manager)", {"free": free, "entries": inputs(known["cached"]), "freed": inputs(freed)}
    holders: dict[str, list[str]] = {letter(one): [] for one in known["cached"]}
    for one, request in zip(known["holders"][::2], known["holders"][1::2], strict=True):
        holders[letter(one)].append(f"r{request}")
    return "shown(manager)", {
        "free": free,
        "freeable": known["freeable"][0],
        "holders": holders,
        "in the order of eviction": [
            (letter(one), size) for one, size in zip(known["idle"], known["idle_sizes"], strict=True)
        ],
        "freed": [letter(one) for one in freed],
    }


def inputs(flat: Sequence[int]) -> list[tuple[str, int]]:
    """Entries of a release that has them by request and input."""
    return [(f"r{request}", place) for request, place in zip(flat[::2], flat[1::2], strict=True)]


def unless_counting(name: str, seen: Callable[[Case], Observation | None]) -> Callable[[Case], Observation | None]:
    """The manager of encoder-decoder models has none of the containers: only its counts can be looked at."""
    return lambda case: None if case.variant == COUNTING and name != "ENC-1" else seen(case)


WRITER = Writer(
    subject="vllm.v1.core.encoder_cache_manager",
    imports=lambda setting: [f"from vllm.v1.core.encoder_cache_manager import {class_of(setting)}"],
    preludes=lambda setting: ("encoder_cache",),
    setup=setup,
    lines=with_report,
    answer=answer,
    observations={name: unless_counting(name, seen) for name, seen in OBSERVATIONS.items()},
    state=state,
)
