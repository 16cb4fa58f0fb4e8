"""Scripts about `SingleWriterShmRingBuffer`, with what its callers do before and after a call."""

from __future__ import annotations

from collections.abc import Callable

from cacheproof.releases.results.record import Message
from cacheproof.releases.results.scripts.case import Case, Setting
from cacheproof.releases.results.scripts.shared_memory import MODULE, RELEASED_HEADER, RELEASED_IDS
from cacheproof.releases.results.scripts.writer import Lines, Observation, Writer


def value(content: int) -> int:
    """The bytes of a content: they are not zero, and may be taken for a small number."""
    return content + 1


def setup(setting: Setting) -> Lines:
    """The writer's ring, and one that is attached for each reader."""
    config = setting.config
    readers = config["readers"]
    lines = [
        f"ring = SingleWriterShmRingBuffer({config['capacity']}, None, create=True)",
        "name = ring.shared_memory.name",
        f"readers = [SingleWriterShmRingBuffer({config['capacity']}, name, create=False) for _ in range({readers})]",
    ]
    width, ids = config["header"] // 2, config["modulus"]
    if config["header"] != RELEASED_HEADER or ids != RELEASED_IDS:
        lines += [
            "for one in (ring, *readers):",
            f"    one.ID_MAX = {ids}  # so that ids come round soon",
        ]
    if config["header"] != RELEASED_HEADER:
        lines += [
            f"    one.ID_NBYTES = one.SIZE_NBYTES = {width}  # small fields, so that few calls are enough",
            f"    one.MD_SIZE = {2 * width}",
        ]
    return lines


def lines_of(case: Case, message: Message) -> Lines:
    """A call, by the functions of the prelude."""
    match message["op"]:
        case "allocate":
            content = message["content"]
            size, readers = case.config["sizes"][content], case.config["readers"]
            return [f"call(write, ring, {value(content)}, {size}, {readers})"]
        case "read":
            return [
                f"# with a handle that was given for bytes of {value(message['content'])}",
                f"call(read, readers[{message['reader']}], {message['identity']}, {message['place']})",
            ]
        case "free":
            return [f"call(free, ring, {message['want']})"]
        case _:
            return ["call(clear, ring)"]


def answer(case: Case, message: Message, outcome: Message) -> str | None:
    """As the functions of the prelude return it; a stale read and what fails say more than the record does."""
    values = list(outcome.get("values") or ())
    match message["op"], outcome["code"]:
        case "allocate", "done":
            return f"id {values[1]} at address {values[0]}"
        case "allocate", "refused":
            return "refused"
        case "read", "hit":
            return str(values)
        case "free", "done":
            return f"freed {values}"
        case _:
            return None


def payload(case: Case) -> Observation:
    """What the last read returned, and for what its handle was given."""
    content = case.violation.operations[-1]["content"]
    wanted = [value(content)] * case.config["sizes"][content]
    return Observation(
        [
            f"wanted, got = {str(wanted)!r}, ANSWERS[-1]",
            'return got != wanted and "stale" not in got, f"the handle was given for {wanted}, and {got} was read"',
        ]
    )


def served(case: Case) -> Observation:
    """The last read was turned down."""
    return Observation(['return "stale" in ANSWERS[-1], f"a handle that nobody answered yet: {ANSWERS[-1]}"'])


OBSERVATIONS: dict[str, Callable[[Case], Observation]] = {
    "SHM-10": payload,
    "SHM-8/served": served,
}


def state(case: Case) -> tuple[str, object]:
    """The writer's table and numbers."""
    known = case.shown
    names = [known[name] for name in ("ids", "addresses")]
    assert isinstance(names[0], tuple)
    assert isinstance(names[1], tuple)
    return "shown(ring)", {
        "addresses by id": dict(zip(names[0], names[1], strict=True)),
        "ids from": known["id_start"],
        "ids to": known["id_end"],
        "start": known["start"],
        "end": known["end"],
    }


WRITER = Writer(
    subject=f"SingleWriterShmRingBuffer, of {MODULE}",
    imports=lambda setting: ["from collections import Counter", "", f"from {MODULE} import SingleWriterShmRingBuffer"],
    preludes=lambda setting: ("ring",),
    setup=setup,
    lines=lines_of,
    answer=answer,
    observations=OBSERVATIONS,
    state=state,
)
