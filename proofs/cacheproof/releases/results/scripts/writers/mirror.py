"""Scripts about the mirrored processor cache: a release's sender and receiver caches, and a channel between them."""

from __future__ import annotations

from collections.abc import Callable

from cacheproof.releases.results.record import Message
from cacheproof.releases.results.scripts.case import Case, Setting, letter
from cacheproof.releases.results.scripts.writer import Lines, Observation, Writer

COUNTING_UNTIL = (0, 11)
"""Before this release, at the latest, the caches count entries."""
MOVED, RENAMED = (0, 20), (0, 33)
"""From these on, at the latest, the processor has a module of its own, and the caches a package and new names."""


def early(setting: Setting) -> bool:
    """Whether it is the first mirrored cache."""
    return setting.release < COUNTING_UNTIL


def imports(setting: Setting) -> Lines:
    """From where this release has them."""
    if early(setting):
        return ["from types import SimpleNamespace", "", "import vllm.v1.engine.mm_input_cache as caches"]
    standard = ["from threading import Lock", "from types import SimpleNamespace", "", "import torch"]
    if setting.release >= RENAMED:
        return [
            *standard,
            "import vllm.multimodal.cache.lru as caches",
            "import vllm.multimodal.inputs as inputs",
            "from vllm.multimodal.cache.lru import LruKeyReplicatedReceiverCache as ReceiverCache",
            "from vllm.multimodal.cache.lru import LruKeyReplicatedSenderCache as SenderCache",
            "from vllm.multimodal.processing.processor import BaseMultiModalProcessor",
            "from vllm.renderers.base import BaseRenderer",
        ]
    processor = "vllm.multimodal.processing.processor" if setting.release >= MOVED else "vllm.multimodal.processing"
    return [
        *standard,
        "import vllm.multimodal.cache as caches",
        "import vllm.multimodal.inputs as inputs",
        "from vllm.multimodal.cache import MultiModalProcessorSenderCache as SenderCache",
        "from vllm.multimodal.cache import MultiModalReceiverCache as ReceiverCache",
        f"from {processor} import BaseMultiModalProcessor",
    ]


def key(number: int) -> str:
    """Hashes are named by what they are of, where they are of one thing."""
    return f"#{number}"


def setup(setting: Setting) -> Lines:
    """Senders, the receiver, and the items."""
    config = setting.config
    capacity, senders = config["capacity"], config["senders"]
    what = "items" if early(setting) else "bytes"
    lines = [f"CAPACITY = {capacity}  # {what}, at P0 and at P1"]
    lines += [f"p0_{number} = Frontend(CAPACITY)" for number in range(senders)]
    lines += ["p1 = Engine(CAPACITY)"]
    identities, modalities = config.get("identities") or (), config.get("modalities") or ()
    for number, size in enumerate(config["sizes"]):
        identity = identities[number] if identities else number
        modality = modalities[number] if modalities else 0
        named = f'"{letter(number)}", "{key(identity)}", "modality {modality}", {size}'
        lines.append(f"{letter(number)} = Item({named})")
    return lines


def lines_of(case: Case, message: Message) -> Lines:
    """A call, by the functions of the prelude."""
    p0 = f"p0_{message['sender']}" if "sender" in message else ""
    items = f"[{', '.join(letter(one) for one in message['items'])}]" if "items" in message else ""
    which = message.get("which")
    match message["op"]:
        case "render" | "submit" | "submit_rejected":
            return [f"call({message['op']}, {p0}, {items})"]
        case "send":
            return [f"call(send, {p0}, {which})"]
        case "retry" | "receive":
            return [f"call({message['op']}, {p0})"]
        case "deliver":
            return [f"call(deliver, {p0}, p1)"]
        case "reject":
            return ["# the front end rejects the request", f"call(lose, {p0}.rendered, {which})"]
        case "abort":
            return ["# the client aborts a request that is on its way: these caches hear nothing of it"]
        case "reorder":
            return [f"call(swap, {p0}.messages, {which})"]
        case "reorder_answers":
            return [f"call(swap, {p0}.answers, {which})"]
        case "drop":
            return [f"call(lose, {p0}.messages, {which})"]
        case "drop_answer":
            return [f"call(lose, {p0}.answers, {which})"]
        case "reset_sender":
            return [f"call({p0}.clear)"]
        case "reset_receiver":
            return ["call(p1.clear)"]
        case _:
            every = ", ".join(f"p0_{number}" for number in range(case.config["senders"]))
            return [
                "# the engine is started anew: what was on its way is lost",
                "p1 = Engine(CAPACITY)",
                f"for p0 in [{every}]:",
                "    p0.messages.clear()",
                "    p0.answers.clear()",
            ]


def answer(case: Case, message: Message, outcome: Message) -> str | None:
    """Only what a front end sends is compared: other answers are told in words of the script."""
    if message["op"] not in ("render", "submit") or outcome["code"] != "done":
        return None
    sent = [letter(one) for one, flag in zip(message["items"], outcome.get("values") or (), strict=True) if flag]
    return f"data is sent of {sent}"


def everyone(case: Case) -> str:
    """All front ends, as a list."""
    return f"[{', '.join(f'p0_{number}' for number in range(case.config['senders']))}]"


def orders(case: Case) -> Observation:
    """P0 and P1, where nothing is on its way."""
    return Observation(
        [
            f"left = shown({everyone(case)}, p1)",
            'violated = any(order != left["P1"] for order in left["P0"])',
            'return violated, f"from the oldest to the most recent: {left}"',
        ]
    )


def unreported(case: Case) -> Observation:
    """The last call failed, and not by telling of a miss."""
    return Observation(
        [
            'violated = "Error" in ANSWERS[-1] or ANSWERS[-1] == NEVER',
            f'return violated, f"{{ANSWERS[-1]}}; {{shown({everyone(case)}, p1)}}"',
        ]
    )


def other_content(case: Case) -> Observation:
    """What the engine gets, and what placeholders were computed for."""
    return Observation(
        [
            'placeholders, _, data = ANSWERS[-1].removeprefix("placeholders are for ").partition(", data is of ")',
            "return bool(data) and placeholders != data, ANSWERS[-1]",
        ]
    )


OBSERVATIONS: dict[str, Callable[[Case], Observation]] = {
    "MIR-1": orders,
    "MIR-1/again": orders,
    "MIR-1/mended": orders,
    "MIR-2": unreported,
    "MIR-5": orders,
    "MIR-6": other_content,
    "MIR-7": unreported,
    "MIR-9": unreported,
}


def state(case: Case) -> tuple[str, object]:
    """Both orders, by the hashes, and how many messages are on their way."""
    known = case.shown
    senders = range(case.config["senders"])

    def order(name: str) -> list[str]:
        found = known[name]
        assert isinstance(found, tuple)
        return [key(one) for one in found]

    p1 = order("p1_order_0")
    return f"shown({everyone(case)}, p1)", {
        "P0": [order(f"p0_order_{one}") for one in senders],
        "P1": p1,
        "on the way": [known[f"messages_{one}"] for one in senders],
    }


WRITER = Writer(
    subject="the caches of front end and engine: vllm.multimodal.cache, and vllm.v1.engine.mm_input_cache before",
    imports=imports,
    preludes=lambda setting: ("mirror_early_sides" if early(setting) else "mirror_sides", "mirror"),
    setup=setup,
    lines=lines_of,
    answer=answer,
    observations=OBSERVATIONS,
    state=state,
)
