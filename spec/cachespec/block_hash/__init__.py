"""The keys of blocks: by which a request finds what another one computed.

A full block of a request gets a key: a hash of its tokens, of what else its bytes depend on (the extras: items, LoRA
adapter, cache salt), and of the key of the block before it. Two blocks of one key are taken for the same bytes, so
a key must be the content, no more and no less. Here a key *is* the exact content that goes into the hash function.

Read `operations`, `state` and `transitions` in this order, then `properties`; `schemes` and `eras` are what released
systems did. Source: semantics of the released block hashing (#11187, #11646, #12603, #36708).
"""

from __future__ import annotations

from cachespec.block_hash.configuration import NONE, PLACEHOLDER, UNSALTED, Config, interchangeable, malformed
from cachespec.block_hash.environment import unknown
from cachespec.block_hash.eras import (
    DECODE_LEG,
    EXTRAS_BESIDE,
    NO_OFFSET,
    OFFSET,
    PREDICTABLE,
    SALTED,
    SEEDED,
    SHORTENED,
    TAGGED,
)
from cachespec.block_hash.normative import NORMATIVE_BLOCK_HASH
from cachespec.block_hash.operations import OPERATIONS, Adapt, Append, Place, Season, Submit, Write
from cachespec.block_hash.properties import SAFETY, STEPS
from cachespec.block_hash.state import (
    GROUPING,
    OBSERVABLES,
    Block,
    Extra,
    Hashing,
    Item,
    Key,
    Link,
    Prefix,
    Request,
    View,
    observe,
)
from cachespec.kernel import Component, variants

__all__ = [
    "COMPONENT",
    "DECODE_LEG",
    "EXTRAS_BESIDE",
    "NONE",
    "NORMATIVE_BLOCK_HASH",
    "NO_OFFSET",
    "OFFSET",
    "PLACEHOLDER",
    "PREDICTABLE",
    "SALTED",
    "SEEDED",
    "SHORTENED",
    "TAGGED",
    "UNSALTED",
    "Adapt",
    "Append",
    "Block",
    "Config",
    "Extra",
    "Hashing",
    "Item",
    "Key",
    "Link",
    "Place",
    "Prefix",
    "Request",
    "Season",
    "Submit",
    "View",
    "Write",
]

COMPONENT: Component[Config, Hashing, View] = Component(
    name="block_hash",
    summary="keys of KV blocks: exact content, chained",
    config=Config,
    malformed=malformed,
    operations=OPERATIONS,
    variants=variants(
        NORMATIVE_BLOCK_HASH,
        EXTRAS_BESIDE,
        NO_OFFSET,
        SALTED,
        OFFSET,
        TAGGED,
        SHORTENED,
        DECODE_LEG,
        PREDICTABLE,
        SEEDED,
    ),
    observe=observe,
    observables=OBSERVABLES,
    grouping=GROUPING,
    interchangeable=interchangeable,
    safety=SAFETY,
    steps=STEPS,
    unknown=unknown,
)
