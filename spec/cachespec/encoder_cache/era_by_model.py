"""Two managers of one release: `EncoderDecoderCacheManager` for encoder-decoder models, another one for all others.

A scheduler makes one of the two. The state has a field for each, and the other one stays empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cachespec.encoder_cache.configuration import Config, content_of
from cachespec.encoder_cache.era_encoder_decoder import ENCODER_DECODER
from cachespec.encoder_cache.era_states import CountingCache, SharedCache
from cachespec.encoder_cache.operations import (
    Abandon,
    Allocate,
    CachedInputs,
    CanAllocate,
    CheckAndUpdate,
    FreeInput,
    FreeRequest,
    Report,
    Reset,
)
from cachespec.encoder_cache.state import View
from cachespec.kernel import Containers, Operation, Outcome, Transition, Variant

SharedVariant = Variant[Config, SharedCache, View]
CountingVariant = Variant[Config, CountingCache, View]
Result = tuple["CacheByModel", Outcome]


class CacheByModel(NamedTuple):
    """The managers of a release, of which one is used."""

    shared: SharedCache
    """Of models whose prompts have places for the items."""
    counting: CountingCache
    """Of encoder-decoder models."""


class Managers(NamedTuple):
    """Both managers: `rules` of the variant that `by_model` makes of them."""

    shared: SharedVariant
    counting: CountingVariant


def by_model(shared: SharedVariant, counting: CountingVariant = ENCODER_DECODER) -> Variant[Config, CacheByModel, View]:
    """The first manager, and the second one for encoder-decoder models."""

    def initial(config: Config, containers: Containers) -> CacheByModel:
        return CacheByModel(shared.initial(config, containers), counting.initial(config, containers))

    def view(config: Config, cache: CacheByModel) -> View:
        if config.encoder_decoder == 1:
            return with_contents(config, counting.view(config, cache.counting))
        return shared.view(config, cache.shared)

    def called(kind: type[Operation]) -> Transition[Config, CacheByModel, Operation]:
        return either(shared.transitions[kind], counting.transitions[kind])

    return Variant(
        tag=shared.tag,
        title=shared.title,
        state=CacheByModel,
        initial=initial,
        transitions={
            CheckAndUpdate: called(CheckAndUpdate),
            CanAllocate: called(CanAllocate),
            Allocate: called(Allocate),
            FreeInput: called(FreeInput),
            FreeRequest: called(FreeRequest),
            CachedInputs: called(CachedInputs),
            Abandon: called(Abandon),
            Report: called(Report),
            Reset: called(Reset),
        },
        view=view,
        alphabet=lambda config, cache: shared.alphabet(config, cache.shared),
        differences=shared.differences,
        exempt=shared.exempt,
        rules=Managers(shared, counting),
    )


def either(
    shared: Callable[[Config, SharedCache, Operation], tuple[SharedCache, Outcome]],
    counting: Callable[[Config, CountingCache, Operation], tuple[CountingCache, Outcome]],
) -> Transition[Config, CacheByModel, Operation]:
    """The transition of the manager that is used."""

    def called(config: Config, cache: CacheByModel, op: Operation) -> Result:
        if config.encoder_decoder == 1:
            counted, answer = counting(config, cache.counting, op)
            return cache._replace(counting=counted), answer
        after, outcome = shared(config, cache.shared, op)
        return cache._replace(shared=after), outcome

    return called


def with_contents(config: Config, view: View) -> View:
    """Entries by content, as the workers name them; one for each input that holds slots."""
    sizes = dict(view.entries)
    return view._replace(
        freeable=view.free,
        entries=tuple(((content_of(config, *pair),), sizes[pair]) for pair in view.held),
    )
