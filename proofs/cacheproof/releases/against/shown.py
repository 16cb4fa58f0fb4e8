"""What a side shows, put over a view of the specification, and a look at what a property reads of it.

A property that reads nothing but what the side shows can be asked of the side itself. One that reads more is not asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from cachespec.kernel import Observation
from cachespec.scheduler.state import Scheduled

Shown = Mapping[str, Observation]
Overlay = Callable[[Any, Mapping[str, Any]], Any]


def over(component: str, view: Any, shown: Shown) -> tuple[Any, frozenset[str]] | None:
    """The view with what is shown in place of its own, and the fields that are known so; None without an overlay."""
    known = OVERLAYS.get(component)
    if known is None:
        return None
    overlay, fields = known
    return overlay(view, shown), fields


EQUAL = "="
"""A comparison of whole views: if it fails, something that is shown differs, as all the rest is alike."""


class Watched:
    """A view that notes which of its fields are read, by path: `kv.tables`. Its use as a whole is noted as `kv.*`.

    A comparison is noted as `kv=`, and as `EQUAL` if the whole view is compared.
    """

    def __init__(self, value: Any, reads: set[str], path: str = "") -> None:
        self._value, self._reads, self._path = value, reads, path

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}.{name}" if self._path else name
        value = getattr(self._value, name)
        if hasattr(value, "_fields"):
            return Watched(value, self._reads, path)
        if isinstance(value, tuple) and value and all(hasattr(one, "_fields") for one in value):
            return tuple(Watched(one, self._reads, path) for one in value)
        self._reads.add(path)
        return value

    def __iter__(self) -> Iterator[Any]:
        return iter(self._whole())

    def __getitem__(self, place: Any) -> Any:
        return self._whole()[place]

    def __eq__(self, other: object) -> bool:
        self._reads.add(f"{self._path}{EQUAL}")
        return bool(self._value == (other._value if isinstance(other, Watched) else other))

    def __hash__(self) -> int:
        return hash(self._whole())

    def _whole(self) -> Any:
        self._reads.add(f"{self._path}.*")
        return self._value


def _pairs(flat: Sequence[int], size: int = 2) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(flat[place : place + size]) for place in range(0, len(flat), size))


def _lru(view: Any, shown: Mapping[str, Any]) -> Any:
    """A key without bytes that was no entry is none."""
    before, sizes = dict(view.entries), dict(zip(shown["order"], shown["sizes"], strict=True))
    kept = [(key, size) for key, size in sizes.items() if size or key in before]
    entries = sorted(kept, key=lambda one: list(before).index(one[0]) if one[0] in before else len(before))
    return view._replace(entries=tuple(entries), **{name: shown[name] for name in ("order", "used", "hits", "total")})


def _encoder_cache(view: Any, shown: Mapping[str, Any]) -> Any:
    """What callers hold and were promised follows from the calls and their answers, so both sides have it in common.

    If the manager's references are its holders in the view, they are so on this side.
    """
    size = len(view.entries[0][0]) if view.entries else len(shown["cached"]) // max(1, len(shown["sizes"]))
    changed: dict[str, Any] = {name: shown[name] for name in ("free", "freeable") if name in shown}
    if "cached" in shown and "sizes" in shown:
        changed["entries"] = tuple(zip(_pairs(shown["cached"], size or 1), shown["sizes"], strict=True))
    if "holders" in shown:
        changed["holders"] = _pairs(shown["holders"])
        if _counted(view.holders) == view.references:
            changed["references"] = _counted(changed["holders"])
    if "idle" in shown and "idle_sizes" in shown:
        changed["idle"] = tuple(zip(_pairs(shown["idle"], size or 1), shown["idle_sizes"], strict=True))
    if "freed" in shown:
        changed["freed"] = _pairs(shown["freed"], size or 1)
    return view._replace(**changed)


def _counted(holders: Iterable[tuple[int, ...]]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(Counter(content for content, _ in holders).items()))


def _kv_blocks(view: Any, shown: Mapping[str, Any]) -> Any:
    return view._replace(
        free=shown["free"],
        references=_pairs(shown["references"]),
        tables=tuple(_tables(shown["tables"])),
        registered=_pairs(shown["carried"]),
    )


def _tables(flat: Sequence[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    place = 0
    while place < len(flat):
        request, blocks = flat[place], flat[place + 1]
        yield request, tuple(flat[place + 2 : place + 2 + blocks])
        place += 2 + blocks


def _scheduler(view: Any, shown: Mapping[str, Any]) -> Any:
    """Of the plans in flight the newest is shown. If their number is another, nothing is known of them."""
    if shown["plans"] != len(view.plans):
        raise ValueError(f"{shown['plans']} plans instead of {len(view.plans)}")
    worker = view.worker._replace(**{name: _pairs(shown[name]) for name in ("missing_outputs", "missing_slots")})
    plans = view.plans
    if plans:
        encoded = _pairs(shown["encoded"])
        parts = tuple(
            Scheduled(request, start, tokens, 0, 0, tuple(item for owner, item in encoded if owner == request), ())
            for request, start, tokens in _pairs(shown["scheduled"], 3)
        )
        plans = (*plans[:-1], plans[-1]._replace(scheduled=parts, dropped=shown["dropped"]))
    return view._replace(
        waiting=shown["waiting"],
        running=shown["running"],
        computed=_pairs(shown["computed"]),
        produced=_pairs(shown["produced"]),
        encoder=view.encoder._replace(free=shown["encoder_free"]),
        worker=worker,
        plans=plans,
    )


def _ring(view: Any, shown: Mapping[str, Any]) -> Any:
    units = {identity: size for identity, _, size in view.chunks}
    chunks = tuple((one, place, units.get(one, 0)) for one, place in zip(shown["ids"], shown["addresses"], strict=True))
    return view._replace(
        chunks=chunks, **{name: shown[name] for name in ("id_start", "id_end", "start", "end", "memory")}
    )


def _encoder_budget(view: Any, shown: Mapping[str, Any]) -> Any:
    return view._replace(**{name: shown[name] for name in view.shown if name in shown})


def _configuration(view: Any, shown: Mapping[str, Any]) -> Any:
    return view._replace(**shown)


def _mirror(view: Any, shown: Mapping[str, Any]) -> Any:
    """Bytes are those of the entries that either side had."""
    size = {key: bytes_ for link in view.links for key, bytes_ in (*link.sent_order, *link.held_order)}
    links = tuple(
        link._replace(
            sent_order=tuple((key, size.get(key, 0)) for key in shown[f"p0_order_{number}"]),
            held_order=tuple((key, size.get(key, 0)) for key in shown[f"p1_order_{number}"]),
            answers=shown[f"answers_{number}"],
        )
        for number, link in enumerate(view.links)
    )
    return view._replace(links=links)


def _block_hash(view: Any, shown: Mapping[str, Any]) -> Any:
    """Keys are shown as numbers: equal ones are equal. A number that the view has too stands for its key."""
    if len(shown["keys"]) != len(view.blocks):
        return view
    return view._replace(
        blocks=tuple(block._replace(key=number) for block, number in zip(view.blocks, shown["keys"], strict=True))
    )


OVERLAYS: Mapping[str, tuple[Overlay, frozenset[str]]] = {
    "lru": (_lru, frozenset({"entries", "order", "used", "hits", "total"})),
    "encoder_cache": (
        _encoder_cache,
        frozenset(
            {
                *("free", "freeable", "entries", "holders", "references", "idle", "freed", "shown"),
                *("held", "released", "promised", "promised_embeds", "attempted"),
            }
        ),
    ),
    "kv_blocks": (_kv_blocks, frozenset({"free", "references", "tables", "registered", "null"})),
    "scheduler": (
        _scheduler,
        frozenset(
            {
                *("waiting", "running", "computed", "produced", "encoder.free", "worker.missing_outputs"),
                *("worker.missing_slots", "plans.scheduled.request", "plans.scheduled.start", "plans.scheduled.tokens"),
                *("plans.scheduled.encode", "plans.dropped"),
            }
        ),
    ),
    "ring": (_ring, frozenset({"chunks", "id_start", "id_end", "start", "end", "memory"})),
    "encoder_budget": (
        _encoder_budget,
        frozenset({"configured", "settings", "compute", "space", "per_prompt", "per_batch", "shown"}),
    ),
    "configuration": (_configuration, frozenset({"frontend", "engine", "worker", "private", "started", "enabled"})),
    "mirror": (
        _mirror,
        frozenset({"links.sent_order", "links.held_order", "links.capacity", "links.answers", "receiver_capacity"}),
    ),
    "block_hash": (_block_hash, frozenset({"blocks.request", "blocks.place", "blocks.key", "blocks.prefix.*"})),
}
"""Of each component: how what is shown is put over a view, and the fields that are then the side's own."""
