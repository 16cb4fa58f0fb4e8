"""Scripts about `SingleWriterShmObjectStorage`: a writer, its readers, and handles that go from one to the others."""

from __future__ import annotations

from collections.abc import Callable

from cacheproof.releases.results.record import Message
from cacheproof.releases.results.scripts.case import Case, Setting, letter
from cacheproof.releases.results.scripts.shared_memory import MODULE, RELEASED_HEADER, RELEASED_IDS
from cacheproof.releases.results.scripts.writer import Lines, NotWrittenError, Observation, Writer

WITH_TOUCH, WITH_SIGNATURES = (0, 12), (0, 21)
SAID = {
    "send": "request {request} is sent",
    "reject": "request {request} is rejected by the front end",
    "abort": "request {request} is aborted",
    "end": "the front end hears that request {request} is over",
    "preempt": "request {request} is preempted",
    "finish": "request {request} is finished",
    "resume": "request {request} is resumed",
}
"""What the store is told nothing of."""


def touching(setting: Setting) -> bool:
    """Whether workers touch before they read."""
    return setting.release >= WITH_TOUCH and setting.config.get("touches") == 1


def setup(setting: Setting) -> Lines:
    """The writer and its readers, which have its memory attached."""
    config = setting.config
    if config["header"] != RELEASED_HEADER:
        raise NotWrittenError(f"the configuration has chunks with a header of {config['header']} bytes, and not 8")
    sizes = {letter(content): size for content, size in enumerate(config["payloads"])}
    ids, named = config["modulus"], f"({config['largest']}, {config['readers']}, "
    return [
        f"Bytes.sizes = {sizes}",
        f"CAPACITY = {config['capacity']}",
        "ring = SingleWriterShmRingBuffer(CAPACITY, None, create=True)",
        *([f"ring.ID_MAX = {ids}  # so that ids come round soon"] if ids != RELEASED_IDS else []),
        f"writer = SingleWriterShmObjectStorage{named}ring, Bytes)",
        "readers = []",
        f"for _ in range({config['readers']}):",
        "    attached = SingleWriterShmRingBuffer(CAPACITY, ring.shared_memory.name, create=False)",
        f"    readers.append(SingleWriterShmObjectStorage{named}attached, Bytes, nullcontext()))",
        "    INBOXES.append([])",
    ]


def lines_of(case: Case, message: Message) -> Lines:
    """A call, by the functions of the prelude."""
    request = message.get("request")
    keys = [letter(content) for content in case.config["requests"][request]] if request is not None else []
    key = f'"{keys[message["position"]]}"' if "position" in message else ""
    match message["op"]:
        case "render":
            return [f"call(is_cached, writer, {request}, {keys})"]
        case "touch":
            return [f"call(writer.touch, {key})"]
        case "get_cached":
            return [f"call(get_cached, writer, {request}, {key})"]
        case "put":
            return [f"call(put, writer, {request}, {key})"]
        case "release":
            return ["call(writer.release_touches)"]
        case "forge":
            return [f'call(forge, writer, {request}, "{keys[0]}", "{letter(message["content"])}")']
        case "schedule":
            return [f"call(schedule, {request}, {touching(case)})"]
        case "resume" if case.release >= WITH_SIGNATURES:
            return [
                "# a resumed request is sent to the workers as a new one",
                f"call(schedule, {request}, {touching(case)})",
            ]
        case "reader_touch" | "read":
            return [f"call(next_delivery, {message['reader']}, readers)"]
        case "free_unused":
            return ["call(free_unused, writer)"]
        case "clear":
            return ["call(writer.clear)"]
        case name:
            return [f"# {SAID[name].format(request=request)}, of which the store hears nothing"]


