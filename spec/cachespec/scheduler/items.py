"""The encoder pass: which items of a request are encoded in this step, and how many tokens that leaves.

A token of an item cannot be computed without the embeddings of the item, and those are encoded all at once. So a chunk
of tokens ends before the first item that is not there and cannot be encoded now; where it begins inside of that item,
nothing of the request is scheduled.

The items of an encoder-decoder model are encoded all together in the first step of a request, without a look at what
the encoder cache has: that step writes cross-attention KV, and no later one reads their outputs.
"""

from __future__ import annotations

from cachespec.scheduler.configuration import CONTENT, LENGTH, START, Config, Item, ItemIndex, Request, items_of
from cachespec.scheduler.parts import ask_for_room, look_up
from cachespec.scheduler.remote import is_stored
from cachespec.scheduler.round_state import Fit
from cachespec.scheduler.rules import Table


def fitted(rules: Table, config: Config, fit: Fit, request: Request, start: int) -> Fit:
    """Every item of the request, in prompt order. No item increases the tokens."""
    for index in range(len(items_of(config, request))):
        fit = rules.fit_item(rules, config, fit, request, index, start)
    return fit


def fit_item(rules: Table, config: Config, fit: Fit, request: Request, index: ItemIndex, start: int) -> Fit:
    """One item. SCH-3: the tokens that remain touch it only if it is there, or encoded in this step."""
    item = items_of(config, request)[index]
    if fit.refused or fit.tokens <= 0 or is_apart(config, item, start, fit.tokens):
        return fit
    if config.whole_items and cuts(item, start, fit.tokens):
        return up_to(fit, item, start)
    if fit.closed and not fit.encoder.held.has((request, index)):
        return up_to(fit, item, start)
    if config.encoder_decoder == 1:
        return with_room(rules, config, fit, request, index, start)
    lookup = look_up(rules, config, fit.encoder, request, index)
    fit = fit._replace(encoder=lookup.encoder)
    if lookup.yes or is_granted(config, fit, request, item):
        return fit._replace(relies=(*fit.relies, index))
    return with_room(rules, config, fit, request, index, start)


def with_room(rules: Table, config: Config, fit: Fit, request: Request, index: ItemIndex, start: int) -> Fit:
    """An item that is not there. SCH-4: it is encoded in this step if its budget and the cache have the room for it."""
    item = items_of(config, request)[index]
    if is_stored(fit.remote, item):
        return loaded(rules, config, fit, request, index, start)
    asked = ask_for_room(rules, config, fit.encoder, request, index, fit.embeds, fit.granted)
    fit = fit._replace(encoder=asked.encoder)
    if not asked.yes or item[LENGTH] > fit.embeds:
        return up_to(fit, item, start)
    return fit._replace(
        embeds=fit.embeds - item[LENGTH],
        granted=fit.granted + item[LENGTH],
        encode=(*fit.encode, index),
        relies=(*fit.relies, index),
    )


def loaded(rules: Table, config: Config, fit: Fit, request: Request, index: ItemIndex, start: int) -> Fit:
    """SCH-17: an output that the encoder connector has needs room in the cache, and no compute budget."""
    item = items_of(config, request)[index]
    asked = ask_for_room(rules, config, fit.encoder, request, index, item[LENGTH], fit.granted)
    fit = fit._replace(encoder=asked.encoder)
    return brought(fit, index, item) if asked.yes else up_to(fit, item, start)


def brought(fit: Fit, index: ItemIndex, item: Item) -> Fit:
    """The step loads the item's output."""
    return fit._replace(
        granted=fit.granted + item[LENGTH],
        bring=(*fit.bring, index),
        relies=(*fit.relies, index),
    )


def up_to(fit: Fit, item: Item, start: int) -> Fit:
    """Only the tokens before the item, and none where the chunk begins inside of it (C-SCH-1, X-2).

    Before #11895 the difference was taken as it is: negative where a prefix hit ends inside an item that is not there.
    """
    return fit._replace(tokens=max(0, min(fit.tokens, item[START] - start)), refused=1)


def is_apart(config: Config, item: Item, start: int, tokens: int) -> bool:
    """The tokens do not touch the item: they end before it, or its KV is there."""
    if config.encoder_decoder == 1:
        return start > 0
    return item[START] >= start + tokens or item[START] + item[LENGTH] <= start


def cuts(item: Item, start: int, tokens: int) -> bool:
    """BUD-4: the tokens begin at the item or before, and end inside of it (C-ENC-15: at the item, too)."""
    return start <= item[START] and start + tokens < item[START] + item[LENGTH]


def is_granted(config: Config, fit: Fit, request: Request, item: Item) -> bool:
    """An item that shows the same is encoded or loaded in this step already."""
    items = items_of(config, request)
    return any(items[index][CONTENT] == item[CONTENT] for index in fit.encode) or any(
        items[index][CONTENT] == item[CONTENT] for index in fit.bring
    )
