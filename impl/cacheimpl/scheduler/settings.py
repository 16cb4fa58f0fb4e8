"""The settings of an engine, and the tables that follow from them; requests are written into the rows later."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch

from cacheimpl import encoder_cache, kv_blocks
from cacheimpl.counts import whole
from cacheimpl.scheduler.errors import InvalidSettingError
from cacheimpl.scheduler.state import NO_LIMIT, Config, blank_plans

LARGEST = 2**31


@dataclass(frozen=True, slots=True)
class Settings:
    """The size and the options of an engine. Counts are in tokens; an item has one embedding per token."""

    block_size: int
    num_gpu_blocks: int
    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int
    max_requests: int
    """Rows: requests that wait or run, or whose end no plan has reported yet"""
    max_items: int = 0
    """Multimodal items of one request, at most; 0 for a text model"""
    encoder_compute_budget: int = 1
    encoder_cache_size: int = 1
    long_prefill_token_threshold: int = 0
    num_spec_tokens: int = 0
    mamba_alignment: int = 0
    plans_in_flight: int = 1
    """2 with asynchronous scheduling"""
    disable_chunked_mm_input: bool = False
    enable_chunked_prefill: bool = True
    by_priority: bool = False
    enable_prefix_caching: bool = True
    pipelined: bool = False
    """Plans in flight are in the stages of a pipeline, and not ahead of their output"""
    watermark: int = 0
    """Free blocks that an admission leaves if another request runs"""
    max_loras: int = 0
    """Different adapters of the requests that run; 0 if no request has one"""
    encoder_decoder: bool = False
    """The first step of a request encodes all its items, which are no tokens of its prompt and begin at 0"""
    load_failures: bool = False
    """A load of external KV may fail"""
    failed_loads_end: bool = False
    """A failed load ends its request; otherwise the request computes those tokens"""
    encoder_connector: bool = False
    """An encoder connector may bring encoder outputs from another process"""
    pooling: bool = False
    """The model pools: a request has no output, and ends when its prompt is computed"""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "bool":
                continue
            least = 0 if field.name in MAY_BE_NONE else 1
            whole(field.name, value, InvalidSettingError, least=least, most=LARGEST - 1)

    @property
    def positions(self) -> int:
        """Blocks of the longest request."""
        return -(-self.max_model_len // self.block_size)

    @property
    def contents(self) -> int:
        """As many as blocks and requests can have at the same time."""
        return self.num_gpu_blocks + self.max_requests * self.positions

    @property
    def encoder_contents(self) -> int:
        """As many as are resident, named by plans as dropped, or those of requests, at the same time."""
        if self.max_items == 0:
            return 1
        return self.encoder_cache_size * (2 + self.plans_in_flight) + self.max_requests * self.max_items

    @property
    def encoder_contents_at_first(self) -> int:
        """Of so many there are rows: twice as many as requests show."""
        return min(2 * self.max_requests * max(1, self.max_items), self.encoder_contents)


MAY_BE_NONE = (
    "max_items",
    "long_prefill_token_threshold",
    "num_spec_tokens",
    "mamba_alignment",
    "watermark",
    "max_loras",
)
"""Settings of which 0 means that there is none."""


def tables_of(settings: Settings, device: torch.device | str) -> Config:
    """Rows that no request has yet."""
    rows, items = settings.max_requests, settings.max_items

    def number(value: int) -> torch.Tensor:
        return torch.tensor(value, dtype=torch.int64, device=device)

    nothing = torch.zeros(rows, dtype=torch.int64, device=device)
    none_of_items = torch.zeros(rows, items, dtype=torch.int64, device=device)
    return Config(
        kv=kv_blocks.configuration(
            torch.full((rows, settings.positions), -1, device=device),
            nothing.clone(),
            block_size=settings.block_size,
            limit=settings.max_model_len,
            count=settings.contents,
        ),
        encoder=encoder_cache.Config(
            capacity=number(settings.encoder_cache_size),
            contents=none_of_items - 1,
            claims=none_of_items.clone(),
            abandonable=torch.tensor(True, device=device),
        ),
        item_starts=none_of_items.clone(),
        prompts=nothing.clone(),
        finals=nothing.clone(),
        ends=nothing.clone(),
        priorities=nothing.clone(),
        external=nothing.clone(),
        adapters=nothing.clone(),
        before=nothing - 1,
        later=nothing.bool(),
        sent=nothing.bool(),
        grammars=nothing.bool(),
        block_size=number(settings.block_size),
        blocks=number(settings.num_gpu_blocks),
        token_budget=number(settings.max_num_batched_tokens),
        encoder_compute=number(settings.encoder_compute_budget),
        max_running=number(settings.max_num_seqs),
        max_model_len=number(settings.max_model_len),
        rows=torch.arange(rows, device=device),
        blank=blank_plans(1, rows, items, settings.encoder_contents_at_first, device),
        most_of_one=settings.long_prefill_token_threshold or NO_LIMIT,
        drafts=settings.num_spec_tokens,
        alignment=settings.mamba_alignment,
        whole_items=settings.disable_chunked_mm_input,
        chunked=settings.enable_chunked_prefill,
        caching=settings.enable_prefix_caching,
        pipelined=settings.pipelined,
        watermark=settings.watermark,
        most_adapters=settings.max_loras,
        encoder_decoder=settings.encoder_decoder,
        fails=settings.load_failures,
        failed_ends=settings.failed_loads_end,
        connected=settings.encoder_connector,
        pools=settings.pooling,
    )