def answer(case: Case, message: Message, outcome: Message) -> str | None:
    """As the functions of the prelude return it; of what fails, nothing is compared."""
    values = list(outcome.get("values") or ())
    match message["op"], outcome["code"]:
        case "render", _:
            return str([bool(value) for value in values])
        case (("put" | "get_cached"), ("done" | "hit")):
            return f"id {values[1]} at address {values[0]}"
        case "put", "refused":
            return "refused"
        case "put", "too_large":
            return "too large"
        case "read", "hit":
            return letter(values[0]) if values else "bytes of no one item"
        case "free_unused", "done":
            return f"freed {sorted(values)}"
        case _:
            return None


def payload(case: Case) -> Observation:
    """What the last read returned, and for which item the handle was given."""
    return Observation(
        [
            'violated = ANSWERS[-1] != wanted and "Error" not in ANSWERS[-1]',
            'return violated, f"the handle was given for {wanted}, and read was {ANSWERS[-1]}"',
        ],
        [f"wanted = INBOXES[{case.violation.operations[-1]['reader']}][0][0][0]"],
    )


def acknowledgements(case: Case) -> Observation:
    """More than each reader may have given for what was issued."""
    return Observation(
        [
            'issued, said = shown(writer)["issued by id"], acknowledged(writer)',
            "violated = any(said[identity] > len(readers) * issued[identity] for identity in issued)",
            'return violated, f"handles issued by id: {issued}; acknowledged: {said}; readers: {len(readers)}"',
        ]
    )


def unsettled(case: Case) -> Observation:
    """A chunk with which nobody has anything to do, and that will not be acknowledged as often as it was issued."""
    readers = case.config["readers"]
    quiet = (chunk for chunk in case.views[-1].chunks if chunk.quiet)
    identity = next(chunk.identity for chunk in quiet if chunk.acknowledged != readers * chunk.issued)
    return Observation(
        [
            f"identity = {identity}  # nobody was issued or sent a handle of it and has not acknowledged it",
            'issued, said = shown(writer)["issued by id"][identity], acknowledged(writer)[identity]',
            "sent = [handle for inbox in INBOXES for handle, _ in inbox if handle[2] == identity]",
            "violated = not sent and said != len(readers) * issued",
            'what = f"nobody has anything to do with chunk {identity} any more"',
            'return violated, f"{what}; issued: {issued}, acknowledged: {said}, readers: {len(readers)}"',
        ]
    )


def fails(case: Case) -> Observation:
    """The last call raised."""
    return Observation(['return "Error" in ANSWERS[-1], f"the front end was answered: {ANSWERS[-1]}"'])


OBSERVATIONS: dict[str, Callable[[Case], Observation]] = {
    "SHM-10": payload,
    "SHM-3": acknowledgements,
    "SHM-3/settled": unsettled,
    "X-3/store": unsettled,
    "SHM-7/walk": fails,
}


def state(case: Case) -> tuple[str, object]:
    """The writer's indices and numbers."""
    known = {name: value if isinstance(value, tuple) else (value,) for name, value in case.shown.items()}
    acknowledged = zip(known["live"], known["acknowledged"], strict=True)
    return "shown(writer)", {
        "ids by item": {letter(one): identity for one, identity in zip(known["contents"], known["ids"], strict=True)},
        "addresses by id": dict(sorted(zip(known["live"], known["places"], strict=True))),
        "issued by id": dict(sorted(zip(known["live"], known["issued"], strict=True))),
        "acknowledged by id": {one: count for one, count in sorted(acknowledged) if count >= 0},
        "ids from": case.shown["id_start"],
        "ids to": case.shown["id_end"],
        "start": case.shown["start"],
        "end": case.shown["end"],
    }


WRITER = Writer(
    subject=f"SingleWriterShmObjectStorage, of {MODULE}",
    imports=lambda setting: [
        "from contextlib import nullcontext",
        "",
        f"from {MODULE} import (",
        "    SingleWriterShmObjectStorage,",
        "    SingleWriterShmRingBuffer,",
        ")",
    ],
    preludes=lambda setting: ("object_store",),
    setup=setup,
    lines=lines_of,
    answer=answer,
    observations=OBSERVATIONS,
    state=state,
)
