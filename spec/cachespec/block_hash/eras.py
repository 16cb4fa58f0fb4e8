"""What real systems did: the normative variant with the making of keys replaced."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from cachespec.block_hash import forging, schemes
from cachespec.block_hash.configuration import Config
from cachespec.block_hash.normative import NORMATIVE_BLOCK_HASH
from cachespec.block_hash.operations import Adapt, Append, Season, Submit
from cachespec.block_hash.schemes import Scheme
from cachespec.block_hash.state import Hashing, View
from cachespec.kernel import Operation, Transitions, Variant

HashVariant = Variant[Config, Hashing, View]


def made_by(
    tag: str,
    title: str,
    scheme: Scheme,
    differences: Mapping[type[Operation], str],
    lacking: Mapping[type[Operation], str] = MappingProxyType({}),
    exempt: Mapping[str, str] = MappingProxyType({}),
) -> HashVariant:
    """The variant whose keys this scheme makes."""
    transitions: Transitions[Config, Hashing] = {Submit: schemes.submit_by(scheme), Append: schemes.append_by(scheme)}
    return NORMATIVE_BLOCK_HASH.era(tag, title, transitions, differences, exempt=exempt).lacking(lacking)


EXTRAS_BESIDE_SCHEME = Scheme(
    adapter=schemes.no_adapter,
    item=schemes.item_and_depth,
    rest=schemes.empty_or_nothing,
    passed=schemes.passed_after,
    begin=schemes.last_item,
    key=schemes.extras_beside,
)
EXTRAS_BESIDE = made_by(
    "K0",
    "hash-2024-12",
    EXTRAS_BESIDE_SCHEME,
    {
        Submit: "C-KV-18: extras are stored beside the key; C-KV-9: an item's position in a block is ignored; C-HASH-2",
        Append: "C-KV-7: only the last item is considered; C-KV-8: an item that ends at its start counts as inside",
    },
    {Adapt: "keys do not include the adapter", Season: "there is no cache salt"},
)

NO_OFFSET_SCHEME = EXTRAS_BESIDE_SCHEME._replace(
    adapter=schemes.adapter_number,
    item=schemes.item_alone,
    rest=schemes.nothing_else,
    key=schemes.chained,
)
NO_OFFSET = made_by(
    "K0b",
    "hash-2025-02",
    NO_OFFSET_SCHEME,
    {
        Submit: "C-KV-9: the offset of an item is not part of the key",
        Append: "C-KV-7: only the last item is considered; C-KV-8: an item that ends at its start counts as inside",
    },
    {Season: "there is no cache salt"},
)

SALTED_SCHEME = NO_OFFSET_SCHEME._replace(rest=schemes.bare_salt, begin=schemes.last_item_after_the_first_block)
SALTED = made_by(
    "K1",
    "hash-2025-10",
    SALTED_SCHEME,
    {
        Submit: "C-KV-9: the key omits an item's offset; C-HASH-1: a salt and an item are both plain strings",
        Append: "C-KV-7: after the first block, only the last item is considered; C-KV-8",
    },
)

OFFSET_SCHEME = SALTED_SCHEME._replace(
    adapter=schemes.adapter_name, item=schemes.item_and_offset, passed=schemes.passed_at
)
OFFSET = made_by(
    "K1b",
    "hash-2026-03",
    OFFSET_SCHEME,
    {
        Submit: "C-MIR-15: an adapter is its name; C-HASH-1: a salt and an adapter's name are both plain strings",
        Append: "C-KV-7: after the first block, only the last item is considered",
    },
)

TAGGED_SCHEME = OFFSET_SCHEME._replace(
    adapter=schemes.adapter_name_and_path,
    item=schemes.item_tagged,
    rest=schemes.tagged_salt,
    begin=schemes.first_item_in,
)
TAGGED = made_by(
    "K2",
    "hash-2026-11",
    TAGGED_SCHEME,
    {
        Submit: "C-MIR-15: an adapter is identified by its name and path",
        Append: "C-MIR-15: an adapter is identified by its name and path",
    },
)

SHORTENED = made_by(
    "shortened",
    "hash-outside-the-engine",
    TAGGED_SCHEME._replace(adapter=schemes.adapter_weights, item=schemes.item_shortened),
    {Submit: "C-KV-17: only a few bits of an item's hash are kept", Append: "C-KV-17: likewise"},
)

DECODE_LEG = made_by(
    "decode-leg",
    "hash-without-items-on-the-decode-leg",
    TAGGED_SCHEME._replace(adapter=schemes.adapter_weights, begin=schemes.no_item),
    {
        Submit: "as the normative variant, with the released search",
        Append: "C-KV-17: a block filled by output names no item",
    },
)

DIGESTS = {"HASH-1/chained": "a key contains the digest of its predecessor, not its content"}

PREDICTABLE = made_by(
    "predictable",
    "hash-of-none",
    NO_OFFSET_SCHEME._replace(key=forging.predictable),
    {Submit: "C-KV-10: anyone can compute the keys of this process", Append: "C-KV-10: likewise"},
    {Season: "there is no cache salt"},
    DIGESTS,
)

SEEDED = made_by(
    "seeded",
    "hash-of-a-drawn-parent",
    NO_OFFSET_SCHEME._replace(key=forging.seeded),
    {Submit: "the same weak function, with a secret random parent", Append: "likewise"},
    {Season: "there is no cache salt"},
    DIGESTS,
)
