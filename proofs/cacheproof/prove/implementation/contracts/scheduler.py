"""Whether a request can ever be served, on the integers of one request, beside the specification.

The implementation's rules take tensors or integers; here they take integers, as they do when a request arrives.
"""

from __future__ import annotations

from icontract import ensure, require

from cacheimpl.scheduler.feasibility import Limits, item_fits, request_fits
from cacheimpl.scheduler.state import NO_LIMIT
from cacheproof.prove.contract import Beside
from cachespec.scheduler import feasibility
from cachespec.scheduler.configuration import Config, final_length

ITEM_START, ITEM_LENGTH = 1, 2


def engine(**settings: int) -> Config:
    """An engine with one request, whose prompt and output have these lengths."""
    given = {"prompt": 1, "output": 1, "budget": 4, "model": 64, "blocks": 8, "size": 2, "threshold": 0, "chunked": 1}
    given |= {"whole": 0, "alignment": 0, "compute": 4, "capacity": 4, "start": 0, "length": 0} | settings
    length = given["length"]
    return Config(
        prompts=(given["prompt"],),
        outputs=(given["output"],),
        token_budget=given["budget"],
        max_running=1,
        encoder_compute=given["compute"],
        encoder_capacity=given["capacity"],
        block_size=given["size"],
        kv_blocks=given["blocks"],
        max_model_len=given["model"],
        items=(((0, given["start"], length),),),
        whole_items=given["whole"],
        chunked_prefill=given["chunked"],
        alignment=given["alignment"],
        long_prefill_threshold=given["threshold"],
    )


def limits_of(config: Config) -> Limits:
    """The limits of the engine as integers: as `cacheimpl` computes them on tensors, which CrossHair cannot follow."""
    chunk = min(config.token_budget, feasibility.limited(config, config.token_budget))
    most = config.long_prefill_threshold or NO_LIMIT
    at_once = NO_LIMIT if config.chunked_prefill or config.token_budget >= most else config.token_budget
    return Limits(
        model=config.max_model_len,
        room=config.block_size * config.kv_blocks,
        at_once=at_once,
        chunk=chunk,
        aligned_chunk=chunk - max(0, config.alignment - 1),
        item=min(config.encoder_compute, config.encoder_capacity),
    )


@require(lambda prompt, output, model, blocks: min(prompt, output, model, blocks) > 0)
@require(lambda prompt, output: prompt + output < 2**31)
@ensure(lambda result: result)
def request_fits_the_pool(prompt: int, output: int, model: int, blocks: int) -> bool:
    """A request is accepted only if its prompt is short enough and its tokens fit the pool."""
    config = engine(prompt=prompt, output=output, model=model, blocks=blocks)
    wanted = prompt < model and feasibility.fits_blocks(config, 0)
    return bool(request_fits(limits_of(config), prompt, final_length(config, 0))) == wanted


@require(lambda prompt, output, budget, threshold: min(prompt, output, budget) > 0 and threshold >= 0)
@require(lambda prompt, output: prompt + output <= 16)
@ensure(lambda result: result)
def request_fits_one_step(prompt: int, output: int, budget: int, threshold: int) -> bool:
    """A prompt that is not cut must fit one step, as far as one request may use it."""
    config = engine(prompt=prompt, output=output, budget=budget, threshold=threshold, chunked=0)
    wanted = feasibility.fits_one_step(config, 0)
    return bool(request_fits(limits_of(config), prompt, final_length(config, 0))) == wanted


@require(lambda compute, capacity, length: min(compute, capacity, length) > 0)
@ensure(lambda result: result)
def item_fits_the_encoder(compute: int, capacity: int, length: int) -> bool:
    """An item is encoded in one step and kept in one piece."""
    config = engine(compute=compute, capacity=capacity, length=length)
    wanted = feasibility.fits_encoder(config, config.items[0][0])
    return bool(item_fits(limits_of(config), 1, 0, length, whole=False)) == wanted


@require(lambda prompt, start, length, budget: min(prompt, length, budget) > 0 and start >= 0)
@require(lambda prompt, start, length, alignment: start + length <= prompt and alignment >= 0)
@ensure(lambda result: result)
def item_fits_one_chunk(prompt: int, start: int, length: int, budget: int, alignment: int) -> bool:
    """An item that is not split fits the largest chunk that may begin with it."""
    config = engine(
        prompt=prompt, start=start, length=length, budget=budget, alignment=alignment, whole=1, compute=length,
        capacity=length,
    )  # fmt: skip
    wanted = feasibility.fits_chunk(config, 0, config.items[0][0])
    return bool(item_fits(limits_of(config), prompt, start, length, whole=True)) == wanted


LEDGER = {
    "request_fits_the_pool": Beside(
        "any lengths and blocks, blocks of 2 tokens", request_fits, {"prompt": 3, "output": 2, "model": 9, "blocks": 4}
    ),
    "request_fits_one_step": Beside(
        "requests of at most 16 tokens, any budget and threshold",
        request_fits,
        {"prompt": 3, "output": 2, "budget": 4, "threshold": 0},
    ),
    "item_fits_the_encoder": Beside("any item and budgets", item_fits, {"compute": 4, "capacity": 4, "length": 3}),
    "item_fits_one_chunk": Beside(
        "any prompt, item, budget and alignment",
        item_fits,
        {"prompt": 8, "start": 2, "length": 3, "budget": 4, "alignment": 0},
    ),
}
