"""The eras of the engine, each without one fault of a part: the part is mended as on its own, and put back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from cacheproof.catalogue.mends import Change, Mend, never, only
from cacheproof.catalogue.mends import mirror as of_mirror
from cacheproof.catalogue.mends import object_store as of_store
from cacheproof.catalogue.mends import scheduler as of_scheduler
from cacheproof.model.finding import Subject
from cacheproof.model.registry import component_named
from cachespec.engine import Config, State, SubmitRequest, View
from cachespec.engine.configuration import mirror_config, scheduler_config, sender_of, store_config
from cachespec.engine.eras import MIRRORS, STORES, engine_with
from cachespec.mirror.faults import ResetReceiver

ERAS = tuple(MIRRORS)


def engine_of(tag: str, title: str, **mended: Any) -> Any:
    """The released engine of this era, with some of its parts mended."""
    parts: dict[str, Any] = {
        "mirror": component_named("mirror").variants[MIRRORS[tag]],
        "store": component_named("object_store").variants[STORES[tag]],
        "scheduler": component_named("scheduler").variants[tag],
    }
    return engine_with(**{**parts, **mended}, title=title)


def with_scheduler(mended: Change, subject: Subject) -> Subject:
    """The engine whose scheduler has the mend."""
    component, tag = component_named("scheduler"), subject.variant.tag
    inside = mended(Subject(component, component.variants[tag], scheduler_config(subject.config)))
    settings = {**inside.config._asdict(), "resets": subject.config.resets}
    whole = engine_of(tag, subject.variant.title, scheduler=inside.variant)
    return replace(subject, variant=whole, config=subject.config._replace(**settings))


def with_mirror(mended: Change, subject: Subject) -> Subject:
    """The engine whose mirror has the mend."""
    component, tag = component_named("mirror"), subject.variant.tag
    inside = mended(Subject(component, component.variants[MIRRORS[tag]], mirror_config(subject.config)))
    whole = engine_of(tag, subject.variant.title, mirror=inside.variant)
    return replace(subject, variant=whole, config=subject.config._replace(sizes=inside.config.sizes))


def with_store(mended: Change, subject: Subject) -> Subject:
    """The engine whose object store has the mend."""
    component, tag = component_named("object_store"), subject.variant.tag
    inside = mended(Subject(component, component.variants[STORES[tag]], store_config(subject.config)))
    return replace(subject, variant=engine_of(tag, subject.variant.title, store=inside.variant))


def only_frontend(name: int) -> Change:
    """C-MIR-13: this frontend has P1's cache for itself; requests of the others, and their mirrors, are left out."""

    def change(subject: Subject) -> Subject:
        config, variant = subject.config, subject.variant

        def view(config: Config, state: State) -> View:
            seen: View = variant.view(config, state)
            return seen._replace(mirror=of_mirror.seen_by(name, seen.mirror))

        own = replace(subject, variant=replace(variant, view=view))
        return only(lambda op: not isinstance(op, SubmitRequest) or sender_of(config, op.request) == name)(own)

    return change


def lifted(
    mends: tuple[Mend, ...], era_of: Callable[[str], str], change: Callable[[Change, Subject], Subject]
) -> tuple[Mend, ...]:
    """The mends of a part, for the eras of the engine that have the part's era."""
    return tuple(
        Mend(each.entry, eras, partial(change, each.change), tuple(partial(change, also) for also in each.also))
        for each in mends
        if (eras := tuple(tag for tag in ERAS if era_of(tag) in each.eras))
    )


ALONE = ("C-MIR-3", "C-MIR-4", "C-MIR-5", "C-MIR-7", "C-MIR-12", "C-MIR-13", "C-MIR-14", "C-MIR-18", "C-MIR-20")
"""Entries about calls or settings that the engine lacks, and mends that would lose messages of the engine."""

OF_THE_STORE_ALONE = ("C-MIR-4", "C-SHM-9", "C-SHM-14", "C-SHM-16", "C-SHM-19", "C-SHM-20")
"""Entries about what an engine's object store does not meet: forged handles, parts of calls, overlapping walks."""

MENDS = (
    *lifted(of_scheduler.MENDS, lambda tag: tag, with_scheduler),
    *lifted(tuple(each for each in of_mirror.MENDS if each.entry not in ALONE), MIRRORS.__getitem__, with_mirror),
    *lifted(
        tuple(each for each in of_store.MENDS if each.entry not in OF_THE_STORE_ALONE), STORES.__getitem__, with_store
    ),
    Mend("C-MIR-12", ERAS, never(ResetReceiver)),
    Mend("C-MIR-13", ERAS, only_frontend(0), also=(only_frontend(1),)),
)
