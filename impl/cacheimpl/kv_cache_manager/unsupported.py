"""What the KV cache manager does not serve: each `UnsupportedError` names one of these."""

from __future__ import annotations

from enum import Enum


class Unsupported(Enum):
    """The value says what is refused; the error adds which group, and with which number."""

    NO_GROUP = "a model without a group of layers"
    UNKNOWN_KIND = "layers of an unknown kind"
    ENCODER_ONLY = "encoder-only layers (`EncoderOnlyAttentionSpec`)"
    SINKS = "attention sinks (`SinkFullAttentionSpec`)"
    REFERENCE_WINDOWS = "reference sliding windows (`RSWASpec`)"
    CIRCULAR = "circular buffers (`CircularBufferSpec`)"
    NOT_CACHEABLE = "layers without a prefix cache (`prefix_cacheable` is false)"
    STATES_OF_ALL_BLOCKS = "state-space layers with another mode than `align`"
    STATES_OF_EARLY_RULES = "state-space layers under the rules of 0.20.2 and before"
    STATES_BEHIND_BLOCKS = "state-space layers with blocks larger than hash blocks, without `partial_hits`"
    SHARED_STATES = "`enable_mamba_shared_prefix_checkpoint`"
    MIXED_GROUP = "a group whose layers read different tokens"
    ROLE = "an unknown role of a group, or a role of the other pool"
    OTHER_GROUPS = "hits of another number of groups"
    SCHEDULER_BLOCK_SIZE = "a `scheduler_block_size` that is no multiple of all block sizes"
    HASH_BLOCK_SIZE = "a `hash_block_size` that does not divide all block sizes"
    LARGE_BLOCKS_BESIDE_PARTIAL_HITS = (
        "windows, chunks and cross attention with blocks larger than hash blocks, together with hits within a block"
    )
    EAGLE_WITH_PARTIAL_HITS = "`use_eagle` together with hits within a block or `num_hash_lookahead_tokens`"
    PREFILL_LOOKAHEAD = "`num_prefill_lookahead` above `num_hash_lookahead_tokens`, or above 1 with one group of layers"
    EXTERNAL_BEHIND_PARTIAL_HIT = "external tokens behind a hit that ends within a block"
    GROUP_ALONE_BY_HASH = "windows, chunks and cross attention that are looked up by themselves"
    ENCODER_TOKENS = "`num_encoder_tokens` without cross attention"
    DRAFTS_OF_STATES = "`num_lookahead_tokens` with state-space layers that have no blocks for drafts"
    SHARED_GROUP = "contexts in parallel of several groups, or of other layers than full attention"
    STATES_IN_PARALLEL = "`pcp_world_size` above 1 with state-space layers"
    HISPARSE_IN_PARALLEL = "contexts in parallel together with HiSparse"
    HISPARSE_WITHIN_BLOCKS = "hits within a block, or `num_hash_lookahead_tokens`, together with HiSparse"
    HISPARSE_HASH_BLOCKS = "a `hash_block_size` other than that of the host's pages together with HiSparse"
