"""Which requests can be served at all. SCH-9, BUD-3, BUD-4: the others are rejected when they arrive.

A request that is accepted is served to its end if it is alone: that is what each condition is for. Where one of them
is missing, the request and all requests behind it wait for ever (C-ENC-11, C-SCH-5, C-SCH-9).
"""

from __future__ import annotations

from cachespec.scheduler.configuration import (
    LENGTH,
    START,
    Config,
    Item,
    Request,
    final_length,
    items_of,
    longest_prompt,
)


def is_feasible(config: Config, request: Request) -> bool:
    """Whether an engine that has nothing else to do can finish the request."""
    return (
        config.prompts[request] <= longest_prompt(config)
        and fits_blocks(config, request)
        and fits_one_step(config, request)
        and fits_first_step(config, request)
        and all(fits_encoder(config, item) and fits_chunk(config, request, item) for item in items_of(config, request))
    )


def fits_blocks(config: Config, request: Request) -> bool:
    """C-SCH-5: the KV of all its tokens but the last, which is never computed, fits the pool."""
    return final_length(config, request) - 1 <= config.block_size * config.kv_blocks


def fits_one_step(config: Config, request: Request) -> bool:
    """C-SCH-9: where a prompt is not cut, all that may have to be computed again after a preemption fits one step."""
    whole = final_length(config, request) - 1
    return config.chunked_prefill == 1 or limited(config, whole) <= config.token_budget


def fits_encoder(config: Config, item: Item) -> bool:
    """BUD-3, C-ENC-11: an item is encoded in one step and kept in one piece."""
    return item[LENGTH] <= min(config.encoder_compute, config.encoder_capacity)


def fits_first_step(config: Config, request: Request) -> bool:
    """BUD-3: all items of a request of an encoder-decoder model are encoded in its first step."""
    together = sum(item[LENGTH] for item in items_of(config, request))
    return config.encoder_decoder == 0 or together <= min(config.encoder_compute, config.encoder_capacity)


def fits_chunk(config: Config, request: Request, item: Item) -> bool:
    """BUD-4, C-ENC-15, C-ENC-16: where items are not split, each fits the largest chunk that may begin with it.

    A chunk that ends before the prompt does may have to end earlier, at a multiple of the alignment.
    """
    if config.whole_items == 0:
        return True
    chunk = min(config.token_budget, limited(config, config.token_budget))
    return item[LENGTH] <= chunk - max(0, config.alignment - 1) or reaches_end(config, request, item, chunk)


def reaches_end(config: Config, request: Request, item: Item, chunk: int) -> bool:
    """Whether a chunk that begins with the item reaches the end of the prompt, where nothing is aligned any more."""
    return item[START] + chunk >= config.prompts[request] and item[LENGTH] <= chunk


def limited(config: Config, tokens: int) -> int:
    """The number of these tokens that one step may schedule for one request."""
    return min(tokens, config.long_prefill_threshold) if config.long_prefill_threshold > 0 else tokens
