"""Which requests there are, what they need, and how large the engine is; with what its parts see of that."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, NamedTuple

from cachespec import encoder_cache, kv_blocks
from cachespec.kernel import Name, Unspecified, not_together

Request = Annotated[int, Name("request")]

Item = tuple[int, int, int]
"""A multimodal item of a prompt: what it shows, the position of its first token, and how many tokens it has."""

ItemIndex = int
"""The position of an item among those of its request."""

FIRST_COME, BY_PRIORITY = 0, 1

SWITCHES = (
    "whole_items",
    "chunked_prefill",
    "prefix_caching",
    "admit_by_chunk",
    "policy",
    "pipelined",
    "aborts",
    "resets",
    "running_resets",
    "load_failures",
    "failed_loads_end",
    "encoder_decoder",
    "pooling",
)
"""Settings that are 0 or 1."""

OF_REQUESTS = (
    "outputs",
    "items",
    "priorities",
    "groups",
    "shared",
    "external",
    "loads_later",
    "sends",
    "stops",
    "min_tokens",
    "adapters",
    "grammars",
    "turns",
)
"""Settings that have a value for each request, or are empty."""

STORED, EXPECTED = 1, 2
"""What an encoder connector says of a content: it has the encoder output, or the output is on its way."""

CONTENT, START, LENGTH = 0, 1, 2
"""The parts of an item."""


class Config(NamedTuple):
    """The engine and its requests. Lengths, positions and budgets are in tokens; an item has one embedding a token."""

    block_size: int
    """Tokens in a KV block."""
    kv_blocks: int
    """Blocks in the pool."""
    token_budget: int
    """Tokens that may be scheduled in one step (`max_num_batched_tokens`)."""
    encoder_compute: int
    """Embeddings that may be encoded in one step."""
    encoder_capacity: int
    """Embeddings that the encoder cache holds."""
    max_running: int
    """Requests that may run at once (`max_num_seqs`)."""
    max_model_len: int
    """Tokens of the longest request that the model takes, prompt and output together."""
    prompts: tuple[int, ...]
    """Prompt tokens of each request."""
    outputs: tuple[int, ...]
    """Output tokens after which each request is finished."""
    items: tuple[tuple[Item, ...], ...] = ()
    """The items of each request, in the order of its prompt; empty if no request has any."""
    priorities: tuple[int, ...] = ()
    """The priority of each request, the least first; empty where they are equal."""
    groups: tuple[int, ...] = ()
    """Requests of one group share a prefix; empty if no two do."""
    shared: tuple[int, ...] = ()
    """How many of each request's first tokens are those of its group."""
    external: tuple[int, ...] = ()
    """The number of each request's first tokens whose KV an external store has; empty without such a store."""
    drafts: int = 0
    """Draft tokens that are proposed whenever a token was sampled, to be verified in the next step."""
    alignment: int = 0
    """If positive: chunks of a prompt end at its multiples where they can (Mamba layers keep state there only)."""
    whole_items: int = 0
    """1: an item is computed in one chunk (`disable_chunked_mm_input`)."""
    chunked_prefill: int = 1
    """0: what a request is admitted with is not cut to the token budget."""
    long_prefill_threshold: int = 0
    """If positive: the most tokens of one request that one step schedules."""
    prefix_caching: int = 1
    """0: no request begins with the KV of another one (`enable_prefix_caching`)."""
    watermark: int = 0
    """Blocks that an admission leaves free while another request runs (`watermark`, there a share of the pool)."""
    admit_by_chunk: int = 0
    """1: blocks for the first chunk admit a request in every scheduler (`scheduler_reserve_full_isl` is off)."""
    stops: tuple[int, ...] = ()
    """Which of each request's output tokens is a stop token, from 1 on; 0 or empty if none is."""
    min_tokens: tuple[int, ...] = ()
    """Output tokens before which workers sample no stop token of each request (`min_tokens`); empty if 0 for all."""
    adapters: tuple[int, ...] = ()
    """The adapter (LoRA) of each request, from 1 on; 0 for the base model, empty if no request has one."""
    grammars: tuple[int, ...] = ()
    """1: the output of the request follows a grammar, which is compiled while it waits; empty if no request has one."""
    max_adapters: int = 1
    """Different adapters that may run at once (`max_loras`)."""
    policy: int = FIRST_COME
    """`FIRST_COME`, or `BY_PRIORITY`."""
    ahead: int = 1
    """How many plans may be in flight: 1 where each waits for the last one, 2 with asynchronous scheduling."""
    pipelined: int = 0
    """1: plans in flight belong to pipeline stages, and a token is scheduled only when all before it are known."""
    aborts: int = 0
    """1: a request may be aborted at any time."""
    resets: int = 0
    """1: the caches may be reset at any time."""
    running_resets: int = 0
    """1: the prefix cache may be reset at any time, which preempts all running requests (`reset_running_requests`)."""
    loads_later: tuple[int, ...] = ()
    """1: the request waits until its external KV is loaded; 0: its first step loads it. Empty if 0 for all."""
    load_failures: int = 0
    """1: a load of external KV may fail, from any block on."""
    failed_loads_end: int = 0
    """1: a failed load ends its request (`kv_load_failure_policy="fail"`); 0: the request computes those tokens."""
    sends: tuple[int, ...] = ()
    """1: the blocks of the request are sent away when it is finished, and then freed; empty if 0 for all."""
    turns: tuple[int, ...] = ()
    """1: the request is the next turn of the session of the request before it, and arrives after it. Its prompt begins
    with the tokens of that turn except for the last output token. Empty if there is no session."""
    encoder_decoder: int = 0
    """1: the model is an encoder-decoder. Its items are no tokens of the prompt and begin at 0. The first step of a
    request encodes them and writes the cross-attention KV that all later steps read (`is_encoder_decoder`)."""
    encoder_connector: tuple[int, ...] = ()
    """Of each content: `STORED` (1) if an encoder connector has its encoder output, `EXPECTED` (2) if the output is on
    its way there, 0 if it is encoded here. Empty without a connector (`ec_transfer_config`)."""
    pooling: int = 0
    """1: the model pools (`runner_type="pooling"`). A request ends when its prompt is computed, and what is pooled then
    counts as its one output token, which no later step reads."""


