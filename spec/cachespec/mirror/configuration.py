"""What a scope of the mirror fixes: keys, sizes, senders, the network's width, and which faults there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Annotated, NamedTuple

from cachespec.kernel import Name

Key = Annotated[int, Name("key")]
"""The identity of a content; requests consist of contents."""

SenderName = Annotated[int, Name("sender")]
"""One frontend process, P0."""

UNLIMITED = -1


class Config(NamedTuple):
    """One scope of the mirror. Switches are 0 or 1."""

    capacity: int
    """Bytes of each sender's cache, and of its partition at P1 (of all of P1 in the eras)."""
    sizes: tuple[int, ...]
    """Bytes of each content."""
    items: int = 1
    """The most items of a request, in prompt order; a content may occur twice."""
    modalities: tuple[int, ...] = ()
    """The modality of each content; empty where all are of one."""
    identities: tuple[int, ...] = ()
    """The key under which the eras cache each content (a client may name two contents alike); empty: its own."""
    senders: int = 1
    """Frontend processes."""
    partitions: int = 0
    """How many partitions P1 has room for; 0: one for each sender."""
    rendered: int = 0
    """Requests of one sender that are rendered and not yet sent; 0: rendering and sending are one step."""
    processing: int = 0
    """Requests of one sender between their look-up and P0's update; 0: look-up and update are one step."""
    fan_out: int = 1
    """Messages of a request with several outputs: it is rendered once and sent this often. 1: no such request."""
    embeddings: int = 0
    """1: a client may send a request with the embeddings of its items."""
    outstanding: int = 2
    """Requests that are sent and not yet answered, of all senders together."""
    channel: int = 2
    """Messages and answers in flight, of all senders together."""
    reorder: int = 0
    """1: a message or an answer may overtake the one before it."""
    drop: int = 0
    """1: a message or an answer may be lost."""
    reject: int = 0
    """1: a rendered request may be refused by a later check."""
    abort: int = 0
    """1: a client may go away while its request is in flight."""
    cancel: int = 0
    """1: a client may go away before its frontend has sent all messages of its request."""
    duplicate: int = 0
    """1: a message or an answer may arrive twice."""
    reset: int = 0
    """1: P0 or P1 may clear its cache on its own."""
    restart: int = 0
    """1: P1 may die and start again."""
    impatient: int = 0
    """1: a sender may stop waiting for an answer that is still on its way."""
    faults: int = UNLIMITED
    """The maximum number of faults of a run; -1: any number."""


def malformed(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    if config.capacity <= 0:
        return f"capacity must be positive, not {config.capacity}"
    if not config.sizes or min(config.sizes) < 0:
        return "sizes must be given, none of them negative"
    for name, given in (("modalities", config.modalities), ("identities", config.identities)):
        if given and len(given) != len(config.sizes):
            return f"{name} has {len(given)} entries for {len(config.sizes)} contents"
        if given and min(given) < 0:
            return f"{name} must not be negative"
    counts = {"rendered": config.rendered, "processing": config.processing, "partitions": config.partitions}
    negative = [name for name, count in counts.items() if count < 0]
    if negative:
        return f"{', '.join(negative)} must not be negative"
    if config.faults < UNLIMITED:
        return f"faults must be -1, for any number, or more, not {config.faults}"
    if config.fan_out > max(config.outstanding, 1):
        return f"fan_out is {config.fan_out}, more than the {config.outstanding} requests that may be outstanding"
    widths = {"items": config.items, "senders": config.senders, "fan_out": config.fan_out}
    widths |= {"outstanding": config.outstanding, "channel": config.channel}
    narrow = [name for name, width in widths.items() if width < 1]
    return f"{', '.join(narrow)} must be at least 1" if narrow else None


def partitions(config: Config) -> int:
    """How many partitions P1 can grant at the same time."""
    return config.partitions if config.partitions > 0 else config.senders


def requests(config: Config) -> Iterable[tuple[int, ...]]:
    """Every request of the scope: all sequences of contents up to the stated length."""
    for length in range(1, config.items + 1):
        yield from product(range(len(config.sizes)), repeat=length)


def identity(config: Config, content: int) -> int:
    """The key under which an era caches this content."""
    return config.identities[content] if config.identities else content


def modality(config: Config, content: int) -> int:
    """The modality of this content."""
    return config.modalities[content] if config.modalities else 0


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """Senders, and contents of one size and modality that nobody else shares a key with."""
    classes: dict[tuple[int, ...], list[int]] = {}
    for content, size in enumerate(config.sizes):
        shared = content if config.identities else UNLIMITED
        classes.setdefault((size, modality(config, content), shared), []).append(content)
    return {
        "key": tuple(tuple(members) for members in classes.values()),
        "sender": (tuple(range(config.senders)),),
    }