def malformed(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    sizes = (config.block_size, config.kv_blocks, config.token_budget, config.max_running, config.max_model_len)
    if min(sizes) <= 0 or config.ahead <= 0:
        return "block_size, kv_blocks, token_budget, max_running, max_model_len and ahead must be positive"
    if min(config.encoder_compute, config.encoder_capacity) <= 0:
        return "encoder_compute and encoder_capacity must be positive"
    if min(config.drafts, config.alignment, config.long_prefill_threshold, config.watermark) < 0:
        return "drafts, alignment, long_prefill_threshold and watermark must not be negative"
    for name in SWITCHES:
        if getattr(config, name) not in (0, 1):
            return f"{name} must be 0 or 1, not {getattr(config, name)}"
    if config.max_adapters <= 0:
        return "max_adapters must be positive"
    return (
        _invalid_requests(config)
        or _invalid_items(config)
        or _invalid_groups(config)
        or _invalid_transfers(config)
        or _invalid_turns(config)
        or _invalid_model(config)
        or _invalid_connector(config)
        or _invalid_pooling(config)
    )


def _invalid_requests(config: Config) -> str | None:
    if not config.prompts or min((*config.prompts, *config.outputs)) <= 0:
        return "there must be a request, and every prompt and output must have a token"
    for name in OF_REQUESTS:
        given = getattr(config, name)
        if (given or name == "outputs") and len(given) != len(config.prompts):
            return f"{name} must be given for each of the {len(config.prompts)} requests"
    for name in OF_REQUESTS:
        if name != "items" and min(getattr(config, name), default=0) < 0:
            return f"{name} must not be negative"
    for name in ("grammars", "loads_later", "sends", "turns"):
        if max(getattr(config, name), default=0) > 1:
            return f"{name} must be 0 or 1 for each request"
    if any(least > most for least, most in zip(config.min_tokens, config.outputs, strict=False)):
        return "min_tokens must not exceed the outputs"
    if len(config.groups) != len(config.shared):
        return "groups and shared go together"
    return None


def _invalid_items(config: Config) -> str | None:
    lengths: dict[int, int] = {}
    for request, items in enumerate(config.items):
        end = 0
        for content, start, length in items:
            if config.encoder_decoder == 0 and (start < end or start + length > config.prompts[request]):
                return f"the items of request {request} must stand in its prompt one behind the other"
            if content < 0 or length <= 0:
                return f"the items of request {request} must have a content and a positive length"
            if lengths.setdefault(content, length) != length:
                return f"content {content} has two lengths"
            end = start + length
    return None


def _invalid_groups(config: Config) -> str | None:
    for request, group in enumerate(config.groups):
        if config.shared[request] > config.prompts[request]:
            return f"request {request} shares more tokens than its prompt has"
        for other in range(request):
            common = min(config.shared[request], config.shared[other])
            if config.groups[other] == group and _begun(config, request, common) != _begun(config, other, common):
                return f"requests {other} and {request} begin alike and show different items there"
    return None


def _invalid_transfers(config: Config) -> str | None:
    if (any(config.loads_later) or config.load_failures) and not config.external:
        return "loads_later and load_failures need external: the tokens that are loaded"
    if config.failed_loads_end and not config.load_failures:
        return "failed_loads_end needs load_failures"
    return None


def _invalid_turns(config: Config) -> str | None:
    for request in range(len(config.prompts)):
        if not is_turn(config, request):
            continue
        if request == 0:
            return "request 0 cannot be a turn: there is no request before it"
        kept = kept_tokens(config, request - 1)
        if config.prompts[request] <= kept:
            return f"the prompt of turn {request} must be longer than the {kept} tokens that its session keeps"
        if not _continues(config, request, kept):
            return f"the items of turn {request} must be those of the turn before it, and then items of its own input"
        for name in ("priorities", "adapters", "groups", "shared"):
            given = getattr(config, name)
            if given and given[request] != given[request - 1]:
                return f"{name} must be equal for all turns of a session"
    return None


def _invalid_model(config: Config) -> str | None:
    if config.encoder_decoder and any(item[START] > 0 for items in config.items for item in items):
        return "the items of an encoder-decoder model begin at 0"
    return None


def _invalid_connector(config: Config) -> str | None:
    if not any(config.encoder_connector):
        return None
    if min(config.encoder_connector) < 0 or max(config.encoder_connector) > EXPECTED:
        return f"encoder_connector must be 0, {STORED} or {EXPECTED} for each content"
    if len(config.encoder_connector) != len(encoder_config(config).sizes):
        return f"encoder_connector must be given for each of the {len(encoder_config(config).sizes)} contents"
    return None


def _invalid_pooling(config: Config) -> str | None:
    if config.pooling and max(config.outputs) > 1:
        return "the outputs of a pooling model are 1"
    return None


UNSPECIFIED: tuple[Unspecified[Config], ...] = (
    *not_together("turns", "external", "sends", "stops", "min_tokens", "grammars", "running_resets"),
    *not_together("running_resets", "loads_later", "sends"),  # a transfer keeps its blocks
    # Releases switch the first two and the threshold off, do not apply `whole_items`, and refuse connectors.
    *not_together("encoder_decoder", "chunked_prefill", "prefix_caching", "whole_items", "long_prefill_threshold"),
    *not_together("encoder_decoder", "alignment", "external", "sends", "turns"),
    *not_together("encoder_connector", "external", "sends", "turns", "encoder_decoder"),
    *not_together("pooling", "drafts", "stops", "min_tokens", "grammars", "external", "sends", "turns"),
    *not_together("pooling", "encoder_decoder"),
    Unspecified("ahead above 1 together with pooling", lambda config: config.ahead > 1 and config.pooling == 1),
)
"""What a scheduler has no rules for: the settings that it refuses together."""


def _continues(config: Config, turn: Request, kept: int) -> bool:
    """The items of the turn before come first, and no other item begins in what the session keeps."""
    earlier, items = items_of(config, turn - 1), items_of(config, turn)
    return items[: len(earlier)] == earlier and all(item[START] >= kept for item in items[len(earlier) :])


def _begun(config: Config, request: Request, common: int) -> tuple[Item, ...]:
    """The items that begin before this position."""
    return tuple(item for item in items_of(config, request) if item[START] < common)


# What the requests are ----------------------------------------------------------------------------------------------


def items_of(config: Config, request: Request) -> tuple[Item, ...]:
    """The items of a request."""
    return config.items[request] if config.items else ()


def is_read(config: Config, item: Item, start: int, end: int) -> bool:
    """Whether the output of the item is read by a step that computes the tokens from `start` up to `end`.

    Of an encoder-decoder model the first step reads it, whichever tokens it computes.
    """
    if config.encoder_decoder == 1:
        return start == 0 and end > 0
    return item[START] < end and start < item[START] + item[LENGTH]


def is_behind(config: Config, item: Item, end: int) -> bool:
    """Whether no step behind the token at `end` reads the output of the item."""
    return end > 0 if config.encoder_decoder == 1 else item[START] + item[LENGTH] <= end


def priority_of(config: Config, request: Request) -> int:
    """The request's priority, where they count; the least comes first."""
    return config.priorities[request] if config.policy == BY_PRIORITY and config.priorities else 0


def final_length(config: Config, request: Request) -> int:
    """The most tokens that the request may have. The last of them is never computed.

    A prompt that is too long for the model has one token of output, in eras that accept it.
    """
    prompt = config.prompts[request]
    return max(prompt + 1, min(prompt + config.outputs[request], config.max_model_len))


def longest_prompt(config: Config) -> int:
    """The tokens of the longest prompt that the model takes: it leaves room for output, if there is any."""
    return config.max_model_len if config.pooling == 1 else config.max_model_len - 1


def stop_of(config: Config, request: Request) -> int:
    """Which of its output tokens is a stop token; 0 if none is. None is sampled before `min_tokens`."""
    stop = config.stops[request] if config.stops else 0
    return stop if stop >= least_output(config, request) else 0


def least_output(config: Config, request: Request) -> int:
    """The request's `min_tokens`."""
    return config.min_tokens[request] if config.min_tokens else 0


def ended_length(config: Config, request: Request) -> int:
    """The request's tokens once it is finished: at its stop token, or with as many as it may have."""
    stop, most = stop_of(config, request), final_length(config, request)
    return min(config.prompts[request] + stop, most) if stop > 0 else most


def adapter_of(config: Config, request: Request) -> int:
    """The request's adapter; 0 for the base model."""
    return config.adapters[request] if config.adapters else 0


def has_grammar(config: Config, request: Request) -> bool:
    """Whether the output of the request follows a grammar."""
    return config.grammars != () and config.grammars[request] == 1


def loads_later(config: Config, request: Request) -> bool:
    """Whether the request waits until its external KV is loaded."""
    return config.loads_later != () and config.loads_later[request] == 1


def is_sent(config: Config, request: Request) -> bool:
    """Whether the request's blocks are sent away when it is finished."""
    return config.sends != () and config.sends[request] == 1


def connected(config: Config, content: int) -> int:
    """What the encoder connector says of the content at first; 0 if it is encoded here."""
    return config.encoder_connector[content] if content < len(config.encoder_connector) else 0


def is_turn(config: Config, request: Request) -> bool:
    """Whether the request is a later turn of a session."""
    return config.turns != () and request < len(config.turns) and config.turns[request] == 1


def kept_tokens(config: Config, turn: Request) -> int:
    """The tokens of a finished turn with which the next turn begins: all but the last output token."""
    return final_length(config, turn) - 1


def first_turn(config: Config, request: Request) -> Request:
    """The first turn of the request's session; the request itself if it is in none."""
    return first_turn(config, request - 1) if is_turn(config, request) else request


def later_turns(config: Config, request: Request) -> tuple[Request, ...]:
    """The turns of the request's session that come after it."""
    if not is_turn(config, request + 1):
        return ()
    return (request + 1, *later_turns(config, request + 1))


def common_tokens(config: Config, earlier: Request, later: Request) -> int:
    """The number of tokens with which both requests begin."""
    if first_turn(config, earlier) == first_turn(config, later):
        return kept_tokens(config, earlier)
    if not config.groups or config.groups[earlier] != config.groups[later]:
        return 0
    return min(config.shared[earlier], config.shared[later])


def is_asynchronous(config: Config) -> bool:
    """Plans are made ahead of the output of those in flight."""
    return config.ahead > 1 and config.pipelined == 0


# What the parts see -------------------------------------------------------------------------------------------------


@cache
def encoder_config(config: Config) -> encoder_cache.Config:
    """The encoder cache of this engine: contents by number, each with its length."""
    lengths = {item[CONTENT]: item[LENGTH] for items in config.items for item in items}
    return encoder_cache.Config(
        capacity=config.encoder_capacity,
        sizes=tuple(lengths.get(content, 0) for content in range(max(lengths, default=0) + 1)),
        requests=tuple(tuple(item[CONTENT] for item in items_of(config, r)) for r in range(len(config.prompts))),
        disciplined=1,
        failures=1,
        resets=config.resets,
        encoder_decoder=config.encoder_decoder,
    )


@cache
def kv_config(config: Config) -> kv_blocks.Config:
    """The KV blocks of this engine."""
    return kv_blocks.Config(
        block_size=config.block_size,
        blocks=config.kv_blocks,
        chains=chains(config),
        lengths=tuple(final_length(config, request) for request in range(len(config.prompts))),
        limit=config.max_model_len,
        drafts=config.drafts,
        resets=config.resets,
    )


@cache
def chains(config: Config) -> tuple[tuple[int, ...], ...]:
    """For each request the content of each of its full blocks: a number for each prefix that ends with a block."""
    numbers: dict[tuple[int, int, int, int], int] = {}
    return tuple(
        tuple(
            numbers.setdefault(_prefix(config, request, block), len(numbers))
            for block in range(final_length(config, request) // config.block_size)
        )
        for request in range(len(config.prompts))
    )


def _prefix(config: Config, request: Request, block: int) -> tuple[int, int, int, int]:
    """What makes up the KV before the end of this block: tokens of the group or of the request, and the adapter."""
    end = (block + 1) * config.block_size
    if config.groups and end <= config.shared[request]:
        return (0, config.groups[request], block, adapter_of(config, request))
    return (1, _first_with(config, request, end), block, 0)


def _first_with(config: Config, request: Request, end: int) -> Request:
    """The first turn of the request's session that has the request's tokens before this position."""
    first = first_turn(config, request)
    return min(
        turn for turn in range(first, request + 1) if turn == request or end <= common_tokens(config, turn, request)
    )


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """All blocks. Two requests are not alike for the prefix cache: their contents would have to change with them."""
    return {
        "request": tuple((request,) for request in range(len(config.prompts))),
        "block": (tuple(range(config.kv_blocks)),),
    }
